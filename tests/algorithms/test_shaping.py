"""Reward shaping: where an outcome lands, what the KL costs, how length is punished."""

from __future__ import annotations

import pytest
import torch

from batches import batch_of, plain_batch
from paribus.algorithms import AdaptiveKl, KlInReward, MissingEos, OutcomeAtEnd, SoftOverlong
from paribus.algorithms.catalog import GRPO, PPO_ADAPTIVE_KL, REINFORCE_EMA
from paribus.errors import ConfigError
from paribus.part import replace
from paribus.types import Stop

F = torch.float64


def shape(part, score, mask, truncated=None, old=None, ref=None, horizon=8):
    stop = [Stop.LENGTH if cut else Stop.EOS for cut in truncated or [False] * len(mask)]
    score, group = torch.as_tensor(score, dtype=F), torch.zeros(len(mask), dtype=torch.long)
    batch = plain_batch(torch.zeros(mask.shape), mask, group, score=score, stop=stop, old_logp=old, ref_logp=ref)
    return part(batch, horizon, {})


def test_the_outcome_lands_on_the_last_trained_token(close):
    mask = torch.tensor([[0, 1, 1, 0], [1, 0, 1, 0], [0, 0, 0, 0]]).bool()  # the second has an observation token
    close(shape(OutcomeAtEnd(), [1, 0.5, 9], mask), [[0, 0, 1, 0], [0, 0, 0.5, 0], [0] * 4])
    close(shape(OutcomeAtEnd(wrong=-1), [1, 0.5, 0], mask)[:2], [[0, 0, 1, 0], [0, 0, 0, 0]])


def test_a_cut_row_can_go_without_outcome(close):
    mask = torch.ones(2, 2, dtype=torch.bool)
    reward = shape(OutcomeAtEnd(truncated="omitted", wrong=-1), [1, 1], mask, truncated=[True, False])
    close(reward, [[0, 0], [0, 1]])


def test_a_learned_reward_is_held_within_its_bounds(close):
    mask = torch.ones(3, 1, dtype=torch.bool)
    close(shape(OutcomeAtEnd(low=-10, high=10), [-31.0, 2.5, 12.0], mask)[:, 0], [-10, 2.5, 10])
    close(shape(OutcomeAtEnd(high=1), [-31.0, 0.5, 12.0], mask)[:, 0], [-31, 0.5, 1])
    with pytest.raises(ConfigError, match="low = 3 must be below high = 2"):
        replace(OutcomeAtEnd(), low=3, high=2)


def test_a_row_that_does_not_end_pays_on_its_last_token(close, make_mask):
    reward = shape(MissingEos(penalty=2.0), [1, 1, 0], make_mask([2, 3, 1]), truncated=[False, True, True])
    close(reward, [[0, 0, 0], [0, 0, -2], [-2, 0, 0]])


def test_e6_kl_in_the_reward(example, close):
    part = KlInReward(coef=0.1)
    reward = shape(part, example.score, example.mask, old=example.old, ref=example.ref)
    reward += shape(OutcomeAtEnd(), [1, 0, 1, 0], example.mask)
    close(reward[2], [0, -0.01335314, 1.01823216, 0])


def test_e4_kl_sums(example, close):
    terms = shape(KlInReward(coef=1.0), example.score, example.mask, old=example.old, ref=example.ref)
    close(-terms.sum(1), [0, -0.04082199, -0.04879016, 0])


@pytest.mark.parametrize(
    ("limit", "cache", "lengths", "cost"),
    [
        (10, 0.4, [5, 6, 7, 8, 10, 11], [0, 0, 0.25, 0.5, 1, 1]),
        (20480, 0.2, [16384, 16385, 17408, 18432, 20480, 21000], [0, 0.000244140625, 0.25, 0.5, 1, 1]),
    ],
)
def test_e16_soft_overlong_punishment(close, make_mask, limit, cache, lengths, cost):
    mask = make_mask(lengths)
    reward = shape(SoftOverlong(cache=cache), torch.zeros(len(lengths)), mask, horizon=limit)
    close(-reward.sum(1), cost, 1e-12)
    assert torch.equal(reward.gather(1, mask.sum(1, keepdim=True) - 1)[:, 0], reward.sum(1)), "not on the last token"
    close(
        -shape(SoftOverlong(cache=cache, penalty=0.5), torch.zeros(6), mask, horizon=limit).sum(1),
        [c / 2 for c in cost],
    )


@pytest.mark.parametrize(("kl", "after"), [(9.0, 0.100512), (5.4, 0.099744), (2.0, 0.099488), (6.0, 0.1)])
def test_e10_the_controller(close, kl, after):
    mask = torch.ones(256, 2, dtype=torch.bool)
    controller = AdaptiveKl(target=6.0, horizon=10_000)
    assert controller.moved(0.1, torch.full(mask.shape, kl / 2, dtype=F), mask) == pytest.approx(after, abs=1e-12)


def test_the_controller_counts_nats_of_rows_or_of_their_tokens(make_mask):
    mask = make_mask([1, 3, 0])
    kl = torch.tensor([[2.0, 9, 9], [1.0, 2.0, 3.0], [9, 9, 9]], dtype=F)
    rows = AdaptiveKl(target=3.8, horizon=2, bound=1.0)
    assert rows.moved(1.0, kl, mask) == pytest.approx(4 / 3.8)
    tokens = AdaptiveKl(target=1.9, horizon=2, bound=1.0, over="tokens")
    assert tokens.moved(1.0, kl, mask) == pytest.approx(2 / 1.9)
    assert rows.moved(0.7, kl, torch.zeros_like(mask)) == 0.7, "nobody trained: nothing is known"


def test_an_adaptive_coefficient_is_used_before_it_is_moved(close, example):
    memory = PPO_ADAPTIVE_KL.memory()
    assert memory == {"kl_coef": 0.02}
    inputs = dict(old=example.old, ref=example.ref, values=torch.zeros(4, 4, dtype=F))
    batch = batch_of(PPO_ADAPTIVE_KL, example.score, example.mask, example.group, **inputs)
    cost = torch.tensor([0, -0.04082199, -0.04879016, 0], dtype=F)
    close(batch.parts["kl_in_reward"], -0.02 * cost)
    _, after = PPO_ADAPTIVE_KL.signal(batch, memory)
    assert after["kl_coef"] == pytest.approx(0.02 * (1 - 0.2 * 4 / 10_000)) and memory == {"kl_coef": 0.02}
    again = PPO_ADAPTIVE_KL.shape(batch, 8, {"kl_coef": 0.5})
    close(again.parts["kl_in_reward"], -0.5 * cost)


def test_two_memories_live_side_by_side(example):
    algorithm = replace(REINFORCE_EMA, shaping=PPO_ADAPTIVE_KL.shaping)
    batch = batch_of(algorithm, example.score, example.mask, example.group, old=example.old, ref=example.ref)
    _, memory = algorithm.signal(batch, algorithm.memory())
    assert set(memory) == {"kl_coef", "average", "steps"}


def test_terms_add_up_and_are_recorded_by_name(example, close):
    algorithm = replace(GRPO, shaping=(OutcomeAtEnd(), KlInReward(coef=0.1), SoftOverlong(cache=0.5)))
    batch = batch_of(algorithm, example.score, example.mask, example.group, old=example.old, ref=example.ref, horizon=4)
    reward, parts = batch.reward, batch.parts
    assert list(parts) == ["outcome_at_end", "kl_in_reward", "soft_overlong"]
    close(reward.sum(1), sum(parts.values()), 1e-12)
    close(parts["soft_overlong"], [0, -1, -0.5, 0])


def test_a_row_without_score_gets_no_reward_and_no_nan(example):
    algorithm = replace(GRPO, shaping=(OutcomeAtEnd(wrong=-1), KlInReward(coef=0.1)))
    score = torch.tensor([1.0, float("nan"), 0.0, 0.0], dtype=F)
    batch = batch_of(algorithm, score, example.mask, example.group, old=example.old, ref=example.ref, horizon=4)
    reward, parts = batch.reward, batch.parts
    assert reward.isfinite().all() and not reward[1].any() and all(term[1] == 0 for term in parts.values())
