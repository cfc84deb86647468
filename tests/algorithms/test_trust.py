"""DPPO's mask and CPPO's prefix budget: worked numbers, gradients, and the law that makes one the other."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from batches import move_of
from paribus.algorithms import (
    AdaptiveBudget,
    BinaryKl,
    BinaryTv,
    Constant,
    DivergenceMask,
    FixedBudget,
    PrefixBudget,
    TokenMean,
    TopkKl,
    TopkTv,
)
from paribus.batch import Totals
from paribus.errors import ConfigError
from paribus.part import load

F = torch.float64
E23 = {"delta": 0.15, "w_min": 0.7, "budget": FixedBudget(value=0.05), "divergence": BinaryTv()}
A = [0.75, -0.25, -0.25, -0.25]  # E15


def applied(example, part):
    logp = example.new.clone().requires_grad_()
    advantage = torch.tensor(A, dtype=F)[:, None] * example.mask
    loss, stats = part(move_of(logp, example.old, example.mask), advantage)
    value = TokenMean()(loss, example.mask, Totals.of(example.mask, 8))
    return loss, value, torch.autograd.grad(value, logp, retain_graph=True)[0], stats, logp, advantage


def test_e22_masks_by_total_variation(example, close):
    loss, value, gradient, stats, _, _ = applied(example, DivergenceMask(divergence=BinaryTv(), delta=0.14))
    close(value, 0.10625, 1e-12)
    close(Constant()(loss, example.mask, Totals.of(example.mask, 8)), 0.033203125, 1e-12)
    expected = [[0, -0.075, 0, 0], [0.0375, 0.02125, 0.025, 0], [0.0225, 0.0275, 0.025, 0], [0.0225, 0, 0, 0]]
    close(gradient, expected, 1e-12)
    assert stats["masked"].value == pytest.approx(0.2)


def test_e22_masks_by_kl(example, close):
    _, value, gradient, stats, _, _ = applied(example, DivergenceMask(divergence=BinaryKl(), delta=0.05))
    close(value, -0.0125, 1e-12)
    assert gradient[example.mask].ne(0).tolist() == [True, True, True, False, True, False] + [True] * 4
    assert stats["masked"].value == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("divergence", "delta", "expected"),
    [(BinaryTv(), 0.14, -0.05969238387430894), (BinaryKl(), 0.05, -0.011998611345738118)],
)
def test_e22_the_weighted_score_function_has_the_same_gradient(example, close, divergence, delta, expected):
    """verl's form -M sg[min(r, 20)] A lp: another value, the same update."""
    loss, _, gradient, _, logp, advantage = applied(example, DivergenceMask(divergence=divergence, delta=delta))
    ratio = (example.new - example.old).exp()
    kept = (loss != 0).detach()
    value = TokenMean()(
        torch.where(kept, -ratio.clamp(max=20) * advantage * logp, 0), example.mask, Totals.of(example.mask, 8)
    )
    close(value, expected, 1e-12)
    close(torch.autograd.grad(value, logp)[0], gradient, 1e-12)


def test_a_cap_bounds_value_and_weight_and_keeps_the_gradient(close):
    logp = torch.tensor([[8.0, 4.0, 0.5]], dtype=F).log().requires_grad_()
    move = move_of(logp, torch.zeros_like(logp), torch.ones(1, 3, dtype=torch.bool))
    part = DivergenceMask(divergence=BinaryTv(), delta=0.2, cap=5.0)
    loss, stats = part(move, -torch.ones(1, 3, dtype=F))
    close(loss, [[5, 4, 0]], 1e-12)
    close(torch.autograd.grad(loss.sum(), logp)[0], [[5, 4, 0]], 1e-12)
    assert (stats["capped"].value, stats["masked"].value) == pytest.approx((1 / 3, 1 / 3))


def test_a_token_that_comes_back_is_never_masked_and_one_on_the_bound_is_inside():
    p = torch.tensor([[0.9, 0.1, 0.5, 0.75]], dtype=F)
    move = move_of(p.log().requires_grad_(), torch.full((1, 4), 0.5, dtype=F).log(), torch.ones(1, 4, dtype=torch.bool))
    part = DivergenceMask(divergence=BinaryTv(), delta=0.25)
    for sign, expected in ((1.0, [True, False, False, False]), (-1.0, [False, True, False, False])):
        loss, stats = part(move, torch.full((1, 4), sign, dtype=F))
        assert (loss == 0).tolist() == [expected] and stats["masked"].value == 0.25
    still, stats = part(move, torch.zeros(1, 4, dtype=F))
    assert not still.any() and stats["masked"].value == 0


@pytest.mark.parametrize(
    ("distance", "keep", "soft", "by_prefix"),
    [
        ([0.02, 0.10, 0.16, 0.03], [1, 1, 1, 1], [1, 1, 1, 1], 0),
        ([0.02, 0.12, 0.16, 0.03], [1, 1, 0, 1], [1, 1, 0.95703125, 1], 1),
        ([0.16, 0.02, 0.02, 0.02], [0, 1, 1, 1], [0.9375, 1, 1, 1], 0),
    ],
    ids="abc",
)
def test_e23_prefix_budget(close, distance, keep, soft, by_prefix):
    distance, mask = torch.tensor([distance], dtype=F), torch.ones(1, 4, dtype=torch.bool)
    gate, stats = PrefixBudget(**E23).gate(distance, mask, mask)
    close(gate, [keep], 0)
    assert stats["over_prefix"].value == by_prefix / 4 and stats["masked"].value == 1 - sum(keep) / 4
    gate, stats = PrefixBudget(**E23, soft=True).gate(distance, mask, mask)
    close(gate, [soft], 1e-12)
    assert stats["gated"].value == pytest.approx(1 - sum(soft) / 4)


def test_e23_a_the_last_token_but_one_is_out_for_dppo_and_in_for_cppo(close):
    distance, mask = torch.tensor([[0.02, 0.10, 0.16, 0.03]], dtype=F), torch.ones(1, 4, dtype=torch.bool)
    close(DivergenceMask(divergence=BinaryTv(), delta=0.15).gate(distance, mask, mask)[0], [[1, 1, 0, 1]], 0)


def test_e23_d_a_drifted_prefix_lets_only_returns_through(example):
    part = PrefixBudget(divergence=BinaryTv(), delta=0.14, w_min=0.8, budget=FixedBudget(value=0.02))
    loss, _, gradient, stats, _, _ = applied(example, part)
    assert (loss[1] != 0).tolist() == (gradient[1] != 0).tolist() == [True, False, True, False]
    assert stats["over_prefix"].value == pytest.approx(0.2), "neither token is far by itself"


def test_positions_count_trained_tokens_and_the_rows_own_length(close):
    """Padding, other rows and tokens that the policy did not sample leave a row's gates as they are."""
    part = PrefixBudget(**E23, soft=True)
    dense = torch.tensor([[0.02, 0.12, 0.16, 0.03]], dtype=F)
    mask = torch.tensor([[1, 0, 1, 1, 0, 1, 0], [1, 1, 1, 1, 1, 1, 1]]).bool()
    distance = torch.full((2, 7), 0.09, dtype=F)
    distance[0, mask[0]] = dense[0]
    distance = torch.where(mask, distance, 0)  # as a divergence gives it
    gate, _ = part.gate(distance, mask, mask)
    close(gate[0, mask[0]], part.gate(dense, *[torch.ones(1, 4, dtype=torch.bool)] * 2)[0][0], 1e-12)
    single, _ = part.gate(torch.tensor([[0.15]], dtype=F), *[torch.ones(1, 1, dtype=torch.bool)] * 2)
    assert single.item() == 1


def test_an_adaptive_budget_is_the_rows_own_quantile_within_bounds(close):
    distance = torch.linspace(0, 0.1, 11, dtype=F).repeat(3, 1)
    mask = torch.ones(3, 11, dtype=torch.bool)
    mask[1, 6:], mask[2] = False, False
    close(AdaptiveBudget(quantile=0.9, low=0.02, high=0.2)(distance, mask), [[0.09], [0.045], [0.02]], 1e-12)
    close(AdaptiveBudget(quantile=0.9, low=0.02, high=0.04)(distance, mask), [[0.04], [0.04], [0.02]], 1e-12)
    with pytest.raises(ConfigError, match=r"low = 0\.3 is above high = 0\.2"):
        load(AdaptiveBudget, {"low": 0.3, "high": 0.2})


def drawn(seed):
    """A random move with top-k tensors, and credit per token."""
    random = torch.Generator().manual_seed(seed)
    rows, width, vocabulary, k = (
        int(torch.randint(a, b, (1,), generator=random)) for a, b in ((1, 5), (1, 9), (5, 9), (1, 5))
    )
    mask = torch.rand(rows, width, generator=random) > 0.2
    old = (2 * torch.randn(rows, width, vocabulary, generator=random, dtype=F)).log_softmax(2)
    new = (old + 0.4 * torch.randn(old.shape, generator=random, dtype=F)).log_softmax(2)
    tokens = torch.randint(0, vocabulary, (rows, width), generator=random)
    ids = old.topk(k, 2).indices
    logp, old_logp = (x.gather(2, tokens[..., None])[..., 0] for x in (new, old))
    move = move_of(logp.requires_grad_(), old_logp, mask)
    move = move._replace(tokens=tokens, topk_ids=ids, old_topk=old.gather(2, ids), topk=new.gather(2, ids))
    return move, torch.where(mask, torch.randn(rows, width, generator=random, dtype=F), 0)


@pytest.mark.parametrize("cap", [None, 1.1])
@pytest.mark.parametrize("divergence", [BinaryTv(), BinaryKl(), TopkTv(), TopkKl()], ids=lambda d: d.type)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**31), delta=st.floats(0.01, 0.3))
def test_with_flat_weights_and_a_huge_budget_cppo_is_dppo(divergence, cap, seed, delta):
    move, advantage = drawn(seed)
    mask = DivergenceMask(divergence=divergence, delta=delta, cap=cap)
    budget = PrefixBudget(divergence=divergence, delta=delta, cap=cap, w_min=1.0, budget=FixedBudget(value=1e9))
    (one, counted), (other, same) = mask(move, advantage), budget(move, advantage)
    assert torch.equal(one, other)
    assert {**{n: s.value for n, s in counted.items()}, "over_prefix": same["over_prefix"].value} == {
        n: s.value for n, s in same.items()
    }


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), soft=st.booleans())
def test_a_huge_delta_masks_nothing_and_a_soft_gate_is_full_where_the_hard_one_is_open(seed, soft):
    move, advantage = drawn(seed)
    wide = PrefixBudget(divergence=TopkTv(), delta=1e9, budget=FixedBudget(value=0.015), soft=soft)
    loss, _ = wide(move, advantage)
    torch.testing.assert_close(loss, -move.log_ratio.exp() * advantage, rtol=0, atol=1e-15)
    mask, away = move.mask, torch.ones_like(move.mask)
    distance = TopkTv()(move)
    for budget in (FixedBudget(value=0.015), AdaptiveBudget(low=0.02, high=0.04)):
        hard, gentle = (
            PrefixBudget(divergence=TopkTv(), delta=0.1, budget=budget, soft=s).gate(distance, away, mask)[0]
            for s in (False, True)
        )
        assert torch.equal((gentle == 1)[mask], (hard == 1)[mask]) and (gentle[mask] > 0).all()
