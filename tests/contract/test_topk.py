"""Top-k log-probs: those of the model, by sampler and learner alike, and nothing else changed by asking for them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch

from paribus.batch import Batch, Loss, Rollout, Scores, Signal, Totals
from paribus.engines.learner import TorchLearner
from paribus.engines.local import LocalSampler
from paribus.engines.protocols import SamplingPlan
from paribus.engines.scripted import ScriptedSampler
from paribus.errors import ConfigError
from paribus.settings import MachineSpec, OptimSpec, RolloutSpec
from paribus.tensors import keep
from paribus.types import Key
from toymodels import EOS, FAMILIES, VOCABULARY, llama, loaded, prompts

PROMPTS = prompts([3, 9, 1, 7, 7])
KEY = Key(7, "sample", step=2)
PLAN = SamplingPlan(samples=3, max_tokens=12, temperature=0.7, topk=4)


@dataclass
class Seen:
    """A policy gradient that keeps the top-k log-probs which it was shown."""

    critic = None
    entropy: float = 0.01
    topk: int = 4
    only_advantage: bool = False
    shown: list[tuple[Batch, Scores]] = field(default_factory=list)

    def loss(self, scores: Scores, batch: Batch, signal: Signal, total: Totals) -> Loss:
        assert scores.logp is not None and scores.entropy is not None
        self.shown.append((batch, scores))
        x = scores.logp * signal.advantage + self.entropy * scores.entropy
        return Loss(-keep(x, batch.mask).sum() / total.tokens, {})


def roll(model: Any, plan: SamplingPlan = PLAN) -> Rollout:
    return LocalSampler(loaded(model), decode_rows=4).sample(PROMPTS, plan, KEY)


def update(model: Any, rollout: Rollout, objective: Seen, micro: int) -> float:
    """The gradient norm of one update from the model's present weights, which stay as they are."""
    learner = TorchLearner(
        loaded(model),
        optim=OptimSpec(lr=1e-30, clip_norm=None),
        rollout=RolloutSpec(prompts_per_step=5, samples_per_prompt=3, max_response=12, temperature=0.7),
        machine=MachineSpec(micro_tokens=micro),
        key=Key(0, "critic"),
    )
    advantage = torch.randn(rollout.mask.shape, generator=torch.Generator().manual_seed(5))
    batch = Batch(rollout=rollout, score=advantage[:, 0], reward=advantage, mask=rollout.mask)
    norm = learner.update(batch, Signal(advantage), objective, Key(3, "update"))["grad_norm"].value
    assert norm is not None
    return norm


@pytest.mark.parametrize("family", FAMILIES)
def test_the_sampler_lists_the_likeliest_tokens(family: str) -> None:
    """Against the model's own logits, scaled by the temperature, over the whole vocabulary; drawn as without asking."""
    model = FAMILIES[family]()
    rollout, plain = roll(model), roll(model, replace(PLAN, topk=0))
    assert torch.equal(rollout.tokens, plain.tokens) and torch.equal(rollout.sampled_logp, plain.sampled_logp)
    assert plain.topk is None and rollout.topk is not None
    with torch.no_grad():
        logp = (model(rollout.tokens).logits[:, :-1] / 0.7).log_softmax(-1)
    expected = logp.topk(4)
    at = rollout.mask[:, 1:]
    assert torch.equal(rollout.topk.ids[:, 1:][at], expected.indices[at])
    assert (rollout.topk.logp[:, 1:][at] - expected.values[at]).abs().max() < 1e-4
    assert (rollout.topk.ids[~rollout.mask] == 0).all() and (rollout.topk.logp[~rollout.mask] == 0).all()


@pytest.mark.parametrize("logits_at_once", [1 << 25, VOCABULARY * 7], ids=["one chunk", "chunks of 7"])
@pytest.mark.parametrize("micro", [1, 60, 10_000])
def test_the_learner_scores_the_same_tokens(micro: int, logits_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first update they are the sampler's; detached, and the gradient is that without them."""
    monkeypatch.setattr("paribus.engines.scoring.LOGITS_AT_ONCE", logits_at_once)
    model = llama()
    rollout, objective, without = roll(model), Seen(), Seen(topk=0)
    norm = update(model, rollout, objective, micro)
    for batch, scores in objective.shown:
        assert scores.topk_logp is not None and not scores.topk_logp.requires_grad
        assert batch.rollout.topk is not None
        assert (scores.topk_logp - batch.rollout.topk.logp).abs().max() < 1e-4
        drawn = batch.rollout.topk.ids == batch.rollout.tokens[..., None]
        same = (scores.topk_logp * drawn).sum(2) - scores.logp.detach() * drawn.any(2)  # type: ignore[union-attr]
        assert (same[batch.mask] == 0).all()
    assert sum(int(batch.mask.sum()) for batch, _ in objective.shown) == int(rollout.mask.sum())
    assert update(model, rollout, without, micro) == norm
    assert all(scores.topk_logp is None for _, scores in without.shown)


def test_the_whole_vocabulary_is_a_distribution() -> None:
    rollout = roll(llama(), replace(PLAN, topk=VOCABULARY))
    assert rollout.topk is not None
    assert (rollout.topk.logp[rollout.mask].logsumexp(-1).abs() < 1e-5).all()


def test_what_cannot_be_listed_is_refused() -> None:
    with pytest.raises(ConfigError, match="top-k of 62 tokens exceeds the model's vocabulary of 61"):
        roll(llama(), replace(PLAN, topk=62))
    scripted = ScriptedSampler({p.problem_id: [((5, EOS), "b")] for p in PROMPTS}, (EOS,))
    for plan in (replace(PLAN, topk=2), replace(PLAN, topk=0, mix_rate=0.1, mix_neighbours=2)):
        with pytest.raises(ConfigError, match="has no model"):
            scripted.sample(PROMPTS, plan, KEY)
