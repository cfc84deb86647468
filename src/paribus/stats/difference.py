"""The difference of two algorithms, or of two checkpoints: one estimate, its standard error, and what follows from it.

Score of arm a, seed s, problem n: mean[a] + seed[a, s] + problem[n] + (arm x problem)[a, n] + residual[a, s, n]. The
difference of the means then varies with the seeds of both arms and with the problems drawn; what the problems add to
both arms alike cancels. See `docs/statistics.md` for how often the interval holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from paribus.stats.crossed import anova
from paribus.stats.interval import Interval, t_quantile
from paribus.stats.paired import mcnemar, paired, paired_equivalence

NEWCOMBE = "Newcombe's paired interval, mid-p McNemar"


class Difference(NamedTuple):
    """Mean of A minus mean of B, in fractions; with t intervals, `se` and `df` are those of the estimate.

    `scope` is "algorithms" where both arms have at least two runs, so that the interval speaks of new seeds and new
    problems; otherwise "checkpoints": of these runs on new problems. `wins` counts the problems where A's mean over
    its runs is higher, `losses` where B's is. `agreed` is for one right-or-wrong run each: how many problems both
    solved; its interval and its tests are then those of `paired`.
    """

    estimate: float
    se: float
    df: float
    seeds: tuple[int, int]
    problems: int
    method: str
    scope: Literal["algorithms", "checkpoints"]
    wins: int
    losses: int
    agreed: int | None = None

    def interval(self, level: float = 0.95) -> Interval:
        """Return the two-sided confidence interval; its `n` is the number of runs, or of problems for checkpoints."""
        n = sum(self.seeds) if self.scope == "algorithms" else self.problems
        if self.agreed is not None:
            found = paired(*self._answers(self.agreed), level)
            return Interval(found.estimate, found.low, found.high, n, self.method)
        half = t_quantile(level, self.df) * self.se if self.se else 0.0
        return Interval(self.estimate, self.estimate - half, self.estimate + half, n, self.method)

    def p(self) -> float:
        """Return the two-sided p value of no difference."""
        if self.agreed is not None:
            return mcnemar(self.wins, self.losses)
        return min(1.0, 2 * self._below(-abs(self.estimate)))

    def p_equivalent(self, margin: float) -> float:
        """Return the p value of "not within +-margin": the larger of two one-sided tests (TOST, Schuirmann 1987).

        It is at most alpha exactly when the interval at 1 - 2 alpha lies within +-margin.
        """
        if self.agreed is not None:
            return paired_equivalence(*self._answers(self.agreed), margin)
        return self._below(abs(self.estimate) - margin)

    def _below(self, distance: float) -> float:
        """Return how often an error of the estimate is below `distance`."""
        from scipy.special import stdtr

        if self.se == 0:
            return 0.5 * (1 + float(np.sign(distance)))
        return float(stdtr(self.df, distance / self.se))

    def _answers(self, agreed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the two rows of right and wrong answers, in some order of the problems."""
        cells = [agreed, self.wins, self.losses, self.problems - agreed - self.wins - self.losses]
        return np.repeat([1.0, 1.0, 0.0, 0.0], cells), np.repeat([1.0, 0.0, 1.0, 0.0], cells)


def difference(a: ArrayLike, b: ArrayLike, *, paired: bool = False) -> Difference:
    """Return mean(a) - mean(b) of tables [seeds, problems] on the same problems, in the same order.

    `paired`: row s of both tables had the same seed, and what it has in common (order of the data, sampling noise)
    cancels. Without it the runs count as independent. Raises ValueError for tables that cannot be compared.
    """
    x, y = np.asarray(a, float), np.asarray(b, float)
    _check(x, y, paired)
    d = x.mean(0) - y.mean(0)
    n, wins, losses = d.size, int((d > 1e-12).sum()), int((d < -1e-12).sum())
    seeds, estimate = (len(x), len(y)), float(d.mean())
    if min(*seeds, n) < 2:
        binary = seeds == (1, 1) and bool(np.isin(x, (0, 1)).all() and np.isin(y, (0, 1)).all())
        se = float(d.std(ddof=1)) / math.sqrt(n) if n > 1 else math.inf
        method, agreed = (NEWCOMBE, int((x * y).sum())) if binary else ("paired t over problems", None)
        return Difference(estimate, se, max(n - 1, 1), seeds, n, method, "checkpoints", wins, losses, agreed)
    tables = [anova(x - y)] if paired else [anova(x), anova(y)]
    runs = [t.shape[0] for t in tables]
    variance, df = combine(
        [t.seed / (t.shape[0] * n) for t in tables],
        runs,
        d.var(ddof=1) / n,
        sum(t.residual / (t.shape[0] * n) for t in tables),
        n,
    )
    method = f"two-way ({'paired ' if paired else ''}seeds x problems) t"
    return Difference(estimate, math.sqrt(variance), float(df), seeds, n, method, "algorithms", wins, losses)


def combine(
    seed: Sequence[np.ndarray | float],
    runs: Sequence[int],
    item: np.ndarray | float,
    residual: np.ndarray | float,
    problems: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the variance of a difference and its degrees of freedom, element by element.

    `seed` holds, for each arm (for the differences, if the seeds are paired), the variance of the mean over its
    `runs`; `item` is that of the mean difference over the problems; `residual` the part counted in both. Var = sum of
    `seed` + `item` - `residual`, never below the smaller of the seeds alone and the problems alone. The seeds' degrees
    of freedom are Welch's (1947); the rest of the variance lends its own by its share, as in Cochran and Cox's mean of
    quantiles: Satterthwaite's squared shares promise too much next to two or three seeds (decision 008).
    """
    own = np.asarray(sum(seed), float)
    variance = np.maximum(own + item - residual, np.minimum(own, item))
    squares = sum(np.square(v) / (r + 1) for v, r in zip(seed, runs, strict=True))
    with np.errstate(invalid="ignore", divide="ignore"):
        welch = np.where(own > 0, np.square(own) / squares - 2, 1.0)
        share = np.where(variance > own, own / variance, 1.0)
    return variance, 1 / (share / welch + (1 - share) / (problems - 1))


def _check(x: np.ndarray, y: np.ndarray, paired: bool) -> None:
    if x.ndim != 2 or y.ndim != 2 or not x.size or not y.size:
        raise ValueError(f"scores are tables [seeds, problems], got shapes {x.shape} and {y.shape}")
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"both sides must be scored on the same problems, got {x.shape[1]} and {y.shape[1]}")
    if paired and x.shape[0] != y.shape[0]:
        raise ValueError(f"paired seeds are the same seeds on both sides, got {x.shape[0]} and {y.shape[0]} runs")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("a score is missing: leave its problem out on both sides")
