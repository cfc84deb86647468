"""Gumbel-max draws keyed by who is drawn: the noise of a token is a hash of (row key, position, token id).

`argmax(logp + G)` with independent standard Gumbel `G` is a draw from `softmax(logp)`. A draw therefore does not
depend on the batch it happens in, and under float noise of the log-probs it changes only at near-ties.
"""

from __future__ import annotations

import torch

ELEMENTS_AT_ONCE = 1 << 22  # of the noise matrix: bounds the int64 temporaries to 32 MiB each
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


def gumbel(keys: torch.Tensor, position: torch.Tensor, vocabulary: int) -> torch.Tensor:
    """Return float32 standard Gumbel noise `[R, V]` of rows with 63-bit `keys[R]` that draw token `position[R]`.

    Large values come from small uniforms `u`, which keep full relative precision: E = -log1p(-u), G = -log E.
    """
    state = _state(keys, position)
    token = torch.arange(1, vocabulary + 1, device=keys.device) * GOLDEN
    bits = mix(state[:, None] + token)
    # in [2^-64, 1 - 2^-24]: never 0 (G = inf), never 1 (G = -inf)
    u = bits.to(torch.float32).add_(0.5).mul_(2.0**-63).clamp_(max=1 - 2.0**-24)
    return u.neg_().log1p_().neg_().log_().neg_()


def draw(logp: torch.Tensor, keys: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    """Return one token id per row, drawn from `softmax(logp)`; `logp[R, V]` may lack its constant and hold -inf."""
    rows, vocabulary = logp.shape
    step = max(1, ELEMENTS_AT_ONCE // vocabulary)
    chunks = [
        (gumbel(keys[i : i + step], position[i : i + step], vocabulary) + logp[i : i + step]).argmax(-1)
        for i in range(0, rows, step)
    ]
    return torch.cat(chunks)


def keep_top_p(logp: torch.Tensor, top_p: float) -> torch.Tensor:
    """Return `logp[R, V]` with -inf outside the smallest set of likeliest tokens whose mass reaches `top_p`."""
    if top_p >= 1:
        return logp
    ordered, ids = logp.softmax(-1).sort(-1, descending=True)
    before = ordered.cumsum(-1) - ordered  # mass of likelier tokens: the token that crosses top_p is kept
    dropped = torch.zeros_like(before, dtype=torch.bool).scatter(-1, ids, before >= top_p)
    return logp.masked_fill(dropped, -torch.inf)
