"""The difference of two algorithms: hand numbers, laws, and how it falls back to two checkpoints."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paribus.stats import difference, mcnemar, paired
from paribus.stats.difference import combine
from paribus.stats.interval import t_quantile

E30 = np.array([[1, 0, 0, 0], [1, 0, 1, -1], [1, 1, 1, 1]], float)


def runs(seed: int, s: int, n: int, item: np.ndarray, spread: float = 0.3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.random((s, n)) < 1 / (1 + np.exp(-item - rng.normal(0, spread, (s, 1))))).astype(float)


@pytest.fixture
def tables() -> tuple[np.ndarray, np.ndarray]:
    item = np.random.default_rng(0).normal(0.4, 2, 60)
    return runs(1, 3, 60, item), runs(2, 4, 60, item)


def test_e30_as_paired_seeds() -> None:
    """Seeds .75/12 of the variance 1/12, so 3/4 of it with 2 degrees of freedom and 1/4 with 3: 1/df = 11/24."""
    got = difference(E30, np.zeros((3, 4)), paired=True)
    assert (got.estimate, got.se) == pytest.approx((0.5, 0.28867513), abs=1e-8)
    assert got.df == pytest.approx(24 / 11, abs=1e-9)
    assert (got.wins, got.losses, got.problems, got.seeds, got.scope) == (3, 0, 4, (3, 3), "algorithms")


def test_welch_on_run_means_where_problems_add_nothing() -> None:
    """Welch's own degrees of freedom (1947), n + 1 in place of n - 1, less 2: 6/4 x 6.978161 - 2 for 5 + 5 runs."""
    a, b = [0.588, 0.575, 0.601, 0.580, 0.592], [0.575, 0.583, 0.570, 0.566, 0.579]
    got = difference(*(np.repeat(np.array(x)[:, None], 40, axis=1) for x in (a, b)))
    assert got.estimate == pytest.approx(0.0126)
    assert got.estimate / got.se == pytest.approx(2.300435, abs=1e-6)
    assert got.df == pytest.approx(1.5 * 6.978161 - 2, abs=1e-5)


def test_one_arm_that_varies_has_its_own_degrees_of_freedom_and_two_alike_have_more() -> None:
    assert combine([1.0, 0.0], [3, 3], 0.0, 0.0, 100)[1] == pytest.approx(2)
    assert combine([0.5, 0.5], [3, 3], 0.0, 0.0, 100)[1] == pytest.approx(6)
    assert combine([0.0, 0.0], [3, 3], 1.0, 0.0, 100)[1] == pytest.approx(99)


def test_the_parts_add_up_and_the_floor_is_the_smaller_of_the_two() -> None:
    assert combine([1.0, 2.0], [5, 5], 4.0, 0.5, 100)[0] == pytest.approx(6.5)
    assert combine([1.0, 2.0], [5, 5], 4.0, 5.0, 100)[0] == pytest.approx(3.0)  # 2 would be left
    assert combine([4.0, 2.0], [5, 5], 4.0, 7.0, 100)[0] == pytest.approx(4.0)
    variance, df = combine([np.zeros(2), np.zeros(2)], [5, 5], np.array([0.0, 1.0]), 0.0, 100)
    assert variance.tolist() == [0, 1] and (df > 0).all()


@pytest.mark.parametrize("s", [2, 3, 6])
def test_the_variance_is_unbiased(s: int) -> None:
    """Normal seeds, shared problems, arm effects on problems, residuals: the mean of se^2 is the true variance."""
    rng, n, repeats, got = np.random.default_rng(s), 30, 3000, []
    for _ in range(repeats):
        shared = rng.normal(0, 3, n)
        a, b = (
            shared + rng.normal(0, 0.5, n) + rng.normal(0, 0.3, (s, 1)) + rng.normal(0, 1, (s, n)) for _ in range(2)
        )
        got.append(difference(a, b)[:2])
    true = 2 * 0.3**2 / s + 2 * 0.5**2 / n + 2 / (s * n)
    estimates, errors = np.array(got).T
    assert estimates.var() == pytest.approx(true, rel=0.08)
    assert np.square(errors).mean() == pytest.approx(true, rel=0.04)


def test_swapping_the_arms_flips_the_sign_only(tables: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = tables
    one, other = difference(a, b), difference(b, a)
    assert (other.estimate, other.se, other.df) == pytest.approx((-one.estimate, one.se, one.df))
    assert (other.wins, other.losses) == (one.losses, one.wins)
    assert other.p() == pytest.approx(one.p())
    assert other.p_equivalent(0.1) == pytest.approx(one.p_equivalent(0.1))


def test_what_does_not_matter(tables: tuple[np.ndarray, np.ndarray]) -> None:
    """Order of problems and of seeds, and anything that a problem adds to both arms."""
    a, b = tables
    rng = np.random.default_rng(5)
    order, added = rng.permutation(60), rng.normal(0, 1, 60)
    want = difference(a, b)[:3]
    assert difference(a[:, order], b[:, order])[:3] == pytest.approx(want)
    assert difference(a[::-1], b[[2, 0, 3, 1]])[:3] == pytest.approx(want)
    same = difference(a[:3] + added, b[:3] + added, paired=True)
    assert same[:3] == pytest.approx(difference(a[[1, 2, 0]], b[[1, 2, 0]], paired=True)[:3])
    assert difference(a + 7, b + 7)[:3] == pytest.approx(want)


def test_pairing_takes_out_what_a_seed_adds_to_both() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(0, 1, (2, 4, 50))
    common = rng.normal(0, 5, (4, 1))
    assert difference(a + common, b + common, paired=True)[:3] == pytest.approx(difference(a, b, paired=True)[:3])
    assert difference(a + common, b + common).se > 3 * difference(a, b).se


def test_copies_of_one_run_leave_the_paired_t_over_problems(tables: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = (np.repeat(t[:1], 3, axis=0) for t in tables)
    d, got = a[0] - b[0], difference(a, b)
    assert (got.se, got.df) == pytest.approx((d.std(ddof=1) / math.sqrt(60), 59))


@pytest.mark.parametrize("one", [False, True])
def test_tests_and_intervals_say_the_same(tables: tuple[np.ndarray, np.ndarray], one: bool) -> None:
    """p crosses alpha where the interval touches 0; equivalence where that at 1 - 2 alpha touches the margin."""
    a, b = tables
    got = difference(a[:1], b[:1]) if one else difference(a, b)
    inner = got.interval(0.90)
    margin = max(-inner.low, inner.high)
    assert got.p_equivalent(margin) == pytest.approx(0.05, abs=1e-9)
    assert got.p_equivalent(margin * 1.01) < 0.05 < got.p_equivalent(margin * 0.99)
    if not one:
        assert got.estimate != 0
        edge = got.interval(1 - got.p())
        assert min(abs(edge.low), abs(edge.high)) == pytest.approx(0, abs=1e-12)
        assert (inner.high - inner.low) / 2 == pytest.approx(t_quantile(0.9, got.df) * got.se)


def test_one_run_each_is_the_comparison_of_two_checkpoints(tables: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = tables
    got, want = difference(a[:1], b[:1]), paired(a[0], b[0])
    assert got.scope == "checkpoints" and got.seeds == (1, 1)
    assert got.interval()[:3] == pytest.approx(want[:3])
    assert got.interval().n == 60
    assert got.p() == mcnemar(want.wins, want.losses) == want.p


def test_one_run_against_several_speaks_of_these_runs(tables: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = tables
    got, d = difference(a[:1], b), a[0] - b.mean(0)
    assert got.scope == "checkpoints"
    assert got[:3] == pytest.approx((d.mean(), d.std(ddof=1) / math.sqrt(60), 59))


def test_the_same_runs_and_a_single_problem() -> None:
    a = np.tile([1.0, 0.0, 1.0], (2, 1))
    same = difference(a, a)
    assert (same.estimate, same.se, same.p()) == (0, 0, 1)
    assert same.interval()[:3] == (0, 0, 0) and same.p_equivalent(0.01) == 0
    apart = difference(np.ones((2, 3)), np.zeros((2, 3)))
    assert apart.interval()[:3] == (1, 1, 1) and apart.p() == 0 and apart.p_equivalent(0.5) == 1
    alone = difference([[0.3], [0.4]], [[0.1], [0.2]])
    assert alone.scope == "checkpoints" and alone.p() == 1
    assert alone.interval()[1:3] == (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("a", "b", "same", "message"),
    [
        (np.ones(5), np.ones(5), False, "tables"),
        (np.ones((2, 0)), np.ones((2, 0)), False, "tables"),
        (np.ones((2, 5)), np.ones((2, 4)), False, "same problems"),
        (np.ones((2, 5)), np.ones((3, 5)), True, "same seeds"),
        (np.full((2, 5), np.nan), np.ones((2, 5)), False, "missing"),
    ],
)
def test_what_cannot_be_compared_is_refused(a: np.ndarray, b: np.ndarray, same: bool, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        difference(a, b, paired=same)
