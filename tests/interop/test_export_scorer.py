"""scorer.py judges as our graders do, on Python's standard library alone, and in Python 3.10's syntax."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paribus.errors import ConfigError
from paribus.interop.export.atomic import without_possessive
from paribus.interop.export.scorer import scorer_source
from paribus.tasks import Answer, numbers
from paribus.tasks.grading import _BOX_OR_BRACE, _PHRASE

GRADERS = {
    "strict": Answer(policy="strict"),
    "flexible": Answer(policy="flexible", stop=("Question:",)),
    "boxed": Answer(policy="boxed"),
    "official": Answer(policy="official-gsm8k"),
    "letter": Answer(policy="strict", marker="\nA: "),
}
PATTERNS = {
    name: value
    for name, value in {**vars(numbers), "_BOX_OR_BRACE": _BOX_OR_BRACE, "_PHRASE": _PHRASE}.items()
    if isinstance(value, re.Pattern)
}
NUMERALS = ["1,080", "10,00,000", "12", "118 000", "1'000", "5.50", "50%", " 1/2", "\\frac{3}{4}", "^{2}", "e3", ":30"]
SIGNS = ["-", "$", "*", "=", "{", "}", "\n", " ", " million", " x = ", "abc"]
PIECES = st.sampled_from([*NUMERALS, *SIGNS, "#### ", "\\boxed{", "answer is ", "answer: "])
TEXTS = st.lists(PIECES | st.text(alphabet="0123456789.,-+ abzX{}\\$=:^/eE%'", max_size=4), max_size=12).map("".join)


@pytest.fixture(scope="module")
def scorer() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(scorer_source(GRADERS, {"boxed": (-1.0, 1.0, None, 0.5)}), "scorer.py", "exec"), names)
    return names


def agree(scorer: dict[str, Any], text: str, gold: str) -> None:
    for name, ours in GRADERS.items():
        want, got = ours.grade(text, gold), scorer["GRADERS"][name].grade(text, gold)
        assert (want.score, want.answer, want.status, want.format) == (got.score, got.answer, got.status, got.format), (
            name
        )


def test_same_verdicts_on_real_solutions_and_hard_cases(scorer: dict[str, Any], shared: Path) -> None:
    solutions = [json.loads(line) for line in (shared / "cases/gsm8k_solutions.jsonl").open(encoding="utf-8")]
    assert len(solutions) == 300
    for row in solutions:
        agree(scorer, row["solution"], str(row["ground_truth"]))
        agree(scorer, row["ground_truth_solution"], str(row["ground_truth"]))
    for case in (json.loads(line) for line in (shared / "cases/open.jsonl").open(encoding="utf-8")):
        pairs = case["input"].get("pairs", []) if isinstance(case["input"], dict) else []
        for pair in pairs if case["family"].startswith("a") else []:
            agree(scorer, str(pair["response"]), str(pair["gold"]))


@given(TEXTS, st.sampled_from(["18", "-3", "0.5", "1080", "no number"]))
def test_same_verdicts_on_made_up_texts(scorer: dict[str, Any], text: str, gold: str) -> None:
    agree(scorer, text, gold)


@given(TEXTS)
def test_patterns_without_possessive_quantifiers_match_alike(text: str) -> None:
    for name, pattern in PATTERNS.items():
        other = re.compile(without_possessive(pattern.pattern), pattern.flags)
        spans = [m.span() for m in pattern.finditer(text)]
        assert spans == [m.span() for m in other.finditer(text)], name


@pytest.mark.parametrize("name", sorted(PATTERNS))
def test_no_pattern_keeps_a_possessive_quantifier(name: str) -> None:
    converted = without_possessive(PATTERNS[name].pattern)
    bare = re.sub(r"\[[^\]]*\]|\\.", "x", converted)  # a class or an escape is one character
    assert not re.search(r"[*+?}]\+", bare), converted


def test_a_pattern_whose_groups_would_move_is_refused() -> None:
    with pytest.raises(ConfigError, match="numbered groups"):
        without_possessive(r"(a)(?:bc)++")


def test_a_long_text_is_read_in_linear_time(scorer: dict[str, Any]) -> None:
    for text in ("a" * 50_000, "1," * 25_000, "answer " * 8_000, "\\boxed{" * 7_000):
        agree(scorer, text, "1")


def test_syntax_of_python_3_10_and_the_standard_library_alone(tmp_path: Path) -> None:
    source = scorer_source(GRADERS, {})
    ast.parse(source, feature_version=(3, 10))
    (tmp_path / "scorer.py").write_text(source)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import scorer; "
        "print(scorer.compute_score('boxed', 'so \\\\boxed{18}', '18', {'problem_id': 'p/1'})); "
        "sys.exit(any('site-packages' in str(getattr(m, '__file__', '')) for m in sys.modules.values()))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    expected = {"score": 1.0, "acc": 1.0, "format": 1.0, "parsed": 1.0, "problem_id": "p/1"}
    assert ast.literal_eval(done.stdout) == expected


def test_the_outcome_in_training_is_shaped_and_the_verdict_is_not(scorer: dict[str, Any]) -> None:
    score: Callable[..., dict[str, Any]] = scorer["compute_score"]
    wrong, right = score("boxed", "\\boxed{1}", "18"), score("boxed", "\\boxed{18}", "18")
    assert (wrong["score"], wrong["acc"]) == (-1.0, 0.0)
    assert (right["score"], right["acc"]) == (0.5, 1.0)  # 1, held at the upper bound


def test_trl_is_given_rewards_and_the_ids_of_the_problems(scorer: dict[str, Any]) -> None:
    logged: dict[str, list[str]] = {}
    rewards = scorer["reward"](
        [[{"role": "assistant", "content": "\\boxed{18}"}], "\\boxed{2}"],
        ground_truth=["18", "18"],
        data_source=["boxed", "boxed"],
        problem_id=["a", "b"],
        log_extra=logged.__setitem__,
        prompts=[],
    )
    assert rewards == [0.5, -1.0] and logged == {"problem_id": ["a", "b"]}
