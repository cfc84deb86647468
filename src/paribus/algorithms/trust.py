"""Trust regions by divergence: DPPO's mask per token, and CPPO's budget over the prefix of a row."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from paribus import tensors
from paribus.algorithms.divergence import Divergence
from paribus.algorithms.metrics import fraction, mean
from paribus.algorithms.slot import Need, Slot
from paribus.algorithms.surrogate import Move, SurrogateSlot
from paribus.batch import Stats
from paribus.lazy import torch

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from torch import Tensor


class TrustRegion(SurrogateSlot):
    """Base: the ratio surrogate, times a gate on the tokens whose update moves the policy further away.

    A token is moving away where A > 0 and r > 1, or A < 0 and r < 1. A ratio above `cap` counts as `cap`, and its
    gradient as that of log r times `cap`; None: no cap.
    """

    divergence: Divergence
    delta: float = Field(gt=0)
    cap: float | None = Field(default=None, gt=1)

    needs: ClassVar[frozenset[Need]] = frozenset({Need.OLD})

    @property
    def topk(self) -> int:
        return self.divergence.topk

    @abstractmethod
    def gate(
        self, distance: Float[Tensor, "B T"], away: Bool[Tensor, "B T"], mask: Bool[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T"], Stats]:
        """What is left of each token's loss, in [0, 1]; 1 where it is not moving away."""

    def __call__(self, move: Move, advantage: Float[Tensor, "B T"]) -> tuple[Float[Tensor, "B T"], Stats]:
        log_ratio, mask = move.log_ratio, move.mask
        away = ((advantage > 0) & (log_ratio > 0)) | ((advantage < 0) & (log_ratio < 0))
        distance = self.divergence(move)
        gate, stats = self.gate(distance, away, mask)
        stats |= {"divergence": mean(distance, mask)}
        if self.cap is not None:
            over = log_ratio.detach() - math.log(self.cap)
            stats["capped"] = fraction((over > 0) & (gate > 0) & (advantage != 0), mask)
            log_ratio = log_ratio - over.clamp(min=0)
        return tensors.keep(-gate * log_ratio.exp() * advantage, gate > 0), stats


class DivergenceMask(TrustRegion):
    """No gradient for a token that is moving away and has gone further than `delta` (DPPO, 2602.04879)."""

    type: Literal["divergence_mask"] = "divergence_mask"

    formula: ClassVar[str] = "loss[t] = -M min(r, cap) A, M = 0 where A (r - 1) > 0 and D > delta, else 1"

    def gate(
        self, distance: Float[Tensor, "B T"], away: Bool[Tensor, "B T"], mask: Bool[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T"], Stats]:
        masked = away & (distance > self.delta)
        return (~masked).to(distance.dtype), {"masked": fraction(masked, mask)}


class FixedBudget(Slot):
    """The same allowance for every row."""

    type: Literal["fixed"] = "fixed"
    value: float = Field(gt=0)

    formula: ClassVar[str] = "value"

    def __call__(self, distance: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B 1"]:
        return distance.new_full((len(distance), 1), self.value)


class AdaptiveBudget(Slot):
    """The row's own quantile of the divergence, held within bounds (CPPO, for base models)."""

    type: Literal["adaptive"] = "adaptive"
    quantile: float = Field(default=0.9, ge=0, le=1)
    low: float = Field(gt=0)
    high: float = Field(gt=0)

    formula: ClassVar[str] = "clip(quantile of the row's D, low, high)"

    @model_validator(mode="after")
    def _ordered(self) -> AdaptiveBudget:
        if self.low > self.high:
            raise ValueError(f"low = {self.low:g} is above high = {self.high:g}")
        return self

    def __call__(self, distance: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B 1"]:
        trained = torch.where(mask, distance, float("nan"))
        found = torch.nanquantile(trained, self.quantile, dim=1, keepdim=True)
        return found.nan_to_num().clamp(self.low, self.high)  # a row without a trained token has no quantile


class PrefixBudget(TrustRegion):
    """No gradient for a token that is moving away beyond what the prefix of its row leaves it (CPPO, 2606.10968).

    Divergences are weighed by position, from 1 at a row's first trained token to `w_min` at its last, so early tokens
    are held tighter. Every token, masked or not, spends from the row's allowance: `delta`, and `budget` more for each
    unit of weight before it. `soft` shrinks the loss by the excess instead of masking it (appendix C).
    """

    type: Literal["prefix_budget"] = "prefix_budget"
    budget: Annotated[FixedBudget | AdaptiveBudget, Field(discriminator="type")]
    w_min: float = Field(default=0.8, gt=0, le=1)
    soft: bool = False

    formula: ClassVar[str] = (
        "loss[t] = -M min(r, cap) A, M = 1 where A (r - 1) <= 0; else 1 if x <= 1, beyond it 0, or 1/x if soft;  "
        "x = max(Z[t] / delta, sum_{s<=t} Z[s] / (delta + budget sum_{s<t} w[s])), Z = w D, "
        "w = 1 - (1 - w_min) (t - 1) / (L - 1)"
    )

    def gate(
        self, distance: Float[Tensor, "B T"], away: Bool[Tensor, "B T"], mask: Bool[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T"], Stats]:
        dtype = distance.dtype
        before, after_first = mask.cumsum(1).to(dtype) - 1, (mask.sum(1, keepdim=True).to(dtype) - 1).clamp(min=1)
        weight = tensors.keep(1 - (1 - self.w_min) * before / after_first, mask)
        spent = weight * distance
        total, allowed = spent.cumsum(1), self.delta + self.budget(distance, mask) * (weight.cumsum(1) - weight)
        far, overdrawn = spent > self.delta, total > allowed
        stats: Stats = {"over_prefix": fraction(away & overdrawn & ~far, mask)}
        if self.soft:
            share = torch.minimum(self.delta / spent, allowed / total).clamp(max=1)  # nothing spent: x / 0, all of it
            gate = torch.where(away, share, torch.ones_like(share))
            return gate, stats | {"gated": mean(1 - gate, mask)}
        masked = away & (far | overdrawn)
        return (~masked).to(dtype), stats | {"masked": fraction(masked, mask)}
