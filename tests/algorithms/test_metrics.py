"""Statistics of a step: over the right rows and tokens, and the same however the step was cut."""

from __future__ import annotations

import math

import pytest
import torch

from paribus.algorithms import OutcomeAtEnd, signal_stats
from paribus.algorithms.catalog import GRPO, PPO, REINFORCE
from paribus.batch import Scores, Totals, merge_stats, select
from paribus.part import replace

F = torch.float64


def test_distances_to_the_old_policy_and_the_reference(example, make_batch):
    batch = make_batch(GRPO, example.score, example.mask, example.group, old=example.old, ref=example.ref)
    signal, _ = GRPO.signal(batch, {})
    stats = GRPO.loss(Scores(example.new), batch, signal, Totals.of(batch.mask, 8)).stats
    ratios = [1.3, 1, 1.5, 0.85, 1, 0.5, 0.9, 1.1, 1, 0.9]
    assert stats["ratio_deviation"].value == pytest.approx(0.5)
    assert stats["approx_kl"].value == pytest.approx(-sum(map(math.log, ratios)) / 10)
    assert stats["kl_k3"].value == pytest.approx(0.0533338890280264)  # E14, token mean
    assert stats["kl_loss"].value == pytest.approx(0.04 * 0.043390496375404125)  # E14, as GRPO averages
    assert stats["policy_loss"].value == pytest.approx(-0.0453125, abs=1e-6)
    assert stats["clip_low"].value == stats["clip_high"].value == pytest.approx(0.1)


def test_the_policy_that_sampled_has_distance_zero(example, make_batch):
    batch = make_batch(GRPO, example.score, example.mask, example.group, old=example.old, ref=example.old)
    signal, _ = GRPO.signal(batch, {})
    stats = GRPO.loss(Scores(example.old), batch, signal, Totals.of(batch.mask, 8)).stats
    assert all(stats[k].value == 0 for k in ("ratio_deviation", "approx_kl", "kl_k1", "kl_k3", "clip_low", "clip_high"))


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_a_kl_is_weighted_by_tokens_whatever_the_micro_batch(make_batch, make_mask, size):
    lengths = [3, 7, 9, 2, 8, 1, 4, 6]  # 10 tokens in the first two rows, 30 in the others
    mask = make_mask(lengths)
    rows = torch.tensor([0.1, 0.1, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3], dtype=F)
    ref = torch.zeros(8, 9, dtype=F)
    batch = make_batch(REINFORCE, torch.ones(8, dtype=F), mask, torch.zeros(8, dtype=torch.long), ref=ref)
    signal, _ = REINFORCE.signal(batch, {})
    logp = rows[:, None].expand(8, 9)
    total = Totals.of(mask, 9)
    parts = [
        REINFORCE.loss(Scores(logp[cut]), select(batch, cut), select(signal, cut), total).stats
        for cut in torch.arange(8).split(size)
    ]
    assert merge_stats(parts)["kl_k1"].value == pytest.approx((10 * 0.1 + 30 * 0.3) / 40)


def test_a_step_of_several_updates_averages_the_loss_over_updates(make_batch, make_mask):
    mask = make_mask([2, 3, 1, 4])
    batch = make_batch(REINFORCE, torch.tensor([1, 0, 1, 1], dtype=F), mask, torch.zeros(4, dtype=torch.long))
    signal, _ = REINFORCE.signal(batch, {})
    logp = -torch.ones(4, 4, dtype=F)
    parts, losses = [], []
    for minibatch in torch.arange(4).split(2):
        total = Totals.of(batch.mask[minibatch], 4)
        for row in minibatch.split(1):
            parts.append(REINFORCE.loss(Scores(logp[row]), select(batch, row), select(signal, row), total).stats)
        losses.append(sum(float(stats["policy_loss"].sum) for stats in parts[-2:]))
    merged = merge_stats(parts)["policy_loss"]
    assert merged.row() == pytest.approx({"sum": sum(losses), "count": 2})


def test_scores_rewards_and_credit_of_a_step(make_batch, close):
    score = torch.tensor([1, 0, float("nan"), 1, 1, 1, 0], dtype=F)
    group = torch.tensor([0, 0, 0, 1, 1, 1, 2])
    algorithm = replace(GRPO, kl=None, shaping=(OutcomeAtEnd(wrong=-1.0),))
    batch = make_batch(algorithm, score, torch.ones(7, 2, dtype=torch.bool), group)
    stats = signal_stats(batch, algorithm.signal(batch, {})[0])
    assert stats["score"].row() == {"sum": 4, "square": 4, "count": 6}
    assert stats["reward"].row() == {"sum": 2, "square": 6, "count": 6}
    # one group of three is mixed, one uniform; a group of one says nothing either way
    assert stats["uniform_groups"].row() == {"sum": 1, "count": 2}
    assert stats["trained"].row() == {"sum": 6, "count": 7}
    assert float(stats["advantage"].count) == 12 and stats["advantage"].value == pytest.approx(0, abs=1e-12)
    assert "return" not in stats


def test_returns_are_recorded_where_a_critic_learns_them(make_batch):
    algorithm = replace(PPO, shaping=(OutcomeAtEnd(),), **{"advantage.lam": 1.0})
    score, mask, values = torch.tensor([1, 0], dtype=F), torch.ones(2, 2, dtype=torch.bool), torch.full((2, 2), 0.25)
    batch = make_batch(algorithm, score, mask, torch.arange(2), values=values.to(F))
    stats = signal_stats(batch, algorithm.signal(batch, {})[0])
    assert stats["return"].row() == {"sum": 2, "square": 2, "count": 4}


def test_a_step_without_scores_has_no_means_rather_than_zeros(make_batch):
    score = torch.full((4,), float("nan"), dtype=F)
    batch = make_batch(GRPO, score, torch.ones(4, 2, dtype=torch.bool), torch.zeros(4, dtype=torch.long),
                       old=torch.zeros(4, 2, dtype=F), ref=torch.zeros(4, 2, dtype=F))  # fmt: skip
    stats = signal_stats(batch, GRPO.signal(batch, {})[0])
    assert [stats[k].value for k in ("score", "reward", "advantage", "uniform_groups")] == [None] * 4
    assert stats["trained"].value == 0
