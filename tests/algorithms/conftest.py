"""Builders of small batches, and the fixture of the worked examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from batches import batch_of
from paribus.batch import Batch

JUNK = 7.0


class Example(NamedTuple):
    """One prompt, four responses: the numbers that the worked examples share. Padding holds junk."""

    score: Tensor
    mask: Tensor
    group: Tensor
    old: Tensor
    new: Tensor
    ref: Tensor


def _log(rows: Sequence[Sequence[float]]) -> Tensor:
    width = max(map(len, rows))
    out = torch.full((len(rows), width), JUNK, dtype=torch.float64)
    for i, row in enumerate(rows):
        out[i, : len(row)] = torch.tensor(row, dtype=torch.float64).log()
    return out


def _mask(lengths: Sequence[int], width: int | None = None) -> Tensor:
    return torch.arange(width or max(lengths))[None] < torch.tensor(lengths)[:, None]


@pytest.fixture(scope="session")
def example() -> Example:
    return Example(
        score=torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64),
        mask=_mask([2, 4, 3, 1]),
        group=torch.zeros(4, dtype=torch.long),
        old=_log([[0.5, 0.4], [0.2, 0.9, 0.6, 0.3], [0.25, 0.8, 0.5], [0.7]]),
        new=_log([[0.65, 0.4], [0.3, 0.765, 0.6, 0.15], [0.225, 0.88, 0.5], [0.63]]),
        ref=_log([[0.4, 0.5], [0.25, 0.9, 0.5, 0.3], [0.25, 0.7, 0.6], [0.7]]),
    )


@pytest.fixture(scope="session")
def make_batch() -> Callable[..., Batch]:
    return batch_of


@pytest.fixture(scope="session")
def make_mask() -> Callable[..., Tensor]:
    return _mask


def _close(actual: Tensor, expected: object, tolerance: float = 1e-6) -> None:
    wanted = torch.as_tensor(expected, dtype=actual.dtype)
    torch.testing.assert_close(actual.detach(), wanted.expand(actual.shape), rtol=0, atol=tolerance)


@pytest.fixture(scope="session")
def close() -> Callable[..., None]:
    """Compare a tensor with numbers, to 1e-6 unless said otherwise."""
    return _close
