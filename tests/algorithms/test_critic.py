"""The value loss: the clip, the half, and what it must not touch."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError

from paribus.algorithms import Critic
from paribus.batch import Totals

F = torch.float64


def loss(critic, new, old, target, mask=None):
    new, old, target = (torch.tensor([x], dtype=F) for x in (new, old, target))
    mask = torch.ones_like(new, dtype=torch.bool) if mask is None else torch.tensor([mask]).bool()
    new.requires_grad_()
    value, stats = critic.value_loss(new, old, target, mask, Totals.of(mask, 8))
    value.backward()
    return value.detach(), new.grad[0], stats


def test_e7_value_clip(close):
    e7 = [0.8, 0.55, 1.0], [0.5, 0.6, 0.7], [0.9, 0.9, 1.0]
    value, gradient, stats = loss(Critic(lr=1e-5, clip=0.2), *e7)
    close(value, 0.02875, 1e-12)
    assert stats["value_clip"].value == pytest.approx(2 / 3)
    close(gradient, [0, (0.55 - 0.9) / 3, 0], 1e-12)  # beyond the clip a value has no gradient
    value, gradient, stats = loss(Critic(lr=1e-5), *e7)
    close(value, 0.02208333333, 1e-10)
    close(gradient, [-0.1 / 3, -0.35 / 3, 0], 1e-12)
    assert "value_clip" not in stats


def test_the_half_is_in_and_the_clip_bounds_the_value_not_the_loss(close):
    close(loss(Critic(lr=1e-5, clip=0.2), [1.0], [0.0], [0.5])[0], 0.125, 1e-12)


def test_explained_variance_comes_from_mergeable_moments(close):
    stats = loss(Critic(lr=1e-5), [0.5, 0.5, 2.0, 9.0], [0.0] * 4, [0.0, 1.0, 2.0, 9.0], [1, 1, 1, 0])[2]
    target, error = stats["value_target"], stats["value_error"]
    assert (target.value, float(target.count)) == (1.0, 3)
    assert 1 - error.variance / target.variance == pytest.approx(0.75)  # variance 1/6 of the errors, 2/3 of the targets


@pytest.mark.parametrize("fields", [{"head": "normal"}, {"head_std": 0.02}, {"head": "zero", "head_std": 0.02}])
def test_a_head_is_declared_in_full_or_not_at_all(fields):
    with pytest.raises(ValidationError, match="head_std goes with"):
        Critic(lr=1e-5, **fields)
    assert Critic(lr=1e-5, head="normal", head_std=0.02).head_std == 0.02
