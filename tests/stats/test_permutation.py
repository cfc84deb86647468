"""Runs as units: exact permutation and the chance of a better run, by hand, by laws and against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import permutation_test

from paribus.stats import permutation, probability_better

A = [0.588, 0.575, 0.601, 0.580, 0.592]
B = [0.575, 0.583, 0.570, 0.566, 0.579]


def test_the_worked_example() -> None:
    got = permutation(A, B)
    assert got.p == pytest.approx(0.0555556, abs=1e-6) and got.p == 14 / 252
    assert got.splits == 252


@pytest.mark.parametrize(("runs", "splits", "smallest"), [(3, 20, 0.1), (4, 70, 2 / 70), (5, 252, 2 / 252)])
def test_the_smallest_p_of_so_many_runs(runs: int, splits: int, smallest: float) -> None:
    """3 + 3 runs can never be significant at 5 %."""
    got = permutation(np.arange(runs) + 100.0, np.arange(runs))
    assert (got.p, got.splits) == (pytest.approx(smallest, abs=1e-12), splits)


means = st.lists(st.integers(0, 12).map(lambda k: k / 12), min_size=2, max_size=5)


@settings(max_examples=60, deadline=None)
@given(means, means)
def test_against_scipy(a: list[float], b: list[float]) -> None:
    """With ties among the runs too: equal splits count as equal whatever the rounding of their sums."""

    def far(x: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
        return np.round(np.abs(x.mean(axis) - y.mean(axis)), 12)

    oracle = permutation_test((a, b), far, vectorized=True, n_resamples=np.inf, alternative="greater")
    assert permutation(a, b).p == pytest.approx(oracle.pvalue, abs=1e-12)
    assert permutation(b, a).p == pytest.approx(permutation(a, b).p, abs=1e-12)


def test_too_many_splits_need_a_generator_and_come_near() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.6, 1, 12), rng.normal(0, 1, 12)
    with pytest.raises(ValueError, match="2,704,156 splits; give an rng"):
        permutation(a, b)
    got = permutation(a, b, np.random.default_rng(1), draws=20_000)
    assert got == permutation(a, b, np.random.default_rng(1), draws=20_000)
    oracle = permutation_test((a, b), lambda x, y, axis: np.abs(x.mean(axis) - y.mean(axis)), vectorized=True,
                              n_resamples=20_000, alternative="greater", rng=2)  # fmt: skip
    assert got.p == pytest.approx(oracle.pvalue, abs=0.012)
    assert permutation(np.arange(12) + 100.0, np.arange(12.0), np.random.default_rng(1), draws=99).p == 0.01


def test_equal_runs_are_not_shown_to_differ() -> None:
    assert permutation([0.5, 0.5, 0.5], [0.5, 0.5, 0.5]).p == 1.0


def test_probability_better_by_hand() -> None:
    """A wins 5 + 2 + 5 + 4 + 5 of the 25 pairs of runs and ties one (.575 with .575)."""
    got = probability_better(A, B)
    assert got.estimate == (21 + 0.5) / 25 and got.n == 10
    assert 0 < got.low < got.estimate < got.high < 1
    # the ends are where the observed share is z standard errors away, at Hanley and McNeil's variance with 5 runs each
    for t in (got.low, got.high):
        q1, q2 = t / (2 - t), 2 * t * t / (1 + t)
        variance = (t * (1 - t) + 4 * (q1 - t * t) + 4 * (q2 - t * t)) / 25
        assert (got.estimate - t) ** 2 == pytest.approx(1.959963984540054**2 * variance, rel=1e-6)


def test_probability_better_laws() -> None:
    swapped, got = probability_better(B, A), probability_better(A, B)
    assert swapped[:3] == pytest.approx((1 - got.estimate, 1 - got.high, 1 - got.low))
    same = probability_better(A, A)
    assert same.estimate == 0.5 and same.low == pytest.approx(1 - same.high)
    sure = probability_better([3, 4, 5], [0, 1, 2])
    assert sure.estimate == sure.high == 1 and 0.3 < sure.low < 0.7
    few, many = probability_better([1, 2], [0, 1]), probability_better([1, 2] * 5, [0, 1] * 5)
    assert many.high - many.low < few.high - few.low


def test_probability_better_covers() -> None:
    """5 + 5 normal runs, true P = Phi(1 / sqrt 2) = .7602."""
    rng, hits, repeats = np.random.default_rng(3), 0, 800
    for _ in range(repeats):
        got = probability_better(rng.normal(1, 1, 5), rng.normal(0, 1, 5))
        hits += got.low <= 0.760250 <= got.high
    assert 0.93 <= hits / repeats <= 0.985


def test_runs_are_needed_on_both_sides() -> None:
    for test in (permutation, probability_better):
        with pytest.raises(ValueError, match="one mean per run"):
            test([], [1.0])
