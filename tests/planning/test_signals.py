"""Signals of a pilot: hand numbers, laws, and what is put into synthetic data comes out again."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from paribus.planning import signals
from paribus.planning.signals import Beta, Sampled

ORIENTATION = {  # success rate -> informative share at G = 4, 8, 16, 32
    0.02: (0.08, 0.15, 0.28, 0.48),
    0.1: (0.34, 0.57, 0.82, 0.97),
    0.3: (0.75, 0.94, 1.0, 1.0),
    0.8: (0.59, 0.83, 0.97, 1.0),
}


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def sampled(reward: np.ndarray, states: np.ndarray) -> Sampled:
    ones = np.ones_like(reward)
    return Sampled(
        reward=reward,
        score=reward,
        again=reward,
        length=ones,
        cut=0 * ones,
        rewarded=ones,
        units=ones,
        gap=0 * ones,
        states=states.astype(np.float32),
    )


@pytest.mark.parametrize("p", ORIENTATION)
def test_the_chance_of_an_informative_group_at_a_success_rate(p: float) -> None:
    shares = [signals.informative(p, group) for group in (4, 8, 16, 32)]
    assert shares == pytest.approx(ORIENTATION[p], abs=0.006)


@pytest.mark.parametrize("group", [2, 3, 4])
def test_the_uniform_share_counts_all_groups_that_the_samples_could_form(group: int) -> None:
    rows = np.array([[0, 0, 1, 1, 1.0], [0, 0, 0, 0, 0], [0, 0.5, 0.5, 1, 1], [1, 0, 0, 0, 0]])
    counted = [
        np.mean([len({row[i] for i in chosen}) == 1 for chosen in itertools.combinations(range(5), group)])
        for row in rows
    ]
    assert signals.uniform_share(rows, group) == pytest.approx(counted)


def test_the_informative_share_is_unbiased_for_fresh_groups() -> None:
    draws = (rng().random((2_000, 8)) < 0.1).astype(float)
    found = signals.informative_share(draws, 4, rng())
    assert found.estimate == pytest.approx(signals.informative(0.1, 4), abs=0.02)
    assert found.low < signals.informative(0.1, 4) < found.high


@pytest.mark.parametrize(("a", "b"), [(1.5, 3.0), (0.4, 0.6), (20.0, 5.0)])
def test_the_beta_fit_finds_what_the_success_rates_were_drawn_from(a: float, b: float) -> None:
    p = rng(1).beta(a, b, 3_000)
    right = rng(2).binomial(16, p)
    fit = signals.fit_beta(np.bincount(right, minlength=17).astype(float))
    assert fit == pytest.approx((a, b), rel=0.15)


def test_the_beta_interval_holds_the_truth_and_larger_groups_come_from_the_fit() -> None:
    p = rng(8).beta(1.2, 2.0, 400)
    score = (rng(9).random((400, 16)) < p[:, None]).astype(float)
    a, b, share = signals.beta(score, 16, rng())
    assert a.low < 1.2 < a.high and b.low < 2.0 < b.high
    assert share.estimate == pytest.approx(signals.informative_share(score, 16, rng()).estimate, abs=0.02)
    assert signals.beta_informative(Beta(1.2, 2.0), 64) == pytest.approx(
        np.mean([signals.informative(x, 64) for x in rng(5).beta(1.2, 2.0, 100_000)]), abs=0.005
    )


def test_prompts_of_one_kind_fit_a_narrow_beta() -> None:
    fit = signals.fit_beta(np.bincount(rng().binomial(16, 0.3, 2_000), minlength=17).astype(float))
    assert fit.a / (fit.a + fit.b) == pytest.approx(0.3, abs=0.01)
    assert fit.a + fit.b > 100


def test_the_variance_within_a_prompt_by_hand() -> None:
    # p = 1/2 and p = 1/4 of four samples: 4/3 p (1 - p)
    reward = np.array([[1, 1, 0, 0], [1, 0, 0, 0.0]])
    assert signals.within_variance(reward, rng()).estimate == pytest.approx((1 / 3 + 1 / 4) / 2)


def test_reliability_by_hand_and_with_known_noise() -> None:
    first, second = np.array([[1.0, 0, 1, 0]]), np.array([[1.0, 0, 0, 0]])
    # noise variance 1/2 of a mean square of 1/4, total 1/4
    assert signals.reliability(first, second, rng()).estimate == pytest.approx(1 - 0.125 / 0.25)
    truth = rng(1).normal(size=(400, 8))
    looks = [truth + 0.5 * rng(seed).normal(size=truth.shape) for seed in (2, 3)]
    found = signals.reliability(*looks, rng())
    assert found.low < 1 / 1.25 < found.high and found.high - found.low < 0.06


def test_a_reward_given_twice_alike_is_reliable_and_never_flips() -> None:
    x = (rng().random((50, 4)) < 0.5).astype(float)
    assert signals.reliability(x, x, rng())[:3] == (1.0, 1.0, 1.0)
    assert signals.flips(x, x, 1.0, rng())[:3] == (0.0, 0.0, 0.0)


def test_flip_rates_by_hand() -> None:
    first, second = np.array([[1.0, 0, 1, 1]]), np.array([[1.0, 1, 0, 1]])
    assert signals.flips(first, second, 1.0, rng()).estimate == pytest.approx(1 / 3)
    assert signals.flips(first, second, 0.0, rng()).estimate == 1.0


def test_the_correlation_within_prompts_ignores_differences_between_them() -> None:
    # within each prompt length and reward go apart, between the prompts together
    length = np.array([[1.0, 2, 3], [101, 102, 103]])
    reward = np.array([[3.0, 2, 1], [33, 32, 31]])
    assert signals.within_correlation(length, reward, rng()).estimate == pytest.approx(-1)


def test_an_interval_over_prompts_has_the_width_of_the_normal_one_and_repeats() -> None:
    x = rng(7).normal(size=500)
    found = signals.mean(x, rng(1))
    assert found.high - found.low == pytest.approx(2 * 1.96 * x.std() / np.sqrt(500), rel=0.08)
    assert found == signals.mean(x, rng(1))


def test_samples_of_a_prompt_are_not_independent_units() -> None:
    x = rng(7).normal(size=100)
    alone, often = signals.mean(x, rng(1)), signals.mean(np.repeat(x[:, None], 16, 1), rng(1))
    assert often == alone


def test_a_probe_recovers_a_linear_target_from_other_prompts() -> None:
    x = rng().normal(size=(300, 6))
    y = x @ np.array([1.0, -2, 0, 0, 3, 0]) + 5
    found = signals.probe(x, y, np.arange(300))
    assert np.abs(found - y).max() < 0.01


def test_a_probe_never_sees_the_prompt_that_it_predicts() -> None:
    """With one feature for each prompt, a fit that had seen it would be perfect; one that had not knows the mean."""
    prompt = np.repeat(np.arange(20), 10)
    y = rng().normal(size=20)[prompt]
    found = signals.probe(np.eye(20)[prompt], y, prompt)
    assert ((found - y) ** 2).mean() >= 0.95 * y.var()


def test_value_errors_of_noise_and_of_an_oracle() -> None:
    p = rng(1).uniform(0.1, 0.9, 200)
    reward = (rng(2).random((200, 8)) < p[:, None]).astype(float)
    states = rng(3).normal(size=(200, 8, 3, 4)) * 0.01
    states[:, :, 0] = states[:, :1, 0]  # at the prompt's end, all samples have one state
    blind = signals.credit_errors(sampled(reward, states))
    # not knowing the prompt costs the variance of success rates: 0.8^2 / 12 over E[p (1 - p)]
    expected = 0.8**2 / 12 / (0.25 - 0.8**2 / 12)
    assert signals.prompt_error(blind, reward, rng()).estimate == pytest.approx(expected, rel=0.25)
    states[:, :, 0, 0] = p[:, None]
    states[:, :, 2, 1] = reward
    told = signals.credit_errors(sampled(reward, states))
    m0 = signals.prompt_error(told, reward, rng())
    assert abs(m0.estimate) < 0.05
    assert signals.explained(told, reward, 1, rng()).estimate == pytest.approx(0, abs=0.06)
    assert signals.explained(told, reward, 2, rng()).estimate > 0.99
    # mean of the two places: (1 + 0) / 2
    assert signals.critic_factor(told, reward, rng()).estimate == pytest.approx(0.5, abs=0.05)


def test_group_rates_are_one_at_the_present_size_and_cancel_what_prompts_share() -> None:
    reward = (rng().random((200, 16)) < 0.3).astype(float)
    found = signals.group_rates(reward, [4, 8, 16], 8, lambda g: g * 0.1 + 0.2, rng())
    assert found[8][:3] == (1.0, 1.0, 1.0)
    shares = {g: signals.informative_share(reward, g, rng()).estimate for g in (4, 8)}
    assert found[4].estimate == pytest.approx(shares[4] / 0.6 / (shares[8] / 1.0))


def test_the_interval_over_timed_steps_by_hand() -> None:
    found = signals.over_steps([1.0, 2.0, 3.0])
    assert found is not None
    assert found[:3] == pytest.approx((2.0, 2 - 4.3026527 / np.sqrt(3), 2 + 4.3026527 / np.sqrt(3)))
    assert signals.over_steps([]) is None
    one = signals.over_steps([1.0])
    assert one is not None and (one.low, one.high) == (-np.inf, np.inf)
