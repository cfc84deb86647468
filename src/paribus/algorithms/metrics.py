"""Statistics in mergeable form: counted on masked tensors, detached, without waiting for the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paribus import tensors
from paribus.algorithms.kl import divergence
from paribus.batch import Batch, Max, Mean, Moments, Signal, Stats
from paribus.lazy import torch

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from torch import Tensor


def mean(x: Float[Tensor, "..."], mask: Bool[Tensor, "..."]) -> Mean:
    return Mean(tensors.masked_sum(x.detach(), mask), mask.sum())


def fraction(condition: Bool[Tensor, "..."], mask: Bool[Tensor, "..."]) -> Mean:
    return Mean((condition & mask).sum(), mask.sum())


def largest(x: Float[Tensor, "..."], mask: Bool[Tensor, "..."]) -> Max:
    """Of a quantity that is never negative."""
    return Max(tensors.keep(x.detach(), mask).max(), mask.sum())


def moments(x: Float[Tensor, "..."], mask: Bool[Tensor, "..."]) -> Moments:
    x = tensors.keep(x.detach(), mask).double()  # a variance is a small difference of large sums
    return Moments(x.sum(), (x * x).sum(), mask.sum())


def share(value: Float[Tensor, ""], mask: Bool[Tensor, "B T"], sequences: float) -> Mean:
    """A part's share of an update's loss; the parts' counts add up to one per update, so the mean is over updates.

    `sequences` are the rows of the whole update of which the part is asked.
    """
    return Mean(value.detach(), mask.any(1).sum().double() / max(sequences, 1))


def policy_stats(logp: Float[Tensor, "B T"], entropy: Float[Tensor, "B T"] | None, batch: Batch) -> Stats:
    """How far a micro-batch's policy is from the old one and from the reference, where the batch holds them.

    `approx_kl` is the mean of lp_old - lp, `ratio_deviation` the largest |r - 1| of a token, `kl_k1` and `kl_k3` the
    two common estimates of the KL to the reference; all over tokens. As those of surrogates and corrections, they cover
    the rows that an update runs: `skipped_rows` is the share of the rows that it leaves out.
    """
    mask, logp = batch.mask, logp.detach()
    stats: Stats = {}
    if batch.old_logp is not None:
        moved = logp - batch.old_logp
        stats["approx_kl"] = mean(-moved, mask)
        stats["ratio_deviation"] = largest(torch.expm1(moved).abs(), mask)
    if batch.ref_logp is not None:
        d = (batch.ref_logp - logp).clamp(max=20.0)  # beyond it exp(d) says nothing and may overflow
        stats["kl_k1"], stats["kl_k3"] = mean(divergence(d, "k1"), mask), mean(divergence(d, "k3"), mask)
    if entropy is not None:
        stats["entropy"] = mean(entropy, mask)
    return stats


def signal_stats(batch: Batch, signal: Signal) -> Stats:
    """What a step's scores, rewards and credit look like, before any update.

    `score` counts scored rows, `reward` and `uniform_groups` see rewards and scores; `uniform_groups` is the share of
    the groups with at least two scored rows whose scores are all equal: they teach a group method nothing.
    """
    scored = torch.isfinite(batch.score)
    members = tensors.group_count(batch.group, scored, torch.float64)
    comparable = scored & (members >= 2)
    uniform = comparable & tensors.uniform_groups(batch.score, batch.group, scored)
    trained = batch.mask.any(1)
    stats: Stats = {
        "score": moments(batch.score, scored),
        "reward": moments(tensors.keep(batch.reward, batch.mask).sum(1), trained),
        "advantage": moments(signal.advantage, batch.mask),
        "uniform_groups": Mean(_groups(uniform, members), _groups(comparable, members)),
        "trained": Mean(trained.sum(), trained.numel()),
    }
    if signal.target is not None:
        stats["return"] = moments(signal.target, batch.mask)
    return stats


def _groups(rows: Bool[Tensor, "B"], members: Float[Tensor, "B"]) -> Float[Tensor, ""]:
    """The number of groups whose scored rows are `rows`: each counts for one over its group's size."""
    return tensors.masked_sum(1 / members.clamp(min=1), rows).round()
