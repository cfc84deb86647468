"""Numbers of right answers alone: the founding experiment's 776 and 758 of 1,319, and oracles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.proportion import confint_proportions_2indep, proportions_ztest

from paribus.stats import discordance, mcnemar


def test_the_founding_experiment_is_inconclusive() -> None:
    got = discordance(776, 758, 1319)
    assert got.estimate == pytest.approx(0.013647, abs=1e-6)
    assert 0.7104 <= round(got.z, 4) <= 0.7105 and got.p == pytest.approx(0.477, abs=5e-4)
    assert (got.least, got.most) == (18, 1104)
    assert (got.most_mid_p, got.most_exact) == (82, 74)
    assert got.low < 0 < got.high
    assert got.problems_needed is not None and 9_500 < got.problems_needed < 10_500
    assert got.seeds_needed is not None and 19 <= got.seeds_needed <= 22


def test_the_gain_over_the_base_is_certain_whatever_the_overlap() -> None:
    got = discordance(776, 596, 1319)
    assert got.most_mid_p == got.most_exact == got.most and got.low > 0.09


def test_too_small_a_gap_is_never_significant() -> None:
    got = discordance(100, 97, 200)
    assert got.most_mid_p is None and got.most_exact is None and got.least == 3
    same = discordance(100, 100, 200)
    assert (same.z, same.p, same.problems_needed, same.seeds_needed) == (0.0, 1.0, None, None)
    assert (discordance(0, 0, 5).most, discordance(5, 5, 5).p) == (0, 1.0)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 300), st.data())
def test_against_statsmodels_and_by_trying_every_overlap(n: int, data: st.DataObject) -> None:
    a, b = data.draw(st.integers(0, n)), data.draw(st.integers(0, n))
    got = discordance(a, b, n)
    bounds = confint_proportions_2indep(a, n, b, n, method="newcomb")
    assert (got.low, got.high) == pytest.approx(bounds, abs=1e-9)
    if 0 < a + b < 2 * n:
        z, p = proportions_ztest([a, b], [n, n])
        assert (got.z, got.p) == pytest.approx((z, p), abs=1e-9)
    both = range(max(0, a + b - n), min(a, b) + 1)
    pairs = [(a - overlap, b - overlap) for overlap in both]
    totals = [wins + losses for wins, losses in pairs]
    assert (min(totals), max(totals)) == (got.least, got.most)
    for mid, last in ((True, got.most_mid_p), (False, got.most_exact)):
        found = [wins + losses for wins, losses in pairs if mcnemar(wins, losses, mid=mid) < 0.05]
        assert (max(found) if found else None) == last
        if found:
            assert sorted(found) == [t for t in sorted(totals) if t <= max(found)]


def test_assumptions_move_the_plan_as_they_should() -> None:
    base = discordance(776, 758, 1319)
    closer = discordance(776, 758, 1319, correlation=0.7)
    wilder = discordance(776, 758, 1319, seed_sd=0.03)
    assert np.isclose(closer.problems_needed / base.problems_needed, 0.6, atol=0.01)
    assert wilder.seeds_needed > 3 * base.seeds_needed
    assert closer.seeds_needed == base.seeds_needed and wilder.problems_needed == base.problems_needed


def test_impossible_counts_are_refused() -> None:
    for bad in ((6, 1, 5), (-1, 1, 5), (0, 1, 1)):
        with pytest.raises(ValueError, match="not numbers of right answers"):
            discordance(*bad)
