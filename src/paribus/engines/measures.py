"""What the learner records of an update beside what the loss counts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from paribus.batch import Batch, Max, Mean, Moments, Stats

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


def step_stats(prefix: str, norm: float, rate: float) -> Stats:
    """Return the learning rate of an optimizer's step, and its gradient norm unless that is not finite."""
    stats: Stats = {f"{prefix}lr": Mean(rate, 1.0)}
    if math.isfinite(norm):
        stats[f"{prefix}grad_norm"] = Moments(norm, norm * norm, 1.0)
    return stats


def start_stats(logp: Float[Tensor, "N"], batch: Batch) -> Stats:
    """Return how far the log-probs of the trained tokens, before any update, are from the sampler's, and from the
    reference's where no pass has compared them.
    """
    sampled, count = batch.rollout.sampled_logp[batch.mask], batch.mask.sum()
    gap = logp - sampled
    stats: Stats = {
        "first_ratio_deviation": Max(torch.expm1(gap).abs().max(), count),
        "sampler_gap": Mean(gap.abs().sum(), count),
    }
    if batch.old_logp is None and batch.ref_logp is not None:
        stats["reference_gap"] = Max((logp - batch.ref_logp[batch.mask]).abs().max(), count)
    return stats
