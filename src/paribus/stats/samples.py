"""Several samples per problem: avg@k, pass@k, maj@k and best-of-k, as expected values that no drawing blurs.

The problem stays the unit: samples of one problem are averaged first, for they share its difficulty.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from paribus.stats.interval import t_quantile, wilson


class Average(NamedTuple):
    """avg@k: the mean score with its interval over problems, which holds the noise of sampling already.

    `se` is the root of the mean square deviation of the problems' means over the square root of their number, and
    `between` the standard deviation of the k single-sample scores of the whole set (None with one sample).
    """

    estimate: float
    low: float
    high: float
    se: float
    between: float | None
    problems: int
    samples: int
    method: str


def average(scores: ArrayLike, level: float = 0.95) -> Average:
    """Return avg@k of scores [N, k]: Wilson's interval for one right-or-wrong sample each, else t over problems."""
    x = np.asarray(scores, float)
    if x.ndim != 2 or not x.size:
        raise ValueError(f"avg@k needs scores [problems, samples], got shape {x.shape}")
    (n, k), means = x.shape, x.mean(1)
    estimate, se = float(means.mean()), float(means.std()) / math.sqrt(n)
    if k == 1 and np.isin(x, (0, 1)).all():
        own = wilson(float(x.sum()), n, level)
        return Average(estimate, own.low, own.high, se, None, n, 1, own.method)
    half = t_quantile(level, n - 1) * float(means.std(ddof=1)) / math.sqrt(n) if n > 1 else math.inf
    between = float(x.mean(0).std(ddof=1)) if k > 1 else None
    return Average(estimate, estimate - half, estimate + half, se, between, n, k, "t over problems")


def pass_at_k(n: ArrayLike, c: ArrayLike, k: int) -> np.ndarray:
    """Return the unbiased pass@k = 1 - C(n - c, k)/C(n, k) of problems with c right among n samples, elementwise.

    Source: Chen et al. 2021 (arXiv:2107.03374), as a product, so that nothing overflows.
    """
    samples, right = np.broadcast_arrays(np.asarray(n), np.asarray(c))
    if k < 1 or (samples < k).any():
        raise ValueError(f"pass@{k} needs at least {k} samples of every problem and k of at least 1")
    if (right < 0).any() or (right > samples).any():
        raise ValueError("more right answers than samples, or fewer than none")
    drawn = np.arange(k)
    factors = (samples[..., None] - right[..., None] - drawn) / (samples[..., None] - drawn)
    return 1 - np.maximum(factors, 0).prod(-1)


def majority(
    answers: Sequence[Hashable | None], right: Sequence[float], k: int, *, missing_votes: bool = False
) -> float:
    """Return maj@k of one problem: the expected score of the most frequent answer among k of its samples.

    All C(n, k) choices count, by the numbers of equal answers. `answers` are in normal form ("18" for "18.0"), `right`
    is each one's score; an answer is worth the mean score of its samples. A tie gives each of its answers an equal
    share. A missing answer (None) does not vote unless `missing_votes`, which makes all missing ones one answer; no
    vote at all scores 0. For n up to about 1,000.
    """
    n = len(answers)
    if len(right) != n:
        raise ValueError(f"each answer needs its score, got {n} answers and {len(right)} scores")
    if not 1 <= k <= n:
        raise ValueError(f"maj@{k} needs k from 1 to the {n} samples there are")
    votes: dict[Hashable | None, list[float]] = {}
    silent = 0
    for answer, score in zip(answers, right, strict=True):
        if answer is None and not missing_votes:
            silent += 1
        else:
            votes.setdefault(answer, []).append(score)
    counts = [len(scores) for scores in votes.values()]
    worth = [(i, sum(scores) / len(scores)) for i, scores in enumerate(votes.values()) if any(scores)]
    shares = (score * _winning(counts[i], counts[:i] + counts[i + 1 :], silent, k) for i, score in worth)
    return math.fsum(shares) / math.comb(n, k)


def _winning(own: int, others: Sequence[int], silent: int, k: int) -> float:
    """Return the number of choices of k samples in which an answer given `own` times wins, ties by their share.

    ways[j - 1, v, t] counts the choices of v votes for the answers seen so far when the own one has j: none of them
    has more than j, and t have as many.
    """
    top = min(own, k)
    ways = np.zeros((top, k + 1, len(others) + 1))
    ways[:, 0, 0] = 1
    for count in others:
        seen = ways.copy()
        for v in range(1, min(count, top) + 1):
            chosen = math.comb(count, v)
            ways[v - 1, v:, 1:] += chosen * seen[v - 1, : k + 1 - v, :-1]  # a tie where the own answer has v too
            ways[v:, v:, :] += chosen * seen[v:, : k + 1 - v, :]
    shared = (ways / np.arange(1, len(others) + 2)).sum(2)
    return math.fsum(
        math.comb(own, j) * shared[j - 1, v] * math.comb(silent, k - j - v)
        for j in range(1, top + 1)
        for v in range(k - j + 1)
    )


class BestOf(NamedTuple):
    """Expected best score of `n` samples out of those there are.

    `exact` takes n different samples, all choices alike: the unbiased estimate for n new ones. `bootstrap` draws n of
    them with replacement, as several trainers log it; it is lower, for it draws some samples twice. Neither is drawn.
    """

    exact: float
    bootstrap: float
    n: int
    samples: int


def best_of(scores: ArrayLike, n: int) -> BestOf:
    """Return the expected best of n of one problem's scores, by both estimators; one sample allows n = 1 only."""
    x = np.sort(np.asarray(scores, float))
    if x.ndim != 1 or not 1 <= n <= x.size:
        raise ValueError(f"best of {n} needs a row of at least {n} scores, got shape {x.shape}; with one only mean@1")
    rank, total = np.arange(x.size), math.comb(x.size, n)
    different = np.array([math.comb(i, n - 1) / total for i in range(x.size)])
    repeated = ((rank + 1) / x.size) ** n - (rank / x.size) ** n
    return BestOf(float(different @ x), float(repeated @ x), n, x.size)
