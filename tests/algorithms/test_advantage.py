"""Advantage estimators against worked numbers and the identities that bind them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from batches import plain_batch
from paribus.algorithms import (
    BatchBaseline,
    Bnpo,
    EmaBaseline,
    FixedBaseline,
    Gae,
    GroupMean,
    GroupMeanBatchStd,
    GroupZScore,
    LeaveOneOut,
)
from paribus.errors import ConfigError
from paribus.types import Stop

F = torch.float64
REWARD = [0.0, -0.01335314, 1.01823216]  # E6: beta 0.1 k1 KL in the reward, outcome 1 at the end
VALUES = [0.5, 0.6, 0.7]


def rows(estimator, total, group=None, valid=None, memory=None):
    """Credit of rows of one token each."""
    total = torch.as_tensor(total, dtype=F)
    group = torch.zeros(len(total), dtype=torch.long) if group is None else torch.as_tensor(group)
    mask = torch.ones(len(total), dtype=torch.bool) if valid is None else torch.as_tensor(valid)
    signal, memory = estimator(plain_batch(total[:, None], mask[:, None], group), memory or {})
    assert signal.target is None
    return signal.advantage[:, 0], memory


def gae(estimator, reward, values, mask=None, final=None):
    """Advantage and target of one row."""
    reward, values = (torch.tensor([x], dtype=F) for x in (reward, values))
    mask = torch.ones_like(reward, dtype=torch.bool) if mask is None else torch.tensor([mask]).bool()
    final, stop = (None, None) if final is None else (torch.tensor([final], dtype=F), [Stop.LENGTH])
    batch = plain_batch(reward, mask, torch.zeros(1, dtype=torch.long), values=values, final_value=final, stop=stop)
    signal, _ = estimator(batch, {})
    return signal.advantage[0], signal.target[0]


def test_e1_baselines_of_reinforce(close):
    close(rows(FixedBaseline(value=0.5), [1, 0, 0, 0])[0], [0.5, -0.5, -0.5, -0.5])
    close(rows(BatchBaseline(), [1, 0, 0, 0])[0], [0.75, -0.25, -0.25, -0.25])


@pytest.mark.parametrize(
    ("correct", "second", "third"), [(False, [0.975, 0.975, -0.025, -0.025], 0.0725), (True, [0.75] * 2, 0.38157895)]
)
def test_e1_a_moving_average_is_used_before_it_is_updated(close, correct, second, third):
    ema = EmaBaseline(decay=0.9, bias_correction=correct)
    first, memory = rows(ema, [1, 0, 0, 0])
    close(first, [1, 0, 0, 0])
    assert memory == pytest.approx({"average": 0.025, "steps": 1})
    credit, memory = rows(ema, [1, 1, 0, 0], memory=memory)
    close(credit[: len(second)], second)
    assert memory["average"] == pytest.approx(0.0725)
    close(rows(ema, [0.0], memory=memory)[0], [-third])


def test_a_step_without_a_trained_row_leaves_the_moving_average_alone():
    memory = {"average": 0.3, "steps": 4}
    credit, after = rows(EmaBaseline(), [9.0, 9.0], valid=[False, False], memory=memory)
    assert after == memory and not credit.any()


def test_e4_leave_one_out(close):
    close(rows(LeaveOneOut(), [1, 0, 0, 0])[0], [1, -1 / 3, -1 / 3, -1 / 3])
    # E4 with beta 0.05: the KL is in the reward before the baseline is taken
    kl = torch.tensor([0, -0.04082199, -0.04879016, 0], dtype=F)
    score = torch.tensor([1, 0, 0, 0], dtype=F)
    close(rows(LeaveOneOut(), score - 0.05 * kl)[0], [0.99850646, -0.3321054, -0.33157419, -0.33482687])


def test_e12_group_z_score(close):
    r = [1, 0, 0, 0]
    close(rows(GroupZScore(eps=0, ddof=1), r)[0], [1.5, -0.5, -0.5, -0.5])
    close(rows(GroupZScore(eps=1e-6, ddof=1), r)[0], [1.499997, -0.499999, -0.499999, -0.499999], 1e-9)
    close(rows(GroupZScore(eps=1e-4, ddof=1), r)[0], [1.49970006, -0.49990002, -0.49990002, -0.49990002], 1e-8)
    close(rows(GroupZScore(eps=0, ddof=0), r)[0], [1.73205081, -0.57735027, -0.57735027, -0.57735027])


def test_e15_group_mean(close):
    close(rows(GroupMean(), [1, 0, 0, 0])[0], [0.75, -0.25, -0.25, -0.25])


def test_closed_form_of_two_right_of_four(close):
    close(rows(GroupZScore(eps=0), [1, 0, 0, 1])[0], [0.8660254, -0.8660254, -0.8660254, 0.8660254])


@pytest.mark.parametrize("estimator", [GroupZScore(eps=0), GroupMean(), LeaveOneOut(), GroupMeanBatchStd()])
def test_groups_are_told_apart_by_id_not_by_position(close, estimator):
    together, _ = rows(estimator, [1, 0, 0, 3, 5, 4], [7, 7, 7, 2, 2, 2])
    mixed, _ = rows(estimator, [3, 1, 5, 0, 4, 0], [2, 7, 2, 7, 2, 7])
    close(mixed[[1, 3, 5, 0, 2, 4]], together)


@pytest.mark.parametrize(
    "estimator", [GroupZScore(eps=0), GroupZScore(), GroupMean(), LeaveOneOut(), GroupMeanBatchStd(eps=0)]
)
def test_a_group_of_one_and_a_uniform_group_teach_nothing(close, estimator):
    credit, _ = rows(estimator, [5.0, 2.0, 2.0, 2.0], [0, 1, 1, 1])
    close(credit, [0, 0, 0, 0], 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_noise_is_not_credit(dtype):
    total = torch.full((4,), 0.6, dtype=dtype)
    total[1] = torch.nextafter(total[1], total[1] + 1)  # as 0.1 + 0.2 + 0.3 and 0.3 + 0.2 + 0.1 differ
    mask = torch.ones(4, 1, dtype=torch.bool)
    signal, _ = GroupZScore(eps=0)(plain_batch(total[:, None], mask, torch.zeros(4, dtype=torch.long)), {})
    assert not signal.advantage.any()


@pytest.mark.parametrize("estimator", [GroupZScore(eps=0), GroupMean(), LeaveOneOut(), BatchBaseline()])
def test_a_row_without_trained_tokens_enters_no_statistic(close, estimator):
    credit, _ = rows(estimator, [1.0, float("nan"), 0.0, 0.0], valid=[True, False, True, True])
    close(credit[[0, 2, 3]], rows(estimator, [1, 0, 0])[0], 1e-12)
    assert credit[1] == 0


def test_the_row_sum_is_credited_and_junk_beyond_the_mask_is_not(close):
    reward = torch.tensor([[0.2, 0.8, float("nan")], [0.0, float("inf"), float("nan")]], dtype=F)
    mask = torch.tensor([[True, True, False], [True, False, False]])
    signal, _ = GroupMean()(plain_batch(reward, mask, torch.zeros(2, dtype=torch.long)), {})
    close(signal.advantage, [[0.5, 0.5, 0], [-0.5, 0, 0]])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=2, max_size=9))
def test_leave_one_out_is_the_group_mean_scaled_and_both_centre(total):
    n = len(total)
    mean, loo = rows(GroupMean(), total)[0], rows(LeaveOneOut(), total)[0]
    torch.testing.assert_close(loo, mean * n / (n - 1), rtol=1e-12, atol=1e-12)
    direct = torch.tensor([x - sum(y for j, y in enumerate(total) if j != i) / (n - 1) for i, x in enumerate(total)])
    torch.testing.assert_close(loo, direct.to(F), rtol=1e-5, atol=1e-5)
    assert abs(float(mean.sum())) < 1e-9 and abs(float(loo.sum())) < 1e-9
    assert abs(float(rows(GroupZScore(), total)[0].sum())) < 1e-9


@pytest.mark.parametrize("ddof", [0, 1])
def test_one_std_for_the_whole_step(close, ddof):
    total, group = [1, 0, 0, 0, 3, 1], [0, 0, 0, 0, 1, 1]
    found, _ = rows(GroupMeanBatchStd(eps=0.1, ddof=ddof), total, group)
    spread = float(torch.tensor(total, dtype=F).std(correction=ddof))
    close(found, torch.tensor([0.75, -0.25, -0.25, -0.25, 1, -1], dtype=F) / (spread + 0.1), 1e-12)
    # one group is the whole step: GRPO
    close(rows(GroupMeanBatchStd(eps=1e-6), [1, 0, 0, 1])[0], rows(GroupZScore(eps=1e-6), [1, 0, 0, 1])[0], 1e-12)


def rates(estimator, p, samples):
    """Credit of a right and of a wrong row of each group, whose success rates are `p`."""
    total = torch.tensor([[float(i < round(rate * samples)) for i in range(samples)] for rate in p], dtype=F)
    group = torch.arange(len(p)).repeat_interleave(samples)
    credit = rows(estimator, total.flatten(), group)[0].reshape(total.shape)
    return credit[:, 0], credit[:, -1]


@pytest.mark.parametrize(
    ("p", "samples", "right", "wrong"),
    [
        (
            [0.25, 0.5, 0.5, 0.75], 4,
            [0.66737871, 0.35007853, 0.35007853, 0.22245957], [-0.22245957, -0.35007853, -0.35007853, -0.66737871],
        ),
        (
            [0.125, 0.25, 0.25, 0.375], 8,
            [0.50069993, 0.30952479, 0.30952479, 0.31518959], [-0.07152856, -0.10317493, -0.10317493, -0.18911376],
        ),
    ],
)  # fmt: skip
def test_e19_bnpo(close, p, samples, right, wrong):
    found = rates(Bnpo(), p, samples)
    close(found[0], right)
    close(found[1], wrong)


def test_e19_the_fitted_density(close):
    def fit(p):
        return torch.stack(Bnpo().fit(torch.tensor(p, dtype=F), torch.arange(4), torch.ones(4, dtype=torch.bool)))

    close(fit([0.25, 0.5, 0.5, 0.75]), [1.83333333, 1.83333333])
    close(fit([0.125, 0.25, 0.25, 0.375]), [2.41666667, 5.25])
    close(fit([0.5] * 4), [1, 1], 0)  # v = 0: no spread to fit
    close(fit([0.1, 0.1 + 1e-17, 0.3 - 0.2, 0.1]), [1, 1], 0)
    close(fit([0.0, 1.0, 0.0, 1.0]), [1, 1], 0)  # k < 0: more spread than any Beta has


@pytest.mark.parametrize("p", [[0.5] * 3, [0.25], [0.0, 1.0, 0.0, 1.0]])
def test_bnpo_without_a_fit_is_the_group_mean(close, p):
    found, plain = rates(Bnpo(), p, 4), rates(GroupMean(), p, 4)
    close(torch.cat(found), torch.cat(plain), 1e-12)


@pytest.mark.parametrize("rate", [0.125, 0.5, 0.75])
def test_bnpo_with_three_halves_is_grpo_up_to_pi_over_eight(rate):
    """1/f = (pi/8) / sqrt(p (1 - p)), and sqrt(p (1 - p)) is the population's standard deviation."""
    half = Bnpo(low=1.5)  # equal rates: both parameters are the bound
    beta, grpo = rates(half, [rate] * 2, 8), rates(GroupZScore(eps=0, ddof=0), [rate] * 2, 8)
    torch.testing.assert_close(torch.cat(beta), torch.cat(grpo) * torch.pi / 8, rtol=1e-12, atol=1e-12)


def test_bnpo_of_groups_without_a_mistake_or_a_hit_is_zero_and_finite():
    credit = torch.cat(rates(Bnpo(), [0.0, 0.25, 0.5, 0.5, 1.0], 4))
    assert credit.isfinite().all() and not credit[[0, 4, 5, 9]].any() and credit[[1, 2, 3, 6, 7, 8]].all()


def test_bnpo_takes_success_rates_only():
    for total in ([-1.0, 1.0], [0.0, 1.5]):
        with pytest.raises(ConfigError, match=r"outside \[0, 1\]"):
            rows(Bnpo(), total)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=2, max_size=8), st.floats(0.5, 20), st.floats(-9, 9))
def test_a_z_score_ignores_scale_and_shift_of_the_reward(total, scale, shift):
    base = rows(GroupZScore(eps=0), total)[0]
    moved = rows(GroupZScore(eps=0), [scale * x + shift for x in total])[0]
    torch.testing.assert_close(base, moved, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("estimator", "advantage", "target"),
    [
        (Gae(lam=0.95), [0.46951904, 0.38896741, 0.31823216], [0.96951904, 0.98896741, 1.01823216]),
        (Gae(lam=1.0), [0.50487902, 0.40487902, 0.31823216], [1.00487902, 1.00487902, 1.01823216]),
        (Gae(lam=0.0), [0.1, 0.08664686, 0.31823216], [0.6, 0.68664686, 1.01823216]),
        (Gae(gamma=0.99, lam=0.95), [0.45039702, 0.3789442, 0.31823216], None),
        (Gae(lam=0.95, critic_lam=1.0), [0.46951904, 0.38896741, 0.31823216], [1.00487902, 1.00487902, 1.01823216]),
    ],
)
def test_e6_and_e11_generalised_advantages(close, estimator, advantage, target):
    a, ret = gae(estimator, REWARD, VALUES)
    close(a, advantage)
    close(ret, target if target is not None else a + torch.tensor(VALUES, dtype=F))


@pytest.mark.parametrize("junk", [9.0, -7.0, float("nan"), float("inf")])
def test_e6_padding_is_inert(close, junk):
    a, ret = gae(Gae(), [*REWARD, junk, junk], [*VALUES, junk, -junk], [1, 1, 1, 0, 0])
    close(a, [0.46951904, 0.38896741, 0.31823216, 0, 0])
    close(ret, [0.96951904, 0.98896741, 1.01823216, 0, 0])


@pytest.mark.parametrize("junk", [(9.0, 5.0), (float("nan"), float("inf"))])
def test_e6_an_observation_token_neither_earns_nor_decays_credit(close, junk):
    a, ret = gae(Gae(), [REWARD[0], junk[0], *REWARD[1:]], [VALUES[0], junk[1], *VALUES[1:]], [1, 0, 1, 1])
    close(a, [0.46951904, 0, 0.38896741, 0.31823216])
    close(ret, [0.96951904, 0, 0.98896741, 1.01823216])


def test_e6_a_cut_row_ends_in_zero_or_in_the_critics_value(close):
    reward = [*REWARD[:2], 0.01823216]  # no outcome
    close(gae(Gae(), reward, VALUES, final=0.65)[0], [-0.43298096, -0.56103259, -0.68176784])
    boot = Gae(truncation="bootstrap")
    close(gae(boot, reward, VALUES, final=0.65)[0], [0.15364404, 0.05646741, -0.03176784])
    close(gae(boot, reward, VALUES, final=0.0)[0], [-0.43298096, -0.56103259, -0.68176784])


def test_rows_of_unequal_length_do_not_touch_each_other(close):
    reward = torch.tensor([[*REWARD, 4.0], [0.3, 4.0, 4.0, 4.0], [4.0] * 4], dtype=F)
    values = torch.tensor([[*VALUES, 4.0], [0.1, 4.0, 4.0, 4.0], [4.0] * 4], dtype=F)
    mask = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]]).bool()
    signal, _ = Gae()(plain_batch(reward, mask, torch.arange(3), values=values), {})
    close(signal.advantage, [[0.46951904, 0.38896741, 0.31823216, 0], [0.2, 0, 0, 0], [0] * 4])
    close(signal.target[1:], [[0.3, 0, 0, 0], [0] * 4])


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 9), st.integers(0, 2**31))
def test_lambda_one_is_return_minus_value_and_lambda_zero_the_td_error(width, seed):
    random = torch.Generator().manual_seed(seed)
    reward, values = torch.randn(2, 3, width, generator=random, dtype=F)
    mask = torch.ones(3, width, dtype=torch.bool)
    monte_carlo = Gae(lam=1.0)(plain_batch(reward, mask, torch.arange(3), values=values), {})[0]
    togo = reward.flip(1).cumsum(1).flip(1)
    torch.testing.assert_close(monte_carlo.advantage, togo - values)
    torch.testing.assert_close(monte_carlo.target, togo)
    ahead = torch.cat([values[:, 1:], torch.zeros(3, 1, dtype=F)], 1)
    td = Gae(gamma=0.9, lam=0.0)(plain_batch(reward, mask, torch.arange(3), values=values), {})[0]
    torch.testing.assert_close(td.advantage, reward + 0.9 * ahead - values)
