"""What every learner promises to the loop, on the fake and on a real one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from paribus.batch import Batch, Loss, Rollout, Scores, Signal, Totals
from paribus.engines.learner import TorchLearner
from paribus.engines.local import LocalSampler
from paribus.engines.protocols import Learner, SamplingPlan
from paribus.engines.scripted import ScriptedLearner
from paribus.settings import MachineSpec, OptimSpec, RolloutSpec
from paribus.types import Key
from toymodels import llama, loaded, prompts


class Likelihood:
    """The mean log-prob of the trained tokens, and nothing of the critic but that it follows."""

    critic, entropy = SimpleNamespace(lr=1e-3, shared=False, warmup=0, head_std=0.1), 0.0
    topk, only_advantage = 0, False

    def loss(self, scores: Scores, batch: Batch, signal: Signal, total: Totals) -> Loss:
        x = scores.logp if scores.logp is not None else scores.values
        assert x is not None
        return Loss(-torch.where(batch.mask, x, 0.0).sum() / total.tokens, {})


def real() -> TorchLearner:
    return TorchLearner(
        loaded(llama()),
        optim=OptimSpec(lr=1e-3),
        rollout=RolloutSpec(prompts_per_step=2, samples_per_prompt=2, max_response=6),
        machine=MachineSpec(),
        key=Key(0, "critic"),
        critic=Likelihood.critic,
        needs_reference=True,
    )


@pytest.fixture(params=[real, ScriptedLearner], ids=["torch", "scripted"])
def make(request: pytest.FixtureRequest) -> Callable[[], Learner]:
    return request.param


def rollout() -> Rollout:
    plan = SamplingPlan(samples=2, max_tokens=6)
    return LocalSampler(loaded(llama())).sample(prompts([3, 5]), plan, Key(0, "sample"))


def test_scores_stand_where_tokens_were_sampled(make: Callable[[], Learner]) -> None:
    learner, rolled = make(), rollout()
    for of in ("policy", "reference"):
        assert torch.equal(learner.logp(rolled, of=of) < 0, rolled.mask)  # type: ignore[arg-type]
    assert (learner.values(rolled)[~rolled.mask] == 0).all()
    values, final = learner.values_and_final(rolled)
    assert (values[~rolled.mask] == 0).all() and final.shape == rolled.length.shape
    assert learner.weights() is None
    logp, entropy = learner.logp_and_entropy(rolled)
    assert torch.equal(logp, learner.logp(rolled))
    assert torch.equal(entropy > 0, rolled.mask) and (entropy[~rolled.mask] == 0).all()


def test_an_update_is_counted_and_restored(make: Callable[[], Learner], tmp_path: Path) -> None:
    learner, rolled = make(), rollout()
    zeros = torch.zeros(rolled.mask.shape)
    batch = Batch(rollout=rolled, score=zeros[:, 0], reward=zeros, mask=rolled.mask)
    stats = learner.update(batch, Signal(zeros), Likelihood(), Key(0, "shuffle", step=4))
    assert stats["updates"].row()["sum"] == 1
    learner.save(tmp_path)
    other = make()
    other.restore(tmp_path)
    assert torch.equal(other.logp(rolled), learner.logp(rolled))
    assert torch.equal(other.values(rolled), learner.values(rolled))
