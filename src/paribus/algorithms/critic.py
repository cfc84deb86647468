"""The critic: how it starts, how it is trained, and its loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from paribus.algorithms.aggregate import TokenMean
from paribus.algorithms.metrics import fraction, moments, share
from paribus.algorithms.slot import Need, Slot
from paribus.batch import Stats, Totals
from paribus.lazy import torch

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from torch import Tensor


class Critic(Slot):
    """A value function learned beside the policy.

    `lr` is that of the critic's own weights (with `shared`, of the value head). `coef` weighs its loss against the
    policy's, which matters where both share weights or a gradient clip. `clip` bounds how far a value may move from
    the one that made the targets before it stops counting as progress. `warmup` steps train the critic alone. The
    trunk starts from the policy's weights, the head at zero (first values 0) or from N(0, head_std^2).
    """

    lr: float = Field(gt=0)
    coef: float = Field(default=1.0, gt=0)
    clip: float | None = Field(default=None, gt=0)
    shared: bool = False
    warmup: int = Field(default=0, ge=0)
    init: Literal["policy"] = "policy"
    head: Literal["zero", "normal"] = "zero"
    head_std: float | None = Field(default=None, gt=0)

    needs: ClassVar[frozenset[Need]] = frozenset({Need.VALUES})
    formula: ClassVar[str] = (
        "value loss = coef * 1/2 * 1/tokens sum max((V - target)^2, (clip(V, V_old -+ clip) - target)^2)"
    )

    @model_validator(mode="after")
    def _head(self) -> Critic:
        if (self.head == "normal") != (self.head_std is not None):
            raise ValueError('head_std goes with head = "normal" and with nothing else')
        return self

    def value_loss(
        self,
        values: Float[Tensor, "B T"],
        old_values: Float[Tensor, "B T"],
        target: Float[Tensor, "B T"],
        mask: Bool[Tensor, "B T"],
        total: Totals,
    ) -> tuple[Float[Tensor, ""], Stats]:
        """Share of the update's value loss, the 1/2 included and `coef` not."""
        error = (values - target).square()
        stats: Stats = {"value_error": moments(target - values, mask), "value_target": moments(target, mask)}
        if self.clip is not None:
            near = torch.clamp(values, old_values - self.clip, old_values + self.clip)
            clipped = (near - target).square()
            stats["value_clip"] = fraction(clipped > error, mask)
            error = torch.maximum(error, clipped)
        loss = TokenMean()(error, mask, total) / 2
        stats["value_loss"] = share(loss, mask, total.sequences)
        return loss, stats
