"""Whitening: which values its statistics are over, and what it does with one."""

from __future__ import annotations

import pytest
import torch

from paribus.algorithms import Whiten

F = torch.float64
E8 = torch.tensor([[1.0, 2.0, 3.0, 50.0]], dtype=F), torch.tensor([[1, 1, 1, 0]]).bool()


def test_e8_bessel_population_and_scale_only(close):
    close(Whiten()(*E8), [[-1, 0, 1, 0]])
    close(Whiten(ddof=0)(*E8), [[-1.22474486, 0, 1.22474486, 0]])
    close(Whiten(shift_mean=False)(*E8), [[1, 2, 3, 0]])


def test_e6_whitened(close):
    a = torch.tensor([[0.46951904, 0.38896741, 0.31823216]], dtype=F)
    mask = torch.ones(1, 3, dtype=torch.bool)
    close(Whiten()(a, mask), [[1.0209116, -0.04322687, -0.97768474]])
    close(Whiten(ddof=0)(a, mask), [[1.25035571, -0.05294186, -1.19741384]])


def test_e3_tokens_and_sequences_weigh_rows_differently(close, make_mask):
    mask = make_mask([2, 4, 3, 1])
    a = torch.tensor([0.5, -0.5, 0.0, 0.0], dtype=F)[:, None] * mask
    tokens = Whiten(over="tokens")(a, mask)
    close(tokens[:, 0], [1.52127761, -1.01418507, 0.25354627, 0.25354627])
    close(Whiten(over="sequences")(a, mask)[:, 0], [1.22474487, -1.22474487, 0, 0])
    close(Whiten(over="sequences", ddof=0)(a, mask)[:, 0], [1.41421351, -1.41421351, 0, 0])
    close(tokens[~mask], 0, 0)


@pytest.mark.parametrize("over", ["tokens", "sequences"])
@pytest.mark.parametrize("valid", [0, 1])
def test_nothing_and_a_single_value_become_zero(over, valid):
    mask = torch.zeros(2, 3, dtype=torch.bool)
    mask[0, :valid] = True
    white = Whiten(over=over)(torch.full((2, 3), 4.0, dtype=F), mask)
    assert not white.any()


def test_nan_beyond_the_mask_does_not_reach_the_statistics(close):
    a, mask = E8
    a = a.masked_fill(~mask, float("nan"))
    close(Whiten()(a, mask), [[-1, 0, 1, 0]])
    close(Whiten(over="sequences")(a, mask), [[-1e4, 0, 1e4, 0]], 1e-6)  # one row: variance 0, so only eps divides


def test_whitening_may_flip_the_sign_of_credit():
    a = torch.tensor([[0.1, 0.2, 0.9]], dtype=F)
    assert (a > 0).all() and (Whiten()(a, torch.ones(1, 3, dtype=torch.bool)) < 0).any()
