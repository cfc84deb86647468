"""Builders of small batches of given answers for tests of the maths."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from batches import rollout_of
from paribus.algorithms import Offline
from paribus.batch import Batch, Loss, Role, Scores, Totals

F = torch.float64
HORIZON = 9


def data_batch(mask: Tensor, role: Sequence[int] | Tensor, unit: Sequence[int] | Tensor, **more: Any) -> Batch:
    """Rows of data; those of role MISMATCHED are in the rollout's mask and not in the batch's."""
    role = torch.as_tensor(role)
    return Batch(
        rollout=rollout_of(mask, torch.as_tensor(unit)),
        score=more.pop("score", (role == Role.GOOD).to(F)),
        reward=torch.zeros(mask.shape, dtype=F),
        mask=mask & (role != Role.MISMATCHED)[:, None],
        role=role,
        unit=torch.as_tensor(unit),
        **more,
    )


def spread(total: float, length: int, width: int) -> Tensor:
    """A row of `length` unequal log-probs with the given sum, zeros behind."""
    weight = torch.arange(1, length + 1, dtype=F)
    return torch.nn.functional.pad(total * weight / weight.sum(), (0, width - length))


def pair_of(
    good: tuple[float, float, int] = (-10.0, -12.0, 5), bad: tuple[float, float, int] = (-11.0, -10.0, 4)
) -> tuple[Batch, Tensor]:
    """A pair of (sum of log-probs, that of the reference, tokens) a side; the defaults are E28's. Batch and logp."""
    width = max(good[2], bad[2])
    mask = torch.arange(width)[None] < torch.tensor([[good[2]], [bad[2]]])
    ref = torch.stack([spread(side[1], side[2], width) for side in (good, bad)])
    logp = torch.stack([spread(side[0], side[2], width) for side in (good, bad)])
    return data_batch(mask, [Role.GOOD, Role.BAD], [0, 0], ref_logp=ref), logp


def loss_of(algorithm: Offline, batch: Batch, logp: Tensor, total: Totals | None = None) -> Loss:
    signal, _ = algorithm.signal(batch, algorithm.memory())
    return algorithm.loss(Scores(logp), batch, signal, total or Totals.of(batch.mask, HORIZON, batch.score))


def draw(algorithm: Offline, seed: int, units: int = 7, dtype: torch.dtype = F) -> tuple[Batch, Tensor]:
    """Random rows of the kind that the method takes, in any order: prompts in front, ragged answers, junk-free."""
    random = torch.Generator().manual_seed(seed)
    kind = algorithm.source.gives
    unit = torch.arange(units).repeat_interleave(2) if kind == "pairs" else torch.arange(units)
    role = torch.full_like(unit, Role.GOOD)
    if kind == "pairs":
        role[1::2] = Role.BAD
    if kind == "labels":
        role = torch.where(torch.rand(units, generator=random) < 0.5, Role.GOOD, Role.BAD)
        unit, role = torch.arange(2 * units), torch.cat([role, torch.full((units,), int(Role.MISMATCHED))])
    order = torch.randperm(len(unit), generator=random)
    unit, role = unit[order], role[order]
    begin = torch.randint(1, 4, (len(unit), 1), generator=random)
    length = torch.randint(1, HORIZON - 3, (len(unit), 1), generator=random)
    place = torch.arange(HORIZON)[None]
    mask = (place >= begin) & (place < begin + length)

    def normal(scale: float) -> Tensor:
        return scale * torch.randn(mask.shape, generator=random, dtype=dtype)

    ref = -normal(1.0).abs() - 0.5
    batch = data_batch(mask, role, unit, ref_logp=ref, old_logp=ref + normal(0.3) + 0.1)
    return dataclasses.replace(batch, score=batch.score.to(dtype)), ref + normal(0.4).clamp(max=0.4)
