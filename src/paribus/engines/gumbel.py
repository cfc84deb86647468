"""Gumbel-max draws keyed by who is drawn: noise is a hash of (row key, position, number).

`argmax(logp + G)` with independent standard Gumbel `G` is a draw from `softmax(logp)`. A draw therefore does not
depend on the batch it happens in, and under float noise of the log-probs it changes only at near-ties. Tokens are
drawn in two stages, a block of neighbouring ids by its mass and then one of its tokens, so that of a vocabulary of V
only some 2 sqrt(V) need noise.
"""

from __future__ import annotations

import math

import torch

# Odd 64-bit constants written as signed: the golden ratio, and the multipliers of the splitmix64 finaliser
GOLDEN, MIX_1, MIX_2 = (c - (1 << 64) for c in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def mix(x: torch.Tensor) -> torch.Tensor:
    """Scramble int64 counters in place into 63 uniform bits (splitmix64's finaliser).

    Its shifts are logical; ours are arithmetic, which costs the sign bit and saves a masking pass over the matrix.
    """
    x ^= x >> 30
    x *= MIX_1
    x ^= x >> 27
    x *= MIX_2
    x ^= x >> 31
    return x


def _state(keys: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    """Return the counter of each row at its position, from which the bits of token v come at offset v + 1."""
    # two rounds, so that neither neighbouring positions nor neighbouring tokens share structure
    return mix(mix(keys + GOLDEN) + position * GOLDEN)


def happens(keys: torch.Tensor, position: torch.Tensor, rate: float) -> torch.Tensor:
    """Say yes with probability `rate`, for each row by itself; its stream is the offset that no token has."""
    bits = mix(_state(keys, position)) >> 10  # 53 bits, which a double holds: in [0, 1)
    return bits.double() * 2.0**-53 < rate


def gumbel(keys: torch.Tensor, position: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Return float32 standard Gumbel noise `[R, N]` with numbers `ids[N]` (from 0) of rows with 63-bit `keys[R]` that
    draw token `position[R]`.

    Large values come from small uniforms `u`, which keep full relative precision: E = -log1p(-u), G = -log E.
    """
    bits = mix(_state(keys, position)[:, None] + (ids + 1) * GOLDEN)
    # in [2^-64, 1 - 2^-24]: never 0 (G = inf), never 1 (G = -inf)
    u = bits.to(torch.float32).add_(0.5).mul_(2.0**-63).clamp_(max=1 - 2.0**-24)
    return u.neg_().log1p_().neg_().log_().neg_()


def draw(logp: torch.Tensor, keys: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    """Return one token id per row, drawn from `softmax(logp)`; `logp[R, V]` may lack its constant and hold -inf."""
    return pick((logp - logp.amax(-1, keepdim=True)).exp(), keys, position)


def pick(weight: torch.Tensor, keys: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    """Return one token id per row with probability in proportion to `weight[R, V]`, of which the largest is about 1."""
    rows, vocabulary = weight.shape
    size = 1 << (math.isqrt(vocabulary - 1).bit_length() if vocabulary > 1 else 0)
    count = -(-vocabulary // size)
    if count * size > vocabulary:
        weight = torch.nn.functional.pad(weight, (0, count * size - vocabulary))
    blocks = weight.view(rows, count, size)
    # one number for each block, one for each place in a block: only one block's places are looked at
    noise = gumbel(keys, position, torch.arange(count + size, device=weight.device))
    block = blocks.sum(-1).log_().add_(noise[:, :count]).argmax(-1, keepdim=True)
    inside = blocks.gather(1, block[:, :, None].expand(-1, 1, size)).squeeze(1)
    return (block * size).squeeze_(1).add_(inside.log_().add_(noise[:, count:]).argmax(-1))


def keep_top_p(logp: torch.Tensor, top_p: float) -> torch.Tensor:
    """Return `logp[R, V]` with -inf outside the smallest set of likeliest tokens whose mass reaches `top_p`."""
    if top_p >= 1:
        return logp
    ordered, ids = logp.softmax(-1).sort(-1, descending=True)
    before = ordered.cumsum(-1) - ordered  # mass of likelier tokens: the token that crosses top_p is kept
    dropped = torch.zeros_like(before, dtype=torch.bool).scatter(-1, ids, before >= top_p)
    return logp.masked_fill(dropped, -torch.inf)
