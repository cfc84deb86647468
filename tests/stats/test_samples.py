"""avg@k, pass@k, maj@k and best-of-k: hand numbers, enumeration of all choices, and laws."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paribus.stats import average, best_of, majority, pass_at_k, wilson
from paribus.stats.interval import t_quantile


def test_pass_at_k_by_hand() -> None:
    got = [float(pass_at_k(10, 3, k)) for k in (1, 2, 5, 8)]
    assert got == pytest.approx([0.3, 0.5333333333, 0.9166666667, 1.0], abs=1e-9)
    assert pass_at_k(10, [3, 0], 5).mean() == pytest.approx(0.4583333333, abs=1e-9)
    assert pass_at_k([10, 4, 4], [10, 4, 0], 4).tolist() == [1.0, 1.0, 0.0]


@pytest.mark.parametrize("n", [1, 2, 7, 64])
def test_pass_at_k_is_the_share_of_choices_with_a_right_answer(n: int) -> None:
    for k, c in product(range(1, n + 1, 5), range(0, n + 1, 3)):
        expected = 1 - math.comb(n - c, k) / math.comb(n, k)
        assert float(pass_at_k(n, c, k)) == pytest.approx(expected, abs=1e-12)


def test_pass_at_k_refuses_what_the_samples_do_not_hold() -> None:
    with pytest.raises(ValueError, match="pass@5 needs at least 5 samples"):
        pass_at_k([10, 4], [1, 1], 5)
    with pytest.raises(ValueError, match="k of at least 1"):
        pass_at_k(10, 3, 0)
    with pytest.raises(ValueError, match="more right answers"):
        pass_at_k(3, 4, 1)


def test_average_by_hand() -> None:
    """Means 1, 1/2, 0, 1/2: estimate 1/2, root mean square deviation sqrt(1/8), over sqrt(4)."""
    got = average([[1, 1], [1, 0], [0, 0], [0, 1]])
    assert got.estimate == 0.5 and got.se == pytest.approx(math.sqrt(1 / 8) / 2)
    half = t_quantile(0.95, 3) * math.sqrt(1 / 6) / 2
    assert (got.low, got.high) == pytest.approx((0.5 - half, 0.5 + half))
    assert got.between == 0.0 and (got.problems, got.samples) == (4, 2)


def test_one_sample_each_has_wilsons_interval_and_no_spread_between_samples() -> None:
    got = average([[1], [0], [0], [1], [1]])
    assert (got.low, got.high) == wilson(3, 5)[1:3] and got.between is None
    assert average([[0.5]]).low == -math.inf


def test_majority_by_hand() -> None:
    """5 right of one answer, 3 and 2 wrong ones: the reference's numbers."""
    answers, right = ["A"] * 5 + ["B"] * 3 + ["C"] * 2, [1] * 5 + [0] * 5
    got = [majority(answers, right, k) for k in (1, 3, 5, 10)]
    assert got == pytest.approx([0.5, 0.5833333333, 0.6785714286, 1.0], abs=1e-9)


def by_enumeration(answers: list[str | None], right: list[float], k: int, missing_votes: bool) -> float:
    total = 0.0
    worth = dict(zip(answers, right, strict=True))
    for chosen in combinations(answers, k):
        votes = Counter(a for a in chosen if a is not None or missing_votes)
        first = [a for a, n in votes.items() if n == max(votes.values())]
        total += sum(worth[a] for a in first) / len(first) if first else 0
    return total / math.comb(len(answers), k)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "c", "d", None]), min_size=1, max_size=8), st.booleans(), st.data())
def test_majority_is_the_mean_over_all_choices(answers: list[str | None], missing: bool, data: st.DataObject) -> None:
    worth = {"a": 1.0, "b": 0.0, "c": 0.25, "d": 1.0, None: 0.0}
    right, k = [worth[a] for a in answers], data.draw(st.integers(1, len(answers)))
    got = majority(answers, right, k, missing_votes=missing)
    assert got == pytest.approx(by_enumeration(answers, right, k, missing), abs=1e-12)
    order = data.draw(st.permutations(range(len(answers))))
    assert majority([answers[i] for i in order], [right[i] for i in order], k, missing_votes=missing) == (
        pytest.approx(got, abs=1e-12)
    )


def test_majority_of_one_is_the_mean_and_of_all_the_first_place() -> None:
    rng = np.random.default_rng(0)
    answers = [str(i) for i in rng.integers(0, 30, 64)]
    right = [float(a in ("3", "7")) for a in answers]
    assert majority(answers, right, 1) == pytest.approx(np.mean(right), abs=1e-12)
    assert majority(answers, [1.0] * 64, 32) == pytest.approx(1.0, abs=1e-12)
    shares = [majority(answers, [float(a == b) for a in answers], 32) for b in sorted(set(answers))]
    assert math.fsum(shares) == pytest.approx(1.0, abs=1e-12)


def test_an_answer_that_is_scored_in_two_ways_is_worth_their_mean() -> None:
    assert majority(["1", "1", "2"], [1, 0, 0], 3) == 0.5
    assert majority(["1", "1", "2"], [1, 0, 0], 1) == pytest.approx(1 / 3)


def test_majority_refuses() -> None:
    with pytest.raises(ValueError, match="maj@3 needs k from 1 to the 2 samples"):
        majority(["1", "2"], [1, 0], 3)
    with pytest.raises(ValueError, match="needs its score"):
        majority(["1", "1"], [1], 1)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.data())
def test_best_of_is_the_mean_over_all_choices_and_over_all_draws(scores: list[int], data: st.DataObject) -> None:
    n = data.draw(st.integers(1, min(4, len(scores))))
    got = best_of(scores, n)
    assert got.exact == pytest.approx(np.mean([max(c) for c in combinations(scores, n)]), abs=1e-12)
    assert got.bootstrap == pytest.approx(np.mean([max(c) for c in product(scores, repeat=n)]), abs=1e-12)
    assert got.bootstrap <= got.exact + 1e-12


def test_best_of_right_or_wrong_scores_is_pass_at_k() -> None:
    for c, k in product(range(11), (1, 4, 10)):
        assert best_of([1] * c + [0] * (10 - c), k).exact == pytest.approx(float(pass_at_k(10, c, k)), abs=1e-12)
