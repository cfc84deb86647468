"""Planned against measured, with numbers that a hand can check."""

from __future__ import annotations

import json
from typing import Any

from paribus.report.planned import above_idle, planned
from paribus.report.results import primary
from paribus.store import StoredRun, TimingRow, read_experiment
from paribus.store.plan import ArmPlan, PlanInfo, PowerRow, SpreadRow
from reading import rows, tables

RUNS = {"ppo": {0: "11110000", 1: "11100000"}, "grpo": {0: "11110100", 1: "11000000"}}
POWER = PowerRow(seed=0.015, detectable=0.04, seeds_for={}, margin=None, equivalence=None, seeds_equivalent=None)


def plan(device: str = "cpu", **arm: Any) -> PlanInfo:
    return PlanInfo(
        model="made up",
        device=device,
        arms=(ArmPlan.model_validate({"arm": "ppo", **arm}),),
        seeds=2,
        problems=8,
        pairs=1,
        spread=SpreadRow(seed=0.015, item=0.1, residual=0.4, source="usual"),
        power=(POWER,),
        declared_margin=None,
        checks=(),
    )


def idle(run: StoredRun, size: int | None) -> None:
    data = json.loads(run.paths.run.read_bytes())
    data["attempts"][-1]["idle_rss"] = size
    run.paths.run.write_text(json.dumps(data))


def test_planned_against_measured_by_hand(write: Any) -> None:
    """A PPO run takes 40 s and 3,600 tokens; its critic update peaks at 0.64 GB of a process of 0.2 GB."""
    folder = write(RUNS, seeds=[0, 1])
    for run in read_experiment(folder).runs["ppo"].values():
        idle(run, 200_000_000)
    exp = read_experiment(folder)
    stored = plan(
        memory={"policy weights": 10**8, "logits": 3 * 10**8}, at_peak={"policy weights": 10**8, "logits": 2 * 10**8},
        phases={"rollout": 300_000_000, "critic_update": 400_000_000}, peak=400_000_000, peak_phase="critic_update",
        tokens=7200, seconds=50.0, seconds_low=45.0, seconds_high=55.0, dollars=0.02,
    )  # fmt: skip
    found = tables(planned(exp, primary(exp), stored, 1.5))
    assert rows(found["planned"]) == [
        ["ppo", "peak of memory, critic update", "0.40 GB", "0.44 GB", "+10.0 %"],
        ["", "tokens of a run", "7,200", "3,600", "−50.0 %"],
        ["", "training of a run", "50.0 s, 45.0 s to 55.0 s", "40.0 s", "−20.0 %"],
        ["", "money for a run", "$0.020", "$0.017", "−16.7 %"],
    ]
    assert rows(found["planned-phases"]) == [
        ["rollout", "0.30 GB", "0.34 GB"],
        ["critic update", "0.40 GB", "0.44 GB"],
    ]
    assert rows(found["planned-memory"]) == [
        ["policy weights", "0.10 GB", "0.10 GB"],
        ["logits", "0.30 GB", "0.20 GB"],
        ["all", "", "0.30 GB"],
    ]
    assert [row[1] for row in rows(found["planned-power"])] == ["1.50", "10.00", "40.00", "4.00"]


def test_what_was_not_planned_or_not_stored_is_not_compared(write: Any) -> None:
    exp = read_experiment(write(RUNS, seeds=[0, 1]))
    s = primary(exp)
    assert planned(exp, s, None, 1.5) == [] and above_idle(exp.runs["ppo"], "cpu") == {}
    found = tables(planned(exp, s, plan(peak=10**9), 1.5))
    assert rows(found["planned"]) == [["ppo", "peak of memory, whole run", "1.00 GB", "–", "–"]]
    assert found.keys() == {"planned", "planned-power"}


def test_on_a_device_the_allocator_is_measured(write: Any) -> None:
    exp = read_experiment(write(RUNS, seeds=[0, 1]))
    run = exp.runs["ppo"][1]
    row = TimingRow(step=1, seconds={"rollout": 1.0}, allocated_peak={"rollout": 3 * 10**9})
    run.paths.timing.write_text(row.model_dump_json() + "\n" + run.paths.timing.read_text())
    assert above_idle(read_experiment(exp.paths.root).runs["ppo"], "cuda") == {"rollout": 3 * 10**9}
