"""Curves, their axes and the signs of failure, with numbers that a hand can check."""

from __future__ import annotations

from typing import Any

import pytest

from paribus.report.curves import Curves, axes, curves, curves_data, explained_variance
from paribus.report.figures import thinned
from paribus.report.panels import HEALTH, diagnostics, last_quarter, learning_curves
from paribus.store import RolloutRow, StepRow, read_experiment
from paribus.store.files import write_rows
from reading import prose, rows, said, tables

THREE = {
    "ppo": {0: "11110000", 1: "11100000", 2: "11111000"},
    "grpo": {0: "11110100", 1: "11000000", 2: "11101100"},
}


def test_curves_hold_every_seed_their_mean_and_their_spread(write: Any) -> None:
    """Step 1 scores 0.41, 0.42 and 0.43 in the three seeds."""
    panels = {p.name: p for p in curves(read_experiment(write(THREE)), "test")}
    assert set(panels) == {"score", "length", "kl", "entropy", "grad-norm", "trust-region"}
    score = panels["score"]
    assert [y for _, y in score.lines["ppo"][1]] == pytest.approx([0.42, 0.44, 0.46, 0.48])
    assert [y for _, y in score.mean("ppo")] == pytest.approx([0.42, 0.44, 0.46, 0.48])
    assert [p.spread for p in score.points("ppo")] == pytest.approx([0.01, 0.02, 0.03, 0.04])
    assert [x for x, _ in panels["grad-norm"].mean("ppo")] == [1, 3, 4]  # step 2 was not finite
    assert panels["trust-region"].lines["grpo"][0][0][1] == pytest.approx(0.03)
    assert last_quarter(score, "ppo") == pytest.approx(0.48)


def test_every_axis_says_where_a_step_lies(write: Any) -> None:
    """A step is 16 samples, 900 tokens and 10 s of PPO, at $1.50 an hour."""
    exp = read_experiment(write(THREE))
    found = axes(exp, 1.5)
    assert said(axis.label for axis in found) == ["steps", "samples", "tokens", "time", "money"]
    assert [axis.at["ppo"][1][3] for axis in found] == pytest.approx([3, 48, 2700, 30, 30 / 3600 * 1.5])
    assert all(axis.at["grpo"][0][0] == 0 for axis in found)
    score = curves(exp, "test")[0]
    assert [p.place for p in score.points("ppo", found[3])] == pytest.approx([10, 20, 30, 40])
    assert [p.mean for p in score.points("ppo", found[3])] == [y for _, y in score.mean("ppo")]
    assert rows(curves_data(score, found))[0] == ["ppo", "0", "1", "16", "900", "10", "0.00416667", "0.41"]


def test_seconds_that_cannot_be_compared_are_no_axis(write: Any) -> None:
    import json

    folder = write(THREE)
    run, last = (read_experiment(folder).runs[a][s] for a, s in (("ppo", 0), ("grpo", 2)))
    data = json.loads(run.paths.run.read_bytes())
    data["attempts"][0]["ended"] = last.info.attempts[0].ended
    run.paths.run.write_text(json.dumps(data))
    exp = read_experiment(folder)
    assert said(axis.label for axis in axes(exp, 1.5)) == ["steps", "samples", "tokens"]
    assert any("No axes of time and money" in text for text in prose(learning_curves(exp, "test", 1.5)))


def test_the_mean_stands_only_where_every_seed_has_a_value() -> None:
    panel = Curves("a", "a", {"ppo": {0: [(1, 1.0), (2, 3.0), (3, 9.0)], 1: [(1, 3.0), (3, 1.0)]}, "grpo": {}})
    assert panel.mean("ppo") == [(1, 2.0), (3, 5.0)] and panel.mean("grpo") == []


def test_a_long_line_is_drawn_as_means_of_neighbours() -> None:
    line = [(float(i), float(i % 2)) for i in range(600)]
    assert thinned(line)[0] == (1.5, 0.5) and len(thinned(line)) == 150
    assert thinned(line[:150]) == line[:150]


def test_explained_variance_by_hand() -> None:
    """Targets of variance 8/4 - 1 = 1, errors of variance 2/4 = 1/2."""

    def row(error: dict[str, float | None], target: dict[str, float | None]) -> StepRow:
        return StepRow(step=1, samples=1, tokens=1, stats={"value_error": error, "value_target": target})

    error: dict[str, float | None] = {"sum": 0.0, "square": 2.0, "count": 4.0}
    assert explained_variance(row(error, {"sum": 4.0, "square": 8.0, "count": 4.0})) == 0.5
    assert explained_variance(row(error, {"sum": 4.0, "square": 4.0, "count": 4.0})) is None  # a constant target
    assert explained_variance(StepRow(step=1, samples=1, tokens=1, stats={})) is None


def test_signs_of_failure_stand_against_their_ranges(write: Any) -> None:
    """Quarters of 4 steps are the last one: 0.9 of the groups are uniform there, entropy is 0.46."""
    exp = read_experiment(write(THREE))
    for run in exp.runs["grpo"].values():
        steps = [
            row.model_copy(update={"stats": {**row.stats, "uniform_groups": {"sum": u, "count": 1.0}}})
            for row, u in zip(run.steps, [0.1, 0.2, 0.3, 0.9], strict=True)
        ]
        run.paths.steps.write_text("".join(row.model_dump_json() + "\n" for row in steps))
    found = diagnostics(read_experiment(exp.paths.root))
    health = tables(found)["health"]
    uniform, score, entropy, kl, upper = rows(health)
    assert uniform[1:4] == ["–", "0.900 (outside)", "below 0.8"] and health.marked == {0}
    assert score[1:4] == ["0.480", "0.480", "above 0.15"] and entropy[1:4] == ["0.460", "0.460", "0.05 to 0.5"]
    assert kl[1] == "0.004" and upper[1] == "0.020"
    assert [b.name for b in found if b.kind == "figure"] == ["uniform", "upper-clip"]
    assert all(sign.source for sign in HEALTH)


def test_length_and_credit_by_hand(write: Any) -> None:
    """Lengths 10, 20, 30, 40 with credit 1, 1, -1, -1: correlation -2/sqrt(5)."""
    exp = read_experiment(write(THREE))
    row = {"problem_id": "a", "prompt": "?", "response": "!", "stop": "eos"}
    write_rows(
        exp.runs["grpo"][0].paths.rollouts(1),
        [
            RolloutRow.model_validate(
                {**row, "sample": i, "tokens": 10 * (i + 1), "score": float(i < 2), "advantage": a}
            )
            for i, a in enumerate([1.0, 1.0, -1.0, -1.0])
        ],
    )
    assert rows(tables(diagnostics(exp))["length-bias"]) == [["grpo", "4", "15.0", "35.0", "−0.89"]]
