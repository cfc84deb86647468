"""Log-probs, entropies and hidden states of the sampled tokens of right-padded rows, within bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from paribus.models.hf import hidden_states

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
    from torch import Tensor

EntropyUse = Literal["none", "statistic", "loss"]
LOGITS_AT_ONCE = 1 << 25  # elements: with a vocabulary of 150k, 223 tokens at a time


def micro_batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Cut rows into forwards of at most `budget` padded tokens (a longer row goes alone), longest rows first."""
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    start = 0
    while start < len(order):
        size = max(1, budget // lengths[order[start]])
        yield order[start : start + size]
        start += size


def before(base: nn.Module, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "N H"]:
    """Return the hidden states that predict the masked tokens: token t is predicted from position t - 1."""
    hidden = hidden_states(base, tokens[:, :-1])
    return hidden.flatten(0, 1).index_select(0, mask[:, 1:].flatten().nonzero().squeeze(1))


def spread(x: Float[Tensor, "N"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """Put one number per masked token back in its place, 0 elsewhere."""
    return torch.zeros(mask.shape, dtype=x.dtype, device=x.device).masked_scatter(mask, x)


def token_scores(
    hidden: Float[Tensor, "N H"], head: nn.Linear, ids: Int[Tensor, "N"], temperature: float, entropy: EntropyUse
) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"] | None]:
    """Return log-prob and entropy of each token under the temperature-scaled full softmax, in float32.

    The entropy is left out, detached ("statistic") or differentiable ("loss"). Logits exist for `LOGITS_AT_ONCE / V`
    tokens at a time; where gradients are wanted and there are several such chunks, the backward pass computes each
    of them again.
    """
    size = max(1, LOGITS_AT_ONCE // head.weight.shape[0])
    chunks = list(zip(hidden.split(size), ids.split(size), strict=True))
    if len(chunks) > 1 and torch.is_grad_enabled():
        scored = [
            checkpoint(_score, h, head, i, temperature, entropy, use_reentrant=False, preserve_rng_state=False)
            for h, i in chunks
        ]
    else:
        scored = [_score(h, head, i, temperature, entropy) for h, i in chunks]
    logp, found = zip(*scored, strict=True)
    return torch.cat(logp), None if entropy == "none" else torch.cat(found)


def _score(
    hidden: Float[Tensor, "N H"], head: nn.Linear, ids: Int[Tensor, "N"], temperature: float, entropy: EntropyUse
) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"] | None]:
    logits = head(hidden)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if temperature != 1:
        logits = logits / temperature
    normaliser = logits.logsumexp(-1)
    logp = logits.gather(-1, ids[:, None]).squeeze(-1) - normaliser
    if entropy == "none":
        return logp, None
    with torch.set_grad_enabled(entropy == "loss" and torch.is_grad_enabled()):
        probability = (logits - normaliser[:, None]).exp()
        # H = log Z - E[logit]
        return logp, normaliser - (probability * logits).sum(-1)
