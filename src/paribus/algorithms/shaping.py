"""Reward shaping: from the task's score of a row to the reward of each token. Terms add up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from paribus import tensors
from paribus.algorithms.kl import KlEstimate, KlKind
from paribus.algorithms.slot import Memory, Need, Slot, required
from paribus.batch import Batch
from paribus.lazy import torch

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


class OutcomeAtEnd(Slot):
    """The task's outcome on the last trained token; a score of 0 is worth `wrong`, of 1 `right`, linear between.

    `truncated = "omitted"` gives rows cut at the length limit no outcome, which goes with a GAE that bootstraps there.
    """

    type: Literal["outcome_at_end"] = "outcome_at_end"
    wrong: float = 0.0
    right: float = 1.0
    truncated: Literal["scored", "omitted"] = "scored"

    formula: ClassVar[str] = "rw[last] += wrong + (right - wrong) * score"

    def __call__(self, batch: Batch, horizon: int, memory: Memory) -> Float[Tensor, "B T"]:
        outcome = self.wrong + (self.right - self.wrong) * batch.score
        if self.truncated == "omitted":
            outcome = tensors.keep(outcome, ~batch.rollout.truncated)
        return tensors.at_last(outcome, batch.mask)


class KlInReward(KlEstimate):
    """KL to the reference as a cost of each token, taken once under the policy that sampled (InstructGPT)."""

    type: Literal["kl_in_reward"] = "kl_in_reward"
    estimator: KlKind = "k1"

    needs: ClassVar[frozenset[Need]] = frozenset({Need.OLD, Need.REFERENCE})
    formula: ClassVar[str] = (
        "rw[t] -= coef * estimator(d[t]), d = clip(lp_ref - lp_old, floor, ceiling), within +-clamp"
    )

    def __call__(self, batch: Batch, horizon: int, memory: Memory) -> Float[Tensor, "B T"]:
        old, ref = required(batch.old_logp, "old_logp"), required(batch.ref_logp, "ref_logp")
        return -self.coef * tensors.keep(self.estimate(old, ref), batch.mask)


class SoftOverlong(Slot):
    """A cost that grows over the last part of the response limit, up to `penalty` at the limit (DAPO, eq. 13).

    `cache` is that part as a share of the limit, so that the rule means the same at every limit.
    """

    type: Literal["soft_overlong"] = "soft_overlong"
    cache: float = Field(default=0.2, gt=0, le=1)
    penalty: float = Field(default=1.0, ge=0)

    formula: ClassVar[str] = "rw[last] -= penalty * clip((L - (1 - cache) limit) / (cache limit), 0, 1)"

    def __call__(self, batch: Batch, horizon: int, memory: Memory) -> Float[Tensor, "B T"]:
        cache = self.cache * horizon
        over = (batch.mask.sum(1).to(batch.score.dtype) - (horizon - cache)) / cache
        return tensors.at_last(-self.penalty * torch.clamp(over, 0, 1), batch.mask)


Shaping = Annotated[OutcomeAtEnd | KlInReward | SoftOverlong, Field(discriminator="type")]
