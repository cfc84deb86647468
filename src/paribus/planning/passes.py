"""Bytes that one pass through a model holds: what autograd saves, what comes and goes, caches and logits."""

from __future__ import annotations

import math
from typing import NamedTuple

from paribus.planning.shapes import ModelShape

FLOAT = 4  # bytes; norms, log-softmax, losses and everything of the optimizer
LOGITS_AT_ONCE = 1 << 26  # as `engines.scoring` cuts them; a test holds these equal
CACHED = 1 << 22  # as `engines.scoring` makes them, piece by piece
SHARING = ("llama", "qwen2")  # kinds whose prompts run once for all their responses (`models.prefix`)


class Piece(NamedTuple):
    """One forward pass: `rows` of `response` tokens after prompts of `prompt` tokens, which run once per group
    where they are `shared`."""

    rows: int
    groups: int
    prompt: int
    response: int
    shared: bool

    @property
    def tokens(self) -> int:
        """Padded tokens that go through the model."""
        return self.prompt_tokens + self.rows * self.response

    @property
    def prompt_tokens(self) -> int:
        return (self.groups if self.shared else self.rows) * self.prompt

    @property
    def scored(self) -> int:
        """Tokens of which log-probs or values are wanted."""
        return self.rows * self.response


class Pieces(NamedTuple):
    """How rows are cut into forward passes: the largest one, and how many there are."""

    largest: Piece
    number: int


def cut(rows: int, per_group: int, prompt: int, response: int, budget: int, kind: str, unit: int = 1) -> Pieces:
    """Cut rows as the learner does: as many as fit `budget` padded tokens, units of rows whole, one at least."""

    def piece(n: int) -> Piece:
        groups = math.ceil(n / per_group)
        return Piece(n, groups, prompt, response, 2 * groups <= n and kind in SHARING)

    n = min(unit, rows)
    while n + unit <= rows and piece(n + unit).tokens <= budget:
        n += unit
    return Pieces(piece(n), math.ceil(rows / n))


def saved(shape: ModelShape, b: int, piece: Piece) -> int:
    """Bytes that autograd keeps of the trunk between forward and backward, `b` bytes a number.

    Each norm keeps its input in float32, its input scaled, and its output. Attention keeps queries, keys, values,
    output and, of each head, a normaliser. The MLP keeps gate, its activation, up, and their product.
    """
    keys = piece.prompt + piece.response
    if piece.shared:
        # a response reads its prompt through a mask, with keys and values laid out for every query head
        response = _layer(shape, b) + 2 * shape.query * b * keys / piece.response + keys * b
        layers = shape.layers * (
            piece.prompt_tokens * (_layer(shape, b) + 2 * shape.key * b) + piece.rows * piece.response * response
        )
    else:
        layers = shape.layers * piece.tokens * (_layer(shape, b) + 2 * shape.key * b)
    ends = piece.tokens * _norm(shape.hidden, b) + piece.scored * shape.hidden * b  # the final norm; what is scored
    return round(layers + ends)


def saved_by_hand(shape: ModelShape, b: int, piece: Piece) -> int:
    """Bytes that the trunk computed by hand keeps between forward and backward (`models.trunk`).

    Of each token and layer: the inputs of attention and MLP, queries, attention's output, each head's normaliser,
    gate and up. Keys and values stand once for the prompt itself, and for every row that reads it.
    """
    token = 2 * shape.hidden + 2 * shape.query + shape.heads + 2 * shape.intermediate
    keys = piece.prompt_tokens + piece.rows * ((piece.prompt if piece.shared else 0) + piece.response)
    bias = piece.rows * shape.kv_heads * piece.response * (piece.prompt + piece.response) if piece.shared else 0
    layers = shape.layers * (piece.tokens * token + keys * 2 * shape.key)
    return (layers + bias + 2 * piece.scored * shape.hidden) * b


def recomputed(shape: ModelShape, b: int, piece: Piece, whole: int) -> int:
    """Bytes that are kept in place of `whole` where layers are computed again: their inputs, and all of one layer."""
    return shape.layers * piece.tokens * shape.hidden * b + whole // shape.layers


def passing_by_hand(shape: ModelShape, b: int, tokens: int) -> int:
    """Bytes that a layer's backward pass needs for a moment: four widths of the MLP, three of the residual stream."""
    return tokens * b * (4 * shape.intermediate + 3 * shape.hidden)


def _norm(width: int, b: int) -> int:
    return width * (FLOAT + 2 * b)


def _layer(shape: ModelShape, b: int) -> int:
    """Of one token in one layer: all but keys, values and mask."""
    norms = 2 * _norm(shape.hidden, b)
    norms += _norm(shape.query + shape.key, b) * shape.qk_norm
    return norms + 2 * shape.query * b + shape.heads * FLOAT + 4 * shape.intermediate * b


def passing(shape: ModelShape, b: int, tokens: int) -> int:
    """Bytes that a layer needs for a moment beside what is kept: in the MLP, two halves and their product, with the
    residual stream and its norm."""
    return tokens * b * (3 * shape.intermediate + 2 * shape.hidden)


def cache(shape: ModelShape, b: int, rows: int, length: int) -> int:
    """Bytes of the key-value cache of `rows` rows of `length` tokens."""
    return rows * length * shape.kv_per_token * b


def response_cache(shape: ModelShape, b: int, piece: Piece) -> int:
    """Bytes of the cache through which responses read their shared prompts, held until the trunk is through."""
    return cache(shape, b, piece.rows, piece.prompt + piece.response) if piece.shared else 0


def chunk(shape: ModelShape, scored: int) -> int:
    """Numbers of the logits that exist at once when `scored` tokens are."""
    return min(scored, max(1, LOGITS_AT_ONCE // shape.vocabulary)) * shape.vocabulary


def scoring_logits(shape: ModelShape, b: int, scored: int, *, entropy: bool) -> int:
    """Bytes of log-probs without gradients: of one piece logits and log-softmax, for the entropy two more."""
    lower = b if b < FLOAT else 0
    piece = min(chunk(shape, scored), max(shape.vocabulary, CACHED))
    return piece * (FLOAT * (4 if entropy else 2) + lower)


def training_logits(shape: ModelShape, b: int, scored: int, *, entropy: bool) -> int:
    """Bytes at the turn from forward to backward: the log-softmax, which becomes its gradient in place, and a piece's
    logits; then what exceeds it, made again beside its logits; with an entropy bonus the probabilities as well."""
    lower = b if b < FLOAT else 0
    whole = chunk(shape, scored)
    again = min(scored * shape.vocabulary - whole, whole)
    piece = min(whole, max(shape.vocabulary, CACHED)) * FLOAT
    return max(whole * (FLOAT * (1 + entropy) + lower) + piece, again * (FLOAT * (2 + entropy) + lower))


def decoding_logits(shape: ModelShape, b: int, rows: int) -> int:
    """Bytes of choosing one token per row: logits, those less their largest, and their exponentials."""
    lower = b if b < FLOAT else 0
    return rows * shape.vocabulary * (3 * FLOAT + lower)


def decoding_copy(shape: ModelShape, b: int) -> int:
    """Bytes of the weights that a decoder of its own lays out anew: all projections and the head."""
    matrices = shape.hidden * (2 * shape.query + 2 * shape.key + 3 * shape.intermediate)
    return (shape.layers * matrices + shape.embedding) * b


def holes(shape: ModelShape, b: int, piece: Piece) -> int:
    """Bytes of a forward pass that the C library's heap can't use again while the activations stand.

    Between the tensors that are kept, each layer frees others of the same size: the two squares of its norms, the
    outputs of attention and MLP before they join the residual stream, and keys and values before they join the
    prompt's. glibc before 2.38 can't give an aligned piece back to a request of that very size.
    """
    freed = 4 * shape.hidden + (2 * shape.key if piece.shared else 0)
    return shape.layers * piece.tokens * freed * b
