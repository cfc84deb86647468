"""The reference's worked numbers (10.1 to 10.4) that no other test here states, to 1e-6."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import bootstrap as scipy_bootstrap
from scipy.stats import ttest_ind

from paribus.stats import bootstrap, crossed, difference, mcnemar, permutation
from paribus.stats.crossed import anova
from paribus.stats.interval import t_quantile, t_tail
from paribus.stats.simulate import FORMS

E30 = np.array([[1, 0, 0, 0], [1, 0, 1, -1], [1, 1, 1, 1]], float)
A = [0.588, 0.575, 0.601, 0.580, 0.592]
B = [0.575, 0.583, 0.570, 0.566, 0.579]


def test_e30_in_full() -> None:
    assert E30.mean(1) == pytest.approx([0.25, 0.25, 1], abs=1e-9)
    assert E30.mean(0) == pytest.approx([1, 1 / 3, 2 / 3, 0], abs=1e-9)
    a = anova(E30)
    assert (a.seed, a.item, a.residual) == pytest.approx((0.75, 0.55555556, 0.30555556), abs=1e-8)
    assert math.sqrt(a.seed / E30.size) == pytest.approx(0.25, abs=1e-8)  # seeds only
    assert math.sqrt(a.item / E30.size) == pytest.approx(0.21516574, abs=1e-8)  # items only
    assert (a.seed - a.residual) / 4 == pytest.approx(0.11111111, abs=1e-8)  # components
    assert (a.item - a.residual) / 3 == pytest.approx(0.08333333, abs=1e-8)
    got = crossed(E30)
    assert (got.high - got.estimate) / t_quantile(0.95, 2.50193050) == pytest.approx(0.28867513, abs=1e-7)


def test_welch_on_run_means() -> None:
    """Problems that add no noise leave Welch's test: t 2.300435, df 6.978161, p .0550698."""
    a, b = (np.repeat(np.array(x)[:, None], 40, axis=1) for x in (A, B))
    d = difference(a, b)
    assert d.estimate == pytest.approx(0.0126, abs=1e-12)
    assert d.estimate / d.se == pytest.approx(2.300435, abs=1e-6)
    assert 2 * t_tail(2.300435, 6.978161) == pytest.approx(0.0550698, abs=1e-6)
    oracle = ttest_ind(A, B, equal_var=False)
    assert d.estimate / d.se == pytest.approx(oracle.statistic, abs=1e-9)
    own = [anova(x).seed / x.size for x in (a, b)]  # the ANOVA form of unpaired seeds, kept for calibration
    variance, df = (float(x) for x in FORMS["seed floor"](np.array(own[0]), np.array(own[1]), 0.0, 0.0, 5, 40))
    assert df == pytest.approx(6.978161, abs=1e-6)
    half, bounds = t_quantile(0.95, df) * math.sqrt(variance), oracle.confidence_interval()
    assert (0.0126 - half, 0.0126 + half) == pytest.approx((-0.0003598, 0.0255598), abs=1e-6)
    assert (0.0126 - half, 0.0126 + half) == pytest.approx((bounds.low, bounds.high), abs=1e-9)
    assert permutation(A, B).p == pytest.approx(0.0555556, abs=1e-6)


def test_the_tiny_bootstrap_against_its_256_resamples() -> None:
    d = np.array([1.0, 1.0, 0.0, -1.0])
    every = np.array([np.mean(r) for r in itertools.product(d, repeat=4)])
    assert every.std() == pytest.approx(0.414578, abs=1e-6)
    assert ((every <= 0).mean(), (every < 0).mean()) == (0.375, 0.18359375)
    got = bootstrap(d, np.random.default_rng(0), draws=40_000)
    assert got[:3] == (0.25, -0.5, 1.0)


def test_bootstrap_against_scipy() -> None:
    x = np.random.default_rng(1).normal(size=200)
    got = bootstrap(x, np.random.default_rng(2), draws=20_000)
    oracle = scipy_bootstrap((x,), np.mean, n_resamples=20_000, method="percentile", rng=3).confidence_interval
    assert (got.low, got.high) == pytest.approx((oracle.low, oracle.high), abs=0.006)


@pytest.mark.parametrize(("total", "p"), [(150, 0.165), (200, 0.229), (300, 0.326)])
def test_discordant_totals_of_the_founding_gap(total: int, p: float) -> None:
    assert mcnemar((total + 18) // 2, (total - 18) // 2, mid=False) == pytest.approx(p, abs=6e-4)
