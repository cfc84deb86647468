"""A report says what the stored runs allow, with numbers that a hand can check."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from paribus.errors import DataError
from paribus.report import build, cost, figures, summary
from paribus.report.blocks import Page, Table
from paribus.report.examples import natural
from paribus.report.page import page
from paribus.report.provenance import uncontrolled
from paribus.report.results import contrast, finished, gain, pair_level, pairs, schedule, scores, training_seconds
from paribus.report.text import duration, points
from paribus.report.verdict import verdict
from paribus.stats import crossed, paired, two_way
from paribus.store import DifferenceRow, StoredRun, read_experiment

THREE = {
    "ppo": {0: "11110000", 1: "11100000", 2: "11111000"},
    "grpo": {0: "11110100", 1: "11000000", 2: "11101100"},
}
BASE = "10010000"


@pytest.fixture(autouse=True)
def no_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what takes seconds and has tests of its own."""
    monkeypatch.setattr(figures, "_svg", lambda *_, **__: "<svg></svg>")


def content(folder: Path) -> Page:
    return page(read_experiment(folder), 1.5)


def texts(found: Page, section: str) -> str:
    blocks = next(s.blocks for s in found.sections if s.title == section)
    return "\n".join(b.text for b in blocks if b.kind == "prose")


def tables(found: Page, section: str) -> list[Table]:
    return [b for s in found.sections if s.title == section for b in s.blocks if b.kind == "table"]


def test_accuracy_by_hand(write: Any) -> None:
    found = content(write(THREE))
    rows = tables(found, "Accuracy")[0].rows
    assert [r[:3] + r[4:7] for r in rows] == [
        ["base", "", "25.00 %", "2 / 8", "", ""],
        ["ppo", "mean of 3 seeds", "50.00 %", "4 / 8", "12.50", "+25.00"],
        ["", "seed 0", "50.00 %", "4 / 8", "", "+25.00"],
        ["", "seed 1", "37.50 %", "3 / 8", "", "+12.50"],
        ["", "seed 2", "62.50 %", "5 / 8", "", "+37.50"],
        ["grpo", "mean of 3 seeds", "50.00 %", "4 / 8", "21.65", "+25.00"],
        ["", "seed 0", "62.50 %", "5 / 8", "", "+37.50"],
        ["", "seed 1", "25.00 %", "2 / 8", "", "+0.00"],
        ["", "seed 2", "62.50 %", "5 / 8", "", "+37.50"],
    ]
    assert [t.value for t in found.tiles] == ["25.0 %", "50.0 %", "50.0 %", "+0.0 pts"]


def test_the_intervals_are_those_of_the_statistics(write: Any) -> None:
    s = scores(read_experiment(write(THREE)), "test")
    ppo, grpo = ([[float(c) for c in p] for p in THREE[arm].values()] for arm in ("ppo", "grpo"))
    base = [float(c) for c in BASE]
    assert contrast(s, "grpo", "ppo") == two_way(grpo, ppo)
    assert gain(s, "ppo") == crossed([[x - b for x, b in zip(row, base, strict=True)] for row in ppo])
    assert pairs(["a", "b", "c"]) == [("b", "a"), ("c", "a"), ("c", "b")]
    assert [pair_level(n) for n in (0, 1, 3)] == pytest.approx([0.95, 0.95, 1 - 0.05 / 3])


def test_cost_by_hand(write: Any) -> None:
    """PPO takes 4 steps of 10 s, GRPO 4 of 5 s: half the cost; 900 tokens a step are 90 and 180 a second."""
    found = content(write(THREE))
    totals, phases = tables(found, "Cost")
    assert list(totals.columns) == ["mean over seeds", "ppo", "grpo", "grpo relative to ppo"]
    assert totals.rows[:5] == [
        ["training, wall-clock", "40.0 s", "20.0 s", "×0.50 (−50 %), 0.50 to 0.50"],
        ["training, device-hours", "0.011", "0.006", ""],
        ["price at $1.50 a device-hour", "$0.017", "$0.008", ""],
        ["median tokens/s", "90", "180", "×2.00 (+100 %), 2.00 to 2.00"],
        ["evaluation, wall-clock", "2.0 s", "2.0 s", ""],
    ]
    assert phases.rows == [
        ["rollout", "24.0 s", "60.0 %", "20.0 s", "100.0 %"],
        ["critic update", "12.0 s", "30.0 %", "–", ""],
        ["other", "4.0 s", "10.0 %", "–", ""],
        ["all", "40.0 s", "", "20.0 s", ""],
    ]
    assert "took turns, seed by seed" in texts(found, "Cost")


def test_memory_and_inference_by_hand(write: Any) -> None:
    found = content(write(THREE | {"grpo": {0: "1111t0u0", 1: "11000000", 2: "11101100"}}))
    assert tables(found, "Memory")[0].rows[:3] == [
        ["process, resident (RSS)", "whole run", "0.64 GB", "0.54 GB"],
        ["", "rollout", "0.54 GB", "0.54 GB"],
        ["", "critic update", "0.64 GB", "–"],
    ]
    base, _, grpo = tables(found, "Inference profile")[0].rows
    # 8 answers of 100 tokens in 4 s, 2 of them right; 24 of 50 tokens in 6 s, 11 right, 1 cut, 1 without answer
    assert base == ["base", "100.0", "100.0", "100.0", "400.0", "4.0 s", "200", "0.0 %", "0.0 %", "100.0 %", "25.0 %"]
    assert grpo[4:] == ["109.1", "2.0 s", "200", "4.2 %", "4.2 %", "91.7 %", "47.8 %"]


def test_a_difference_that_is_not_shown_is_never_called_none(write: Any) -> None:
    found = content(write(THREE))
    first = found.verdict[0]
    assert first.startswith("No difference shown between grpo and ppo: grpo minus ppo +0.00 points")
    c = two_way(*([[float(x) for x in p] for p in THREE[arm].values()] for arm in ("grpo", "ppo")))
    assert f"up to {100 * c.high:.1f} points is compatible" in first and "3 + 3 runs and 8 problems" in first
    assert not any(word in " ".join(found.verdict).lower() for word in ("equal", "equivalent", "identical"))


def test_a_clear_difference_is_called_by_its_winner(write: Any) -> None:
    good, bad = "1" * 38 + "00", "1" * 4 + "0" * 36
    runs = {"ppo": dict.fromkeys(range(3), bad), "grpo": dict.fromkeys(range(3), good)}
    s = read_experiment(write(runs, "0" * 40))
    assert verdict(s.info, scores(s, "test"))[0].startswith("grpo scored higher than ppo: grpo minus ppo +85.00 points")


def test_one_seed_speaks_of_checkpoints(write: Any) -> None:
    folder = write({"ppo": {0: "11110000"}, "grpo": {0: "11100110"}}, seeds=[0])
    found = content(folder)
    assert "this speaks of these two checkpoints, not of the algorithms" in found.verdict[0]
    assert "2 won, 1 lost" in found.verdict[0] and "only one run is finished" in found.verdict[1]
    s = scores(read_experiment(folder), "test")
    assert contrast(s, "grpo", "ppo") == paired([1, 1, 1, 0, 0, 1, 1, 0], [1, 1, 1, 1, 0, 0, 0, 0])
    assert tables(found, "Cost")[0].rows[0][-1] == "×0.50 (−50 %)"  # no interval from one pair


def test_missing_and_failed_runs_are_named_and_left_out(write: Any) -> None:
    runs = {"ppo": THREE["ppo"], "grpo": {0: "11110100", 2: "11101100"}}
    found = content(write(runs, failing=[("grpo", 2)]))
    assert tables(found, "Failures and exclusions")[0].rows == [
        ["grpo", "1", "not begun", ""],
        ["grpo", "2", "failed", "after step 4; ValueError: loss is <b>not</b> finite"],
    ]
    # one GRPO run is left: its checkpoint against PPO's of the same seed
    assert "two checkpoints" in found.verdict[0] and "1 won, 0 lost" in found.verdict[0]


def test_an_experiment_that_has_hardly_begun_still_has_a_report(write: Any, tmp_path: Path) -> None:
    folder = write({"ppo": {}, "grpo": {}}, None)
    assert build(folder, tmp_path / "out").exists()
    assert content(folder).verdict == ["No run has finished yet: there is nothing to compare."]
    alone = write({"ppo": {0: "11110000"}, "grpo": {}}, name="alone")
    assert build(alone, tmp_path / "out").exists()
    assert content(alone).verdict[-1] == "No finished run of grpo."


def test_an_undeclared_difference_is_in_the_title(write: Any) -> None:
    rows = [
        DifferenceRow(path="critic.lr", values={"ppo": 1e-5, "grpo": None}, declared=True),
        DifferenceRow(path="whiten", values={"ppo": {"over": "tokens"}, "grpo": None}, declared=False),
    ]
    found = content(write(THREE, differences=rows))
    assert found.title == "toy (not controlled)" and not found.controlled
    table = tables(found, "What differs between the arms")[0]
    assert table.rows == [
        ["critic.lr", "1e-05", "none", "declared"],
        ["whiten", "over = tokens", "none", "UNDECLARED"],
    ]
    assert table.marked == {1}
    assert content(write(THREE, name="fine")).title == "fine"


def _edit(run: StoredRun, **changes: Any) -> None:
    data = json.loads(run.paths.run.read_bytes())
    data["attempts"][-1] |= changes.pop("attempt", {})
    run.paths.run.write_text(json.dumps(data | changes))


def test_another_grader_or_other_data_is_not_controlled(write: Any) -> None:
    folder = write(THREE)
    run = read_experiment(folder).runs["grpo"][1]
    _edit(run, grader={"name": "answer", "policy": "flexible", "version": "9"})
    assert uncontrolled(read_experiment(folder)) == ["runs were scored by different graders"]
    data = {"train": {"name": "stories", "split": "train", "n": 4000, "hash": "zz"}}
    _edit(run, grader=json.loads(read_experiment(folder).runs["ppo"][0].paths.run.read_bytes())["grader"], data=data)
    assert uncontrolled(read_experiment(folder)) == ["runs used different data for train"]


def test_runs_side_by_side_or_on_other_machines_print_no_cost_ratio(write: Any) -> None:
    folder = write(THREE)
    exp = read_experiment(folder)
    assert schedule(finished(exp)) == (plan := schedule(finished(exp))) and plan.comparable and plan.interleaved
    first, last = exp.runs["ppo"][0], exp.runs["grpo"][2]
    _edit(first, attempt={"ended": last.info.attempts[0].ended})
    found = content(folder)
    assert tables(found, "Cost")[0].rows[0][-1] == "–"
    assert "No cost ratios: runs overlapped in time" in texts(found, "Cost")
    _edit(first, attempt={"ended": first.info.attempts[0].started, "threads": 1})
    assert "different machines or thread counts" in texts(content(folder), "Cost")


def test_work_done_twice_is_counted_apart(write: Any) -> None:
    folder = write(THREE)
    run = read_experiment(folder).runs["grpo"][0]
    lines = run.paths.timing.read_text().splitlines()
    again = [json.dumps(json.loads(line) | {"attempt": 2, "seconds": {"rollout": 7.0}}) for line in lines[2:4]]
    run.paths.timing.write_text("\n".join([*lines[:4], *again, lines[4]]) + "\n")
    run = read_experiment(folder).runs["grpo"][0]
    assert training_seconds(run) == pytest.approx(5 + 5 + 7 + 7) and run.lost_seconds == pytest.approx(10)
    assert cost.evaluation_seconds(run) == 2.0


def test_problems_that_a_grader_could_not_judge_leave_every_comparison(write: Any) -> None:
    folder = write({"ppo": {0: "1111000x"}, "grpo": {0: "11100110"}}, seeds=[0])
    s = scores(read_experiment(folder), "test")
    assert s.excluded == ["test-7"] and s.table["grpo"].shape == (1, 7)
    assert "1 problem could not be graded for at least one model: test-7" in texts(
        content(folder), "Failures and exclusions"
    )
    rows = tables(content(folder), "Accuracy")[0].rows
    assert rows[1][:5] == ["ppo", "seed 0", "57.14 %", rows[1][3], "4 / 7"]


def test_case_e07_different_problems_are_refused(write: Any) -> None:
    folder = write({"ppo": {0: "11110000"}, "grpo": {0: "1110011"}}, seeds=[0])
    with pytest.raises(DataError, match=r"grpo/seed-0 and the base .*\(1 differ, for example 'test-7'"):
        content(folder)


def test_examples_follow_the_printed_rule(write: Any) -> None:
    found = content(write({"ppo": {0: "11110000"}, "grpo": {0: "11100110"}}, seeds=[0]))
    blocks = next(s.blocks for s in found.sections if s.title == "Examples")
    shown = [b.problem if b.kind == "example" else b.text for b in blocks if b.kind in ("example", "prose")][1:]
    assert shown == [
        "The base is wrong, all arms are right: 2 problems of 8.", "test-1", "test-2",
        "The arms disagree: 3 problems of 8.", "test-3", "test-5",
        "The base is right, all arms are wrong: 0 problems of 8.",
        "All are wrong: 2 problems of 8.", "test-4", "test-7",
    ]  # fmt: skip
    first = next(b for b in blocks if b.kind == "example")
    assert (first.question, first.gold) == ("How many?", "1")
    assert [(a.model, a.verdict, a.read) for a in first.answers] == [
        ("base", "wrong", "1"),
        ("ppo", "right", "1"),
        ("grpo", "right", "1"),
    ]
    assert sorted(["t-10", "t-9", "t-1", "a", "7"], key=natural) == ["7", "a", "t-1", "t-9", "t-10"]


def test_curves_hold_every_seed_and_their_mean(write: Any) -> None:
    from paribus.report.curves import curves

    panels = {p.name: p for p in curves(read_experiment(write(THREE)), "test")}
    assert set(panels) == {"score", "length", "kl", "entropy", "grad-norm", "trust-region"}
    score = panels["score"]
    assert [y for _, y in score.lines["ppo"][1]] == pytest.approx([0.42, 0.44, 0.46, 0.48])
    assert [y for _, y in score.mean("ppo")] == pytest.approx([0.42, 0.44, 0.46, 0.48])
    assert [x for x, _ in panels["grad-norm"].mean("ppo")] == [1, 3, 4]  # step 2 was not finite
    assert panels["trust-region"].lines["grpo"][0][0][1] == pytest.approx(0.03)


def test_a_price_given_beats_the_stored_one(write: Any, tmp_path: Path) -> None:
    text = build(write(THREE), tmp_path / "out", price_per_hour=90.0).with_name("report.md").read_text()
    assert "price at \\$90.00 a device-hour | \\$1.000 | \\$0.500" in text


def test_numbers_read_well() -> None:
    assert [duration(x) for x in (9.74, 222, 8.47 * 3600)] == ["9.7 s", "3 min 42 s", "8.47 h"]
    assert points(-0.01364) == "−1.36" and points(0.1364) == "+13.64"
    assert not math.isnan(float(points(0.5)))


def test_the_terminal_summary_holds_the_report_s_own_numbers(write: Any) -> None:
    folder = write(THREE)
    lines = summary(folder)
    found = content(folder)
    assert lines[0].split()[:2] == ["ppo", "grpo"] and "grpo relative to ppo" in lines[0]
    assert "50.00 %  50.00 %" in lines[1] and "gain over base (25.00 %)" in lines[2] and "+25.00" in lines[2]
    wall = tables(found, "Cost")[0].rows[0]
    assert all(cell in lines[3] for cell in wall)
    assert lines[-len(found.verdict) :] == found.verdict
