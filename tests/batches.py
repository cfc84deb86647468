"""Builders of small rollouts and batches for tests of the maths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from paribus.algorithms import CATALOG, PolicyGradient
from paribus.algorithms.pages import held_as
from paribus.algorithms.surrogate import Move, TokenRatio
from paribus.batch import Batch, Rollout
from paribus.types import Stop

# without the flavours that differ from an entry before them in numbers only
ONLINE = {
    name: entry for name, entry in CATALOG.items() if isinstance(entry, PolicyGradient) and held_as(entry) == name
}


def rollout_of(mask: Tensor, group: Tensor, stop: Sequence[Stop] | None = None, **more: Any) -> Rollout:
    rows = len(mask)
    more.setdefault("sampled_logp", torch.zeros(mask.shape))
    return Rollout(
        tokens=torch.zeros(mask.shape, dtype=torch.long),
        mask=mask,
        length=mask.sum(1),
        group=group,
        problem_id=[str(int(g)) for g in group],
        sample=torch.arange(rows),
        stop=list(stop) if stop is not None else [Stop.EOS] * rows,
        text=[""] * rows,
        version=0,
        **more,
    )


def batch_of(
    algorithm: PolicyGradient,
    score: Tensor,
    mask: Tensor,
    group: Tensor,
    *,
    old: Tensor | None = None,
    ref: Tensor | None = None,
    values: Tensor | None = None,
    final_value: Tensor | None = None,
    stop: Sequence[Stop] | None = None,
    horizon: int = 8,
    **more: Any,
) -> Batch:
    """What the pipeline makes of a graded rollout for this algorithm."""
    sampled = {name: more.pop(name) for name in ("sampled_logp", "topk", "mix") if name in more}
    rollout = rollout_of(mask, group, stop, **sampled)
    batch = Batch(
        rollout=rollout,
        score=score,
        reward=torch.zeros_like(mask, dtype=score.dtype),
        mask=mask,
        old_logp=old,
        ref_logp=ref,
        values=values,
        final_value=final_value,
        **more,
    )
    return algorithm.shape(batch, horizon, algorithm.memory())


def plain_batch(reward: Tensor, mask: Tensor, group: Tensor, **more: Any) -> Batch:
    """A batch whose rewards are given as they are."""
    stop = more.pop("stop", None)
    score = more.pop("score", torch.zeros(len(mask), dtype=reward.dtype))
    return Batch(rollout=rollout_of(mask, group, stop), score=score, reward=reward, mask=mask, **more)


def move_of(logp: Tensor, old: Tensor, mask: Tensor, ratio: Any = TokenRatio(), **more: Any) -> Move:  # noqa: B008
    """The move from `old` to `logp`, its ratio made by `ratio`."""
    return Move(logp, old, ratio(logp, old, mask), mask, torch.zeros(mask.shape, dtype=torch.long), **more)
