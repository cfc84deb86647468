"""The verdict on rows of any tool: laws of rows, words that say no more than is shown, the founding numbers."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paribus.errors import ConfigError, DataError
from paribus.interop import Choice, Outcomes, Run
from paribus.results.compare import as_json, as_text, compare, sentences
from paribus.results.sources import Argument, load, parse
from paribus.stats import difference, holm, mcnemar
from storedruns import write_experiment_of

ROOT = Path(__file__).resolve().parents[2]


def arm(name: str, *runs: Sequence[float | None], seeds: bool = True) -> Outcomes:
    """An arm of runs given as scores, problem by problem."""
    made = [
        Run(
            f"seed-{i}" if seeds else f"file-{i}", i if seeds else None, {f"p{n:04}": [x] for n, x in enumerate(scores)}
        )
        for i, scores in enumerate(runs)
    ]
    return Outcomes(name, made, "test", "correct")


def drawn(rate: float, runs: int, problems: int, seed: int, spread: float = 0.02) -> list[list[float]]:
    """Runs that share the difficulty of the problems."""
    rng = np.random.default_rng(seed)
    easy = np.random.default_rng(99).normal(0, 0.25, problems)
    rates = rate + easy + rng.normal(0, spread, (runs, 1))
    return (rng.random((runs, problems)) < rates).astype(float).tolist()


def test_the_numbers_are_those_of_the_statistics() -> None:
    a, b, c = (drawn(rate, 3, 200, seed) for rate, seed in ((0.6, 1), (0.55, 2), (0.4, 3)))
    found = compare([arm("a", *a), arm("b", *b), arm("c", *c)])
    raw = [difference(x, y).p() for x, y in ((a, b), (a, c), (b, c))]
    assert [v.p for v in found.verdicts] == pytest.approx(holm(raw))
    assert [(v.a, v.b) for v in found.verdicts] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert "(Holm over 3 pairs)" in sentences(found)[0]
    one = compare([arm("a", a[0]), arm("b", b[0])]).verdicts[0]
    assert one.p == mcnemar(one.difference.wins, one.difference.losses)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=40), st.integers(1, 4), st.randoms())
def test_neither_the_order_of_rows_nor_copies_of_them_change_anything(
    pairs: list[tuple[bool, bool]], copies: int, rng: random.Random
) -> None:
    def rows(column: int, times: int) -> Outcomes:
        scores = [(f"p{i}", float(pair[column])) for i, pair in enumerate(pairs) for _ in range(times)]
        rng.shuffle(scores)
        gathered: dict[str, list[float | None]] = {}
        for problem, score in scores:
            gathered.setdefault(problem, []).append(score)
        return Outcomes("ab"[column], [Run("r", None, gathered)], "t", "c")

    plain = compare([rows(0, 1), rows(1, 1)]).verdicts[0]
    copied = compare([rows(0, copies), rows(1, 1)]).verdicts[0]
    assert (plain.p, plain.interval, plain.kind) == (copied.p, copied.interval, copied.kind)


def test_the_order_of_runs_does_not_matter() -> None:
    a, b = drawn(0.6, 4, 100, 1), drawn(0.5, 4, 100, 2)
    one = compare([arm("a", *a), arm("b", *b)])
    shuffled = [Outcomes(x.name, x.runs[::-1], x.source, x.judged) for x in (arm("a", *a), arm("b", *b))]
    assert as_text(compare(shuffled)) == as_text(one) and as_json(compare(shuffled)) == as_json(one)


def test_the_words_of_every_verdict() -> None:
    def words(a: list[list[float]], b: list[list[float]], margin: float | None) -> str:
        return sentences(compare([arm("a", *a), arm("b", *b)], margin=margin))[0]

    low, high, near = drawn(0.4, 5, 400, 1), drawn(0.7, 5, 400, 2), drawn(0.71, 5, 400, 3)
    assert words(high, low, 2).startswith("a is better than b: a minus b +")
    assert words(low, high, 2).startswith("b is better than a: a minus b −")
    assert words(high, low, 60).startswith("a is better than b, but within the margin of 60 points:")
    assert words(high, near, 8).startswith("a and b are equivalent within 8 points:")
    both = words(high, near, 0.5)
    assert both.startswith("Inconclusive: neither a difference of a and b nor equivalence within 0.5 points is shown:")
    assert "To show a difference of" in both and "To show equivalence within 0.5 points" in both
    assert "no margin was declared" in words(high, near, None)
    assert words(high, high, 1).startswith("a and b are identical here, the same score on every problem")


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 10_000), st.sampled_from([None, 0.5, 5.0, 50.0]))
def test_no_sentence_says_more_than_its_scope(ours: int, theirs: int, seed: int, margin: float | None) -> None:
    rate = 0.5 + seed % 3 / 10
    text = sentences(compare([arm("a", *drawn(rate, ours, 30, seed)), arm("b", *drawn(0.5, theirs, 30, seed + 1))],
                             margin=margin))[0]  # fmt: skip
    assert "equal" not in text and "same as" not in text
    if min(ours, theirs) == 1:
        assert "checkpoint a" in text and "checkpoint b" in text and "not of the algorithms" in text
    else:
        assert "checkpoint" not in text and f"{ours} + {theirs} runs" in text


def test_identical_runs_are_identical_and_nothing_else_is_claimed() -> None:
    runs = drawn(0.6, 3, 50, 5)
    found = compare([arm("a", *runs), arm("b", *runs)], margin=1)
    assert found.verdicts[0].kind == "identical" and "better" not in sentences(found)[0]


def test_different_problems_are_refused_with_numbers_and_names() -> None:
    one, other = arm("a", [1, 0, 1]), arm("b", [1, 0, 1, 0, 1])
    with pytest.raises(
        DataError, match=r"a \(seed-0\) and b \(seed-0\) .*: 2 only in b \(seed-0\) \('p0003', 'p0004'\)"
    ):
        compare([one, other])
    renamed = Outcomes("c", [Run("r", None, {"x": [1.0], "p0001": [1.0], "p0002": [0.0]})], "t", "c")
    with pytest.raises(DataError, match=r"1 only in a .*'p0000'.* and 1 only in c .*'x'"):
        compare([one, renamed])


def test_uncounted_problems_are_left_out_for_all_and_said() -> None:
    found = compare([arm("a", [1, None, 0]), arm("b", [0, 1, 0])])
    assert found.verdicts[0].difference.problems == 2 and "1 problems were not counted" in found.notes[0]
    with pytest.raises(DataError, match="nothing to compare"):
        compare([arm("a", [None, None]), arm("b", [1, 0])])


def test_the_base_is_a_reference_not_an_arm() -> None:
    base = Outcomes("base", [Run("base", None, arm("x", drawn(0.3, 1, 200, 9)[0]).runs[0].scores)], "t", "correct")
    found = compare([base, arm("a", *drawn(0.6, 3, 200, 1)), arm("b", *drawn(0.6, 3, 200, 2))])
    assert [(v.a, v.b) for v in found.verdicts] == [("a", "b")]
    assert [(v.a, v.b, v.kind) for v in found.gains] == [("a", "base", "better"), ("b", "base", "better")]
    assert "over 3 + 1 runs" in sentences(found)[1]
    exact = difference(found.joined.tables["a"], np.repeat(found.joined.tables["base"], 3, 0), paired=True)
    assert found.gains[0].interval == exact.interval()


def test_checks_stand_beside_the_verdict_of_algorithms_only() -> None:
    found = compare([arm("a", *drawn(0.6, 4, 80, 1)), arm("b", *drawn(0.5, 4, 80, 2))])
    check = found.checks[0]
    assert check is not None and check.permutation.splits == 70
    assert "permutation of runs p =" in as_text(found) and "P(a > b)" in as_text(found)
    assert compare([arm("a", [1, 0, 1]), arm("b", [0, 0, 1])]).checks == [None]


def test_arms_scored_by_different_rules_are_pointed_out() -> None:
    other = arm("b", [1, 0, 1])
    found = compare([arm("a", [1, 1, 1]), Outcomes(other.name, other.runs, "t", "flexible")])
    assert "not scored by the same rule" in found.notes[0] and "b: flexible" in found.notes[0]


def test_paired_seeds_must_be_stated_and_the_same() -> None:
    a, b = drawn(0.6, 3, 60, 1), drawn(0.5, 3, 60, 2)
    found = compare([arm("a", *a), arm("b", *b)], paired=True).verdicts[0]
    assert found.interval == difference(a, b, paired=True).interval()
    with pytest.raises(ConfigError, match="--paired needs the same stated seeds"):
        compare([arm("a", *a), arm("b", *b[:2])], paired=True)
    with pytest.raises(ConfigError, match="--paired"):
        compare([arm("a", *a, seeds=False), arm("b", *b, seeds=False)], paired=True)
    with pytest.raises(ConfigError, match="--margin 0"):
        compare([arm("a", *a), arm("b", *b)], margin=0)


def rows(path: Path, pattern: str) -> str:
    path.parent.mkdir(exist_ok=True)
    lines = [json.dumps({"problem_id": i, "correct": c == "1"}) for i, c in enumerate(pattern)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_arguments_name_arms_and_gather_their_runs(tmp_path: Path) -> None:
    a, b, c = (rows(tmp_path / f"{n}.jsonl", p) for n, p in (("a", "1100"), ("b", "1010"), ("c", "0000")))
    one = load([f"ppo={a},{b}", f"grpo={c}"], Choice())
    two = load([f"ppo={a}", f"grpo={c}", f"ppo={b}"], Choice())
    assert one == two and isinstance(one, list) and [(x.name, len(x.runs)) for x in one] == [("ppo", 2), ("grpo", 1)]
    assert [x.name for x in load([a, b], Choice())] == ["a", "b"]  # type: ignore[union-attr]
    odd = rows(tmp_path / "x=1,y.jsonl", "1111")
    assert parse(odd) == Argument("", (odd,)) and parse(f"n={odd}") == Argument("n", (odd,))
    other = rows(tmp_path / "sub" / "a.jsonl", "1111")
    for bad, message in (
        ([a, other], "two sources are called 'a': name them"),
        ([a], "at least two arms"),
        ([f"x={a},{a}", b], "comes twice"),
        ([a, "grpo=3/4"], "counts and rows cannot be compared"),
        (["ppo=3/4", "ppo=2/4"], "counts of one run only"),
        (["ppo=3/4", "grpo=2/5"], "different numbers of problems"),
        (["=3/4", "grpo=2/5"], "write NAME=SOURCE"),
        (["ppo=", "grpo=2/5"], "write NAME=SOURCE"),
    ):
        with pytest.raises((ConfigError, DataError), match=message):
            load(bad, Choice())


def test_stored_arms_compare_like_any_other_rows(tmp_path: Path) -> None:
    patterns = {"ppo": {0: "110100", 1: "111100"}, "grpo": {0: "100000", 1: "101000"}}
    root = write_experiment_of(tmp_path / "toy", patterns, base="100000")
    found = load([str(root / "ppo"), str(root / "grpo"), str(root / "_base")], Choice())
    assert isinstance(found, list)
    text = as_text(compare(found, margin=5))
    assert "ppo   2" in text and "ppo minus base" in text and "ppo minus grpo" in text
    files = {(a, s): rows(tmp_path / f"{a}{s}.jsonl", p) for a, runs in patterns.items() for s, p in runs.items()}
    again = load([f"{a}={path}" for (a, _), path in files.items()], Choice())
    assert isinstance(again, list)
    stored, plain = compare(found).verdicts[0], compare(again).verdicts[0]
    assert (stored.p, stored.interval) == (plain.p, plain.interval)


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    a, b = rows(tmp_path / "a.jsonl", "1100"), rows(tmp_path / "b.jsonl", "1010")
    found = load([f"\x1b[31mred={a}", f"\u202eb={b}"], Choice())
    assert isinstance(found, list)
    text = as_text(compare(found))
    assert "\x1b" not in text and "\u202e" not in text and "⟨U+001B⟩[31mred" in text
    assert as_json(compare(found)).isascii()


def test_the_verb_prints_text_and_json_without_any_heavy_library(tmp_path: Path) -> None:
    """Several calls in one process, which is started once: that is what takes the time."""
    a, b = rows(tmp_path / "a.jsonl", "110011"), rows(tmp_path / "b.jsonl", "101000")
    founding = str(ROOT / "experiments" / "published-gsm8k.toml")
    calls = [[a, b, "--margin", "2"], [a, b, "--json"], [founding], [a, str(tmp_path / "c.jsonl")]]
    code = (
        "import json, sys; from paribus.cli import main\n"
        "for call in json.loads(sys.argv[1]):\n"
        "    sys.argv = ['paribus', 'compare', *call]\n"
        "    try:\n        main()\n    except SystemExit as end:\n        print('end', end.code, flush=True)\n"
        "assert not {'torch', 'transformers', 'scipy.stats', 'matplotlib', 'pyarrow'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, json.dumps(calls)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text, data, published, *fault = done.stdout.split("end 0\n")
    assert "checkpoint a and checkpoint b" in text and "Inconclusive" in published
    verdict = json.loads(data)["verdicts"][0]
    assert verdict["verdict"] == "inconclusive" and verdict["won"] == 3
    assert fault == ["end 2\n"] and done.stderr.startswith("paribus: ") and "c.jsonl" in done.stderr
