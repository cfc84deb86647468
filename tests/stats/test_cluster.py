"""Clustered standard errors: a hand number, limits, and ordinary least squares of statsmodels."""

from __future__ import annotations

import math

import numpy as np
import pytest
import statsmodels.api as sm

from paribus.stats import clustered_se


def test_by_hand() -> None:
    """Mean 1/2; the clusters' sums of deviations are +1, -1, 0: SE^2 = 3/2 (1 + 1 + 0) / 6^2 = 1/12."""
    assert clustered_se([1, 1, 0, 0, 1, 0], ["x", "x", "y", "y", "z", "z"]) == pytest.approx(math.sqrt(1 / 12))


def test_clusters_of_one_are_independent_problems() -> None:
    d = np.random.default_rng(0).normal(size=40)
    assert clustered_se(d, range(40)) == pytest.approx(d.std(ddof=1) / math.sqrt(40), rel=1e-12)


def test_copies_of_a_problem_add_nothing() -> None:
    d = np.random.default_rng(1).normal(size=30)
    once = clustered_se(d, range(30))
    assert clustered_se(np.repeat(d, 8), np.repeat(np.arange(30), 8).tolist()) == pytest.approx(once, rel=1e-12)


def test_one_cluster_says_nothing_of_others() -> None:
    assert clustered_se([1.0, 2.0], ["x", "x"]) == math.inf


@pytest.mark.parametrize("seed", range(10))
def test_against_statsmodels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, clusters = rng.normal(size=60), rng.integers(0, 12, 60)
    fit = sm.OLS(d, np.ones(60)).fit(cov_type="cluster", cov_kwds={"groups": clusters})
    assert clustered_se(d, clusters.tolist()) == pytest.approx(fit.bse[0], rel=1e-9)


def test_each_value_needs_its_cluster() -> None:
    with pytest.raises(ValueError, match="needs its cluster"):
        clustered_se([1.0, 2.0], ["x"])
