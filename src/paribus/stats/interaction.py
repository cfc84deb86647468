"""Differences and differences of differences, cell by cell: does a factor change what the choice of method is worth?

All tables are [seeds, problems] with the same seeds and the same problems in the same order, so that what seeds and
problems have in common cancels within each cell.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from paribus.stats.crossed import crossed
from paribus.stats.interval import Interval, t_quantile

ONE_RUN = "t over problems, one run a cell"  # such an interval speaks of those checkpoints only


def simple_effect(high: ArrayLike, low: ArrayLike, level: float = 0.95) -> Interval:
    """Return mean(high - low): what one change does while everything else stays as it is."""
    return _cellwise(_same(high, low), level)


def interaction(
    a_high: ArrayLike, b_high: ArrayLike, a_low: ArrayLike, b_low: ArrayLike, level: float = 0.95
) -> Interval:
    """Return mean((A - B at the high level) - (A - B at the low level)), the difference of differences.

    It is as much the factor's effect on A less its effect on B. With two or more seeds the interval is that of
    `crossed` and speaks of new seeds too; with one it is a t interval over problems, and its `method` says so.
    """
    return _cellwise(_same(a_high, b_high) - _same(a_low, b_low), level)


def _same(x: ArrayLike, y: ArrayLike) -> np.ndarray:
    one, other = np.asarray(x, float), np.asarray(y, float)
    if one.shape != other.shape or one.ndim != 2 or not one.size:
        raise ValueError(f"cells need the same seeds and problems, [S, N], got shapes {one.shape} and {other.shape}")
    return one - other


def _cellwise(difference: np.ndarray, level: float) -> Interval:
    s, n = difference.shape
    if s >= 2 and n >= 2:
        return crossed(difference, level)
    row = difference.mean(0)
    mean = float(row.mean())
    half = t_quantile(level, n - 1) * float(row.std(ddof=1)) / math.sqrt(n) if n > 1 else math.inf
    return Interval(mean, mean - half, mean + half, n, ONE_RUN)
