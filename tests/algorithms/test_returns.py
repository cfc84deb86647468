"""Credit from what follows a token: returns, greedy baselines, lambdas by length, rewards of steps."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from batches import plain_batch
from paribus import tensors
from paribus.algorithms import (
    CATALOG,
    Gae,
    GreedyBaseline,
    GroupStepZScore,
    OutcomeAtEnd,
    ReturnToGo,
    StepRewards,
    Whiten,
)
from paribus.algorithms.catalog import GRPO_PROCESS, REINFORCE_PP, REINFORCE_PP_BASELINE, REMAX, VAPO, VC_PPO
from paribus.algorithms.returns import discounted, following
from paribus.part import replace

F = torch.float64
seeds = given(st.integers(0, 2**31))
quick = settings(max_examples=25, deadline=None)
E2_POPULATION = [
    [1.97164249, 2.02676089, 0, 0],
    [-0.48836098, -0.54347938, -0.54347938, -0.49844437],
    [-0.48639277, -0.48639277, -0.45340936, 0],
    [-0.49844437, 0, 0, 0],
]
E2_BESSEL = [
    [1.87046431, 1.92275421, 0, 0],
    [-0.46329991, -0.51558981, -0.51558981, -0.47286585],
    [-0.4614327, -0.4614327, -0.43014189, 0],
    [-0.47286585, 0, 0, 0],
]


def ragged(seed, rows=6, width=7):
    """Rewards and a mask with observation tokens inside rows."""
    random = torch.Generator().manual_seed(seed)
    mask = torch.rand(rows, width, generator=random) < 0.6
    return torch.randn(rows, width, generator=random, dtype=F), mask


def advantage(algorithm, batch):
    return algorithm.signal(batch, algorithm.memory())[0].advantage


@pytest.mark.parametrize(("ddof", "expected"), [(0, E2_POPULATION), (1, E2_BESSEL)])
def test_e2_reinforce_pp(example, make_batch, close, ddof, expected):
    shaping = (OutcomeAtEnd(), replace(REINFORCE_PP.shaping[1], coef=0.1))
    entry = replace(REINFORCE_PP, shaping=shaping, **{"whiten.ddof": ddof})
    batch = make_batch(entry, example.score, example.mask, example.group, old=example.old, ref=example.ref)
    togo = advantage(replace(entry, whiten=None), batch)
    close(togo[0], [1, 1.02231436, 0, 0])
    close(togo[1], [0.0040822, -0.01823216, -0.01823216, 0])
    close(togo[2], [0.00487902, 0.00487902, 0.01823216, 0])
    close(tensors.masked_mean(togo, example.mask), 0.20179224317379374)
    close(advantage(entry, batch), expected)


@seeds
@quick
def test_whitened_returns_have_mean_zero_and_variance_one(seed):
    reward, mask = ragged(seed)
    togo = ReturnToGo()(plain_batch(reward, mask, torch.zeros(6).long()), {})[0].advantage
    for ddof in (0, 1):
        white = Whiten(ddof=ddof, eps=1e-12)(togo, mask)[mask]
        if len(white) > 2:
            assert abs(float(white.mean())) < 1e-9 and float(white.var(correction=ddof)) == pytest.approx(1, abs=1e-6)


def test_e3_reinforce_pp_baseline(make_batch, make_mask, close):
    score, group, mask = torch.tensor([1, 0, 1, 1], dtype=F), torch.tensor([0, 0, 1, 1]), make_mask([2, 4, 3, 1])
    batch = make_batch(REINFORCE_PP_BASELINE, score, mask, group, old=mask.to(F), ref=mask.to(F))
    centred = advantage(replace(REINFORCE_PP_BASELINE, whiten=None), batch)
    close(centred[:, 0], [0.5, -0.5, 0, 0])
    close(tensors.masked_mean(centred, mask), -0.1)
    for whiten, expected in (
        (Whiten(ddof=1), [1.52127761, -1.01418507, 0.25354627, 0.25354627]),
        (Whiten(over="sequences", ddof=1), [1.22474487, -1.22474487, 0, 0]),
        (Whiten(over="sequences", ddof=0), [1.41421351, -1.41421351, 0, 0]),
    ):
        found = advantage(replace(REINFORCE_PP_BASELINE, whiten=whiten), batch)
        close(found[:, 0], expected, 1e-5 if whiten.over == "sequences" else 1e-6)
        assert all(len(row[on].unique()) == 1 for row, on in zip(found, mask, strict=True))


def remax(example, make_batch, greedy, coef=0.1):
    shaping = (OutcomeAtEnd(), replace(REMAX.shaping[1], coef=coef))
    baseline = torch.tensor([greedy] * 4, dtype=F)
    entry = replace(REMAX, shaping=shaping)
    batch = make_batch(
        entry, example.score, example.mask, example.group, old=example.old, ref=example.ref, greedy_score=baseline
    )
    return advantage(entry, batch)


def test_e5_remax(example, make_batch, close):
    expected = [
        [0.5, 0.52231436, 0, 0],
        [-0.4959178, -0.51823216, -0.51823216, -0.5],
        [-0.49512098, -0.49512098, -0.48176784, 0],
        [-0.5, 0, 0, 0],
    ]
    close(remax(example, make_batch, 0.5), expected)
    close(remax(example, make_batch, 1.0, coef=0)[:, 0], [0, -1, -1, -1])
    close(remax(example, make_batch, 0.0, coef=0)[:, 0], [1, 0, 0, 0])


def test_a_prompt_without_greedy_score_gets_no_credit(close):
    reward, mask = torch.ones(2, 2, dtype=F), torch.ones(2, 2, dtype=torch.bool)
    score = torch.tensor([float("nan"), 0.5], dtype=F)
    batch = plain_batch(reward, mask, torch.arange(2), greedy_score=score)
    close(GreedyBaseline()(batch, {})[0].advantage, [[0, 0], [1.5, 0.5]])


@seeds
@quick
def test_observation_tokens_neither_decay_nor_add(seed):
    reward, mask = ragged(seed)
    for gamma in (1.0, 0.9, 0.0):
        found = ReturnToGo(gamma=gamma)(plain_batch(reward.where(mask, torch.nan), mask, torch.arange(6)), {})[0]
        for row, on, credit in zip(reward, mask, found.advantage, strict=True):
            kept = row[on]
            direct = [sum(gamma**j * kept[i + j] for j in range(len(kept) - i)) for i in range(len(kept))]
            torch.testing.assert_close(credit[on], torch.tensor(direct, dtype=F), rtol=0, atol=1e-12)
            assert not credit[~on].any()


@seeds
@quick
def test_following_is_the_next_trained_token(seed):
    x, mask = ragged(seed)
    end = torch.arange(6, dtype=F)
    found = following(x, mask, end)
    for b in range(6):
        for t in range(7):
            later = [s for s in range(t + 1, 7) if mask[b, s]]
            assert found[b, t] == (x[b, later[0]] if later else end[b])


@pytest.mark.parametrize(
    ("length", "lam"), [(1, 0), (10, 0), (20, 0), (40, 0.5), (100, 0.8), (1000, 0.98), (10_000, 0.998)]
)
def test_e11_lambda_by_length(close, length, lam):
    mask = torch.ones(2, length, dtype=torch.bool)
    mask[1, 1:] = False
    close(Gae(length_adaptive=0.05).decay(mask, F), [lam, 0], 1e-12)


@given(st.floats(1e-3, 10), st.integers(0, 300))
@quick
def test_a_lambda_by_length_stays_a_lambda(alpha, length):
    lam = float(Gae(length_adaptive=alpha).decay(torch.ones(1, length, dtype=torch.bool), F)[0])
    assert 0 <= lam < 1


def test_e11_each_row_has_its_own_lambda_and_the_critic_none_of_it(close):
    random = torch.Generator().manual_seed(0)
    reward, values = torch.randn(2, 2, 40, generator=random, dtype=F)
    mask = torch.ones(2, 40, dtype=torch.bool)
    mask[1, 20:] = False
    batch = plain_batch(reward, mask, torch.arange(2), values=values)
    found = Gae(length_adaptive=0.05, critic_lam=1.0)(batch, {})[0]
    close(found.advantage[0], Gae(lam=0.5)(batch, {})[0].advantage[0], 1e-12)
    close(found.advantage[1], Gae(lam=0.0)(batch, {})[0].advantage[1], 1e-12)
    close(found.target, discounted(tensors.keep(reward, mask), mask, 1.0), 1e-12)
    same = Gae(length_adaptive=0.05)(batch, {})[0]
    close(same.target, tensors.keep(same.advantage + values, mask), 1e-12)


@pytest.mark.parametrize("entry", [VC_PPO, VAPO], ids=["vc_ppo", "vapo"])
def test_value_pre_training_fits_monte_carlo_returns_whatever_the_policy_is_credited(entry, make_batch, close):
    """Frozen policy for `warmup` steps, target lambda 1: the reward to come, not the critic's own guess."""
    assert entry.critic.warmup == 50 and entry.advantage.critic_lam == 1.0
    mask = torch.tensor([[1, 1, 1, 0], [1, 0, 1, 1]]).bool()
    values = torch.randn(2, 4, dtype=F, generator=torch.Generator().manual_seed(1))
    batch = make_batch(entry, torch.tensor([1.0, 0.0], dtype=F), mask, torch.arange(2), old=values, values=values)
    signal, _ = entry.signal(batch, entry.memory())
    close(signal.target, [[1, 1, 1, 0], [-1, 0, -1, -1]], 1e-12)


def process(rewards, ends, ddof, eps=0.0, group=None, lengths=(4, 3)):
    """Advantages of rows whose steps end at `ends` with `rewards`."""
    width = max(lengths)
    mask = torch.arange(width)[None] < torch.tensor(lengths)[:, None]
    reward, end = torch.full((len(lengths), width), torch.nan, dtype=F), torch.zeros(mask.shape, dtype=torch.bool)
    reward[mask] = 0.0
    for i, (places, worth) in enumerate(zip(ends, rewards, strict=True)):
        end[i, list(places)], reward[i, list(places)] = True, torch.tensor(worth, dtype=F)
    group = torch.zeros(len(lengths)).long() if group is None else torch.tensor(group)
    batch = plain_batch(reward, mask, group, step_end=end)
    return GroupStepZScore(eps=eps, ddof=ddof)(batch, {})[0].advantage


@pytest.mark.parametrize(
    ("ddof", "first", "second"),
    [(0, [0, 0, 1.34164079, 1.34164079], -0.4472136), (1, [0, 0, 1.161895, 1.161895], -0.38729833)],
)
def test_e13_process_supervision(close, ddof, first, second):
    found = process([[0.2, 0.8], [0.6, 0.4]], [(1, 3), (0, 2)], ddof)
    close(found, [first, [0, second, second, 0]])


def test_e13_from_step_scores(make_batch, make_mask, close):
    entry = replace(GRPO_PROCESS, **{"advantage.eps": 0.0, "advantage.ddof": 0})
    mask, end = make_mask([4, 3]), torch.tensor([[0, 1, 0, 1], [1, 0, 1, 1]]).bool()  # the last lies in the padding
    score = torch.tensor([[9, 0.2, 9, 0.8], [0.6, 9, 0.4, 9]], dtype=F)
    batch = make_batch(
        entry, torch.ones(2, dtype=F), mask, torch.zeros(2).long(), old=score, ref=score, step_end=end, step_score=score
    )
    close(batch.parts["step_rewards"], [1.0, 1.0])
    close(advantage(entry, batch), [[0, 0, 1.34164079, 1.34164079], [0, -0.4472136, -0.4472136, 0]])


def test_tokens_after_the_last_step_and_groups_of_equal_steps_get_nothing(close):
    found = process([[0.1, 0.9], [0.1]], [(0, 1), (2,)], 0)
    close(found[:, -1], [0, 0], 0)
    assert not found[0, 2:].any() and found[0, 0] != 0
    thirds = process([[0.1, 0.1 + 1e-17], [0.3 - 0.2]], [(0, 1), (2,)], 0)
    assert not thirds.any(), "rounding noise is no credit"
    assert not process([[0.7], [0.2, 0.2]], [(3,), (0, 2)], 1, group=[0, 1]).any(), "groups of one step, of equal steps"
    assert not process([[], []], [(), ()], 1).any(), "no step at all"


@seeds
@quick
def test_step_rewards_are_centred_over_the_group_and_a_row_starts_with_its_sum(seed):
    """Reference 12.11."""
    random = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 8, (6,), generator=random).tolist()
    ends = [sorted({*torch.randint(0, n, (3,), generator=random).tolist(), n - 1}) for n in lengths]
    rewards = [torch.rand(len(places), generator=random).tolist() for places in ends]
    group = [0, 1, 0, 1, 0, 1]
    found = process(rewards, ends, 1, group=group, lengths=lengths)
    every = {g: torch.tensor([x for i in range(6) if group[i] == g for x in rewards[i]], dtype=F) for g in (0, 1)}
    z = [((torch.tensor(r, dtype=F) - every[g].mean()) / every[g].std()) for r, g in zip(rewards, group, strict=True)]
    for g in (0, 1):
        assert abs(float(sum(z[i].sum() for i in range(6) if group[i] == g))) < 1e-6
    torch.testing.assert_close(found[:, 0], torch.stack([x.sum() for x in z]), rtol=1e-6, atol=1e-6)


def test_step_rewards_count_beside_the_outcome_in_ppo(make_batch, close):
    entry = replace(CATALOG["ppo_process"], shaping=(OutcomeAtEnd(), StepRewards(coef=0.5)))
    mask = torch.tensor([[1, 1, 1, 0]]).bool()
    end, score = torch.tensor([[1, 0, 1, 1]]).bool(), torch.tensor([[0.4, 9, 0.0, 9]], dtype=F)
    batch = make_batch(
        entry, torch.ones(1, dtype=F), mask, torch.zeros(1).long(), values=score, step_end=end, step_score=score
    )
    close(batch.reward, [[0.2, 0, 1, 0]])
    assert list(batch.parts) == ["outcome_at_end", "step_rewards"]
