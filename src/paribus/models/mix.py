"""Neighbour-mixed embeddings (N-GRPO, 2606.10768, section 3): which tokens are mixed, and what the model then reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from paribus.batch import Mix

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

ELEMENTS_AT_ONCE = 1 << 24  # of any temporary: with a vocabulary of 150k, 111 anchors at a time


class NearestTokens:
    """The `count` tokens nearest to a token by cosine in an embedding matrix `[V, H]`: itself first, then by likeness.

    A token's list is found when it is first asked for, and kept: make it anew whenever the weights have changed.
    """

    def __init__(self, embedding: Float[Tensor, "V H"], count: int) -> None:
        self.embedding = embedding.detach()
        self.count = count
        self._pieces = self.embedding.split(max(1, ELEMENTS_AT_ONCE // embedding.shape[1]))
        norm = torch.cat([_wide(piece).norm(dim=1) for piece in self._pieces])
        self._inverse_norm = 1 / norm.clamp(min=torch.finfo(norm.dtype).tiny)  # a row of zeros is like nothing
        self._known = torch.full((len(norm), count), -1, device=embedding.device)

    def __call__(self, anchors: Int[Tensor, "N"]) -> Int[Tensor, "N K"]:
        new = anchors[self._known[anchors, 0] < 0].unique()
        if len(new):
            for part in new.split(max(1, ELEMENTS_AT_ONCE // len(self._known))):
                self._known[part] = self._find(part)
        return self._known[anchors]

    def _find(self, anchors: Int[Tensor, "N"]) -> Int[Tensor, "N K"]:
        # the anchor's own norm scales a row as a whole, and so leaves its order alone
        direction = _wide(self.embedding[anchors])
        likeness = torch.cat([direction @ _wide(piece).T for piece in self._pieces], dim=1) * self._inverse_norm
        likeness[torch.arange(len(anchors), device=anchors.device), anchors] = torch.inf
        return likeness.topk(self.count).indices


def mix_weights(logits: Float[Tensor, "N V"], ids: Int[Tensor, "N K"], temperature: float) -> Float[Tensor, "N K"]:
    """Return the softmax over `ids` alone of the temperature-scaled logits."""
    return (_wide(logits.gather(-1, ids)) / temperature).softmax(-1)


def embed(embedding: Any, tokens: Int[Tensor, "..."], mix: Mix) -> Float[Tensor, "... H"]:
    """Return what the model reads: `sum_k weight[k] E[ids[k]]` where the weights of `mix[..., K]` are not all 0, the
    token's own embedding elsewhere. Gradients flow to E through either; the weights are constants."""
    mixed = (mix.weight > 0).any(-1)
    own = embedding(tokens)
    vectors = embedding(mix.ids[mixed])
    sums = (vectors * mix.weight[mixed][..., None]).sum(-2).to(own.dtype)
    return own.masked_scatter(mixed[..., None], sums)


def inputs(base: nn.Module, tokens: Int[Tensor, "B T"], mix: Mix | None) -> dict[str, Tensor]:
    """Return the argument by which a trunk reads right-padded rows, of which some positions may be mixed."""
    if mix is None:
        return {"input_ids": tokens}
    trunk: Any = base
    return {"inputs_embeds": embed(trunk.get_input_embeddings(), tokens, mix)}


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
