"""How many seeds and problems it takes: the power of the verdict's own rule, from three standard deviations.

The power is that of `combine` itself, not of a textbook test beside it: the mean squares of the seeds are drawn on a
grid of chi-squared quantiles (two arms, so two dimensions), those of the problems count as known. All effects, margins
and standard deviations are fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np

from paribus.stats.crossed import anova
from paribus.stats.difference import combine

MOST_SEEDS, MOST_PROBLEMS = 1000, 1_000_000  # beyond these the answer is "no number does"
GRID = 40  # quantiles of each arm's mean square


class Spread(NamedTuple):
    """Standard deviations of scores: what varies between runs, between problems, and within.

    `seed`: of a run's true accuracy around its algorithm's; `item`: over the problems, of the difference between two
    algorithms' expected scores; `residual`: of one run's score on one problem around what the others explain.
    """

    seed: float
    item: float
    residual: float


def spread(tables: Mapping[str, np.ndarray]) -> Spread:
    """Estimate the spread from tables [seeds, problems] of several arms, pooled by degrees of freedom.

    Arms with one run tell nothing about seeds and are left out; without two arms `item` is 0. Raises ValueError where
    no arm has two runs.
    """
    found = [np.asarray(t, float) for t in tables.values() if min(np.shape(t)) >= 2]
    if not found:
        raise ValueError("the spread between runs needs at least one arm with two runs")
    squares = [anova(t) for t in found]
    weight = np.array([s.shape[0] - 1 for s in squares], float)
    residual = float(np.average([s.residual for s in squares], weights=weight))
    between = float(np.average([(s.seed - s.residual) / s.shape[1] for s in squares], weights=weight))
    apart = [
        float((x.mean(0) - y.mean(0)).var(ddof=1)) - residual * (1 / len(x) + 1 / len(y))
        for x, y in combinations(found, 2)
    ]
    item = float(np.mean(apart)) if apart else 0.0
    return Spread(*(math.sqrt(max(0.0, v)) for v in (between, item, residual)))


def planned_se(spread: Spread, seeds: int, problems: int) -> tuple[float, float]:
    """Return the standard error of a difference with `seeds` runs per arm, and the degrees of freedom of its parts."""
    own, extra, _ = _parts(spread, seeds, problems)
    df = (own + extra) / (own / (2 * seeds - 2) + extra / (problems - 1)) if own + extra else math.inf
    return math.sqrt(own + extra), df


def superiority_power(spread: Spread, effect: float, seeds: int, problems: int, alpha: float = 0.05) -> float:
    """Return how often the rule finds a true `effect` in its right direction, two-sided at `alpha`."""
    from scipy.special import ndtr

    true, reach = _reach(spread, seeds, problems, alpha / 2)
    if true == 0:
        return float(effect != 0)
    return float(np.mean(ndtr((abs(effect) - reach) / true)))


def equivalence_power(
    spread: Spread, margin: float, seeds: int, problems: int, effect: float = 0.0, alpha: float = 0.05
) -> float:
    """Return how often the rule says "equivalent within `margin`" at a true `effect` (TOST at `alpha`)."""
    from scipy.special import ndtr

    true, reach = _reach(spread, seeds, problems, alpha)
    if true == 0:
        return float(abs(effect) < margin)
    room = np.maximum(margin - reach, 0.0)
    return float(np.mean(ndtr((room - effect) / true) - ndtr((-room - effect) / true)))


def detectable(spread: Spread, seeds: int, problems: int, power: float = 0.8, alpha: float = 0.05) -> float:
    """Return the smallest true difference that the rule finds with probability `power`."""
    return _least(lambda effect: superiority_power(spread, effect, seeds, problems, alpha) >= power)


def equivalence_margin(spread: Spread, seeds: int, problems: int, power: float = 0.8, alpha: float = 0.05) -> float:
    """Return the smallest margin within which the rule finds arms without a difference with probability `power`."""
    return _least(lambda margin: equivalence_power(spread, margin, seeds, problems, alpha=alpha) >= power)


def seeds_needed(spread: Spread, effect: float, problems: int, power: float = 0.8, alpha: float = 0.05) -> int | None:
    """Return the fewest runs per arm that find a true `effect`, or None where no number of runs does."""
    return _fewest(lambda s: superiority_power(spread, effect, s, problems, alpha) >= power, 2, MOST_SEEDS)


def problems_needed(spread: Spread, effect: float, seeds: int, power: float = 0.8, alpha: float = 0.05) -> int | None:
    """Return the fewest problems that find a true `effect` with `seeds` runs per arm, or None where none does."""
    return _fewest(lambda n: superiority_power(spread, effect, seeds, n, alpha) >= power, 2, MOST_PROBLEMS)


def seeds_for_equivalence(
    spread: Spread, margin: float, problems: int, power: float = 0.8, alpha: float = 0.05
) -> int | None:
    """Return the fewest runs per arm that show arms without a difference to be within `margin`, or None."""
    return _fewest(lambda s: equivalence_power(spread, margin, s, problems, alpha=alpha) >= power, 2, MOST_SEEDS)


def _fewest(enough: Callable[[int], bool], low: int, high: int) -> int | None:
    """Return the smallest number from low to high that is enough, if more is never worse."""
    if not enough(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


def _least(enough: Callable[[float], bool]) -> float:
    """Return the smallest positive number that is enough, to ten digits, if more is never worse."""
    low, high = 0.0, 1e-6
    while not enough(high):
        low, high = high, 2 * high
    for _ in range(34):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _parts(spread: Spread, seeds: int, problems: int) -> tuple[float, float, float]:
    """Return the variances of a difference: what the seeds' means show, what the problems add, the residual."""
    within = 2 * spread.residual**2 / (seeds * problems)
    return 2 * spread.seed**2 / seeds + within, spread.item**2 / problems, within


@lru_cache(maxsize=256)
def _reach(spread: Spread, seeds: int, problems: int, tail: float) -> tuple[float, np.ndarray]:
    """Return the true standard error, and how far the estimated intervals reach, `tail` being left out on a side."""
    from scipy.special import stdtrit

    if seeds < 2 or problems < 2:
        raise ValueError(f"a plan needs at least 2 seeds and 2 problems, got {seeds} and {problems}")
    own, extra, within = _parts(spread, seeds, problems)
    one, other = _quantiles(seeds - 1)
    variance, df = combine([own / 2 * one, own / 2 * other], [seeds, seeds], extra + within, within, problems)
    return math.sqrt(own + extra), stdtrit(df, 1 - tail) * np.sqrt(variance)


@lru_cache(maxsize=64)
def _quantiles(df: int) -> tuple[np.ndarray, np.ndarray]:
    """Return mean squares of two arms, in units of their expectation, on a grid of equally likely pairs."""
    from scipy.special import gammaincinv

    levels = (np.arange(GRID) + 0.5) / GRID
    own = gammaincinv(df / 2, levels) * 2 / df
    one, other = np.meshgrid(own, own)
    return one.ravel(), other.ravel()
