"""Ratios to the old policy, and the surrogate losses whose gradient is a policy gradient."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field

from paribus import tensors
from paribus.algorithms.metrics import fraction
from paribus.algorithms.slot import Need, Slot
from paribus.batch import Stats
from paribus.lazy import torch

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
    from torch import Tensor


class Move(NamedTuple):
    """How far the policy has moved from the old one at each token of a micro-batch; 0 outside `mask`.

    `log_ratio` is what the method's ratio Part makes of `logp` (with gradient) and `old_logp` (without). `old_topk`
    and `topk` are the log-probs of the same K tokens under the old policy and under this one, detached.
    """

    logp: Float[Tensor, "B T"]
    old_logp: Float[Tensor, "B T"]
    log_ratio: Float[Tensor, "B T"]
    mask: Bool[Tensor, "B T"]
    tokens: Int[Tensor, "B T"]
    topk_ids: Int[Tensor, "B T K"] | None = None
    old_topk: Float[Tensor, "B T K"] | None = None
    topk: Float[Tensor, "B T K"] | None = None


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
    """One ratio per row, the same at each of its tokens: the product, or with `normalise` the geometric mean (GSPO).

    Its gradient is shared by the row's tokens. At r = 1 the geometric mean gives each of them the plain policy gradient
    under any aggregation, the product L times as much: it goes with the mean over a row's tokens only.
    """

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


class SurrogateSlot(Slot):
    """Base of the surrogates: a loss per token from the move and the advantage."""

    @property
    def topk(self) -> int:
        """How many of the old policy's likeliest tokens it looks at."""
        return 0

    @abstractmethod
    def __call__(self, move: Move, advantage: Float[Tensor, "B T"]) -> tuple[Float[Tensor, "B T"], Stats]: ...


class Reinforce(SurrogateSlot):
    """The score-function estimator (Williams 1992); right only for the policy that sampled: one update per step."""

    type: Literal["reinforce"] = "reinforce"

    formula: ClassVar[str] = "loss[t] = -A[t] lp[t]"

    def __call__(self, move: Move, advantage: Float[Tensor, "B T"]) -> tuple[Float[Tensor, "B T"], Stats]:
        return -advantage * move.logp, {}


class Clip(SurrogateSlot):
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

    def __call__(self, move: Move, advantage: Float[Tensor, "B T"]) -> tuple[Float[Tensor, "B T"], Stats]:
        ratio, falling, mask = move.log_ratio.exp(), advantage < 0, move.mask
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
