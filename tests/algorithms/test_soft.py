"""Surrogates that weigh instead of cutting, and GSPO's ratio: worked numbers, their gradients, and what unites them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from batches import move_of
from paribus.algorithms import (
    BinaryTv,
    Cispo,
    Clip,
    DivergenceMask,
    Gmpo,
    Sapo,
    SequenceMeanTokenMean,
    SequenceRatio,
    TokenMean,
    TokenRatio,
)
from paribus.batch import Totals

F = torch.float64
ROW_MEAN = SequenceMeanTokenMean()
GEOMETRIC = SequenceRatio(normalise=True)
OPEN = Clip(low=1.0, high=1e9)  # a ratio is never negative: nothing is clipped
A = [1.5, -0.5, -0.5, -0.5]  # E12


def lay(example, values):
    """Worked numbers of ragged rows as a padded tensor."""
    out = torch.zeros(example.mask.shape, dtype=F)
    out[example.mask] = torch.tensor([x for row in values for x in row], dtype=F)
    return out


def applied(example, part, ratio=None, aggregate=ROW_MEAN):
    """Loss per token, the update's loss, its gradient and the stats, of the worked example."""
    logp = example.new.clone().requires_grad_()
    advantage = torch.tensor(A, dtype=F)[:, None] * example.mask
    loss, stats = part(move_of(logp, example.old, example.mask, ratio or TokenRatio()), advantage)
    value = aggregate(loss, example.mask, Totals.of(example.mask, 8))
    (gradient,) = torch.autograd.grad(value, logp)
    return loss.detach(), value.detach(), gradient, {name: stat.value for name, stat in stats.items()}


def test_e17_gspo_clips_whole_responses(example, close):
    loss, value, gradient, stats = applied(example, Clip(low=3e-4, high=4e-4), GEOMETRIC)
    close(-loss[:, 0], [1.5006, -0.49985, -0.49985, -0.49985], 1e-8)
    close(value, -0.0002625, 1e-12)
    assert (stats["clip_high"], stats["clip_low"]) == pytest.approx((0.2, 0.8)) and not gradient.any()


def test_e17_gspo_gives_every_token_of_a_row_the_same_gradient(example, close):
    loss, value, gradient, _ = applied(example, Clip(low=0.2, high=0.27), GEOMETRIC)
    close(-loss[:, 0], [1.71026314, -0.44677622, -0.49832775, -0.45], 1e-8)
    close(value, -0.07878979216879077, 1e-12)
    close(gradient, lay(example, [[-0.21378289] * 2, [0.02792351] * 4, [0.04152731] * 3, [0.1125]]), 1e-8)


@pytest.mark.parametrize(
    ("part", "expected", "capped"),
    [
        (Cispo(high=1.2), -0.07121225040923411, 0.2),
        (Cispo(high=5.0), -0.08281009873273634, 0.0),
        (Cispo(low=0.8, high=1.2), -0.09966905018252233, 0.3),
    ],
)
def test_e18_cispo(example, close, part, expected, capped):
    _, value, gradient, stats = applied(example, part, aggregate=TokenMean())
    close(value, expected, 1e-12)
    assert stats == pytest.approx({"capped": capped})
    weight = lay(example, [[1.3, 1], [1.5, 0.85, 1, 0.5], [0.9, 1.1, 1], [0.9]]).clamp(part.low, part.high)
    close(gradient, -weight * torch.tensor(A, dtype=F)[:, None] / 10 * example.mask, 1e-12)


def test_e18_no_token_of_cispo_loses_its_gradient(example, close):
    _, _, gradient, _ = applied(example, Cispo(high=5.0), aggregate=TokenMean())
    expected = [[-0.195, -0.15], [0.075, 0.0425, 0.05, 0.025], [0.045, 0.055, 0.05], [0.045]]
    close(gradient, lay(example, expected), 1e-12)


def test_e20_sapo(example, close):
    loss, value, gradient, stats = applied(example, Sapo())
    a = torch.tensor(A, dtype=F)[:, None]
    gate = [
        [2.29777007, 2],
        [2.39358548, 1.75507122, 1.9047619, 1.41593833],
        [1.80485368, 2.00467013, 1.9047619],
        [1.80485368],
    ]
    close(-loss / a, lay(example, gate), 1e-8)
    close(value, -0.1087125356309627, 1e-12)
    weight = lay(
        example,
        [[0.97783325, 1], [0.93413982, 0.99382399, 1, 0.93413982], [0.99724881, 0.99724881, 1], [0.99724881]],
    )
    ratio = lay(example, [[1.3, 1], [1.5, 0.85, 1, 0.5], [0.9, 1.1, 1], [0.9]])
    length = example.mask.sum(1, keepdim=True)
    close(gradient, -weight * ratio * a / (4 * length), 1e-8)
    assert stats["gated"] == pytest.approx(float((1 - weight)[example.mask].mean()), abs=1e-8)


def test_e21_gmpo(example, close):
    loss, value, gradient, stats = applied(example, Gmpo())
    close(-loss[:, 0] / torch.tensor(A, dtype=F), [1.14017543, 0.96149736, 0.99665549, 0.9], 1e-8)
    close(value, -0.07029667721645398, 1e-12)
    expected = [[-0.21378289] * 2, [0.03004679] * 3 + [0], [0.04152731] * 3, [0.1125]]
    close(gradient, lay(example, expected), 1e-8)
    assert stats == pytest.approx({"clip_low": 0.1, "clip_high": 0.0})


def test_gmpo_clips_only_the_side_that_the_advantage_pushes_to():
    logp = torch.tensor([[0.4, 0.41, -3.0, 0.5], [-0.4, -0.41, 3.0, -0.5]], dtype=F, requires_grad=True)
    mask = torch.tensor([[True, True, True, False], [True, True, True, False]])
    loss, _ = Gmpo()(move_of(logp, torch.zeros_like(logp), mask), torch.tensor([[1.0], [-1.0]], dtype=F) * mask)
    loss.sum().backward()
    assert logp.grad.bool().tolist() == [[True, False, True, False]] * 2, "on the bound is inside"


@pytest.mark.parametrize("step", [1000.0, -1000.0])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize("part", [Cispo(), Sapo(), Gmpo(), DivergenceMask(divergence=BinaryTv(), delta=0.2, cap=5.0)])
def test_a_runaway_log_ratio_is_finite(part, step, advantage):
    logp = torch.full((1, 2), step, requires_grad=True)
    move = move_of(logp, torch.zeros(1, 2), torch.ones(1, 2, dtype=torch.bool))
    loss, _ = part(move, torch.full((1, 2), advantage))
    loss.sum().backward()
    assert loss.isfinite().all() and logp.grad.isfinite().all()
    # CISPO weighs the score function, whose gradient no ratio can end
    assert bool(logp.grad.any()) == isinstance(part, Cispo)


def drawn(seed, width=None):
    """Old and new log-probs, credit per row and mask, of a random shape."""
    random = torch.Generator().manual_seed(seed)
    rows, columns = torch.randint(1, 7, (2,), generator=random).tolist()
    columns = width or columns
    mask = torch.arange(columns)[None] < torch.randint(1, columns + 1, (rows, 1), generator=random)
    old = -torch.rand(rows, columns, generator=random, dtype=F) * 3 - 0.01
    new = (old + 0.4 * torch.randn(rows, columns, generator=random, dtype=F)).clamp(max=-1e-3)
    return old, new, torch.randn(rows, 1, generator=random, dtype=F) * mask, mask


def gradient_of(part, old, new, advantage, mask, ratio=None, aggregate=ROW_MEAN):
    logp = new.clone().requires_grad_()
    loss, _ = part(move_of(logp, old, mask, ratio or TokenRatio()), advantage)
    return torch.autograd.grad(aggregate(loss, mask, Totals.of(mask, 8)), logp)[0]


seeds = given(seed=st.integers(0, 2**31))
quick = settings(max_examples=25, deadline=None)


@quick
@seeds
def test_gspo_on_one_token_per_response_is_grpo(seed):
    case = drawn(seed, width=1)
    one, other = (gradient_of(Clip(), *case, ratio) for ratio in (GEOMETRIC, TokenRatio()))
    torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@quick
@seeds
def test_gmpo_with_nothing_clipped_is_unclipped_gspo(seed):
    case = drawn(seed)
    one, other = gradient_of(Gmpo(low=99, high=99), *case), gradient_of(OPEN, *case, GEOMETRIC)
    torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@quick
@seeds
def test_cispo_dppo_and_the_plain_ratio_agree_where_nothing_is_masked(seed):
    case = drawn(seed)
    plain = gradient_of(OPEN, *case)
    for part in (Cispo(high=1e9), DivergenceMask(divergence=BinaryTv(), delta=1.0)):
        torch.testing.assert_close(gradient_of(part, *case), plain, rtol=0, atol=1e-12)


@quick
@seeds
def test_the_weight_of_sapo_is_that_of_the_plain_ratio_times_a_gate_below_one(seed):
    case = drawn(seed)
    plain, gated = gradient_of(OPEN, *case), gradient_of(Sapo(), *case)
    assert (gated.abs() <= plain.abs() + 1e-15).all() and (gated * plain >= 0).all()
