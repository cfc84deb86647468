"""Which tokens of a few rows a forward pass reads, packed without padding, and who attends to whom."""

from __future__ import annotations

from typing import NamedTuple

import torch

from paribus.batch import Rollout
from paribus.tensors import group_index


class Block(NamedTuple):
    """Packed tokens `first:first + len(slot)` as the queries of one attention, laid out in rows of equal width.

    `query[B, T]` and `key[B, S]` are packed indices (any at padding), `slot` the flat places `[B * T]` of the real
    queries. Without `visible[B, T, S]` attention is causal and the keys are the queries. With it, the first
    `S - T` keys of a row are those of its prompt, number `prompt[B]` of the block before.
    """

    first: int
    query: torch.Tensor
    slot: torch.Tensor
    key: torch.Tensor
    visible: torch.Tensor | None = None
    prompt: torch.Tensor | None = None


class Layout(NamedTuple):
    """Packed tokens by their place in the rollout (`row[N]`, and `column[N]`, which is also the position), and
    `predict[M]`: the packed index of the token before each masked one, row by row."""

    row: torch.Tensor
    column: torch.Tensor
    blocks: tuple[Block, ...]
    predict: torch.Tensor


def plain(mask: torch.Tensor) -> Layout:
    """Return the layout of rows that share nothing; what stands behind the last masked token of a row is not read."""
    row, column, slot, index = _pack(_end(mask) - 1)
    # token t is predicted from position t - 1
    wanted = mask[:, 1:].nonzero()
    return Layout(row, column, (Block(0, index, slot, index),), index[wanted[:, 0], wanted[:, 1]])


def whole(length: torch.Tensor) -> Layout:
    """Return the layout of rows of `length[B]` tokens, all of them read, with one prediction at the end of each."""
    row, column, slot, index = _pack(length)
    return Layout(row, column, (Block(0, index, slot, index),), index[torch.arange(len(length)), length - 1])


def shared(rollout: Rollout, mask: torch.Tensor) -> Layout:
    """Return the layout in which each group's prompt (all before its first sampled token) stands once."""
    group, count = group_index(rollout.group)
    rows = len(group)
    begin = rollout.mask.long().argmax(1)
    member = torch.zeros(count, dtype=torch.long).scatter(0, group, torch.arange(rows))
    row, column, slot, prompt = _pack(begin[member])
    row = member[row]
    first, width = len(row), prompt.shape[1]
    prompts = Block(0, prompt, slot, prompt)
    # nothing is asked of the state after a row's last masked token
    own_row, own_column, own_slot, own = _pack((_end(mask) - 1 - begin).clamp(min=0))
    last = begin[member] - 1
    table = torch.cat((prompt[torch.arange(count), last][group][:, None], first + own), dim=1)
    wanted = mask.nonzero()
    predict = table[wanted[:, 0], wanted[:, 1] - begin[wanted[:, 0]]]
    if not len(own_row):
        return Layout(row, column, (prompts,), predict)
    size = own.shape[1]
    of_prompt = (torch.arange(width) < begin[:, None])[:, None].expand(rows, size, width)
    earlier = torch.ones(size, size, dtype=torch.bool).tril().expand(rows, size, size)
    visible = torch.cat((of_prompt, earlier), dim=2)
    keys = torch.cat((prompt[group], first + own), dim=1)
    responses = Block(first, first + own, own_slot, keys, visible, group)
    return Layout(
        torch.cat((row, own_row)), torch.cat((column, own_column + begin[own_row])), (prompts, responses), predict
    )


def _end(mask: torch.Tensor) -> torch.Tensor:
    """Return the column behind each row's last masked token (1 where it has none: at least one column)."""
    columns = torch.arange(1, mask.shape[1] + 1)
    return (mask * columns).amax(1).clamp(min=1)


def _pack(length: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return of rows with `length[B]` tokens: the row and the column of each, its place in `[B * T]`, and the packed
    index at each of these places (0 at padding)."""
    width = int(length.max())
    real = torch.arange(width) < length[:, None]
    row, column = real.nonzero().unbind(1)
    index = torch.zeros(real.shape, dtype=torch.long)
    index[row, column] = torch.arange(len(row))
    return row, column, row * width + column, index
