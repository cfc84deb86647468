"""What the verdict does on made-up runs whose truth is known: coverage, false claims, power, width.

Every answer is right with a logistic probability: problem + arm + run + the arm's own effect on the problem + noise.
The estimand is what the interval claims to cover: the difference in expected accuracy over new runs and new problems,
so both are drawn afresh in every repeat. Expectations are exact to quadrature.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from paribus.stats.difference import combine
from paribus.stats.interval import chunks, z_quantile
from paribus.stats.power import Spread, planned_se

TINY = 1e-30  # in place of no variance at all, so that a difference of 0 is none and any other is one
CELLS = 1 << 21  # answers drawn at a time
STEEPEST = 40.0  # logits: no spread of runs or distance of arms goes beyond
WIDEST = 20.0  # logits: nor do the problems of a fitted design


class Design(NamedTuple):
    """An experiment whose truth is known: the first arm is `effect` better than all others.

    `spread` is the standard deviation of a run's true accuracy around its arm's, `others` that of the other arms where
    it differs. With `groups`, only arms of the same group are held against each other. The rest are logits: mean and
    standard deviation over problems, `own` that of each arm's own effect on a problem (0: all arms find the same
    problems hard), `noise` that of one answer. The defaults are those of the field's null calibration.
    """

    seeds: int
    problems: int
    spread: float = 0.0
    effect: float = 0.0
    others: float | None = None
    arms: int = 2
    groups: int = 1
    mean: float = 0.4
    item: float = 2.0
    own: float = 0.0
    noise: float = 0.6

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of arms that are compared."""
        size = self.arms // self.groups
        return [(i, j) for i, j in combinations(range(self.arms), 2) if i // size == j // size]


class Logits(NamedTuple):
    """Standard deviation of the runs of the first arm and of the others, and how far apart the arms are, in logits."""

    first: float
    others: float
    shift: float


class Squares(NamedTuple):
    """Sufficient statistics of repeats x arms.

    `mean`, and `seed` and `residual`, the variances of the mean over runs and of the part within, are [repeats, arms];
    `item[i, j]` is the variance of arm i - arm j over problems, [repeats]; `wins` and `losses` are those of the first
    run of the first arm against that of the second.
    """

    mean: np.ndarray
    seed: np.ndarray
    residual: np.ndarray
    item: dict[tuple[int, int], np.ndarray]
    wins: np.ndarray
    losses: np.ndarray


@lru_cache(maxsize=256)
def solve(design: Design) -> Logits:
    """Return the logits that give the design's spread and effect exactly."""
    from scipy.optimize import brentq

    inner = math.hypot(design.item, design.own, design.noise)

    def excess_spread(sd: float, spread: float) -> float:
        nodes, weights = _normal(sd)
        return _sd(_expected(design.mean + sd * nodes, inner), weights) - spread

    def run(spread: float) -> float:
        return brentq(excess_spread, 0.0, STEEPEST, args=(spread,), xtol=1e-12) if spread else 0.0

    first = run(design.spread)
    others = first if design.others is None else run(design.others)

    def excess(shift: float) -> float:
        high = _expected(design.mean + shift / 2, math.hypot(inner, first))
        return float(high - _expected(design.mean - shift / 2, math.hypot(inner, others))) - design.effect

    return Logits(first, others, brentq(excess, -STEEPEST, STEEPEST, xtol=1e-13))


@lru_cache(maxsize=256)
def truth(design: Design) -> Spread:
    """Return the design's true standard deviations, as `spread` estimates them from its first two arms."""
    first, others, shift = solve(design)
    (problems, by_problem), (own, by_own) = _normal(design.item), _normal(design.own)
    levels = design.mean + design.item * problems[:, None] + design.own * own  # problems x the arm's effect on them
    one = _expected(levels + shift / 2, math.hypot(design.noise, first))
    other = _expected(levels - shift / 2, math.hypot(design.noise, others))
    apart = sum(by_problem @ (np.square(r - (r @ by_own)[:, None]) @ by_own) for r in (one, other))
    within = sum(by_problem @ ((r * (1 - r)) @ by_own) for r in (one, other)) / 2
    spreads = (design.spread, design.spread if design.others is None else design.others)
    seed = math.hypot(*spreads) / math.sqrt(2)
    item = math.sqrt(apart + _sd((one - other) @ by_own, by_problem) ** 2)
    return Spread(seed, item, math.sqrt(within - seed**2))


def fit(spread: Spread, accuracy: float, design: Design) -> Design:
    """Return `design` with the logits that have this mean accuracy and spread, as near as right-or-wrong answers can.

    The residual fixes how far the problems lie apart, then the arms' difference per problem how much of that is each
    arm's own. Scores finer than right or wrong have less residual: their problems are drawn further apart.
    """
    from scipy.optimize import brentq

    def at(total: float, share: float) -> Design:
        inner = math.hypot(total, design.noise)
        mean = brentq(lambda m: float(_expected(m, inner)) - accuracy, -STEEPEST, STEEPEST)
        item, own = total * math.sqrt(1 - share), total * math.sqrt(share)
        return design._replace(spread=spread.seed, mean=mean, item=item, own=own)

    def root(gap: Callable[[float], float], high: float) -> float:
        if gap(0.0) * gap(high) > 0:
            return 0.0 if abs(gap(0.0)) < abs(gap(high)) else high
        return brentq(gap, 0.0, high, xtol=1e-6)

    total = root(lambda t: truth(at(t, 0.0)).residual - spread.residual, WIDEST)
    share = root(lambda w: truth(at(total, w)).item - spread.item, 1.0)
    return at(total, share)


def draw(design: Design, rng: np.random.Generator, repeats: int = 1) -> np.ndarray:
    """Return right and wrong answers, booleans [repeats, arms, seeds, problems]."""
    first, others, shift = solve(design)
    r, a, s, n = repeats, design.arms, design.seeds, design.problems
    is_first = np.arange(a)[:, None, None] == 0
    arm = np.where(is_first, shift / 2, -shift / 2).astype(np.float32)
    run = np.where(is_first, first, others).astype(np.float32)
    logit = design.mean + design.item * rng.standard_normal((r, 1, 1, n), np.float32) + arm
    if design.own:
        logit = logit + design.own * rng.standard_normal((r, a, 1, n), np.float32)
    logit = logit + run * rng.standard_normal((r, a, s, 1), np.float32)
    logit = logit + design.noise * rng.standard_normal((r, a, s, n), np.float32)
    with np.errstate(over="ignore"):  # infinity here is an answer that is never right
        return rng.random((r, a, s, n), np.float32) * (1 + np.exp(-logit)) < 1


def squares(right: np.ndarray, pairs: list[tuple[int, int]]) -> Squares:
    """Reduce answers [repeats, arms, seeds, problems], right or wrong, to what every form of the variance needs."""
    s, n = right.shape[2:]
    rows, columns = right.mean(3), right.mean(2)
    grand = rows.mean(2)
    between = ((rows - grand[..., None]) ** 2).sum(2)
    over_items = ((columns - grand[..., None]) ** 2).sum(2)
    within = grand * (1 - grand) * s * n - n * between - s * over_items  # the total is that of 0s and 1s
    item = {(i, j): (columns[:, i] - columns[:, j]).var(1, ddof=1) / n for i, j in pairs}
    one, other = right[:, 0, 0], right[:, 1, 0]
    wins, losses = (one & ~other).sum(1), (other & ~one).sum(1)
    return Squares(grand, between / (s * (s - 1)), within / ((s - 1) * (n - 1) * s * n), item, wins, losses)


def sample(design: Design, rng: np.random.Generator, repeats: int) -> Squares:
    """Draw so many repeats of a design, a few at a time, and reduce them."""
    cells = design.arms * design.seeds * design.problems
    found = [squares(draw(design, rng, chunk), design.pairs) for chunk in chunks(repeats, cells, CELLS)]
    item = {pair: np.concatenate([f.item[pair] for f in found]) for pair in design.pairs}
    mean, seed, residual = (np.concatenate(rows) for rows in zip(*(f[:3] for f in found), strict=True))
    wins, losses = (np.concatenate(rows) for rows in zip(*(f[4:] for f in found), strict=True))
    return Squares(mean, seed, residual, item, wins, losses)


class Operating(NamedTuple):
    """How often, over `repeats`, what was said is so: shares, but for the last three.

    Of the first two arms: `covered`, their 95 % interval holds the true difference; `better`, the first is called
    better; `close`, they are called less than the margin apart (NaN without one); `single`, mid-p McNemar on the first
    run of each calls them different. `wrong`: some pair is called different without a true difference, or the wrong
    way round. `width` is the interval's mean width, `known` that of the interval with known variances.
    """

    covered: float
    better: float
    wrong: float
    close: float
    single: float
    width: float
    known: float
    repeats: int


def operating(
    design: Design, found: Squares, *, margin: float | None = None, alpha: float = 0.05, form: Form = "welch"
) -> Operating:
    """Judge every repeat as `verdicts` does, Holm over the pairs, and count; the first pair is arms 0 and 1."""
    from scipy.special import stdtr, stdtrit

    pairs, s, n = design.pairs, design.seeds, design.problems
    estimate = np.array([found.mean[:, i] - found.mean[:, j] for i, j in pairs])
    judged = [FORMS[form](*_parts(found, pair), s, n) for pair in pairs]
    se = np.sqrt(np.maximum([variance for variance, _ in judged], TINY))
    df = np.array([df for _, df in judged])
    differs = _holm(2 * stdtr(df, -np.abs(estimate) / se)) < alpha
    claimed = np.where(differs, np.sign(estimate), 0)
    true = np.array([np.sign(design.effect) if i == 0 else 0 for i, _ in pairs])[:, None]
    close = _holm(stdtr(df, (np.abs(estimate) - (margin or 0.0)) / se))[0] < alpha
    half = stdtrit(df[0], 0.975) * se[0]
    return Operating(
        covered=float((np.abs(estimate[0] - design.effect) <= half).mean()),
        better=float((claimed[0] > 0).mean()),
        wrong=float(((claimed != 0) & (claimed != true)).any(0).mean()),
        close=float(close.mean()) if margin is not None else math.nan,
        single=float((_mid_p(found.wins, found.losses) < alpha).mean()),
        width=2 * _mean_half(half, found, design),
        known=2 * z_quantile(0.95) * planned_se(truth(design), s, n)[0],
        repeats=half.size,
    )


def _mean_half(half: np.ndarray, found: Squares, design: Design) -> float:
    """Return the mean of half widths, less what the luck of the drawn seeds did to it.

    The variance between runs has a known expectation, and nearly all of the width hangs on it (a control variate).
    """
    true, between = truth(design), found.seed[:, 0] + found.seed[:, 1]
    expected = 2 * (true.seed**2 + true.residual**2 / design.problems) / design.seeds
    covariance = np.cov(half, between)
    return float(half.mean() - covariance[0, 1] / covariance[1, 1] * (between.mean() - expected))


def _parts(found: Squares, pair: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    i, j = pair
    return found.seed[:, i], found.seed[:, j], found.item[pair], found.residual[:, i] + found.residual[:, j]


Form = Literal["welch", "item floor", "seed floor", "both floors"]
Judge = Callable[
    [np.ndarray, np.ndarray, np.ndarray, np.ndarray, int, int], tuple[np.ndarray, np.ndarray]
]  # variance between runs of either arm, over problems, within; seeds, problems -> variance, degrees of freedom


def _satterthwaite(floors: tuple[str, ...]) -> Judge:
    """Make a form that was measured and not taken: Satterthwaite's degrees of freedom, floors at seeds or problems."""

    def form(
        a: np.ndarray, b: np.ndarray, item: np.ndarray, within: np.ndarray, s: int, n: int
    ) -> tuple[np.ndarray, np.ndarray]:
        variance = a + b + item - within
        if "item" in floors:
            variance = np.maximum(variance, item)
        if "seed" in floors:
            variance = np.maximum(variance, a + b)
        extra = item if "item" in floors else variance - a - b
        return variance, variance**2 / ((a**2 + b**2) / (s - 1) + extra**2 / (n - 1))

    return form


FORMS: dict[Form, Judge] = {
    "welch": lambda a, b, item, within, s, n: combine([a, b], [s, s], item, within, n),
    "item floor": _satterthwaite(("item",)),
    "seed floor": _satterthwaite(("seed",)),
    "both floors": _satterthwaite(("item", "seed")),
}


def _holm(p: np.ndarray) -> np.ndarray:
    """Return Holm's adjusted p values [pairs, repeats], column by column."""
    order = np.argsort(p, axis=0)
    steps = np.take_along_axis(p, order, 0) * np.arange(len(p), 0, -1)[:, None]
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, np.minimum(1.0, np.maximum.accumulate(steps, axis=0)), 0)
    return adjusted


def _mid_p(wins: np.ndarray, losses: np.ndarray) -> np.ndarray:
    """Return McNemar's two-sided mid-p of many pairs of counts."""
    from scipy.special import bdtr

    n, k = np.maximum(wins + losses, 1), np.minimum(wins, losses)
    below = np.where(k > 0, bdtr(np.maximum(k - 1, 0), n, 0.5), 0.0)
    return np.where(wins + losses > 0, np.minimum(1.0, bdtr(k, n, 0.5) + below), 1.0)


@lru_cache(maxsize=256)
def _normal(sd: float) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights of the trapezoid rule for a logistic of `sd` times a standard normal.

    Its error falls like exp(-2 pi^2 / (sd step)), the pole of the logistic being pi / sd away: 1e-14 here.
    """
    half = math.ceil(8 * max(2.0, sd / 0.6))
    nodes = np.linspace(-8.0, 8.0, 2 * half + 1)
    weights = np.exp(-np.square(nodes) / 2)
    return nodes, weights / weights.sum()


def _expected(mean: np.ndarray | float, sd: float) -> np.ndarray:
    """Return the expectation of a logistic of normals with these means."""
    from scipy.special import expit

    nodes, weights = _normal(sd)
    return expit(np.asarray(mean)[..., None] + sd * nodes) @ weights


def _sd(values: np.ndarray, weights: np.ndarray) -> float:
    return math.sqrt(max(0.0, float(weights @ np.square(values - weights @ values))))
