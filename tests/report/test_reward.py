"""The section on reward and KL: numbers that a hand can check, and nothing claimed that the runs do not show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paribus.report import figures
from paribus.report.blocks import Page, Prose, Table
from paribus.report.figures import Reached, draw_points
from paribus.report.message import say
from paribus.report.page import page
from paribus.report.reward import quarters, reward_and_kl
from paribus.stats import crossed
from paribus.store import CellRow, FactorRow, StepRow, StoredRun, TimingRow, read_experiment
from reading import evaluated, said

RUNS = {"ppo": {0: "11110000", 1: "11100000"}, "dpo": {0: "11110000", 1: "11111000"}}
TITLE = "Reward and KL"


@pytest.fixture
def no_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what takes seconds and has tests of its own."""
    monkeypatch.setattr(figures, "_svg", lambda *_: "<svg></svg>")
    monkeypatch.setattr(figures, "_png", lambda *_: b"")


def content(folder: Path) -> Page:
    return page(read_experiment(folder), 1.5)


def blocks(found: Page, title: str = TITLE) -> list[Any]:
    return [b for s in found.sections if say(s.title) == title for b in s.blocks]


def tables(found: Page, title: str = TITLE) -> list[Table]:
    """Return the section's tables in English."""
    return [
        replace(b, caption=say(b.caption), columns=said(b.columns), rows=[said(row) for row in b.rows])
        for b in blocks(found, title)
        if b.kind == "table"
    ]


def texts(found: Page, tone: str = "plain", title: str = TITLE) -> list[str]:
    return [say(b.text) for b in blocks(found, title) if isinstance(b, Prose) and b.tone == tone]


def trained(run: StoredRun, stats: Mapping[str, list[float]], *, instead: bool = False) -> None:
    """Write a run's steps again: each statistic's values step by step, beside or `instead` of what was there."""
    rows = [
        StepRow(
            step=row.step,
            samples=row.samples,
            tokens=row.tokens,
            stats=({} if instead else row.stats)
            | {name: {"sum": values[i], "count": 1.0} for name, values in stats.items()},
        )
        for i, row in enumerate(run.steps)
    ]
    run.paths.steps.write_text("".join(row.model_dump_json() + "\n" for row in rows))


def proxied(write: Any, **info: Any) -> Path:
    """PPO: reward = score + 1 in seed 0, score in seed 1; KL 2 and 4. DPO: reward 1/2 less the score; KL 1."""
    folder = write(RUNS, "10010000", seeds=[0, 1], **info)
    exp = read_experiment(folder)
    evaluated(exp.base, lambda i, row: {"reward": row.score / 2, "kl": 0.0})
    for seed in (0, 1):
        evaluated(exp.runs["ppo"][seed], lambda i, row, s=seed: {"reward": row.score + 1 - s, "kl": 2.0 + 2 * s})
        evaluated(exp.runs["dpo"][seed], lambda i, row: {"reward": 0.5 - row.score, "kl": 1.0})
    return folder


@pytest.mark.usefixtures("no_drawing")
def test_without_reward_and_kl_there_is_no_section(write: Any) -> None:
    assert TITLE not in [say(s.title) for s in content(write(RUNS)).sections]


@pytest.mark.usefixtures("no_drawing")
def test_the_table_by_hand(write: Any) -> None:
    table = tables(content(proxied(write)))[0]
    assert table.caption == "Final evaluations on test"
    assert [[row[i] for i in (0, 1, 2, 4, 6, 8)] for row in table.rows] == [
        ["base", "", "25.00", "0.125", "0.000", "1.00, 8 responses"],
        # 7 of 16 right, and half of the answers are worth one more; the same score may have two rewards
        ["ppo", "2", "43.75", "0.938", "3.000", "0.75, 16 responses"],
        ["dpo", "2", "56.25", "−0.062", "1.000", "−1.00, 16 responses"],
    ]
    scores = np.array([[float(c) for c in pattern] for pattern in RUNS["ppo"].values()])
    own = crossed(scores + np.array([[1.0], [0.0]]))
    assert table.rows[1][5] == f"{own.low:.3f} to {own.high:.3f}".replace("-", "−")


@pytest.mark.usefixtures("no_drawing")
def test_the_frontier_names_what_is_dominated_and_claims_no_more(write: Any) -> None:
    """DPO has less reward than the base at more KL; PPO has the most reward. The base is not judged."""
    found = content(proxied(write))
    (said,) = texts(found)
    assert said.startswith("Not dominated, by their means: ppo; dominated is what another model here exceeds")
    assert "dpo is dominated by base." in said and "no difference was tested" in said
    assert [b.name for b in blocks(found) if b.kind == "figure"] == ["frontier"]


@pytest.mark.usefixtures("no_drawing")
def test_kl_alone_is_set_against_the_score(write: Any) -> None:
    folder = write(RUNS, seeds=[0, 1])
    exp = read_experiment(folder)
    for run in (exp.base, *(run for found in exp.runs.values() for run in found.values())):
        evaluated(run, lambda i, row: {"kl": 0.25 * i})
    found = content(folder)
    (table,) = tables(found)
    assert list(table.columns) == [
        "model", "runs", "gold accuracy, %", "95 % interval", "KL, nats a response", "95 % interval",
    ]  # fmt: skip
    assert [row[4] for row in table.rows] == ["0.875"] * 3
    assert "ppo is dominated by dpo" in texts(found)[0]


@pytest.mark.usefixtures("no_drawing")
def test_an_answer_whose_reward_could_not_be_told_leaves_the_means_of_all(write: Any) -> None:
    folder = proxied(write)
    evaluated(read_experiment(folder).runs["ppo"][0], lambda i, row: {"reward": None if i == 0 else row.score + 1})
    table = tables(content(folder))[0]
    assert [row[4] for row in table.rows] == ["0.071", "0.857", "0.000"]  # 0.5, 12 and 0 over 7, 14 and 14 answers
    assert table.rows[1][8].endswith("15 responses") and table.rows[1][2] == "43.75"


@pytest.mark.usefixtures("no_drawing")
def test_only_like_rewards_share_an_axis(write: Any) -> None:
    learned = {"judge": {"reward.type": "model"}, "rule": {}}
    fields = {
        "factors": (FactorRow(name="by", levels=("rule", "judge"), changes=learned),),
        "cells": [CellRow(arm=f"ppo.{level}", of="ppo", levels=(level,)) for level in ("rule", "judge")],
    }
    folder = write({"ppo.rule": RUNS["ppo"], "ppo.judge": RUNS["dpo"]}, seeds=[0, 1], **fields)
    exp = read_experiment(folder)
    evaluated(exp.base, lambda i, row: {"kl": 0.0})
    for arm, found in exp.runs.items():
        for run in found.values():
            evaluated(run, lambda i, row, arm=arm: {"kl": 1.0} | ({"reward": 7.0} if arm == "ppo.judge" else {}))
    found = content(folder)
    titles = [(b.name, say(b.title)) for b in blocks(found) if b.kind == "figure"]
    assert titles == [
        ("frontier", "Reward against KL on test, rule; rings are runs"),
        ("frontier-2", "Reward against KL on test, judge; rings are runs"),
    ]
    assert texts(found) == []  # one model a drawing: nothing to hold it against
    rows = tables(found)[0].rows
    assert [row[4] for row in rows] == ["0.250", "0.438", "7.000"] and [row[8] for row in rows] == ["–", "–", "–"]


@pytest.mark.usefixtures("no_drawing")
def test_gold_that_falls_while_the_reward_rises_is_flagged(write: Any) -> None:
    """Quarters of 4 steps are the first and the last one."""
    folder = proxied(write)
    exp = read_experiment(folder)
    for seed in (0, 1):
        up, down = [0.1, 9, 9, 0.5 + seed / 10], [0.6, 9, 9, 0.5 - seed / 10]
        trained(exp.runs["ppo"][seed], {"score": up, "gold": down, "reward/model": up, "reward/length": down})
        trained(exp.runs["dpo"][seed], {"score": down, "gold": up, "reward/model": up})
    found = content(folder)
    _, training, components = tables(found)
    assert training.rows == [
        ["ppo", "0.100 → 0.550 (+0.450)", "0.600 → 0.450 (−0.150)", "2 of 2"],
        ["dpo", "0.600 → 0.450 (−0.150)", "0.100 → 0.550 (+0.450)", "0 of 2"],
    ]
    assert training.marked == {0}
    (warned,) = texts(found, "warning")
    assert "over-optimisation: ppo (reward +0.450, gold −0.150). This describes these runs" in warned
    assert components.rows == [
        ["length", "0.600 → 0.450 (−0.150)", "–"],
        ["model", "0.100 → 0.550 (+0.450)", "0.100 → 0.550 (+0.450)"],
    ]
    assert quarters(exp.runs["ppo"][0], lambda row: None) is None


@pytest.mark.usefixtures("no_drawing")
def test_arms_taught_by_the_starting_policy_are_not_judged_by_what_it_sampled(write: Any) -> None:
    source = {"algorithm": {"kind": "offline", "name": "dpo", "source": {"type": "own_pairs", "of": "start"}}}
    folder = proxied(write, resolved={"arms": {"dpo": source}})
    exp = read_experiment(folder)
    for arm in RUNS:
        for run in exp.runs[arm].values():
            trained(run, {"score": [0, 0, 0, 1], "gold": [1, 0, 0, 0], "reward/model": [0, 0, 0, 1]})
    found = content(folder)
    _, training, _ = tables(found)
    assert [row[0] for row in training.rows] == ["ppo"]
    assert any("starting policy" in text and text.startswith("Of dpo") for text in texts(found, "note"))
    told = texts(found, "note", "Learning curves")
    assert "of the starting policy, not of the trained one, for dpo" in told[1]


@pytest.mark.usefixtures("no_drawing")
def test_an_arm_that_samples_nothing_has_a_report(write: Any) -> None:
    """Trained on a file: no sampled token, no score, no group; its loss and margins are drawn."""
    folder = write(RUNS, seeds=[0, 1])
    exp = read_experiment(folder)
    offline = {
        "policy_loss": 0.7,
        "logp_good": -9.0,
        "logp_bad": -9.5,
        "implicit_margin": 0.5,
        "implicit_accuracy": 0.9,
    }
    for run in exp.runs["dpo"].values():
        trained(run, {name: [value] * 4 for name, value in offline.items()}, instead=True)
        rows = [TimingRow(step=s, attempt=1, seconds={"ref_logp": 1.0, "policy_update": 3.0}) for s in range(1, 5)]
        last = [row for row in run.timing if row.suite]
        run.paths.timing.write_text("".join(row.model_dump_json() + "\n" for row in [*rows, *last]))
    found = content(folder)
    (totals, phases) = tables(found, "Cost")
    assert totals.rows[3] == ["median tokens/s", "90", "–", "–"]
    assert ["reference log-probs", "–", "", "4.0 s", "25.0 %"] in phases.rows
    names = [b.name for b in blocks(found, "Learning curves") if b.kind == "figure"]
    assert names[-4:] == ["loss", "margin", "ranked", "logp-good"] and "score" in names


@pytest.mark.usefixtures("no_drawing")
def test_everything_outside_the_trust_region_is_one_panel(write: Any) -> None:
    from paribus.report.curves import curves

    folder = write(RUNS, seeds=[0, 1])
    for run in read_experiment(folder).runs["dpo"].values():
        trained(run, {"masked": [0.25] * 4, "capped": [0.125] * 4, "gated": [0.5] * 4}, instead=True)
    panel = next(p for p in curves(read_experiment(folder), "test") if p.name == "trust-region")
    assert [y for _, y in panel.mean("dpo")] == [0.875] * 4
    assert [y for _, y in panel.mean("ppo")] == pytest.approx([0.03] * 4)


def test_the_same_runs_give_the_same_section(write: Any) -> None:
    folder = proxied(write)
    one, two = (reward_and_kl(read_experiment(folder)) for _ in range(2))
    assert one == two and any(b.kind == "figure" and b.drawings[0].draw("en").svg.startswith("<svg") for b in one)


def test_the_base_is_drawn_in_the_ink_of_the_page() -> None:
    arm = Reached("ppo", 3.0, 0.9, [(2.0, 1.4), (4.0, 0.4)])
    base = Reached("base", 0.0, 0.1, [])
    alone, both = (draw_points(p, ["ppo"], "KL", "reward")("en").svg for p in ([arm], [base, arm]))
    assert both.count("currentColor") > alone.count("currentColor") and figures.COLOURS[0] in alone
    assert ">base<" in both and ">base<" not in alone
