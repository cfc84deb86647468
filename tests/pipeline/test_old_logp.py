"""Where old log-probs come from: the only update, the sampler where a probe proves it, a pass; exact at the start."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from fakeruns import rows, sampler, session, setting
from paribus import part
from paribus.algorithms import CATALOG, PolicyGradient, find
from paribus.batch import Rollout
from paribus.engines.scripted import LOGP, ScriptedLearner
from paribus.pipeline.train import train
from paribus.store import RunPaths
from tinyruns import experiment, run, steps, write_materials

ARMS = {"ppo": {"base": "verl_05_ppo"}, "grpo": {"base": "verl_05_grpo"}, "in_reward": {"base": "ppo"}}
SHAPES: dict[str, dict[str, Any]] = {
    "one": {},
    "one_passed": {"machine": {"old_gap": None}},
    "several": {"optim": {"epochs": 2}, "machine": {"micro_tokens": 40}},
    "several_passed": {"optim": {"epochs": 2}, "machine": {"micro_tokens": 40, "old_gap": None}},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, str], RunPaths]:
    folder = tmp_path_factory.mktemp("old")
    write_materials(folder)
    found = {}
    for shape, tables in SHAPES.items():
        exp = experiment(folder, ARMS, **tables)
        found |= {(shape, arm): run(exp, arm, folder / shape) for arm in ARMS}
    return found


def phases(paths: RunPaths) -> set[str]:
    return {name for line in paths.timing.read_text().splitlines() for name in json.loads(line)["seconds"]}


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_step_starts_on_policy_and_the_first_at_the_reference(
    shape: str, arm: str, runs: Mapping[tuple[str, str], RunPaths]
) -> None:
    found = [row["stats"] for row in steps(runs[shape, arm])]
    assert found[0]["reference_gap"]["max"] == 0.0 and found[1]["reference_gap"]["max"] > 1e-3
    assert all(row["first_ratio_deviation"]["max"] < 1e-4 for row in found)
    if shape == "one" and arm != "in_reward":
        assert all(row["ratio_deviation"]["max"] == 0.0 for row in found)


def test_a_pass_is_made_only_where_something_asks_for_it(runs: Mapping[tuple[str, str], RunPaths]) -> None:
    """KL in the reward is taken before any update; several updates ask for a probe at the least."""
    passed = {key for key, paths in runs.items() if "old_logp" in phases(paths)}
    assert passed == set(runs) - {("one", "ppo"), ("one", "grpo")}
    for (shape, arm), paths in runs.items():
        probed = shape == "several" and arm != "in_reward"
        for row in steps(paths):
            assert ("old_from_sampler" in row["stats"]) == ("old_gap" in row["stats"]) == probed
            if probed:
                assert row["stats"]["old_from_sampler"] == {"sum": 1.0, "count": 1.0}
                assert 0 < row["stats"]["old_gap"]["max"] < 1e-4


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize(("spared", "passed"), [("one", "one_passed"), ("several", "several_passed")])
def test_a_spared_pass_leaves_the_run_as_it_was(
    spared: str, passed: str, arm: str, runs: Mapping[tuple[str, str], RunPaths]
) -> None:
    """Up to rounding: of Adam's first updates, whose size hardly depends on the gradient's, a small share turns."""
    ends = [load_file(runs[shape, arm].final / "model.safetensors") for shape in (spared, passed)]
    gap = torch.cat([(ends[0][k] - ends[1][k]).abs().flatten() for k in ends[0]])
    assert gap.median() < 1e-5 and (gap > 1e-3).double().mean() < 0.02
    losses = [steps(runs[s, arm])[0]["stats"]["policy_loss"]["sum"] for s in (spared, passed)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


class Far(ScriptedLearner):
    """A learner whose log-probs are not the sampler's, and which remembers how many rows it was asked about."""

    def __init__(self, by: float) -> None:
        super().__init__()
        self.by, self.asked = by, list[int]()

    def logp(self, rollout: Rollout, *, of: Any = "policy") -> torch.Tensor:
        self.asked.append(rollout.rows)
        return torch.where(rollout.mask, LOGP + self.by, 0.0)


@pytest.mark.parametrize(("by", "believed"), [(5e-5, True), (2e-4, False)])
def test_a_sampler_is_believed_within_the_declared_gap(by: float, believed: bool, tmp_path: Path) -> None:
    spec = setting(optim={"lr": 1e-3, "epochs": 2}, machine={"micro_tokens": 10})
    learner = Far(by)
    one = session(tmp_path, spec, learner)
    taken = one.source.next(one, 0)
    # a pass of all twelve rows, but for the probe of one forward
    assert learner.asked[0] < 12 and learner.asked[1:] == ([] if believed else [12])
    assert taken.stats["old_from_sampler"].value == believed and taken.stats["old_gap"].value == pytest.approx(by, 1e-2)
    assert taken.batch.old_logp is not None
    trained = taken.batch.old_logp[taken.batch.mask]
    assert (trained - (LOGP if believed else LOGP + by)).abs().max() < 1e-7


def old_source(name: str, updates: int = 4, gap: float | None = 1e-4, **changes: Any) -> str:
    algorithm = part.replace(CATALOG[name], **changes)
    assert isinstance(algorithm, PolicyGradient)
    return algorithm.old_source(updates, gap)


def test_who_is_asked_for_old_log_probs() -> None:
    assert old_source("grpo") == "probe" and old_source("grpo", updates=1) == "update"
    assert old_source("grpo", gap=None) == old_source("grpo", updates=1, gap=None) == "pass"
    assert old_source("grpo", gap=0) == "pass" and old_source("grpo", updates=1, gap=0) == "update"
    # shaped by them, or selected by the entropies of the same pass
    assert old_source("ppo") == old_source("ppo", updates=1) == "pass"
    assert old_source("grpo", updates=1, select={"type": "top_entropy"}) == "pass"
    # the weights that correct a mismatch would all be 1
    corrected = {"correction": {"type": "truncated_token"}}
    assert old_source("grpo", **corrected) == "pass" and old_source("grpo", updates=1, **corrected) == "update"
    # declared to be the sampler's, or not needed
    assert old_source("grpo", old="sampler") == old_source("reinforce") == "sampler"


def test_entropies_of_a_step_are_the_sampler_s_over_all_that_it_sampled(tmp_path: Path) -> None:
    inner = sampler(7)

    class Telling:
        def sample(self, *args: Any, **kwargs: Any) -> Rollout:
            rollout = inner.sample(*args, **kwargs)
            return replace(rollout, entropy=torch.where(rollout.mask, 0.25, 0.0))

        def load(self, *args: Any, **kwargs: Any) -> None:
            inner.load(*args, **kwargs)

    for name, samples in (("told", Telling()), ("untold", inner)):
        one = session(tmp_path / name, setting(budget={"steps": 2}), algorithm=find("dapo"), samples=samples)
        train(one)
        for row in rows(one):
            assert ("entropy" in row["stats"]) == (name == "told")
            if name == "told":
                found, tokens = row["stats"]["entropy"], row["stats"]["response_tokens"]["sum"]
                # refills and groups that do not train included
                assert found == {"sum": pytest.approx(0.25 * tokens), "count": tokens}
