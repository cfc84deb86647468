"""Masked and grouped operations: junk outside the mask never matters, groups are sets and not neighbours."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from paribus import tensors

F = torch.float64
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("junk", [NAN, INF, -INF, 1e300])
def test_junk_outside_the_mask_changes_no_value_and_no_gradient(junk):
    x = torch.tensor([1.0, junk, 3.0, junk], dtype=F, requires_grad=True)
    mask = torch.tensor([True, False, True, False])
    assert tensors.masked_sum(x, mask) == 4 and tensors.masked_mean(x, mask) == 2
    assert tensors.masked_var(x, mask, 1) == 2 and tensors.masked_var(x, mask, 0) == 1
    total = tensors.masked_sum(x, mask) + tensors.masked_mean(x, mask) + tensors.masked_var(x, mask, 1)
    (gradient,) = torch.autograd.grad(total, x)
    assert gradient.tolist() == [1 + 0.5 - 2, 0, 1 + 0.5 + 2, 0]


def test_nothing_valid_is_zero_not_nan():
    x, none = torch.full((3,), NAN, dtype=F), torch.zeros(3, dtype=torch.bool)
    assert tensors.masked_sum(x, none) == tensors.masked_mean(x, none) == tensors.masked_var(x, none, 1) == 0
    one = torch.tensor([False, True, False])
    assert tensors.masked_var(torch.arange(3, dtype=F), one, 1) == 0


def test_the_last_valid_position_of_rows_with_holes():
    mask = torch.tensor([[1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]]).bool()
    assert tensors.last(mask).nonzero().tolist() == [[0, 1], [1, 2], [3, 3]]
    put = tensors.at_last(torch.tensor([5.0, 6.0, 7.0, 8.0]), mask)
    assert put.tolist() == [[0, 5, 0, 0], [0, 0, 6, 0], [0, 0, 0, 0], [0, 0, 0, 8]]
    assert tensors.broadcast(torch.tensor([5.0, 6.0, NAN, 8.0]), mask).tolist()[1:3] == [[6, 0, 6, 0], [0, 0, 0, 0]]


def by_hand(x, group, valid, function):
    """The same by a loop over rows."""
    out = []
    for g in group.tolist():
        members = [v for v, h, ok in zip(x.tolist(), group.tolist(), valid.tolist(), strict=True) if h == g and ok]
        out.append(function(members))
    return torch.tensor(out, dtype=F)


def std(ddof):
    def of(members):
        m = sum(members) / max(len(members), 1)
        return (sum((v - m) ** 2 for v in members) / max(len(members) - ddof, 1)) ** 0.5

    return of


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(0, 2**31), st.sampled_from([0, 1]))
def test_grouped_statistics_are_those_of_a_loop_over_scattered_groups(rows, seed, ddof):
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, generator=random, dtype=F)
    group = torch.randint(-3, 3, (rows,), generator=random) * 1000
    valid = torch.rand(rows, generator=random) > 0.3
    dirty = x.masked_fill(~valid, NAN)
    expected = by_hand(x, group, valid, lambda m: sum(m) / max(len(m), 1))
    torch.testing.assert_close(tensors.group_mean(dirty, group, valid), expected)
    torch.testing.assert_close(tensors.group_sum(dirty, group, valid), by_hand(x, group, valid, sum), check_dtype=False)
    torch.testing.assert_close(tensors.group_count(group, valid, F), by_hand(x, group, valid, len))
    torch.testing.assert_close(tensors.group_std(dirty, group, valid, ddof), by_hand(x, group, valid, std(ddof)))
    index, n = tensors.group_index(group)
    assert n == len(set(group.tolist())) and sorted(set(index.tolist())) == list(range(n))


@pytest.mark.parametrize("dtype", [torch.float32, F])
def test_uniform_up_to_rounding_only(dtype):
    base = torch.tensor(0.6, dtype=dtype)
    noisy = torch.nextafter(torch.nextafter(base, base + 1), base + 1)
    x = torch.stack([base, noisy, base, base + 1e-3, base, base * 0 + NAN, base])
    group, valid = torch.tensor([0, 0, 1, 1, 2, 2, 3]), torch.tensor([True] * 5 + [False, True])
    assert tensors.uniform_groups(x, group, valid).tolist() == [True, True, False, False, True, True, True]
    far = torch.tensor([1e6, 1e6 + 100], dtype=dtype)
    assert not tensors.uniform_groups(far, torch.zeros(2).long(), torch.ones(2).bool()).any()
