"""A learner on toy models, an objective of its own, and graded rows for tests of the update."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from paribus.batch import Batch, Loss, Mean, Rollout, Scores, Signal, Totals
from paribus.engines.learner import TorchLearner
from paribus.engines.local import LocalSampler
from paribus.engines.protocols import SamplingPlan
from paribus.settings import MachineSpec, OptimSpec, RolloutSpec
from paribus.tensors import keep
from paribus.types import Key
from toymodels import loaded, prompts

KEY = Key(3, "shuffle", step=0)


@dataclass(frozen=True)
class CriticPart:
    lr: float = 1e-2
    shared: bool = False
    warmup: int = 0
    head_std: float | None = 0.1


@dataclass(frozen=True)
class TokenMeanObjective:
    """Importance-weighted policy gradient and squared value error, both means over the update's tokens."""

    critic: CriticPart | None = None
    entropy: float = 0.0
    topk: int = 0

    @property
    def only_advantage(self) -> bool:
        return not self.entropy and not (self.critic is not None and self.critic.shared)

    def loss(self, scores: Scores, batch: Batch, signal: Signal, total: Totals) -> Loss:
        value, stats = torch.zeros(()), {}
        if scores.logp is not None:
            assert batch.old_logp is not None
            ratio = torch.exp(keep(scores.logp - batch.old_logp, batch.mask))
            value = value - keep(ratio * signal.advantage, batch.mask).sum() / total.tokens
            if self.entropy:
                assert scores.entropy is not None
                value = value - self.entropy * keep(scores.entropy, batch.mask).sum() / total.tokens
            stats["tokens"] = Mean(float(batch.mask.sum()), 1.0)
        if scores.values is not None:
            assert signal.target is not None
            error = keep(scores.values - signal.target, batch.mask)
            value = value + 0.5 * error.square().sum() / total.tokens
            stats["value_tokens"] = Mean(float(batch.mask.sum()), 1.0)
        return Loss(value, stats)


def make(model: Any, critic: CriticPart | None = None, *, micro: int = 10_000, **optim: Any) -> TorchLearner:
    return TorchLearner(
        loaded(model),
        optim=OptimSpec(**({"lr": 1e-2} | optim)),
        rollout=RolloutSpec(prompts_per_step=5, samples_per_prompt=3, max_response=12),
        machine=MachineSpec(micro_tokens=micro),
        key=Key(3, "critic"),
        critic=critic,
        total_steps=20,
    )


def roll(model: Any, step: int = 0) -> Rollout:
    plan = SamplingPlan(samples=3, max_tokens=12)
    return LocalSampler(loaded(model)).sample(prompts([3, 9, 1, 7, 7]), plan, Key(7, "sample", step=step))


def graded(rollout: Rollout, learner: TorchLearner) -> tuple[Batch, Signal]:
    """A batch with row 4 unscored (masked as a whole), and junk outside the mask."""
    mask = rollout.mask.clone()
    mask[4] = False
    torch.manual_seed(5)
    advantage, target = torch.randn(mask.shape), torch.randn(mask.shape)
    old = torch.where(mask, learner.logp(rollout), torch.nan)
    junk = torch.where(rollout.mask | (torch.arange(mask.shape[1]) < rollout.length[:, None]), rollout.tokens, 55)
    batch = Batch(
        rollout=replace(rollout, tokens=junk),
        score=torch.zeros(rollout.rows),
        reward=torch.zeros(mask.shape),
        mask=mask,
        old_logp=old,
    )
    return batch, Signal(torch.where(mask, advantage, torch.nan), torch.where(mask, target, torch.nan))


def weights(learner: TorchLearner) -> list[torch.Tensor]:
    critic = [] if learner.critic is None else list(learner.critic.parameters())
    return [p.detach().clone() for p in [*learner.model.parameters(), *critic]]


def moved(learner: TorchLearner, before: list[torch.Tensor]) -> list[bool]:
    return [not torch.equal(a, b) for a, b in zip(weights(learner), before, strict=True)]
