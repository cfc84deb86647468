"""Intervals for one rate, one mean and a ratio of costs."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class Interval(NamedTuple):
    """An estimate with its two-sided confidence interval; `n` counts the units that vary, `method` says how it is made.

    An infinite bound means that the data say nothing in that direction (a single run, say).
    """

    estimate: float
    low: float
    high: float
    n: int
    method: str


def z_quantile(level: float) -> float:
    """Return z such that a standard normal lies within +-z with probability `level`."""
    from scipy.special import ndtri

    return float(ndtri(0.5 + level / 2))


def t_quantile(level: float, df: float) -> float:
    """Return t such that Student's t with `df` > 0 degrees of freedom lies within +-t with probability `level`."""
    from scipy.special import stdtrit

    return float(stdtrit(df, 0.5 + level / 2))


def t_tail(t: float, df: float) -> float:
    """Return the probability that Student's t with `df` > 0 degrees of freedom is above `t`."""
    from scipy.special import stdtr

    return float(stdtr(df, -t))


def wilson(correct: float, total: int, level: float = 0.95) -> Interval:
    """Return the Wilson score interval of a rate, good at any size and at 0 % and 100 % (Wilson 1927)."""
    if total == 0:
        return Interval(math.nan, 0.0, 1.0, 0, "Wilson")
    p = correct / total
    return Interval(p, *score_bounds(p, total, z_quantile(level)), total, "Wilson")


def score_bounds(rate: float, total: int, z: float) -> tuple[float, float]:
    """Return the rates from which the observed one is z standard errors away, standard errors taken at those rates."""
    shrink = 1 + z * z / total
    centre = (rate + z * z / (2 * total)) / shrink
    half = z * math.sqrt(rate * (1 - rate) / total + z * z / (4 * total * total)) / shrink
    return max(0.0, centre - half), min(1.0, centre + half)


def log_ratio(a: ArrayLike, b: ArrayLike, level: float = 0.95) -> Interval:
    """Return the geometric mean of a/b over paired runs, with a t interval made on the logarithms.

    Ratios multiply, so half and double are equally far from 1. One pair gives the interval (0, inf).
    """
    logs = np.log(np.asarray(a, float)) - np.log(np.asarray(b, float))
    n, mean = logs.size, float(logs.mean())
    if n == 1:
        return Interval(math.exp(mean), 0.0, math.inf, 1, "one pair of runs")
    half = t_quantile(level, n - 1) * float(logs.std(ddof=1)) / math.sqrt(n)
    return Interval(math.exp(mean), math.exp(mean - half), math.exp(mean + half), n, "t on log ratios")


def bootstrap(values: ArrayLike, rng: np.random.Generator, draws: int = 10_000, level: float = 0.95) -> Interval:
    """Return the percentile interval of a mean over independent units (one value per problem, not per sample)."""
    x = np.asarray(values, float)
    means = np.concatenate([rng.choice(x, (chunk, x.size)).mean(1) for chunk in chunks(draws, x.size)])
    low, high = np.quantile(means, [0.5 - level / 2, 0.5 + level / 2])
    return Interval(float(x.mean()), float(low), float(high), x.size, "bootstrap over units")


def chunks(draws: int, width: int, cells: int = 1 << 22) -> list[int]:
    """Split `draws` rows of `width` so that none of the pieces holds more than about `cells` numbers."""
    size = max(1, cells // width)
    return [min(size, draws - start) for start in range(0, draws, size)]
