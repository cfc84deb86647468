"""Give rows everything their algorithm needs, and no more: old and reference log-probs, values, entropies, steps."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from paribus.algorithms import Need, Offline, PolicyGradient
from paribus.batch import Batch, Max, Stats
from paribus.lazy import torch
from paribus.pipeline.collect import Graded, step_tensors

if TYPE_CHECKING:
    from paribus.pipeline.session import Session


def prepare(algorithm: PolicyGradient, graded: Graded, run: Session) -> Batch:
    """Return the batch of a sampled step; a row without a score trains nothing and enters no statistic."""
    needs, rollout, learner, clock = algorithm.needs, graded.rollout, run.learner, run.clock
    old, entropy = rollout.sampled_logp, None
    with clock("old_logp"):
        if Need.ENTROPY in needs:
            own, entropy = learner.logp_and_entropy(rollout)
            old = own if algorithm.old == "learner" else old
        elif Need.OLD in needs and algorithm.old == "learner":
            old = learner.logp(rollout, of="policy")
    batch = Batch(
        rollout=rollout,
        score=graded.score.to(rollout.tokens.device),
        reward=torch.zeros(rollout.mask.shape),
        mask=rollout.mask,
        parts=graded.parts,
        old_logp=old,
        old_entropy=entropy,
        greedy_score=graded.greedy_score,
    )
    if Need.REFERENCE in needs:
        with clock("ref_logp"):
            batch = dataclasses.replace(batch, ref_logp=learner.logp(rollout, of="reference"))
    if Need.VALUES in needs:
        with clock("values"):
            final = learner.final_values(rollout) if Need.FINAL_VALUE in needs else None
            batch = dataclasses.replace(batch, values=learner.values(rollout), final_value=final)
    if Need.STEPS in needs:
        end, score = step_tensors(rollout, graded.steps or [], run.tokenizer)
        batch = dataclasses.replace(batch, step_end=end, step_score=score)
    return algorithm.shape(batch, run.setting.rollout.max_response, run.memory)


def measure(algorithm: Offline, batch: Batch, run: Session) -> Batch:
    """Return rows of data with the log-probs that their loss needs."""
    needs, learner = algorithm.needs, run.learner
    if Need.OLD in needs:
        with run.clock("old_logp"):
            batch = dataclasses.replace(batch, old_logp=learner.logp(batch.rollout, of="policy"))
    if Need.REFERENCE in needs:
        with run.clock("ref_logp"):
            batch = dataclasses.replace(batch, ref_logp=learner.logp(batch.rollout, of="reference"))
    return batch


def start_stats(batch: Batch) -> Stats:
    """Return how far the policy that starts this step is from the reference: exactly 0 at the first step."""
    if batch.ref_logp is None or batch.old_logp is None or not batch.rollout.rows:
        return {}
    gap = torch.where(batch.rollout.mask, (batch.old_logp - batch.ref_logp).abs(), 0.0)
    return {"reference_gap": Max(gap.max())}
