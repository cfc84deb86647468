"""Seeds x problems: the worked example E30, laws, and the coverage that the method promises."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paribus.stats import crossed, crossed_bootstrap, two_way
from paribus.stats.crossed import anova
from paribus.stats.interval import t_quantile

E30 = [[1, 0, 0, 0], [1, 0, 1, -1], [1, 1, 1, 1]]


def test_e30_mean_squares_variance_and_degrees_of_freedom() -> None:
    a = anova(E30)
    assert a[:3] == pytest.approx((0.75, 0.55555556, 0.30555556), abs=1e-8)
    got = crossed(E30)
    assert got.estimate == 0.5 and got.n == 3
    half = t_quantile(0.95, 2.50193050) * 0.28867513
    assert (got.low, got.high) == pytest.approx((0.5 - half, 0.5 + half), abs=1e-6)


def test_one_varying_factor_gives_the_ordinary_t_interval() -> None:
    """Without any spread over problems only the seed means matter: t with S - 1 degrees of freedom."""
    means = np.array([0.25, 0.25, 1.0])
    got = crossed(np.repeat(means[:, None], 50, axis=1))
    half = t_quantile(0.95, 2) * means.std(ddof=1) / math.sqrt(3)
    assert (got.low, got.high) == pytest.approx((0.5 - half, 0.5 + half), abs=1e-9)


def test_seed_means_against_welch_by_hand() -> None:
    """Five runs each whose problems add no noise: Welch on the run means, 95 % interval [-.0003598, .0255598]."""
    a = np.array([0.588, 0.575, 0.601, 0.580, 0.592])
    b = np.array([0.575, 0.583, 0.570, 0.566, 0.579])
    got = two_way(np.repeat(a[:, None], 40, axis=1), np.repeat(b[:, None], 40, axis=1))
    assert got.estimate == pytest.approx(0.0126)
    assert (got.low, got.high) == pytest.approx((-0.0003598, 0.0255598), abs=1e-6)
    assert got.n == 10


def test_identical_seeds_leave_the_problem_noise_only() -> None:
    """Three copies of one run are one run: the interval is the paired t interval over problems, no narrower."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2, 60).astype(float), rng.integers(0, 2, 60).astype(float)
    d = a - b
    spread = np.vstack([a + e for e in (-1e-9, 0, 1e-9)]), np.vstack([b + e for e in (-1e-9, 0, 1e-9)])
    got = two_way(*spread)
    half = t_quantile(0.95, 59) * d.std(ddof=1) / math.sqrt(60)
    assert (got.low, got.high) == pytest.approx((d.mean() - half, d.mean() + half), rel=1e-3)


def test_swapping_algorithms_flips_the_sign_and_order_does_not_matter() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random((3, 20)), rng.random((4, 20))
    one, other = two_way(a, b), two_way(b, a)
    assert (other.estimate, other.low, other.high) == pytest.approx((-one.estimate, -one.high, -one.low))
    order = rng.permutation(20)
    assert two_way(a[::-1, order], b[:, order])[:3] == pytest.approx(one[:3])


def test_no_spread_at_all_is_a_point() -> None:
    assert two_way(np.ones((2, 3)), np.zeros((2, 3)))[:3] == (1.0, 1.0, 1.0)
    assert crossed(np.ones((2, 3)))[:3] == (1.0, 1.0, 1.0)


def test_what_cannot_be_said_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 seeds"):
        two_way(np.ones((1, 5)), np.ones((3, 5)))
    with pytest.raises(ValueError, match="same problems"):
        two_way(np.ones((2, 5)), np.ones((2, 4)))


def test_coverage_under_seed_spread_where_checkpoint_tests_fail() -> None:
    """Equal algorithms, problem difficulty and seed effects as in the reference's calibration: about 95 % cover 0."""
    rng, hits, naive, repeats = np.random.default_rng(2), 0, 0, 250
    for _ in range(repeats):
        item = rng.normal(0.4, 2, 300)
        tables = []
        for _ in range(2):
            logit = item + rng.normal(0, 0.25, (3, 1)) + rng.normal(0, 0.6, (3, 300))
            tables.append((rng.random((3, 300)) < 1 / (1 + np.exp(-logit))).astype(float))
        got = two_way(*tables)
        hits += got.low <= 0 <= got.high
        d = tables[0][0] - tables[1][0]
        naive += abs(d.mean()) <= 1.96 * d.std() / math.sqrt(300)
    assert 0.92 <= hits / repeats <= 1.0
    assert naive / repeats < hits / repeats - 0.03


def test_crossed_bootstrap_is_its_rng_and_wider_than_problems_alone() -> None:
    rng = np.random.default_rng(3)
    item = rng.normal(0, 2, 400)
    a, b = ((rng.random((4, 400)) < 1 / (1 + np.exp(-item - rng.normal(0, 0.3, (4, 1))))).astype(float) for _ in "ab")
    one = crossed_bootstrap(a, b, np.random.default_rng(9), draws=4000)
    assert one == crossed_bootstrap(a, b, np.random.default_rng(9), draws=4000)
    assert one.estimate == pytest.approx(a.mean() - b.mean())
    d = a.mean(0) - b.mean(0)
    assert one.high - one.low > 2 * 1.96 * d.std() / 20
    t = two_way(a, b)
    assert 0.5 < (one.high - one.low) / (t.high - t.low) < 1.5
