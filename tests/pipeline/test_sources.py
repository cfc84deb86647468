"""Where rows come from: own data is the starting policy's, whatever has been learnt; it is charged and recorded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from fakeruns import rows, session, setting
from paribus.algorithms import find
from paribus.pipeline.train import train
from paribus.store import RolloutRow, RunPaths
from paribus.store.files import read_rows
from paribus.tasks import Answer, Item
from paribus.types import Verdict
from tinyruns import experiment, run, steps, write_materials

ARMS = {
    "slow": {"base": "dpo", "differs": {"optim": {"lr": 1e-4}}},
    "fast": {"base": "dpo", "differs": {"optim": {"lr": 3e-2}}},
    "sft": {"base": "sft"},
    "grpo": {"base": "grpo"},
    "now": {"base": "online_dpo", "differs": {"optim": {"lr": 3e-2}}},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunPaths]:
    folder = tmp_path_factory.mktemp("sources")
    write_materials(folder)
    exp = experiment(folder, ARMS, budget={"steps": 3})
    return {arm: run(exp, arm, folder / "runs") for arm in ARMS}


def drawn(paths: RunPaths, step: int) -> list[tuple[str, int, str, float | None, object]]:
    stored = read_rows(paths.rollouts(step), RolloutRow)
    assert len(stored) == 8
    return [(r.problem_id, r.sample, r.response, r.score, r.parts["reward/noisy"]) for r in stored]


def test_own_data_is_the_starting_policy_s_whatever_has_been_learnt(runs: dict[str, RunPaths]) -> None:
    weights = [load_file(runs[arm].final / "model.safetensors") for arm in ("slow", "fast", "sft")]
    assert all(any(not torch.equal(weights[0][k], other[k]) for k in other) for other in weights[1:])
    for step in (1, 2, 3):
        assert drawn(runs["slow"], step) == drawn(runs["fast"], step) == drawn(runs["sft"], step)
    # the online arms begin with the very same rows, and then go ways of their own
    assert drawn(runs["slow"], 1) == drawn(runs["grpo"], 1) == drawn(runs["now"], 1)
    assert drawn(runs["fast"], 3) != drawn(runs["now"], 3)


def test_own_data_is_charged_as_sampled(runs: dict[str, RunPaths]) -> None:
    for arm in ("slow", "sft", "grpo"):
        assert [row["samples"] for row in steps(runs[arm])] == [8, 16, 24]
    assert [r["tokens"] for r in steps(runs["slow"])] == [r["tokens"] for r in steps(runs["fast"])]


def test_what_was_sampled_for_data_is_stored_with_its_rewards_and_without_credit(runs: dict[str, RunPaths]) -> None:
    for arm in ("slow", "sft"):
        for row in read_rows(runs[arm].rollouts(1), RolloutRow):
            assert row.advantage is None and row.score == 0.0  # the toy model is never right
            assert set(row.parts) == {"reward/noisy", "reward/noisy.clean"} and row.parts["reward/noisy"] in (0.0, 1.0)
    online = read_rows(runs["grpo"].rollouts(1), RolloutRow)
    assert all(r.advantage is not None and r.parts["outcome_at_end"] == r.parts["reward/noisy"] for r in online)


class Lost(Answer):
    """A grader that always fails."""

    def grade_many(self, items: Sequence[Item]) -> list[Verdict]:
        return [Verdict(score=0.0, answer=None, status="error") for _ in items]


@pytest.mark.parametrize("name", ["dpo", "kto", "sft"])
def test_a_step_without_any_row_goes_on(name: str, tmp_path: Path) -> None:
    """A broken grader may lose every row of a step within its limit: no pair, no label, nothing to measure."""
    spec = setting(limit={"grader_errors": 1.0}, budget={"steps": 2})
    run = session(tmp_path, spec, algorithm=find(name))
    run.grader = Lost()
    train(run)
    assert [r["stats"]["score"]["count"] for r in rows(run)] == [0, 0]
