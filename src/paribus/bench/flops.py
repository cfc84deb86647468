"""The floating-point operations and bytes that a step cannot do without, from shapes and lengths alone.

Counted are two operations per weight and token in a forward pass and four in a backward pass; attention over the keys
that a token really sees; each prompt once for all its responses; the output embedding where a token was sampled (once
per prompt for the first token of its responses). Norms, activations and softmax are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from paribus.planning.shapes import ModelShape

TRAINING = 3  # forward and backward, in units of the forward pass
ADAM_PASSES = 7  # over the parameters: weight, gradient and two moments are read, all but the gradient written
FLOAT = 4  # bytes


class Group(NamedTuple):
    """One prompt and its responses, as numbers of tokens."""

    prompt: int
    responses: tuple[int, ...]


class Count(NamedTuple):
    """What a phase has to do at least: operations, and bytes that must come from or go to memory (0: not known)."""

    flops: int = 0
    bytes: int = 0

    def __add__(self, other: Count) -> Count:  # type: ignore[override]  # two counts add up; tuples would be joined
        return Count(self.flops + other.flops, self.bytes + other.bytes)


def layer_weights(shape: ModelShape) -> int:
    """Weights of the matrices of all layers: what every token is multiplied with."""
    per_layer = 2 * shape.hidden * (shape.query + shape.key) + 3 * shape.hidden * shape.intermediate
    return shape.layers * per_layer


def prefill(shape: ModelShape, groups: Sequence[Group], head: int | None = None) -> Count:
    """Read every prompt once, and the output embedding at its last token. `head` outputs: the vocabulary, or 1."""
    tokens = sum(g.prompt for g in groups)
    keys = sum(_seen(0, g.prompt) for g in groups)
    return Count(_trunk(shape, tokens, keys) + _head(shape, len(groups), head), FLOAT * _weights(shape, head))


def decode(shape: ModelShape, groups: Sequence[Group], head: int | None = None) -> Count:
    """Sample every token but the first of each response: each needs the token before it read.

    Bytes are the weights and the visible keys and values at each step, a prompt's once for all its responses.
    """
    rows = [(g.prompt, n) for g in groups for n in g.responses]
    tokens = sum(n - 1 for _, n in rows)
    flops = _trunk(shape, tokens, sum(_seen(p, p + n - 1) for p, n in rows)) + _head(shape, tokens, head)
    steps = max((n for _, n in rows), default=1) - 1
    kept = sum(g.prompt * (max(g.responses) - 1) for g in groups) + sum(_seen(0, n - 1) for _, n in rows)
    return Count(flops, FLOAT * (steps * _weights(shape, head) + kept * shape.kv_per_token))


def score(shape: ModelShape, groups: Sequence[Group], head: int | None = None) -> Count:
    """Log-probs (or, with `head` 1, values) of given responses, without gradients."""
    flops = prefill(shape, groups, head).flops + decode(shape, groups, head).flops
    return Count(flops, FLOAT * _weights(shape, head))


def update(shape: ModelShape, groups: Sequence[Group], head: int | None = None) -> Count:
    """One forward and backward pass over given responses and one step of AdamW; bytes are those of the optimizer."""
    parameters = shape.parameters if head is None else shape.trunk + head * (shape.hidden + 1)
    return Count(TRAINING * score(shape, groups, head).flops, ADAM_PASSES * FLOAT * parameters)


def _seen(first: int, end: int) -> int:
    """Keys visible to the tokens at positions `first` to `end` - 1: each sees itself and all before it."""
    return (end * (end + 1) - first * (first + 1)) // 2


def _trunk(shape: ModelShape, tokens: int, keys: int) -> int:
    return 2 * layer_weights(shape) * tokens + 4 * shape.layers * shape.query * keys


def _outputs(shape: ModelShape, head: int | None) -> int:
    return shape.vocabulary if head is None else head


def _head(shape: ModelShape, positions: int, head: int | None) -> int:
    return 2 * shape.hidden * _outputs(shape, head) * positions


def _weights(shape: ModelShape, head: int | None) -> int:
    return layer_weights(shape) + shape.hidden * _outputs(shape, head)
