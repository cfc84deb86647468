"""Two checkpoints: which p belongs to which scores, equivalence as the interval turned round, and the oracles."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, ttest_rel
from statsmodels.stats.contingency_tables import mcnemar as sm_mcnemar
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint
from statsmodels.stats.weightstats import ttost_paired

from paribus.stats import difference, mcnemar, paired, paired_equivalence, wilson
from paribus.stats.interval import t_quantile, t_tail, z_quantile


def right_or_wrong(both: int, only_a: int, only_b: int, neither: int) -> tuple[np.ndarray, np.ndarray]:
    a = [1] * both + [1] * only_a + [0] * only_b + [0] * neither
    b = [1] * both + [0] * only_a + [1] * only_b + [0] * neither
    return np.array(a, float), np.array(b, float)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 200), st.integers(0, 200))
def test_mcnemar_against_statsmodels(wins: int, losses: int) -> None:
    exact = sm_mcnemar([[7, wins], [losses, 7]], exact=True).pvalue if wins + losses else 1.0
    assert mcnemar(wins, losses, mid=False) == pytest.approx(exact, abs=1e-12)
    point = math.comb(wins + losses, wins) / 2 ** (wins + losses) if wins + losses else 0.0
    assert mcnemar(wins, losses) == pytest.approx(min(1, exact - point) if wins != losses else 1.0, abs=1e-11)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3000), st.data(), st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_against_scipy_and_statsmodels(n: int, data: st.DataObject, level: float) -> None:
    k = data.draw(st.integers(0, n))
    got, oracle = wilson(k, n, level), binomtest(k, n).proportion_ci(level, method="wilson")
    assert (got.low, got.high) == pytest.approx((oracle.low, oracle.high), abs=1e-9)
    assert (got.low, got.high) == pytest.approx(proportion_confint(k, n, 1 - level, "wilson"), abs=1e-9)


def test_quantiles_and_tails_are_each_others_inverse() -> None:
    for df in (1.3, 4, 250):
        assert t_tail(t_quantile(0.9, df), df) == pytest.approx(0.05, abs=1e-10)
    assert t_quantile(0.9, 1e9) == pytest.approx(z_quantile(0.9), abs=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_means_of_samples_against_scipy_and_statsmodels(seed: int) -> None:
    """Scores that are not 0 or 1 get the paired t, in the p as in the interval and in equivalence."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 9, 40) / 8, rng.integers(0, 9, 40) / 8
    got, oracle = paired(a, b), ttest_rel(a, b)
    assert got.p == pytest.approx(oracle.pvalue, abs=1e-10)
    assert got[1:3] == pytest.approx(tuple(oracle.confidence_interval()), abs=1e-10)
    for margin in (0.02, 0.1, 0.3):
        p = ttost_paired(a, b, -margin, margin)[0]
        assert paired_equivalence(a, b, margin) == pytest.approx(p, abs=1e-10)


def test_uncorrelated_scores_have_the_unpaired_interval() -> None:
    """24 x 4 = 12 x 8: no correlation to use, so Newcombe's paired interval is his unpaired one."""
    a, b = right_or_wrong(24, 12, 8, 4)
    got = paired(a, b)
    assert got[1:3] == pytest.approx(confint_proportions_2indep(36, 48, 32, 48, method="newcomb"), abs=1e-9)


@pytest.mark.parametrize("counts", [(600, 90, 72, 557), (30, 10, 3, 7), (5, 0, 0, 5), (0, 9, 0, 0), (40, 2, 30, 1)])
@pytest.mark.parametrize("margin", [0.02, 0.05, 0.2, 0.9])
def test_equivalence_is_the_interval_turned_round(counts: tuple[int, int, int, int], margin: float) -> None:
    """At level 1 - 2p the farther end of the interval lies on the margin; inside for any greater p."""
    a, b = right_or_wrong(*counts)
    p = paired_equivalence(a, b, margin)
    assert p == pytest.approx(paired_equivalence(b, a, margin), abs=1e-9)
    assert difference([a], [b]).p_equivalent(margin) == pytest.approx(p, abs=1e-9)
    estimate = abs(a.mean() - b.mean())
    assert (p < 0.5) == (estimate < margin) and 0 <= p <= 1
    if 1e-9 < p < 0.5:
        got = paired(a, b, 1 - 2 * p)
        assert max(-got.low, got.high) == pytest.approx(margin, abs=1e-9)


def test_equivalence_holds_just_when_the_90_percent_interval_is_within() -> None:
    rng = np.random.default_rng(4)
    for _ in range(40):
        a, b = (rng.random(300) < 0.6).astype(float), (rng.random(300) < 0.6).astype(float)
        got = paired(a, b, 0.9)
        assert (paired_equivalence(a, b, 0.09) < 0.05) == (got.low > -0.09 and got.high < 0.09)


def test_equivalence_gets_easier_with_the_margin() -> None:
    a, b = right_or_wrong(600, 90, 72, 557)
    p = [paired_equivalence(a, b, m) for m in (0.001, 0.0136, 0.0137, 0.02, 0.03, 0.05, 0.5)]
    assert p == sorted(p, reverse=True) and p[0] > 0.5 > p[2] and p[-1] < 1e-12


def test_one_problem_shows_nothing() -> None:
    got = paired([0.5], [0.25])
    assert (got.low, got.high, got.p) == (-math.inf, math.inf, 1.0)
    assert paired_equivalence([0.5], [0.25], 0.9) == 0.5


def test_the_mid_p_and_the_interval_agree_but_near_the_level() -> None:
    """Where they part, p is within .005 of the level; then the p decides."""
    parted = []
    for wins in range(30):
        for losses in range(30):
            got = paired(*right_or_wrong(40, wins, losses, 40))
            if (got.p < 0.05) != (got.low > 0 or got.high < 0):
                parted.append(got.p)
    assert len(parted) <= 60 and all(0.045 < p < 0.055 for p in parted)
