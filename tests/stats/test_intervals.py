"""Intervals of rates, means and ratios against numbers worked out by hand (reference 10.2, 10.3)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from paribus.stats import bootstrap, log_ratio, mcnemar, paired, wilson


@pytest.mark.parametrize(
    ("correct", "total", "low", "high"),
    [
        (596, 1319, 0.425177, 0.478817),
        (758, 1319, 0.547818, 0.601104),
        (776, 1319, 0.561546, 0.614590),
        (0, 10, 0.0, 0.277533),
        (8, 10, 0.490162, 0.943318),
    ],
)
def test_wilson_by_hand(correct: int, total: int, low: float, high: float) -> None:
    got = wilson(correct, total)
    assert got.estimate == correct / total and got.n == total
    assert (got.low, got.high) == pytest.approx((low, high), abs=2e-6)  # the numbers were made with z = 1.96


def test_wilson_is_symmetric_and_holds_at_the_edges() -> None:
    for k, n in [(0, 7), (3, 7), (50, 51)]:
        one, other = wilson(k, n), wilson(n - k, n)
        assert one.low == pytest.approx(1 - other.high, abs=1e-12)
    assert wilson(0, 0)[1:3] == (0.0, 1.0) and math.isnan(wilson(0, 0).estimate)
    assert wilson(5, 5).high == 1.0 and wilson(5, 5).low > 0.5


@pytest.mark.parametrize(
    ("wins", "losses", "exact"),
    [(10, 3, 0.09228515625), (6, 0, 0.03125), (5, 0, 0.0625), (0, 0, 1.0), (5, 5, 1.0)],
)
def test_mcnemar_exact_by_hand(wins: int, losses: int, exact: float) -> None:
    assert mcnemar(wins, losses, mid=False) == pytest.approx(exact, abs=1e-12)
    assert mcnemar(losses, wins, mid=False) == pytest.approx(exact, abs=1e-12)


def test_mcnemar_mid_p_by_hand() -> None:
    assert mcnemar(10, 3) == pytest.approx(0.057373046875, abs=1e-12)
    assert mcnemar(0, 0) == 1.0
    # 5 and 5: 2 P(X <= 5) - P(X = 5) = 1
    assert mcnemar(5, 5) == pytest.approx(1.0)


def test_case_e07_margins_alone_do_not_decide() -> None:
    """776 against 758 of 1,319 is p = .48 unpaired, and anything from 1e-5 to .46 paired."""
    pairs = [(18, 0), (60, 42), (118, 100), (268, 250)]
    got = [mcnemar(b, c, mid=False) for b, c in pairs]
    assert got == pytest.approx([1e-5, 0.09184, 0.24952, 0.45513], abs=1e-4)
    by_total = {40: 0.0064, 60: 0.0273, 70: 0.0414, 74: 0.0474, 76: 0.0505, 84: 0.0630, 100: 0.0886, 200: 0.229}
    for total, p in by_total.items():
        assert mcnemar((total + 18) // 2, (total - 18) // 2, mid=False) == pytest.approx(p, abs=6e-4)


def test_paired_difference_by_hand() -> None:
    """Wins b, losses c: mean (b - c)/N and SE sqrt(b + c - (b - c)^2/N)/N."""
    a = [1] * 30 + [1] * 10 + [0] * 3 + [0] * 7
    b = [1] * 30 + [0] * 10 + [1] * 3 + [0] * 7
    got = paired(a, b)
    assert (got.wins, got.losses, got.n) == (10, 3, 50)
    assert got.estimate == pytest.approx(0.14)
    assert got.se == pytest.approx(math.sqrt(13 - 49 / 50) / 50, abs=1e-12)
    assert got.p == pytest.approx(0.057373046875, abs=1e-12)
    # Newcombe's method 10 written out: margins 40, 33 of 50; phi from (30, 10, 3, 7) less the continuity correction
    phi = (30 * 7 - 10 * 3 - 25) / math.sqrt(40 * 10 * 33 * 17)
    one, two = wilson(40, 50), wilson(33, 50)
    dl, du = 0.8 - one.low, two.high - 0.66
    assert got.low == pytest.approx(0.14 - math.sqrt(dl**2 - 2 * phi * dl * du + du**2), abs=1e-12)
    swapped = paired(b, a)
    assert (swapped.low, swapped.high) == pytest.approx((-got.high, -got.low), abs=1e-12)


def test_no_disagreement_is_not_certainty() -> None:
    got = paired([1, 1, 0, 0] * 5, [1, 1, 0, 0] * 5)
    assert got.estimate == 0 and got.p == 1 and got.low < 0 < got.high


def test_paired_interval_covers_at_its_level() -> None:
    rng, hits = np.random.default_rng(0), 0
    for _ in range(600):
        easy = rng.random(120)
        a, b = (rng.random(120) < 0.2 + 0.6 * easy), (rng.random(120) < 0.1 + 0.6 * easy)
        got = paired(a.astype(float), b.astype(float))
        hits += got.low <= 0.1 <= got.high
    assert 0.93 <= hits / 600 <= 0.98


def test_paired_refuses_other_problems() -> None:
    with pytest.raises(ValueError, match="one score per problem"):
        paired([1, 0], [1, 0, 1])


def test_bootstrap_of_a_tiny_case_meets_its_enumeration() -> None:
    """d = [1, 1, 0, -1]: over all 256 resamples mean .25, 2.5 % and 97.5 % at -.5 and 1."""
    d = np.array([1.0, 1.0, 0.0, -1.0])
    every = [np.mean(r) for r in itertools.product(d, repeat=4)]
    assert np.std(every) == pytest.approx(0.414578, abs=1e-6)
    got = bootstrap(d, np.random.default_rng(1), draws=20_000)
    assert (got.estimate, got.low, got.high) == (0.25, -0.5, 1.0)


def test_bootstrap_is_its_rng_and_agrees_with_the_standard_error() -> None:
    d = np.array([1.0] * 60 + [-1.0] * 42 + [0.0] * 1217)
    one = bootstrap(d, np.random.default_rng(3))
    assert one == bootstrap(d, np.random.default_rng(3))
    se = math.sqrt(102 - 18**2 / 1319) / 1319
    assert (one.high - one.low) / (2 * 1.96) == pytest.approx(se, rel=0.03)


def test_log_ratio_by_hand() -> None:
    """Ratios 1/2, 1/4, 1/8: logs -1, -2, -3 times ln 2, mean -2, sd 1, SE 1/sqrt(3), t(2) = 4.302653."""
    got = log_ratio([1, 1, 1], [2, 4, 8])
    half = 4.302652729911275 / math.sqrt(3) * math.log(2)
    assert got.estimate == pytest.approx(0.25)
    assert (got.low, got.high) == pytest.approx((0.25 * math.exp(-half), 0.25 * math.exp(half)), abs=1e-9)
    assert log_ratio([2, 4, 8], [1, 1, 1]).low == pytest.approx(1 / got.high)
    assert log_ratio([3.0], [4.0])[:3] == (pytest.approx(0.75), 0.0, math.inf)
