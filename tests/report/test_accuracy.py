"""Accuracy, its intervals and the verdict, with numbers that a hand can check."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paribus.errors import DataError
from paribus.report.accuracy import accuracy
from paribus.report.message import say
from paribus.report.results import Scores, gain, pair_level, pairs, primary, scores
from paribus.report.verdict import judge, tiles, verdict
from paribus.stats import (
    crossed,
    detectable,
    difference,
    paired,
    permutation,
    planned_se,
    probability_better,
    simple_effect,
    spread,
    wilson,
)
from paribus.store import EvalRow, StoredExperiment, read_experiment
from paribus.store.files import write_rows
from paribus.store.layout import step_files
from reading import evaluated, prose, rows, said, tables

THREE = {
    "ppo": {0: "11110000", 1: "11100000", 2: "11111000"},
    "grpo": {0: "11110100", 1: "11000000", 2: "11101100"},
}
BASE = "10010000"


def stored(write: Any, *args: Any, **kwargs: Any) -> tuple[StoredExperiment, Scores]:
    exp = read_experiment(write(*args, **kwargs))
    return exp, primary(exp)


def section(exp: StoredExperiment, s: Scores) -> Any:
    return accuracy(exp, s, judge(exp.info, s))


def sentences(exp: StoredExperiment, s: Scores) -> list[str]:
    return said(verdict(exp, s, judge(exp.info, s)))


def table(arm: str) -> np.ndarray:
    return np.array([[float(c) for c in pattern] for pattern in THREE[arm].values()])


def test_accuracy_by_hand(write: Any) -> None:
    exp, s = stored(write, THREE)
    found = rows(tables(section(exp, s))["accuracy"])
    assert [r[:3] + r[4:7] + r[8:] for r in found] == [
        ["base", "", "25.00 %", "2 / 8", "", "", ""],
        ["ppo", "mean of 3 seeds", "50.00 %", "4 / 8", "12.50", "+25.00", "3 / 1"],
        ["", "seed 0", "50.00 %", "4 / 8", "", "+25.00", "2 / 0"],
        ["", "seed 1", "37.50 %", "3 / 8", "", "+12.50", "2 / 1"],
        ["", "seed 2", "62.50 %", "5 / 8", "", "+37.50", "3 / 0"],
        ["grpo", "mean of 3 seeds", "50.00 %", "4 / 8", "21.65", "+25.00", "4 / 1"],
        ["", "seed 0", "62.50 %", "5 / 8", "", "+37.50", "3 / 0"],
        ["", "seed 1", "25.00 %", "2 / 8", "", "+0.00", "1 / 1"],
        ["", "seed 2", "62.50 %", "5 / 8", "", "+37.50", "4 / 1"],
    ]
    w = wilson(3, 8)
    assert found[3][3] == f"{100 * w.low:.2f} % to {100 * w.high:.2f} %"
    assert said(t.value for t in tiles(exp.info, s, judge(exp.info, s))) == ["25.0 %", "50.0 %", "50.0 %", "+0.0 pts"]


def test_the_intervals_are_those_of_the_statistics(write: Any) -> None:
    exp, s = stored(write, THREE)
    (v,) = judge(exp.info, s)
    assert v.difference == difference(table("grpo"), table("ppo")) and (v.a, v.b) == ("grpo", "ppo")
    base = np.array([float(c) for c in BASE])
    assert gain(s, "ppo") == crossed(table("ppo") - base)
    row = rows(tables(section(exp, s))["differences"])[0]
    i = v.interval
    interval = f"{100 * i.low:+.2f} to {100 * i.high:+.2f}".replace("-", "−")
    assert row[1:5] == ["inconclusive", "+0.00", interval, "1.000"]
    assert row[5:] == ["–", "1 / 2", "3 + 3 runs and 8 problems"]  # no margin was declared
    assert pairs(["a", "b", "c"]) == [("b", "a"), ("c", "a"), ("c", "b")]
    assert [pair_level(n) for n in (0, 1, 3)] == pytest.approx([0.95, 0.95, 1 - 0.05 / 3])


def test_checks_and_noise_are_those_of_the_statistics(write: Any) -> None:
    exp, s = stored(write, THREE)
    found = tables(section(exp, s))
    a, b = table("grpo").mean(1), table("ppo").mean(1)
    check = rows(found["checks"])[0]
    assert check[2] == f"{permutation(a, b).p:.3f} of 20 splits"
    assert check[3].startswith(f"{100 * probability_better(a, b).estimate:.0f} %, ")
    parts = spread({"ppo": table("ppo"), "grpo": table("grpo")})
    told = [*parts, planned_se(parts, 3, 8)[0], detectable(parts, 3, 8)]
    assert [row[1] for row in rows(found["noise"])] == [f"{100 * x:.2f}" for x in told]
    assert rows(found["noise"])[4][0] == "smallest difference found in 80 % of repeats, 3 seeds and 8 problems"


def test_a_difference_that_is_not_shown_is_never_called_none(write: Any) -> None:
    exp, s = stored(write, THREE)
    found = sentences(exp, s)
    assert found[0].startswith("Inconclusive: neither a difference nor equivalence of grpo and ppo is shown")
    assert "3 + 3 runs and 8 problems" in found[0]
    assert not any(word in " ".join(found).lower() for word in ("are equivalent", "identical", "no difference", "same"))


def test_equivalence_needs_a_margin_that_was_declared(write: Any) -> None:
    exp, s = stored(write, THREE, margin=90.0)
    assert sentences(exp, s)[0].startswith("grpo and ppo are equivalent within 90 points: grpo minus ppo +0.00 points")


def test_a_clear_difference_is_called_by_its_winner(write: Any) -> None:
    good, bad = "1" * 38 + "00", "1" * 4 + "0" * 36
    runs = {"ppo": dict.fromkeys(range(3), bad), "grpo": dict.fromkeys(range(3), good)}
    exp, s = stored(write, runs, "0" * 40)
    assert sentences(exp, s)[0].startswith("grpo is better than ppo: grpo minus ppo +85.00 points")
    assert rows(tables(section(exp, s))["differences"])[0][1] == "grpo better"


def test_many_gains_are_counted(write: Any) -> None:
    runs = {f"a{i}": dict.fromkeys(range(2), ("1" if i < 2 else "0") * 30) for i in range(13)}
    exp, s = stored(write, runs, "0" * 30, seeds=[0, 1])
    found = sentences(exp, s)
    assert found[-1] == "Of 13 arms, 2 are above the base, 0 below and 11 not shown to differ from it."
    assert len(found) == 3 + 12  # of twelve ratios of cost each is told still


def test_many_pairs_are_counted_and_the_clearest_is_told(write: Any) -> None:
    """Six arms have 15 pairs: one of them is always right, the others never, and each of those alike."""
    runs = {f"a{i}": dict.fromkeys(range(2), ("1" if i == 3 else "0") * 30) for i in range(6)}
    exp, s = stored(write, runs, "0" * 30, seeds=[0, 1])
    first, second = sentences(exp, s)[:2]
    assert first.startswith(
        "Of 15 pairs of arms, 5 show a better one, 0 are equivalent, 10 identical and 0 inconclusive"
    )
    assert second.startswith("The clearest: a3 is better than a0: a3 minus a0 +100.00 points")
    found = section(exp, s)
    assert len(tables(found)["differences"].rows) == 15 and "checks" not in tables(found)
    assert len(tiles(exp.info, s, judge(exp.info, s))) == 7


def test_runs_that_answer_alike_are_called_identical(write: Any) -> None:
    exp, s = stored(write, {"a": THREE["ppo"], "b": THREE["ppo"]})
    assert sentences(exp, s)[0].startswith("b and a are identical here, the same score on every problem")


def test_one_seed_speaks_of_checkpoints(write: Any) -> None:
    exp, s = stored(write, {"ppo": {0: "11110000"}, "grpo": {0: "11100110"}}, seeds=[0])
    found = sentences(exp, s)
    assert "checkpoint grpo" in found[0] and "these two checkpoints, not of the algorithms" in found[0]
    assert "only one run is finished, so this speaks of its checkpoint" in found[-1]
    own = paired([1, 1, 1, 0, 0, 1, 1, 0], [1, 1, 1, 1, 0, 0, 0, 0])
    row = rows(tables(section(exp, s))["differences"])[0]
    assert row[6] == "2 / 1" and row[3] == f"{100 * own.low:+.2f} to {100 * own.high:+.2f}".replace("-", "−")
    assert "checks" not in tables(section(exp, s))  # they are about runs


def test_one_run_on_one_side_speaks_of_checkpoints_too(write: Any) -> None:
    exp, s = stored(write, {"ppo": THREE["ppo"], "grpo": {0: "11110100", 2: "11101100"}}, failing=[("grpo", 2)])
    found = sentences(exp, s)
    assert "not of the algorithms" in found[0] and "3 runs" not in found[0].split("over")[0]


def test_the_gain_is_by_hand_and_missing_arms_are_named(write: Any) -> None:
    exp, s = stored(write, {"ppo": THREE["ppo"], "grpo": {}})
    found = sentences(exp, s)
    assert "ppo is not shown to differ from the base (+25.00 points" in found[0]
    assert found[-1] == "No finished run of grpo." and found[-2].startswith("Interim: 3 of 6 planned runs are in it.")
    assert not any("Interim" in text for text in sentences(*stored(write, THREE, name="whole")))
    empty, none = stored(write, {"ppo": {}, "grpo": {}}, None, name="empty")
    assert sentences(empty, none) == ["No run has finished yet: there is nothing to compare."]


def test_the_primary_metric_is_what_the_verdict_is_about(write: Any) -> None:
    """Two samples a problem, answers 0 and 1: right in one of two is pass@1 = 1/2, pass@2 = 1."""
    exp, _ = stored(write, {"ppo": {0: "1010", 1: "1000"}, "grpo": {0: "1111", 1: "1100"}}, "0000", seeds=[0, 1],
                    primary="test:pass@2")  # fmt: skip
    for run in (exp.base, *(run for by_seed in exp.runs.values() for run in by_seed.values())):
        doubled(run)
    s = primary(exp)
    assert s.metric == "pass@2" and s.table["grpo"].tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    assert scores(exp, "test").table["grpo"].mean() == 3 / 8 and scores(exp, "test", "pass@1").table["ppo"].sum() == 1.5
    assert "All of this is about pass@2 on test, as declared." in sentences(exp, s)
    found = tables(section(exp, s))
    assert say(found["accuracy"].columns[2]) == "pass@2" and rows(found["accuracy"])[1][2] == "37.50 %"
    assert rows(found["test-accuracy"])[1][2] == "18.75 %"  # accuracy is secondary here
    single = rows(found["test-accuracy"])[2]
    own = simple_effect([[0.5, 0, 0.5, 0]], np.zeros((1, 4)))  # means of samples: t over problems, not Wilson
    assert single[3] == f"{100 * own.low:.2f} % to {100 * own.high:.2f} %".replace("-", "−")


def doubled(run: Any) -> None:
    """Give every problem a second sample, which is wrong."""
    path = step_files(run.paths.evals / "test")[max(run.eval_steps("test"))]
    kept = run.eval("test")
    write_rows(
        path, [r for row in kept for r in (row, row.model_copy(update={"sample": 1, "score": 0.0, "answer": "x"}))]
    )


def test_problems_that_a_grader_could_not_judge_leave_every_comparison(write: Any) -> None:
    exp, s = stored(write, {"ppo": {0: "1111000x"}, "grpo": {0: "11100110"}}, seeds=[0])
    assert s.excluded == ["test-7"] and s.table["grpo"].shape == (1, 7)
    found = rows(tables(section(exp, s))["accuracy"])
    assert found[1][:3] + found[1][4:5] == ["ppo", "seed 0", "57.14 %", "4 / 7"] and found[2][4] == "5 / 7"


def test_case_e07_different_problems_are_refused(write: Any) -> None:
    exp = read_experiment(write({"ppo": {0: "11110000"}, "grpo": {0: "1110011"}}, seeds=[0]))
    with pytest.raises(DataError, match=r"grpo/seed-0 and the base .*\(1 differ, for example 'test-7'"):
        primary(exp)


def test_both_length_limits_by_hand(write: Any) -> None:
    """Under the short limit only the first two of eight are done in time; ppo has 4 right, 2 of them early."""
    exp, _ = stored(write, {"ppo": {0: "11110000"}}, None, seeds=[0], resolved={
        "setting": {"eval": {"test": {"max_response": 512}}}})  # fmt: skip

    def short(i: int, row: Any) -> dict[str, Any]:
        late = i >= 2
        return {"short": {"limit": 256, "answer": None if late else "1", "score": 0.0 if late else 1.0,
                          "status": "unparsable" if late else "ok", "truncated": late}}  # fmt: skip

    evaluated(
        exp.runs["ppo"][0], lambda i, row: {"short": EvalRow.model_validate(row.model_dump() | short(i, row)).short}
    )
    s = primary(exp)
    assert rows(tables(section(exp, s))["test-limits"]) == [
        ["ppo", "256", "25.00 %", "75.0 %", "75.0 %", "100.00 %"],
        ["", "512", "50.00 %", "0.0 %", "0.0 %", "50.00 %"],
    ]


def test_reference_graders_disagree_in_both_directions(write: Any) -> None:
    """Declared 11110000, reference 01111x00: one right by the declared only, one by the reference only, of seven."""
    exp, _ = stored(write, {"ppo": {0: "11110000"}}, None, seeds=[0])
    other = [0.0, 1.0, 1.0, 1.0, 1.0, None, 0.0, 0.0]
    evaluated(exp.runs["ppo"][0], lambda i, row: {"references": {"loose": other[i]}})
    s = primary(exp)
    assert rows(tables(section(exp, s))["test-graders"]) == [
        ["ppo", "loose", "57.14 %", "7", "1", "1", "28.57 %"],
    ]


def test_other_suites_are_labelled_secondary(write: Any) -> None:
    exp, _ = stored(write, {"ppo": {0: "11110000"}, "grpo": {0: "11100110"}}, seeds=[0])
    for arm, pattern in (("ppo", 3), ("grpo", 6)):
        run = exp.runs[arm][0]
        kept = [row.model_copy(update={"score": float(i < pattern)}) for i, row in enumerate(run.eval("test"))]
        write_rows(run.paths.eval("hard", 4), kept)
    exp = read_experiment(exp.paths.root)
    found = section(exp, primary(exp))
    assert [t for t in prose(found, "plain") if t.startswith("Secondary: accuracy on hard.")]
    assert [row[2] for row in rows(tables(found)["hard-accuracy"])] == ["37.50 %", "75.00 %"]
    assert rows(tables(found)["hard-differences"])[0][2] == "+37.50"
    assert rows(tables(found)["differences"])[0][2] == "+12.50"  # the headline stays the declared one's


def test_without_second_limit_or_references_nothing_is_said_of_them(write: Any) -> None:
    exp, s = stored(write, THREE)
    assert not {"test-limits", "test-graders", "test-at-k"} & tables(section(exp, s)).keys()
    assert not any("Secondary" in text for text in prose(section(exp, s)))
