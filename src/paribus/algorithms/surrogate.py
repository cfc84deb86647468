"""Ratios to the old policy, and the surrogate losses whose gradient is a policy gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from paribus import tensors
from paribus.algorithms.metrics import fraction
from paribus.algorithms.slot import Need, Slot
from paribus.batch import Stats
from paribus.lazy import torch

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from torch import Tensor


class TokenRatio(Slot):
    """One ratio per token. A log-ratio beyond +-clamp is held there, with gradient 0, so that exp stays finite."""

    type: Literal["token_ratio"] = "token_ratio"
    clamp: float | None = Field(default=20.0, gt=0)

    formula: ClassVar[str] = "r[t] = exp(clip(lp[t] - lp_old[t], -clamp, clamp))"

    def __call__(
        self, logp: Float[Tensor, "B T"], old_logp: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T"]:
        return _held(tensors.keep(logp - old_logp, mask), self.clamp)


class SequenceRatio(Slot):
    """One ratio per row, the same at each of its tokens: the product, or with `normalise` the geometric mean (GSPO)."""

    type: Literal["sequence_ratio"] = "sequence_ratio"
    normalise: bool
    clamp: float | None = Field(default=20.0, gt=0)

    formula: ClassVar[str] = "r = exp(clip(sum_t (lp[t] - lp_old[t]) [/ L if normalise], -clamp, clamp))"

    def __call__(
        self, logp: Float[Tensor, "B T"], old_logp: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T"]:
        row = tensors.keep(logp - old_logp, mask).sum(1)
        if self.normalise:
            row = row / mask.sum(1).clamp(min=1)
        return tensors.broadcast(_held(row, self.clamp), mask)


def _held(log_ratio: Float[Tensor, "..."], clamp: float | None) -> Float[Tensor, "..."]:
    return log_ratio if clamp is None else log_ratio.clamp(-clamp, clamp)


class Reinforce(Slot):
    """The score-function estimator (Williams 1992); right only for the policy that sampled: one update per step."""

    type: Literal["reinforce"] = "reinforce"

    formula: ClassVar[str] = "loss[t] = -A[t] lp[t]"

    def __call__(
        self,
        logp: Float[Tensor, "B T"],
        log_ratio: Float[Tensor, "B T"],
        advantage: Float[Tensor, "B T"],
        mask: Bool[Tensor, "B T"],
    ) -> tuple[Float[Tensor, "B T"], Stats]:
        return -advantage * logp, {}


class Clip(Slot):
    """PPO's clipped surrogate (1707.06347, eq. 7), with separate bounds and an optional dual clip (1912.09729).

    The gradient is 0 where the ratio has left [1 - low, 1 + high] in the direction the advantage pushes; on the bound
    itself it is not. Where A < 0, the dual clip caps the loss at -dual A, which the plain form leaves unbounded.
    """

    type: Literal["clip"] = "clip"
    low: float = Field(default=0.2, ge=0)
    high: float = Field(default=0.2, ge=0)
    dual: float | None = Field(default=None, gt=1)

    needs: ClassVar[frozenset[Need]] = frozenset({Need.OLD})
    formula: ClassVar[str] = "loss[t] = -min(r A, clip(r, 1 - low, 1 + high) A);  dual: where A < 0, at most -dual A"

    def __call__(
        self,
        logp: Float[Tensor, "B T"],
        log_ratio: Float[Tensor, "B T"],
        advantage: Float[Tensor, "B T"],
        mask: Bool[Tensor, "B T"],
    ) -> tuple[Float[Tensor, "B T"], Stats]:
        ratio, falling = log_ratio.exp(), advantage < 0
        loss = torch.maximum(-advantage * ratio, -advantage * ratio.clamp(1 - self.low, 1 + self.high))
        stats: Stats = {
            "clip_low": fraction(falling & (ratio < 1 - self.low), mask),
            "clip_high": fraction((advantage > 0) & (ratio > 1 + self.high), mask),
        }
        if self.dual is not None:
            cap = -self.dual * advantage
            stats["clip_dual"] = fraction(falling & (loss > cap), mask)
            loss = torch.where(falling, torch.minimum(loss, cap), loss)
        return loss, stats


Ratio = Annotated[TokenRatio | SequenceRatio, Field(discriminator="type")]
Surrogate = Annotated[Reinforce | Clip, Field(discriminator="type")]
