"""Seeds x problems: the worked example E30, laws, and the bootstrap that checks it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paribus.stats import crossed, crossed_bootstrap, difference
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


def test_order_does_not_matter_and_the_sign_only_flips() -> None:
    rng = np.random.default_rng(1)
    d = rng.normal(0.1, 1, (3, 20))
    one = crossed(d)
    assert crossed(d[::-1, rng.permutation(20)])[:3] == pytest.approx(one[:3])
    assert crossed(-d)[:3] == pytest.approx((-one.estimate, -one.high, -one.low))


def test_no_spread_at_all_is_a_point() -> None:
    assert crossed(np.ones((2, 3)))[:3] == (1.0, 1.0, 1.0)


def test_what_cannot_be_said_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 seeds"):
        crossed(np.ones((1, 5)))


def test_crossed_bootstrap_is_its_rng_and_wider_than_problems_alone() -> None:
    rng = np.random.default_rng(3)
    item = rng.normal(0, 2, 400)
    a, b = ((rng.random((4, 400)) < 1 / (1 + np.exp(-item - rng.normal(0, 0.3, (4, 1))))).astype(float) for _ in "ab")
    one = crossed_bootstrap(a, b, np.random.default_rng(9), draws=4000)
    assert one == crossed_bootstrap(a, b, np.random.default_rng(9), draws=4000)
    assert one.estimate == pytest.approx(a.mean() - b.mean())
    d = a.mean(0) - b.mean(0)
    assert one.high - one.low > 2 * 1.96 * d.std() / 20
    t = difference(a, b).interval()
    assert 0.5 < (one.high - one.low) / (t.high - t.low) < 1.5
