"""Surrogates that weigh a token instead of cutting its gradient off: CISPO, SAPO, GMPO."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from paribus import tensors
from paribus.algorithms.metrics import fraction, mean
from paribus.algorithms.slot import Need
from paribus.algorithms.surrogate import Move, SurrogateSlot
from paribus.batch import Stats
from paribus.lazy import torch

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


class Cispo(SurrogateSlot):
    """Truncated importance weights on the score function (MiniMax-M1, 2506.13585): no token loses its gradient.

    `low` and `high` bound the weight itself, not its distance to 1 (verl's clip_ratio_high 0.2 is `high` 1.2 here,
    TRL's epsilon_high 5.0 is 5.0); `low` None: no lower bound. The loss value holds lp: compare gradients, not values.
    """

    type: Literal["cispo"] = "cispo"
    low: float | None = Field(default=None, ge=0, le=1)
    high: float = Field(default=5.0, ge=1)

    needs: ClassVar[frozenset[Need]] = frozenset({Need.OLD})
    formula: ClassVar[str] = "loss[t] = -w A lp[t], w = clip(r, low, high), without gradient"

    def __call__(self, move: Move, advantage: Float[Tensor, "B T"]) -> tuple[Float[Tensor, "B T"], Stats]:
        ratio = move.log_ratio.detach().exp()
        weight = ratio.clamp(self.low, self.high)
        return -weight * advantage * move.logp, {"capped": fraction((weight != ratio) & (advantage != 0), move.mask)}


class Sapo(SurrogateSlot):
    """A sigmoid in the place of the clip (2511.20347): the gradient fades as the ratio leaves 1, on either side.

    Its weight is 4 s (1 - s) r, s = sigmoid(tau (r - 1)), which is 1 at r = 1. `tau_pos` holds where A > 0, `tau_neg`
    elsewhere; the larger, the sooner it fades.
    """

    type: Literal["sapo"] = "sapo"
    tau_pos: float = Field(default=1.0, gt=0)
    tau_neg: float = Field(default=1.05, gt=0)

    needs: ClassVar[frozenset[Need]] = frozenset({Need.OLD})
    formula: ClassVar[str] = "loss[t] = -4/tau sigmoid(tau (r - 1)) A, tau = tau_pos where A > 0, else tau_neg"

    def __call__(self, move: Move, advantage: Float[Tensor, "B T"]) -> tuple[Float[Tensor, "B T"], Stats]:
        ratio = move.log_ratio.exp()
        tau = torch.where(advantage > 0, self.tau_pos, torch.full_like(ratio, self.tau_neg))
        gate = torch.sigmoid(tau * (ratio - 1))
        withheld = tensors.keep(1 - 4 * gate * (1 - gate), advantage != 0)
        return -4 / tau * gate * advantage, {"gated": mean(withheld, move.mask)}


class Gmpo(SurrogateSlot):
    """The row's geometric mean of ratios, each clipped on the side that the advantage pushes to (2507.20673).

    `low` and `high` bound the log-ratio. Every token of a row bears the row's loss, so that the mean over its tokens is
    the row's; a clipped token gets no gradient. With nothing clipped it is GSPO's sequence ratio, unclipped.
    """

    type: Literal["gmpo"] = "gmpo"
    low: float = Field(default=0.4, ge=0)
    high: float = Field(default=0.4, ge=0)

    needs: ClassVar[frozenset[Need]] = frozenset({Need.OLD})
    formula: ClassVar[str] = "loss[t] = -A exp(1/L sum_s c[s]), c = min(log r, high) where A > 0, else max(log r, -low)"

    def __call__(self, move: Move, advantage: Float[Tensor, "B T"]) -> tuple[Float[Tensor, "B T"], Stats]:
        log_ratio, mask, rising = move.log_ratio, move.mask, advantage > 0
        clipped = torch.where(rising, log_ratio.clamp(max=self.high), log_ratio.clamp(min=-self.low))
        row = tensors.keep(clipped, mask).sum(1) / mask.sum(1).clamp(min=1)
        stats: Stats = {
            "clip_low": fraction((advantage < 0) & (log_ratio < -self.low), mask),
            "clip_high": fraction(rising & (log_ratio > self.high), mask),
        }
        return -advantage * tensors.broadcast(row, mask).exp(), stats
