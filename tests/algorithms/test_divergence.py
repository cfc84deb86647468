"""Divergences of the old policy and the current one: worked numbers, bounds, and certainty."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from batches import move_of
from paribus.algorithms import BinaryKl, BinaryTv, TopkKl, TopkTv

F = torch.float64
MU = torch.tensor([0.5, 0.2, 0.15, 0.1, 0.05], dtype=F)
PI = torch.tensor([0.4, 0.28, 0.1, 0.17, 0.05], dtype=F)


def move_in(mu, pi, action, k):
    """One token drawn from `mu`, and the log-probs of its k likeliest tokens under both policies."""
    ids = mu.topk(k).indices
    logp = pi[action].log()[None, None].requires_grad_()
    move = move_of(logp, mu[action].log()[None, None], torch.ones(1, 1, dtype=torch.bool))
    return move._replace(
        tokens=torch.tensor([[action]]), topk_ids=ids[None, None], old_topk=mu[ids].log()[None, None],
        topk=pi[ids].log()[None, None],
    )  # fmt: skip


def test_e22_binary(example, close):
    move, mask = move_of(example.new, example.old, example.mask), example.mask
    tv, kl = BinaryTv()(move), BinaryKl()(move)
    close(tv[mask], [0.15, 0, 0.1, 0.135, 0, 0.15, 0.025, 0.08, 0, 0.07], 1e-12)
    expected = [0.04715534, 0, 0.02573209, 0.0608255, 0, 0.07203494, 0.00174776, 0.02591698, 0, 0.0108362]
    close(kl[mask], expected, 1e-8)
    assert not tv[~mask].any() and not kl[~mask].any()


def test_e22_top_k_adds_the_sampled_token_and_one_rest(close):
    move = move_in(MU, PI, action=3, k=2)
    close(TopkTv(k=2)(move), [[0.15]], 1e-12)
    close(TopkKl(k=2)(move), [[0.04875091771700164]], 1e-12)
    close(BinaryTv()(move), [[0.07]], 1e-12)
    close(BinaryKl()(move), [[0.01980933117408351]], 1e-12)
    whole = move_in(MU, PI, action=3, k=5)
    close(TopkTv(k=5)(whole), [[0.15]], 1e-12)
    close(TopkKl(k=5)(whole), [[0.05203426944286989]], 1e-9)


def test_a_sampled_token_among_the_likeliest_is_not_counted_twice(close):
    close(TopkTv(k=2)(move_in(MU, PI, action=1, k=2)), [[(0.1 + 0.08 + 0.02) / 2]], 1e-12)


@pytest.mark.parametrize("divergence", [BinaryTv(), BinaryKl(), TopkTv(), TopkKl()])
def test_no_gradient_flows_through_a_divergence(divergence):
    assert not divergence(move_in(MU, PI, action=3, k=2)).requires_grad


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31), size=st.integers(2, 9), sharpness=st.floats(0.1, 6))
def test_the_more_is_told_apart_the_larger_the_divergence(seed, size, sharpness):
    random = torch.Generator().manual_seed(seed)
    mu, pi = (sharpness * torch.randn(2, size, generator=random, dtype=F)).softmax(1)
    action, k = (int(torch.randint(low, size, (1,), generator=random)) for low in (0, 1))
    move = move_in(mu, pi, action, k)
    full = (mu - pi).abs().sum() / 2
    chain = [BinaryTv()(move), TopkTv()(move), full]
    assert chain[0] <= chain[1] + 1e-12 and chain[1] <= chain[2] + 1e-12
    chain = [BinaryKl()(move), TopkKl()(move), (mu * (mu / pi).log()).sum()]
    assert -1e-12 <= chain[0] <= chain[1] + 1e-9 and chain[1] <= chain[2] + 1e-9


@pytest.mark.parametrize("dtype", [torch.float32, F])
@pytest.mark.parametrize(
    ("old", "new"), [(0.0, -1e-9), (-1e-9, 0.0), (0.0, -50.0), (-50.0, 0.0), (1e-7, -1e-7), (-float("inf"), -1.0)]
)
def test_certainty_and_impossibility_are_finite(dtype, old, new):
    old, new = (torch.tensor([[x]], dtype=dtype) for x in (old, new))
    move = move_of(new, old, torch.ones(1, 1, dtype=torch.bool))
    found = BinaryKl()(move)
    assert found.isfinite().all() and found >= -1e-9
    assert 0 <= BinaryTv()(move) <= 1 + 1e-6


def test_a_near_certain_token_keeps_its_digits_in_single_precision():
    """1 - p is 1e-9 before and 1e-8 after; computed as 1 - exp(lp) it would be 0 in both."""
    old, new = torch.tensor([[-1e-9]]), torch.tensor([[-1e-8]])
    found = BinaryKl()(move_of(new, old, torch.ones(1, 1, dtype=torch.bool))).item()
    p, q = 1e-9, 1e-8
    assert found == pytest.approx((q - p) + p * torch.tensor(p / q).log().item(), rel=1e-2)
