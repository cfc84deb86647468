"""Aggregations divide by the whole update's totals, so that cutting an update into parts changes nothing."""

from __future__ import annotations

import pytest
import torch

from paribus.algorithms import Constant, SequenceMeanTokenMean, SequenceMeanTokenSum, TokenMean
from paribus.batch import Totals

F = torch.float64
ALL = [SequenceMeanTokenMean(), TokenMean(), SequenceMeanTokenSum(), Constant()]


def test_what_a_token_weighs(close, make_mask):
    mask, total = make_mask([2, 8]), Totals.of(make_mask([2, 8]), 16)
    for part, short, long in zip(ALL, (1 / 4, 1 / 10, 1 / 2, 1 / 32), (1 / 16, 1 / 10, 1 / 2, 1 / 32), strict=True):
        x = torch.zeros(2, 8, dtype=F, requires_grad=True)
        (weight,) = torch.autograd.grad(part(x, mask, total), x)
        close(weight[0], [short] * 2 + [0] * 6, 1e-12)
        close(weight[1], [long] * 8, 1e-12)


def test_e15_dr_grpo_divides_by_a_constant(example, close):
    advantage = torch.tensor([0.75, -0.25, -0.25, -0.25], dtype=F)[:, None]
    loss = -torch.minimum(*(r * advantage for r in _ratios(example)))
    total = Totals.of(example.mask, 8)
    close(Constant()(loss, example.mask, total), 0.011328125, 1e-12)
    close(SequenceMeanTokenSum()(loss, example.mask, total), 0.090625, 1e-12)


def _ratios(example):
    ratio = (example.new - example.old).exp()
    return ratio, ratio.clamp(0.8, 1.2)


@pytest.mark.parametrize("part", ALL)
@pytest.mark.parametrize("junk", [5.0, float("nan"), float("inf")])
def test_junk_and_wider_padding_change_nothing(part, junk, make_mask):
    x = torch.arange(1.0, 13, dtype=F).reshape(3, 4)
    mask = make_mask([4, 1, 3])
    total = Totals.of(mask, 16)
    wide = torch.nn.functional.pad(x.masked_fill(~mask, junk), (0, 3), value=junk).requires_grad_()
    wide_mask = torch.nn.functional.pad(mask, (0, 3))
    value = part(wide, wide_mask, total)
    value.backward()
    assert value.item() == pytest.approx(part(x, mask, total).item(), abs=1e-14)
    assert not wide.grad[~wide_mask].any()


@pytest.mark.parametrize("part", ALL)
def test_an_all_masked_row_adds_nothing_and_an_all_masked_update_is_zero(part, make_mask):
    x = torch.arange(1.0, 9, dtype=F).reshape(2, 4)
    mask = make_mask([3, 0], 4)
    total = Totals.of(mask, 4)
    assert total.sequences == 1
    assert part(x, mask, total) == part(x[:1], mask[:1], total)
    nothing = torch.zeros(2, 4, dtype=torch.bool)
    assert part(x, nothing, Totals.of(nothing, 4)) == 0


@pytest.mark.parametrize("part", ALL)
def test_shares_of_ragged_micro_batches_add_up(part, make_mask):
    random = torch.Generator().manual_seed(0)
    x = torch.randn(6, 7, generator=random, dtype=F)
    mask = make_mask([7, 1, 3, 0, 5, 2])
    total = Totals.of(mask, 7)
    whole = part(x, mask, total)
    for size in (1, 2, 3, 4, 5):
        shares = [part(a, b, total) for a, b in zip(x.split(size), mask.split(size), strict=True)]
        torch.testing.assert_close(sum(shares), whole, rtol=0, atol=1e-14)


def test_the_mean_of_micro_batch_means_is_another_number():
    x, mask = torch.tensor([[4.0, 9.0, 9.0], [0.0, 0.0, 0.0]]), torch.tensor([[1, 0, 0], [1, 1, 1]]).bool()
    whole = TokenMean()(x, mask, Totals.of(mask, 3))
    apart = [TokenMean()(a, b, Totals.of(b, 3)) for a, b in zip(x.split(1), mask.split(1), strict=True)]
    assert (whole.item(), sum(apart).item() / 2) == (1.0, 2.0)
