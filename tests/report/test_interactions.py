"""The section on interactions: numbers that a hand can check, and claims that the intervals allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paribus.report import build, figures, summary
from paribus.report.blocks import Page, Table
from paribus.report.interactions import contrasts
from paribus.report.message import say
from paribus.report.page import page
from paribus.report.results import pairs, scores
from paribus.stats import crossed, difference, holm, interaction, simple_effect
from paribus.store import CellRow, DifferenceRow, FactorRow, read_experiment
from reading import said

NOISE = FactorRow(name="noise", levels=("0", "0.3"), changes={"0": {"reward.flip": 0.0}, "0.3": {"reward.flip": 0.3}})
RUNS = {
    "ppo.0": {0: "11110000", 1: "11100000", 2: "11111000"},
    "ppo.0.3": {0: "11100000", 1: "11000000", 2: "11110000"},
    "grpo.0": {0: "11110100", 1: "11000000", 2: "11101100"},
    "grpo.0.3": {0: "00000100", 1: "10000000", 2: "01100000"},
}


@pytest.fixture(autouse=True)
def no_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what takes seconds and has tests of its own."""
    monkeypatch.setattr(figures, "_svg", lambda *_: "<svg></svg>")
    monkeypatch.setattr(figures, "_png", lambda *_: b"")


def cells(arms: Sequence[str], levels: Sequence[Sequence[str]]) -> list[CellRow]:
    return [CellRow(arm=".".join([a, *at]), of=a, levels=tuple(at)) for a in arms for at in levels]


def crossed_experiment(write: Any, runs: Mapping[str, Mapping[int, str]] = RUNS, **info: Any) -> Path:
    fields = {"factors": (NOISE,), "cells": cells(["ppo", "grpo"], [["0"], ["0.3"]])}
    base = "0" * max(len(p) for found in runs.values() for p in found.values())
    return write(runs, base, **{**fields, **info})


def content(folder: Path) -> Page:
    return page(read_experiment(folder), 1.5)


def sentences(found: Page) -> list[str]:
    return said(found.verdict)


def tables(found: Page, section: str = "Interactions") -> list[Table]:
    found_tables = [b for s in found.sections if say(s.title) == section for b in s.blocks if b.kind == "table"]
    return [replace(t, columns=said(t.columns), rows=[said(row) for row in t.rows]) for t in found_tables]


def table(name: str) -> np.ndarray:
    return np.array([[float(c) for c in pattern] for pattern in RUNS[name].values()])


def test_the_section_by_hand(write: Any) -> None:
    """GRPO falls from 12 to 4 of 24 answers, PPO from 12 to 9: (4 - 9) - (12 - 12) = -5 of 24."""
    levels, accuracy, differences, simple = tables(content(crossed_experiment(write)))
    assert levels.rows == [["noise", "0", "reward.flip = 0.0"], ["noise", "0.3", "reward.flip = 0.3"]]
    own = crossed(table("ppo.0.3"))
    assert accuracy.rows[0][2] == f"37.50 % ({100 * own.low:.2f} to {100 * own.high:.2f})".replace("-", "−")
    assert [[cell.split(" (")[0] for cell in row] for row in accuracy.rows] == [
        ["ppo", "50.00 %", "37.50 %"],
        ["grpo", "50.00 %", "16.67 %"],
    ]
    assert differences.rows[0][:4] == ["noise", "grpo − ppo", "0.3 − 0", "−20.83"]
    assert [row[:4] for row in simple.rows] == [
        ["noise", "ppo", "0.3 − 0", "−12.50"],
        ["noise", "grpo", "0.3 − 0", "−33.33"],
    ]


def test_the_intervals_are_those_of_the_statistics(write: Any) -> None:
    stored = read_experiment(crossed_experiment(write))
    (found,) = contrasts(stored.info, scores(stored, "test"))
    assert found.interval == interaction(table("grpo.0.3"), table("ppo.0.3"), table("grpo.0"), table("ppo.0"))
    assert found.seeds == [0, 1, 2] and sum(found.runs) / 3 == pytest.approx(found.interval.estimate)


def test_an_interaction_that_is_not_shown_is_not_denied(write: Any) -> None:
    folder = crossed_experiment(write)
    found = content(folder)
    got = interaction(table("grpo.0.3"), table("ppo.0.3"), table("grpo.0"), table("ppo.0"))
    assert got.low < 0 < got.high
    first = sentences(found)[0]
    assert first.startswith("No interaction with noise shown: from 0 to 0.3, grpo minus ppo moves by −20.83 points")
    assert f"up to {-100 * got.low:.1f} points is compatible" in first and "3 seeds and 8 problems" in first
    assert not any(word in " ".join(sentences(found)).lower() for word in ("equal", "equivalent", "identical"))
    assert summary(folder)[-len(found.verdict) :] == sentences(found)


def test_an_interaction_that_is_shown_is_named(write: Any) -> None:
    high, low = "1" * 38 + "00", "1" * 4 + "0" * 36
    runs = {name: dict.fromkeys(range(3), low if name == "grpo.0.3" else high) for name in RUNS}
    first = sentences(content(crossed_experiment(write, runs)))[0]
    assert first.startswith("Interaction with noise shown: from 0 to 0.3, grpo minus ppo moves by −85.00 points")


def test_no_spread_at_all_says_nothing(write: Any) -> None:
    """Runs that answer alike leave an interval without width, which must not pass for certainty."""
    found = content(crossed_experiment(write, dict.fromkeys(RUNS, RUNS["ppo.0"])))
    assert sentences(found)[0].startswith("Nothing can be said of an interaction with noise")


def test_one_seed_speaks_of_checkpoints(write: Any) -> None:
    runs = {name: {0: found[0]} for name, found in RUNS.items()}
    found = content(crossed_experiment(write, runs, seeds=[0]))
    assert "one run a cell" in sentences(found)[0] and "not of the algorithms" in sentences(found)[0]
    assert tables(found)[2].rows[0][-1] == "t over problems, one run a cell, 1 seed"


def test_only_seeds_that_every_cell_finished_count_and_a_missing_cell_is_a_dash(write: Any) -> None:
    runs = {**RUNS, "ppo.0": {1: "11100000", 2: "11111000"}}
    stored = read_experiment(crossed_experiment(write, runs))
    (found,) = contrasts(stored.info, scores(stored, "test"))
    assert found.seeds == [1, 2]
    found = content(crossed_experiment(write, {**RUNS, "grpo.0.3": {}}, name="gap"))
    assert tables(found)[2].rows == [["noise", "grpo − ppo", "0.3 − 0", "–", "–", "no common finished seed"]]
    assert tables(found)[1].rows[1][2] == "–" and not any("nteraction" in text for text in sentences(found))


def test_arms_are_compared_at_the_same_levels_and_the_levels_of_intervals_follow(write: Any) -> None:
    stored = read_experiment(crossed_experiment(write))
    assert pairs(stored.info.arms, stored.info.cells) == [("grpo.0", "ppo.0"), ("grpo.0.3", "ppo.0.3")]
    found = next(t for t in tables(content(stored.paths.root), "Accuracy") if t.name == "differences")
    s = scores(stored, "test")
    raw = [difference(s.table[f"grpo.{at}"], s.table[f"ppo.{at}"]).p() for at in ("0", "0.3")]
    assert [row[0] for row in found.rows] == ["grpo.0 − ppo.0", "grpo.0.3 − ppo.0.3"]
    assert [row[4] for row in found.rows] == [f"{p:.3f}" for p in holm(raw)]
    costs = next(t for t in tables(content(stored.paths.root), "Cost") if t.name == "cost")
    assert costs.columns[5:] == [
        "grpo.0 relative to ppo.0",
        "grpo.0.3 relative to ppo.0.3",
    ]


def test_levels_are_means_over_the_other_factors(write: Any) -> None:
    heat = FactorRow(name="heat", levels=("cold", "hot"), changes={"cold": {}, "hot": {"rollout.temperature": 2.0}})
    rng = np.random.default_rng(0)
    crossing = [["0", "cold"], ["0", "hot"], ["0.3", "cold"], ["0.3", "hot"]]
    every = cells(["ppo", "grpo"], crossing)
    runs = {c.arm: {s: "".join(map(str, rng.integers(0, 2, 8))) for s in range(2)} for c in every}
    folder = crossed_experiment(write, runs, factors=(NOISE, heat), cells=every, seeds=[0, 1])
    stored = read_experiment(folder)
    s = scores(stored, "test")
    found = contrasts(stored.info, s)
    assert [(c.factor, c.high, c.low) for c in found] == [("noise", "0.3", "0"), ("heat", "hot", "cold")]

    def hot(arm: str, heat: str) -> np.ndarray:
        return (s.table[f"{arm}.0.{heat}"] + s.table[f"{arm}.0.3.{heat}"]) / 2

    assert found[1].interval == interaction(
        hot("grpo", "hot"), hot("ppo", "hot"), hot("grpo", "cold"), hot("ppo", "cold"), 0.975
    )
    simple = tables(content(folder))[-1].rows[-1]
    own = simple_effect(hot("grpo", "hot"), hot("grpo", "cold"))
    assert simple[:3] == ["heat", "grpo", "hot − cold"] and simple[3] == f"{100 * own.estimate:+.2f}".replace("-", "−")


def test_differences_of_arms_and_of_levels_stand_apart(write: Any) -> None:
    rows = [
        DifferenceRow(path="advantage.type", values={n: n.split(".")[0] for n in RUNS}, declared=True),
        DifferenceRow(path="setting.reward.flip", values={n: float(n.split(".", 1)[1]) for n in RUNS}, declared=True),
    ]
    arms, levels = tables(content(crossed_experiment(write, differences=rows)), "What differs between the arms")
    assert arms.columns == ["setting", "ppo", "grpo", "status"]
    assert arms.rows == [["advantage.type", "ppo", "grpo", "declared"]]
    assert levels.rows == [["setting.reward.flip", "0", "0.3", "0", "0.3", "declared"]]


def test_the_same_runs_give_the_same_bytes_and_without_factors_there_is_no_section(write: Any, tmp_path: Path) -> None:
    folder = crossed_experiment(write)
    one, two = (build(folder, tmp_path / name).parent for name in ("one", "two"))
    for name in ("report.md", "report.html", "figures/interactions.svg"):
        assert (one / name).read_bytes() == (two / name).read_bytes()
    assert "## Interactions" in (one / "report.md").read_text(encoding="utf-8")
    plain = content(write({"ppo": RUNS["ppo.0"], "grpo": RUNS["grpo.0"]}, name="plain"))
    assert "Interactions" not in [say(section.title) for section in plain.sections]
