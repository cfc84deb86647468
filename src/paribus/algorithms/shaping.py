"""Reward shaping: from the task's score of a row to the reward of each token. Terms add up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from paribus import tensors
from paribus.algorithms.kl import KlEstimate, KlKind
from paribus.algorithms.slot import Memory, Need, Slot, required
from paribus.batch import Batch
from paribus.lazy import torch

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from torch import Tensor


class OutcomeAtEnd(Slot):
    """The task's outcome on the last trained token; a score of 0 is worth `wrong`, of 1 `right`, linear between.

    `low` and `high` bound what a learned reward may be worth. `truncated = "omitted"` gives rows cut at the length
    limit no outcome, which goes with a GAE that bootstraps there.
    """

    type: Literal["outcome_at_end"] = "outcome_at_end"
    wrong: float = 0.0
    right: float = 1.0
    low: float | None = None
    high: float | None = None
    truncated: Literal["scored", "omitted"] = "scored"

    formula: ClassVar[str] = "rw[last] += clip(wrong + (right - wrong) * score, low, high)"

    @model_validator(mode="after")
    def _bounds(self) -> OutcomeAtEnd:
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise ValueError(f"low = {self.low:g} must be below high = {self.high:g}")
        return self

    @property
    def plain(self) -> bool:
        """Whether the outcome is the score itself."""
        return (self.wrong, self.right, self.low, self.high) == (0.0, 1.0, None, None)

    def __call__(self, batch: Batch, horizon: int, memory: Memory) -> Float[Tensor, "B T"]:
        outcome = self.wrong + (self.right - self.wrong) * batch.score
        if self.low is not None or self.high is not None:
            outcome = outcome.clamp(self.low, self.high)
        if self.truncated == "omitted":
            outcome = tensors.keep(outcome, ~batch.rollout.truncated)
        return tensors.at_last(outcome, batch.mask)


class StepRewards(Slot):
    """The score of each step of a response, on the step's last token."""

    type: Literal["step_rewards"] = "step_rewards"
    coef: float = Field(default=1.0, gt=0)

    needs: ClassVar[frozenset[Need]] = frozenset({Need.STEPS})
    formula: ClassVar[str] = "rw[step's last] += coef * step score"

    def __call__(self, batch: Batch, horizon: int, memory: Memory) -> Float[Tensor, "B T"]:
        ends = batch.mask & required(batch.step_end, "step_end")
        return self.coef * tensors.keep(required(batch.step_score, "step_score"), ends)


class MissingEos(Slot):
    """A cost of rows that did not end by themselves, by whichever stop token the sampler has (TRL missing_eos_penalty).

    A response cut at the length limit is then worth less than a wrong one that ends.
    """

    type: Literal["missing_eos"] = "missing_eos"
    penalty: float = Field(default=1.0, ge=0)

    formula: ClassVar[str] = "rw[last] -= penalty where no stop token ended the row"

    def __call__(self, batch: Batch, horizon: int, memory: Memory) -> Float[Tensor, "B T"]:
        cut = batch.rollout.truncated.to(batch.score.dtype)
        return tensors.at_last(-self.penalty * cut, batch.mask)


class AdaptiveKl(Slot):
    """A controller that holds the KL near `target` by moving the coefficient once a step (1909.08593, section 2.2).

    KL is the mean over rows of its sum over their tokens, in nats per response, or (`over = "tokens"`, verl) of its
    mean over their tokens: targets of the two are not comparable. `horizon` counts rows.
    """

    target: float = Field(gt=0)
    horizon: float = Field(gt=0)
    bound: float = Field(default=0.2, gt=0)  # of the relative error that is acted on
    over: Literal["sequences", "tokens"] = "sequences"

    formula: ClassVar[str] = "after each step, coef <- coef (1 + clip(KL/target - 1, -bound, bound) rows/horizon)"

    def moved(self, coef: float, kl: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> float:
        """The next step's coefficient, from this step's estimates; the same where no row trained."""
        rows, n = tensors.keep(kl, mask).sum(1), int(mask.any(1).sum())
        if self.over == "tokens":
            rows = rows / mask.sum(1).clamp(min=1)
        error = float(rows.sum()) / max(n, 1) / self.target - 1
        return coef * (1 + min(max(error, -self.bound), self.bound) * n / self.horizon)


KL_COEF = "kl_coef"  # its name in a method's memory


class KlInReward(KlEstimate):
    """KL to the reference as a cost of each token, taken once under the policy that sampled (InstructGPT).

    `adaptive` moves the coefficient from step to step, starting at `coef`: a step is shaped with the coefficient that
    the steps before it have made, and enters it afterwards.
    """

    type: Literal["kl_in_reward"] = "kl_in_reward"
    estimator: KlKind = "k1"
    adaptive: AdaptiveKl | None = None

    needs: ClassVar[frozenset[Need]] = frozenset({Need.OLD, Need.REFERENCE})
    formula: ClassVar[str] = (
        "rw[t] -= coef * estimator(d[t]), d = clip(lp_ref - lp_old, floor, ceiling), within +-clamp"
    )

    def __call__(self, batch: Batch, horizon: int, memory: Memory) -> Float[Tensor, "B T"]:
        coef = self.coef if self.adaptive is None else memory[KL_COEF]
        return -coef * self._cost(batch)

    def memory(self) -> Memory:
        """What it remembers at the first step."""
        return {} if self.adaptive is None else {KL_COEF: self.coef}

    def adapted(self, batch: Batch, memory: Memory) -> Memory:
        """The memory after a step."""
        if self.adaptive is None:
            return memory
        return {**memory, KL_COEF: self.adaptive.moved(memory[KL_COEF], self._cost(batch), batch.mask)}

    def _cost(self, batch: Batch) -> Float[Tensor, "B T"]:
        old, ref = required(batch.old_logp, "old_logp"), required(batch.ref_logp, "ref_logp")
        return tensors.keep(self.estimate(old, ref), batch.mask)


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


Shaping = Annotated[OutcomeAtEnd | StepRewards | KlInReward | SoftOverlong | MissingEos, Field(discriminator="type")]
