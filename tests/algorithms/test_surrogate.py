"""Ratios and surrogates: the table of PPO's clip, its gradients, and ratios that run away."""

from __future__ import annotations

import math

import pytest
import torch

from batches import move_of, plain_batch
from paribus.algorithms import Clip, GroupZScore, Reinforce, SequenceRatio, TokenRatio
from paribus.algorithms.aggregate import Constant, SequenceMeanTokenMean, SequenceMeanTokenSum, TokenMean
from paribus.batch import Totals

F = torch.float64


def clip(part, ratio, advantage):
    """Loss and d loss / d ratio of tokens with these ratios."""
    ratio = torch.tensor([ratio], dtype=F, requires_grad=True)
    advantage = torch.tensor(advantage, dtype=F).expand(ratio.shape)
    move = move_of(ratio.log(), torch.zeros_like(ratio), torch.ones_like(ratio, dtype=torch.bool))
    loss, stats = part(move, advantage)
    (gradient,) = torch.autograd.grad(loss.sum(), ratio)
    return loss.detach()[0], gradient[0], stats


def test_e9_clip_and_dual_clip(close):
    r = [0.5, 1.0, 1.5, 4.0]
    close(clip(Clip(), r, 1.0)[0], [-0.5, -1, -1.2, -1.2])
    close(clip(Clip(), r, -1.0)[0], [0.8, 1, 1.5, 4])
    close(clip(Clip(dual=3.0), r, -1.0)[0], [0.8, 1, 1.5, 3])
    close(clip(Clip(dual=3.0), r, 1.0)[0], [-0.5, -1, -1.2, -1.2])


def test_gradient_stops_only_where_the_advantage_pushes_outwards(close):
    r = [0.5, 0.81, 1.0, 1.2, 2.0, 20.0]
    close(clip(Clip(high=0.28), r, 1.0)[1], [-1, -1, -1, -1, 0, 0])
    close(clip(Clip(high=0.28), r, -1.0)[1], [0, 1, 1, 1, 1, 1])
    close(clip(Clip(high=0.28, dual=3.0), r, -1.0)[1], [0, 1, 1, 1, 1, 0])


def test_a_ratio_on_the_bound_is_inside(close):
    close(clip(Clip(low=0.25, high=0.25), [1.25], 1.0)[1], [-1])
    close(clip(Clip(low=0.25, high=0.25), [0.75], -1.0)[1], [1])
    stats = clip(Clip(low=0.25, high=0.25), [1.25, 0.75], 1.0)[2]
    assert stats["clip_low"].value == stats["clip_high"].value == 0


def test_fractions_count_selected_branches_only():
    r = [0.5, 1.0, 1.5, 4.0]
    up, down = clip(Clip(dual=3.0), r, 1.0)[2], clip(Clip(dual=3.0), r, -1.0)[2]
    assert [up[k].value for k in ("clip_low", "clip_high", "clip_dual")] == [0, 0.5, 0]
    assert [down[k].value for k in ("clip_low", "clip_high", "clip_dual")] == [0.25, 0, 0.25]
    still = clip(Clip(dual=3.0), r, 0.0)
    assert not still[0].any() and all(stat.value == 0 for stat in still[2].values())


def surrogate(example, part=None, eps=0.0):
    """Loss per token of the worked example, its gradient graph open."""
    part = part or Clip()
    reward = torch.where(example.mask, example.score[:, None], 0) / example.mask.sum(1, keepdim=True)
    signal, _ = GroupZScore(eps=eps)(plain_batch(reward, example.mask, example.group), {})
    logp = example.new.clone().requires_grad_()
    loss, stats = part(move_of(logp, example.old, example.mask), signal.advantage)
    return logp, loss, stats


def test_e12_surrogate_fraction_and_the_four_aggregations(example, close):
    logp, loss, stats = surrogate(example)
    expected = [[1.8, 1.5, 0, 0], [-0.75, -0.425, -0.5, -0.4], [-0.45, -0.55, -0.5, 0], [-0.45, 0, 0, 0]]
    close(-loss, expected)
    assert (stats["clip_low"].value, stats["clip_high"].value) == (0.1, 0.1)
    total, mask = Totals.of(example.mask, 8), example.mask
    close(SequenceMeanTokenMean()(loss, mask, total), -0.0453125, 1e-12)
    close(SequenceMeanTokenSum()(loss, mask, total), 0.18125, 1e-12)
    close(Constant()(loss, mask, total), 0.02265625, 1e-12)
    mean = TokenMean()(loss, mask, total)
    close(mean, 0.0725, 1e-12)
    (gradient,) = torch.autograd.grad(mean, logp)
    expected = [[0, -0.15, 0, 0], [0.075, 0.0425, 0.05, 0], [0.045, 0.055, 0.05, 0], [0.045, 0, 0, 0]]
    close(gradient, expected, 1e-12)


def test_e16_clip_higher(example, close):
    _, loss, _ = surrogate(example, Clip(low=0.2, high=0.28))
    close(-loss[0, :2], [1.92, 1.5])
    close(TokenMean()(loss, example.mask, Totals.of(example.mask, 8)), 0.0605, 1e-12)


def test_ratios_of_the_example(example, close):
    r = TokenRatio()(example.new, example.old, example.mask).exp()
    close(r, [[1.3, 1, 1, 1], [1.5, 0.85, 1, 0.5], [0.9, 1.1, 1, 1], [0.9, 1, 1, 1]])
    close(SequenceRatio(normalise=False)(example.new, example.old, example.mask).exp()[:, 0], [1.3, 0.6375, 0.99, 0.9])
    mean = SequenceRatio(normalise=True)(example.new, example.old, example.mask).exp()[:, 0]
    close(mean, [1.14017543, 0.89355244, 0.99665549, 0.9])  # E17


def test_e4_the_clipped_sequence_form_of_rloo(example, close):
    move = move_of(example.new, example.old, example.mask, SequenceRatio(normalise=False))
    advantage = torch.tensor([1, -1 / 3, -1 / 3, -1 / 3], dtype=F)[:, None] * example.mask
    loss, _ = Clip()(move, advantage)
    close(loss[:, 0], [-1.2, 0.26666667, 0.33, 0.3])
    total = Totals.of(example.mask, 8)
    close(SequenceMeanTokenMean()(loss, example.mask, total), -0.07583333333333335, 1e-12)


def test_a_sequence_ratio_of_one_token_is_the_token_ratio():
    logp, old = torch.tensor([[-0.3, 9.0]]), torch.tensor([[-0.5, 9.0]])
    mask = torch.tensor([[True, False]])
    for normalise in (True, False):
        assert torch.equal(SequenceRatio(normalise=normalise)(logp, old, mask), TokenRatio()(logp, old, mask))


@pytest.mark.parametrize("ratio", [TokenRatio(), SequenceRatio(normalise=True), SequenceRatio(normalise=False)])
@pytest.mark.parametrize("step", [1000.0, -1000.0])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_a_runaway_log_ratio_is_finite_and_has_no_gradient(ratio, step, advantage):
    logp = torch.full((1, 2), step, requires_grad=True)
    mask = torch.ones(1, 2, dtype=torch.bool)
    loss, _ = Clip()(move_of(logp, torch.zeros(1, 2), mask, ratio), torch.full((1, 2), advantage))
    loss.sum().backward()
    assert loss.isfinite().all() and not logp.grad.any()


@pytest.mark.parametrize("ratio", [TokenRatio(), SequenceRatio(normalise=True), SequenceRatio(normalise=False)])
def test_nan_beyond_the_mask_reaches_neither_ratio_nor_gradient(ratio):
    logp = torch.tensor([[0.1, float("nan")], [float("inf"), float("nan")]], requires_grad=True)
    mask = torch.tensor([[True, False], [False, False]])
    r = ratio(logp, torch.tensor([[0.0, float("inf")]] * 2), mask).exp()
    r.sum().backward()
    assert r.isfinite().all()
    assert torch.equal(logp.grad, torch.tensor([[math.exp(0.1), 0], [0, 0]]))


def test_e1_reinforce_on_the_old_policy(example, close):
    advantage = torch.tensor([0.75, -0.25, -0.25, -0.25], dtype=F)[:, None] * example.mask
    close((example.old * example.mask).sum(1), [-1.60943791, -3.42959686, -2.30258509, -0.35667494])
    loss, stats = Reinforce()(move_of(example.old, example.old, example.mask), advantage)
    total = Totals.of(example.mask, 8)
    close(SequenceMeanTokenSum()(loss, example.mask, total), -0.07878394723839569, 1e-12)
    assert stats == {}
