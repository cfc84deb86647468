"""Give a rollout everything its algorithm needs, and no more: rewards, old and reference log-probs, values."""

from __future__ import annotations

from paribus.algorithms import Memory, Need, PolicyGradient
from paribus.batch import Batch, Max, Rollout, Stats
from paribus.engines.protocols import Learner
from paribus.lazy import torch
from paribus.pipeline.clock import Clock


def prepare(
    algorithm: PolicyGradient,
    rollout: Rollout,
    score: torch.Tensor,
    learner: Learner,
    horizon: int,
    memory: Memory,
    clock: Clock,
) -> Batch:
    """Return the batch of a step; a row without a score trains nothing and enters no statistic."""
    needs = algorithm.needs
    with clock("old_logp"):
        from_learner = Need.OLD in needs and algorithm.old == "learner"
        old = learner.logp(rollout, of="policy") if from_learner else rollout.sampled_logp
    ref = values = final = None
    if Need.REFERENCE in needs:
        with clock("ref_logp"):
            ref = learner.logp(rollout, of="reference")
    if Need.VALUES in needs:
        with clock("values"):
            values = learner.values(rollout)
            final = learner.final_values(rollout) if Need.FINAL_VALUE in needs else None
    batch = Batch(
        rollout=rollout,
        score=score.to(rollout.tokens.device),
        reward=torch.zeros(rollout.mask.shape),
        mask=rollout.mask,
        old_logp=old,
        ref_logp=ref,
        values=values,
        final_value=final,
    )
    return algorithm.shape(batch, horizon, memory)


def start_stats(batch: Batch) -> Stats:
    """Return how far the policy that starts this step is from the reference: exactly 0 at the first step."""
    if batch.ref_logp is None or batch.old_logp is None:
        return {}
    gap = torch.where(batch.rollout.mask, (batch.old_logp - batch.ref_logp).abs(), 0.0)
    return {"reference_gap": Max(gap.max())}
