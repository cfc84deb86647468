"""What a sampled pilot says of a task, a model and a reward, with an interval over prompts for every number.

Axes: `P` prompts, `n` samples of each, `K` positions along a response, `H` the width of the hidden states. Prompts are
the units: samples of one prompt are alike, so every interval resamples whole prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from paribus.stats import Interval
from paribus.stats.interval import chunks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

DRAWS = 2_000  # resamplings of the prompts
BETA_DRAWS = 200  # resamplings where each needs a fit
FOLDS = 5  # of the cross-validated probe
PENALTIES = 10.0 ** np.arange(-4, 5)  # of the ridge probe, relative to the mean eigenvalue of the features


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """A sampled pilot: `n` responses of the starting policy to each of `P` prompts, no training.

    `reward` is what training would optimise, `score` the grader's verdict. `again` is the same responses judged a
    second time, NaN where they were not. `states[:, :, 0]` are hidden states at the prompt's end, the others those
    before the token in the middle of each of `K` equal parts of the response. `rewarded` counts rewards other than 0,
    `units` the tokens that could bear one. `gap` is the mean over a response's tokens of |log-prob of the learner - of
    the sampler|.
    """

    reward: Array  # [P, n]
    score: Array  # [P, n]
    again: Array  # [P, n]
    length: Array  # [P, n] tokens
    cut: Array  # [P, n] 1 where the response ran to the limit
    rewarded: Array  # [P, n]
    units: Array  # [P, n]
    gap: Array  # [P, n]
    states: NDArray[np.float32]  # [P, n, 1 + K, H]


class Beta(NamedTuple):
    """A Beta distribution of success rates over prompts."""

    a: float
    b: float


def over_prompts(
    columns: Array,
    statistic: Callable[[Array], Array],
    rng: np.random.Generator,
    *,
    draws: int = DRAWS,
    level: float = 0.95,
) -> Interval:
    """Return a statistic of sums over prompts with its percentile bootstrap interval.

    `columns[P, C]` holds what each prompt adds; `statistic` maps sums `[..., C]` to numbers `[...]`.
    """
    prompts = len(columns)
    found = []
    for size in chunks(draws, prompts):
        weights = rng.multinomial(prompts, np.full(prompts, 1 / prompts), size)
        found.append(statistic(weights @ columns))
    values = np.concatenate(found)
    values = values[np.isfinite(values)]
    estimate = float(statistic(columns.sum(0)))
    if not values.size:
        return Interval(estimate, -np.inf, np.inf, prompts, _METHOD)
    low, high = np.quantile(values, [0.5 - level / 2, 0.5 + level / 2])
    return Interval(estimate, float(low), float(high), prompts, _METHOD)


_METHOD = "bootstrap over prompts"


def mean(values: Array, rng: np.random.Generator) -> Interval:
    """Return the mean of one number a prompt, or of `[P, n]`."""
    column = values.reshape(len(values), -1).mean(1)
    return ratio(column, np.ones_like(column), rng)


def ratio(above: Array, below: Array, rng: np.random.Generator) -> Interval:
    """Return sum(above) / sum(below), one number each a prompt."""
    return over_prompts(np.stack([above, below], 1), lambda s: _divide(s[..., 0], s[..., 1]), rng)


def _divide(above: Array, below: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(above / below)


def informative(p: float, group: int) -> float:
    """Return the chance that `group` answers, right with probability p each, are not all alike."""
    return float(1 - p**group - (1 - p) ** group)


def uniform_share(reward: Array, group: int) -> Array:
    """Return for each prompt the chance that `group` of its n samples, drawn without replacement, are all alike.

    Unbiased for the chance in fresh samples: sum over the values v of C(count of v, group) / C(n, group).
    """
    from scipy.special import gammaln

    n = reward.shape[1]
    assert group <= n, "a group larger than the sample has to come from the fitted distribution"

    def log_choose(count: Array) -> Array:
        inside = count >= group
        safe = np.where(inside, count, group)
        return np.where(inside, gammaln(safe + 1) - gammaln(safe - group + 1) - gammaln(group + 1), -np.inf)

    total = log_choose(np.array(float(n)))
    rows = [np.unique(row, return_counts=True)[1].astype(float) for row in reward]
    return np.array([np.exp(log_choose(counts) - total).sum() for counts in rows])


def informative_share(reward: Array, group: int, rng: np.random.Generator) -> Interval:
    """Return f(G), the share of prompts whose group of `group` <= n samples would hold two different rewards."""
    return mean(1 - uniform_share(reward, group), rng)


def beta_informative(beta: Beta, group: int) -> float:
    """Return f(G) = 1 - E[p^G + (1 - p)^G] where p is Beta distributed: for groups larger than the sample."""
    from scipy.special import betaln

    a, b = beta
    return float(1 - np.exp(betaln(a + group, b) - betaln(a, b)) - np.exp(betaln(a, b + group) - betaln(a, b)))


def fit_beta(histogram: Array) -> Beta:
    """Return the Beta distribution of success rates of largest likelihood; `histogram[c]` prompts had c of n right.

    a + b is kept between 1/100 (every prompt is always right or always wrong) and 10,000 (all alike).
    """
    from scipy.optimize import minimize
    from scipy.special import betaln, expit, logit

    n = len(histogram) - 1
    right = np.arange(n + 1)
    rate = float(np.clip((histogram * right).sum() / (histogram.sum() * n), 1e-3, 1 - 1e-3))

    def negative(x: Array) -> float:
        size = np.exp(x[1])
        a, b = size * expit(x[0]), size * expit(-x[0])
        return float(-(histogram * (betaln(a + right, b + n - right) - betaln(a, b))).sum())

    bounds = [(logit(rate) - 3, logit(rate) + 3), (np.log(0.01), np.log(1e4))]
    best = minimize(negative, np.array([logit(rate), 0.0]), method="L-BFGS-B", bounds=bounds).x
    size = float(np.exp(best[1]))
    return Beta(size * float(expit(best[0])), size * float(expit(-best[0])))


def beta(score: Array, group: int, rng: np.random.Generator) -> tuple[Interval, Interval, Interval]:
    """Return a and b of the success rates' Beta distribution, and f(group) under it, each with its interval.

    Scores are 0 or 1; `group` may be larger than the sample.
    """
    prompts, n = score.shape
    columns = np.eye(n + 1)[np.rint(score.sum(1)).astype(int)]
    weights = rng.multinomial(prompts, np.full(prompts, 1 / prompts), BETA_DRAWS)
    fits = [fit_beta(sums) for sums in (columns.sum(0), *(w @ columns for w in weights))]
    values = np.array([[*fit, beta_informative(fit, group)] for fit in fits])
    low, high = np.quantile(values[1:], [0.025, 0.975], axis=0)
    a, b, share = (Interval(float(values[0, i]), float(low[i]), float(high[i]), prompts, _METHOD) for i in range(3))
    return a, b, share


def within_variance(reward: Array, rng: np.random.Generator) -> Interval:
    """Return the mean variance of the reward among the samples of one prompt; E[p(1 - p)] where it is 0 or 1."""
    return mean(reward.var(1, ddof=1), rng)


def reliability(first: Array, second: Array, rng: np.random.Generator) -> Interval:
    """Return 1 - noise variance / total variance of a reward that was given twice to the same responses.

    Half the mean squared difference of two looks is the variance of one look's noise; the total is that of the first.
    """
    return over_prompts(_moments(first, second), _reliable, rng)


def _moments(first: Array, second: Array) -> Array:
    n = np.full(len(first), float(first.shape[1]))
    return np.stack([((first - second) ** 2).sum(1) / 2, first.sum(1), (first**2).sum(1), n], 1)


def _reliable(s: Array) -> Array:
    noise, total, square, n = s[..., 0], s[..., 1], s[..., 2], s[..., 3]
    return np.asarray(1 - _divide(noise / n, square / n - (total / n) ** 2))


def flips(first: Array, second: Array, value: float, rng: np.random.Generator) -> Interval:
    """Return how often the first look differs where the second one says `value`; rewards are 0 or 1."""
    there = second == value
    return ratio((there & (first != value)).sum(1).astype(float), there.sum(1).astype(float), rng)


def within_correlation(x: Array, y: Array, rng: np.random.Generator) -> Interval:
    """Return the correlation of two numbers of a response among the samples of one prompt, pooled over prompts."""
    x, y = x - x.mean(1, keepdims=True), y - y.mean(1, keepdims=True)
    columns = np.stack([(x * y).sum(1), (x * x).sum(1), (y * y).sum(1)], 1)
    return over_prompts(columns, lambda s: _divide(s[..., 0], np.sqrt(s[..., 1] * s[..., 2])), rng)


def probe(states: NDArray[Any], target: Array, prompt: NDArray[Any], folds: int = FOLDS) -> Array:
    """Return predictions of `target[N]` from `states[N, H]` by ridge regression, each from the other prompts only.

    Rows of one `prompt[N]` stay in one fold. The penalty for a fold is the one that predicts the other folds best, each
    of them from the rest: samples of one prompt are alike, and a rule for independent rows would penalise too little.
    """
    names, place = np.unique(prompt, return_inverse=True)
    fold = place % min(folds, len(names))
    parts = [_Part(np.asarray(states[fold == k], float), target[fold == k]) for k in range(int(fold.max()) + 1)]
    every = set(range(len(parts)))
    errors = np.zeros((len(parts), len(parts), len(PENALTIES)))
    for i in every:
        for j in every - {i} if len(parts) > 2 else ():
            fitted = _ridge([parts[k] for k in every - {i, j}])
            errors[i, j] = ((fitted(parts[j].x) - parts[j].y[:, None]) ** 2).sum(0)
    out = np.empty(len(target))
    for i in every:
        best = int(errors[i].sum(0).argmin()) if len(parts) > 2 else len(PENALTIES) - 1
        out[fold == i] = _ridge([parts[k] for k in every - {i}])(parts[i].x)[:, best]
    return out


class _Part:
    """Rows of a fold and the sums that a regression needs of them."""

    def __init__(self, x: Array, y: Array) -> None:
        self.x, self.y = x, y
        self.sums = (float(len(y)), x.sum(0), y.sum(), x.T @ x, x.T @ y)


def _ridge(parts: Sequence[_Part]) -> Callable[[Array], Array]:
    """Fit a ridge regression with an intercept to several parts; the function returned predicts `[N, H]` under every
    penalty, `[N, penalties]`."""
    n, sx, sy, xx, xy = (sum(column) for column in zip(*(part.sums for part in parts), strict=True))
    centre, level = np.asarray(sx / n), float(sy / n)
    values, vectors = np.linalg.eigh(np.asarray(xx) - n * np.outer(centre, centre))
    values = values.clip(min=0.0)
    scale = float(values.mean()) or 1.0
    projected = vectors.T @ (np.asarray(xy) - n * centre * level)
    weights = vectors @ (projected[:, None] / (values[:, None] + PENALTIES * scale))
    return lambda x: np.asarray(level + (x - centre) @ weights)


def credit_errors(sampled: Sampled) -> Array:
    """Return E[(reward - value)^2] of each prompt and place, `[P, 1 + K]`, where the value is that of a linear probe.

    Place 0 is the prompt's end, where all samples of a prompt have one state: the probe learns prompt means. At the
    other places it sees the state there beside that at the prompt's end. What a probe cannot see, a trained critic
    might: errors are upper bounds of a critic's.
    """
    prompts, n, places, _ = sampled.states.shape
    number = np.arange(prompts)
    rows, target = np.repeat(number, n), sampled.reward.ravel()
    at_prompt = probe(sampled.states[:, 0, 0], sampled.reward.mean(1), number)
    values = [np.repeat(at_prompt, n)]
    for k in range(1, places):
        features = np.concatenate([sampled.states[:, :, k], sampled.states[:, :, 0]], axis=2)
        values.append(probe(features.reshape(prompts * n, -1), target, rows))
    return np.stack([((target - value) ** 2).reshape(prompts, n).mean(1) for value in values], axis=1)


def prompt_error(errors: Array, reward: Array, rng: np.random.Generator) -> Interval:
    """Return m0 = E[(reward - probe at the prompt)^2] / within-prompt variance - 1.

    With a value function of that error as the baseline, credit has 1 + m0 times the variance that it has under the
    true success rate of each prompt.
    """
    variance = reward.var(1, ddof=1)
    return ratio(errors[:, 0] - variance, variance, rng)


def explained(errors: Array, reward: Array, place: int, rng: np.random.Generator) -> Interval:
    """Return EV(t) = 1 - E[(reward - probe at t)^2] / within-prompt variance; below 0 where the prompt is not known."""
    variance = reward.var(1, ddof=1)
    return ratio(variance - errors[:, place], variance, rng)


def critic_factor(errors: Array, reward: Array, rng: np.random.Generator) -> Interval:
    """Return mean_t(1 - EV(t)) over the parts of the response: what token-level values make of the variance."""
    return ratio(errors[:, 1:].mean(1), reward.var(1, ddof=1), rng)


def extreme_share(score: Array, edge: float, rng: np.random.Generator) -> Interval:
    """Return the share of prompts whose success rate is below `edge` or above 1 - `edge`."""
    rate = score.mean(1)
    return mean(((rate < edge) | (rate > 1 - edge)).astype(float), rng)


def group_rates(
    reward: Array, groups: Sequence[int], present: int, seconds: Callable[[int], float], rng: np.random.Generator
) -> dict[int, Interval]:
    """Return informative groups a second for each group size, relative to the present one; `seconds(G)` is what a group
    of G takes. Rewards of the same prompts stand above and below, so what they share cancels."""
    now = (1 - uniform_share(reward, present)) / seconds(present)
    return {g: ratio((1 - uniform_share(reward, g)) / seconds(g), now, rng) for g in groups}


def over_steps(values: Sequence[float], level: float = 0.95) -> Interval | None:
    """Return the mean of a number of timed steps with its t interval; None without any."""
    from paribus.stats.interval import t_quantile

    n = len(values)
    if not n:
        return None
    middle = float(np.mean(values))
    half = t_quantile(level, n - 1) * float(np.std(values, ddof=1)) / np.sqrt(n) if n > 1 else np.inf
    return Interval(middle, middle - float(half), middle + float(half), n, "t over timed steps")
