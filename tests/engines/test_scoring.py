"""Scoring rows that share prompts: the same numbers and gradients as row by row, for fewer tokens."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from paribus.batch import Rollout, select
from paribus.engines.local import LocalSampler
from paribus.engines.protocols import SamplingPlan
from paribus.engines.scoring import before, micro_batches, plainly_before
from paribus.models import trunk
from paribus.types import Key
from toymodels import FAMILIES, llama, loaded, prompts


def roll(model: Any, samples: int = 4) -> Rollout:
    plan = SamplingPlan(samples=samples, max_tokens=9)
    return LocalSampler(loaded(model)).sample(prompts([3, 9, 1, 7]), plan, Key(7, "sample"))


@pytest.mark.parametrize("family", FAMILIES)
def test_shared_prompts_change_neither_states_nor_gradients(family: str) -> None:
    """Rows in any order, some tokens left out of the mask, each prompt read once."""
    model = FAMILIES[family]()
    rollout = select(roll(model), torch.randperm(16, generator=torch.Generator().manual_seed(0)))
    mask = rollout.mask & (torch.arange(rollout.mask.shape[1]) % 5 != 0)
    seen: list[int] = []
    hook = model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs["input_ids"].shape[0]), with_kwargs=True
    )
    weight = torch.randn(int(mask.sum()), 32, generator=torch.Generator().manual_seed(1))
    found = []
    for hidden in (before(model.base_model, rollout, mask), plainly_before(model.base_model, rollout.tokens, mask)):
        model.zero_grad()
        (hidden * weight).sum().backward()
        gradient = torch.cat([p.grad.flatten() for p in model.base_model.parameters()])
        found.append((hidden.detach(), gradient))
    hook.remove()
    # four prompts, sixteen responses; then all rows as they are; a trunk computed by hand runs no module
    assert seen == ([] if trunk.fits(model.base_model) else [4, 16, 16])
    assert (found[0][0] - found[1][0]).abs().max() < 1e-5
    assert (found[0][1] - found[1][1]).abs().max() < 1e-5 * found[1][1].abs().max()


def test_micro_batches_hold_every_row_once_within_the_budget() -> None:
    rollout = roll(llama())
    begin = rollout.mask.long().argmax(1)
    for budget in (1, 25, 60, 10_000):
        pieces = list(micro_batches(rollout, range(16), budget))
        assert sorted(i for piece in pieces for i in piece) == list(range(16))
        for piece in pieces:
            groups = len({int(rollout.group[i]) for i in piece})
            prompt, response = int(begin[piece].max()), int((rollout.length - begin)[piece].max())
            shared = groups * prompt + len(piece) * response
            cost = shared if 2 * groups <= len(piece) else len(piece) * (prompt + response)
            assert len(piece) == 1 or cost <= budget
    assert len(list(micro_batches(rollout, range(16), 1))) == 16
    assert len(list(micro_batches(rollout, range(16), 10_000))) == 1
    assert list(micro_batches(rollout, [], 10)) == []


def test_rows_of_one_unit_share_a_micro_batch() -> None:
    """Rows i and 15 - i are pairs, row 3 has lost its partner; a pair beyond the budget goes alone."""
    rollout = roll(llama())
    pair = torch.tensor([min(i, 15 - i) for i in range(16)])
    rows = [i for i in range(16) if i != 12]
    begin = rollout.mask.long().argmax(1)
    size = (rollout.length - begin).tolist()
    for budget in (1, 60, 10_000):
        pieces = list(micro_batches(rollout, rows, budget, pair))
        assert sorted(i for piece in pieces for i in piece) == rows
        for piece in pieces:
            assert all(15 - i in piece for i in piece if i not in (3, 12))
        longest = [max(size[i] for i in piece) for piece in pieces]
        assert longest == sorted(longest, reverse=True)
    assert len(list(micro_batches(rollout, rows, 1, pair))) == 8
    alone = torch.arange(16).flip(0)
    assert list(micro_batches(rollout, rows, 60, alone)) == list(micro_batches(rollout, rows, 60))
