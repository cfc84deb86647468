"""How far apart the old and the current policy are at a token: what a trust region is measured by."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from paribus import tensors
from paribus.algorithms.slot import Slot, required
from paribus.algorithms.surrogate import Move
from paribus.lazy import torch

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


class DivergenceSlot(Slot):
    """Base: a number >= 0 for each token, without gradient; 0 outside the mask (DPPO, 2602.04879)."""

    @property
    def topk(self) -> int:
        """How many of the old policy's likeliest tokens it looks at."""
        return 0

    @abstractmethod
    def distance(self, move: Move) -> Float[Tensor, "B T"]: ...

    def __call__(self, move: Move) -> Float[Tensor, "B T"]:
        with torch.no_grad():
            return tensors.keep(self.distance(move), move.mask)


class BinaryTv(DivergenceSlot):
    """Total variation between "the sampled token" and "any other": a lower bound of the full one."""

    type: Literal["binary_tv"] = "binary_tv"

    formula: ClassVar[str] = "D = |p_old(a) - p(a)|, a the sampled token"

    def distance(self, move: Move) -> Float[Tensor, "B T"]:
        return (move.old_logp.exp() - move.logp.exp()).abs()


class BinaryKl(DivergenceSlot):
    """KL of the old policy to the current one, both reduced to "the sampled token" and "any other".

    Probabilities, 1 - p(a) included, count as `eps` at least, so that certainty and impossibility stay finite.
    """

    type: Literal["binary_kl"] = "binary_kl"
    eps: float = Field(default=1e-12, gt=0)

    formula: ClassVar[str] = (
        "D = p_old(a) log(p_old(a) / p(a)) + (1 - p_old(a)) log((1 - p_old(a)) / (1 - p(a))), a the sampled token"
    )

    def distance(self, move: Move) -> Float[Tensor, "B T"]:
        # -expm1(lp) is 1 - p without its rounding: p of a near-certain token is 1 in single precision. An engine may
        # report a log-prob a hair above 0
        old, new = ((-torch.expm1(logp)).clamp(min=0).log() for logp in (move.old_logp, move.logp))
        return _kl(move.old_logp, move.logp, self.eps) + _kl(old, new, self.eps)


class TopkSlot(DivergenceSlot):
    """Base of the divergences over the old policy's k likeliest tokens, the sampled one, and all others as one."""

    k: int = Field(default=20, ge=1)

    @property
    def topk(self) -> int:
        return self.k

    def _reduced(self, move: Move) -> tuple[Float[Tensor, "B T K2"], Float[Tensor, "B T K2"]]:
        """Log-probs of both policies for the k tokens, the sampled token (-inf if it is one of them), and the rest."""
        extra = ~(required(move.topk_ids, "topk") == move.tokens[..., None]).any(2)

        def over(top: Float[Tensor, "B T K"], logp: Float[Tensor, "B T"]) -> Float[Tensor, "B T K2"]:
            named = torch.cat([top, torch.where(extra, logp, float("-inf"))[..., None]], 2)
            return torch.cat([named, (1 - named.exp().sum(2, keepdim=True)).clamp(min=0).log()], 2)

        return over(required(move.old_topk, "topk"), move.old_logp), over(required(move.topk, "topk_logp"), move.logp)


class TopkTv(TopkSlot):
    """Total variation over that reduced distribution: between the binary one and the full one."""

    type: Literal["topk_tv"] = "topk_tv"

    formula: ClassVar[str] = (
        "D = 1/2 sum |p_old - p| over the old policy's k likeliest tokens, the sampled one, the rest"
    )

    def distance(self, move: Move) -> Float[Tensor, "B T"]:
        old, new = self._reduced(move)
        return (old.exp() - new.exp()).abs().sum(2) / 2


class TopkKl(TopkSlot):
    """KL of the old policy to the current one over that reduced distribution; probabilities count as `eps` at least."""

    type: Literal["topk_kl"] = "topk_kl"
    eps: float = Field(default=1e-12, gt=0)

    formula: ClassVar[str] = (
        "D = sum p_old log(p_old / p) over the old policy's k likeliest tokens, the sampled one, the rest"
    )

    def distance(self, move: Move) -> Float[Tensor, "B T"]:
        return _kl(*self._reduced(move), self.eps).sum(2)


def _kl(old: Float[Tensor, "..."], new: Float[Tensor, "..."], eps: float) -> Float[Tensor, "..."]:
    """One outcome's term, from its log-probs."""
    old, new = old.clamp(min=math.log(eps)), new.clamp(min=math.log(eps))
    return old.exp() * (old - new)


Divergence = Annotated[BinaryTv | BinaryKl | TopkTv | TopkKl, Field(discriminator="type")]
