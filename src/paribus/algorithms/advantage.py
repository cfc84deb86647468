"""Advantage estimators: from shaped rewards to the credit of each token; those that look ahead are in `returns`."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from paribus import tensors
from paribus.algorithms.returns import Gae, GreedyBaseline, ReturnToGo, discounted
from paribus.algorithms.slot import Memory, Need, Slot, required
from paribus.batch import Batch, Signal
from paribus.errors import ConfigError
from paribus.lazy import torch

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
    from torch import Tensor


class RowAdvantage(Slot):
    """Base of the estimators that see a row's total reward R only, and give all its tokens the same credit."""

    @abstractmethod
    def credit(
        self, total: Float[Tensor, "B"], group: Int[Tensor, "B"], valid: Bool[Tensor, "B"], memory: Memory
    ) -> tuple[Float[Tensor, "B"], Memory]:
        """One number per row; rows that are not `valid` (no trained token) enter no statistic."""

    def __call__(self, batch: Batch, memory: Memory) -> tuple[Signal, Memory]:
        mask = batch.mask
        credit, memory = self.credit(tensors.keep(batch.reward, mask).sum(1), batch.group, mask.any(1), memory)
        return Signal(tensors.broadcast(credit, mask)), memory


def z_score(
    x: Float[Tensor, "B"], group: Int[Tensor, "B"], valid: Bool[Tensor, "B"], eps: float, ddof: int
) -> Float[Tensor, "B"]:
    """Distance to the group's mean in its standard deviations; 0 in a group of one or of equal values."""
    centred, varied = _centred(x, group, valid)
    scale = tensors.group_std(x, group, valid, ddof) + eps
    return centred / torch.where(varied, scale, torch.ones_like(scale))


def _centred(
    x: Float[Tensor, "B"], group: Int[Tensor, "B"], valid: Bool[Tensor, "B"]
) -> tuple[Float[Tensor, "B"], Bool[Tensor, "B"]]:
    """Distance to the group's mean, and where the group varies at all.

    Elsewhere it is exactly 0: dividing rounding noise by a small number would invent credit.
    """
    varied = ~tensors.uniform_groups(x, group, valid)
    return tensors.keep(x - tensors.group_mean(x, group, valid), varied), varied


class GroupZScore(RowAdvantage):
    """Distance to the mean of the prompt's group in standard deviations (GRPO).

    A group of one, and a group whose rewards are equal up to rounding, gets exactly 0.
    """

    type: Literal["group_z_score"] = "group_z_score"
    eps: float = Field(default=1e-6, ge=0)
    ddof: Literal[0, 1] = 1

    needs: ClassVar[frozenset[Need]] = frozenset({Need.GROUP})
    formula: ClassVar[str] = "A = (R - mean_group R) / (std_group R + eps), std over n - ddof;  R = sum_t rw[t]"

    def credit(
        self, total: Float[Tensor, "B"], group: Int[Tensor, "B"], valid: Bool[Tensor, "B"], memory: Memory
    ) -> tuple[Float[Tensor, "B"], Memory]:
        return z_score(total, group, valid, self.eps, self.ddof), memory


class GroupMean(RowAdvantage):
    """Distance to the mean of the prompt's group, in reward units (Dr. GRPO)."""

    type: Literal["group_mean"] = "group_mean"

    needs: ClassVar[frozenset[Need]] = frozenset({Need.GROUP})
    formula: ClassVar[str] = "A = R - mean_group R;  R = sum_t rw[t]"

    def credit(
        self, total: Float[Tensor, "B"], group: Int[Tensor, "B"], valid: Bool[Tensor, "B"], memory: Memory
    ) -> tuple[Float[Tensor, "B"], Memory]:
        return total - tensors.group_mean(total, group, valid), memory


class GroupMeanBatchStd(RowAdvantage):
    """Distance to the mean of the prompt's group in standard deviations of the whole step (Lite PPO).

    Easy and hard prompts then weigh alike. A group whose rewards are equal up to rounding gets exactly 0.
    """

    type: Literal["group_mean_batch_std"] = "group_mean_batch_std"
    eps: float = Field(default=1e-4, ge=0)
    ddof: Literal[0, 1] = 1

    needs: ClassVar[frozenset[Need]] = frozenset({Need.GROUP})
    formula: ClassVar[str] = "A = (R - mean_group R) / (std_batch R + eps), std over n - ddof;  R = sum_t rw[t]"

    def credit(
        self, total: Float[Tensor, "B"], group: Int[Tensor, "B"], valid: Bool[Tensor, "B"], memory: Memory
    ) -> tuple[Float[Tensor, "B"], Memory]:
        centred, varied = _centred(total, group, valid)
        scale = tensors.masked_var(total, valid, self.ddof).sqrt() + self.eps
        return centred / torch.where(varied, scale, torch.ones_like(scale)), memory


class Bnpo(RowAdvantage):
    """Distance to the group's mean p over a Beta density at p, fitted to the step's success rates (BNPO, 2506.02864).

    Rewards lie within [0, 1]. The fit takes one p per group, mean m and variance v over n - `ddof` groups; `low` bounds
    both parameters from below. Where it has no answer, alpha = beta = low: with v = 0 (equal rates up to rounding, one
    group) nothing spreads, with k < 0 (v > m (1 - m)) no Beta spreads as much. low = 1 makes that f = 1. `ceiling`
    bounds 1/f, which is infinite at p = 0 and 1; there R - p is 0.
    """

    type: Literal["bnpo"] = "bnpo"
    ddof: Literal[0, 1] = 1
    low: float = Field(default=1.0, gt=0)
    ceiling: float = Field(default=1e6, gt=0)

    needs: ClassVar[frozenset[Need]] = frozenset({Need.GROUP})
    formula: ClassVar[str] = (
        "A = (R - p) min(1/f(p), ceiling), p = mean_group R, f = Beta(alpha, beta) density;  m, v = mean and variance "
        "of p over groups, k = m (1 - m)/v - 1, alpha = max(low, 1 + k m/3), beta = max(low, 1 + k (1 - m)/3)"
    )

    def credit(
        self, total: Float[Tensor, "B"], group: Int[Tensor, "B"], valid: Bool[Tensor, "B"], memory: Memory
    ) -> tuple[Float[Tensor, "B"], Memory]:
        if bool((valid & ((total < 0) | (total > 1))).any()):
            raise ConfigError(
                "advantage bnpo fits a density of success rates, and a row's reward is outside [0, 1]: "
                "take a reward of 0 to 1 and no other shaping term, or another advantage"
            )
        centred, _ = _centred(total, group, valid)
        rate = tensors.group_mean(total, group, valid).clamp(0, 1)
        alpha, beta = self.fit(rate, group, valid)
        log_density = (
            torch.xlogy(alpha - 1, rate)
            + torch.xlogy(beta - 1, 1 - rate)
            + torch.lgamma(alpha + beta)
            - torch.lgamma(alpha)
            - torch.lgamma(beta)
        )
        return centred * (-log_density).exp().clamp(max=self.ceiling), memory

    def fit(
        self, rate: Float[Tensor, "B"], group: Int[Tensor, "B"], valid: Bool[Tensor, "B"]
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Parameters of the density, from the `rate` of each row's group."""
        part = tensors.keep(1 / tensors.group_count(group, valid, rate.dtype).clamp(min=1), valid)
        groups = part.sum().round()  # a row stands for its part of its group
        mean = (part * rate).sum() / groups.clamp(min=1)
        spread = (part * (rate - mean).square()).sum() / (groups - self.ddof).clamp(min=1)
        same = tensors.uniform_groups(rate, torch.zeros_like(group), valid).all()
        k = mean * (1 - mean) / torch.where(same, 1, spread) - 1
        shape = torch.stack([1 + k * mean / 3, 1 + k * (1 - mean) / 3]).clamp(min=self.low)
        alpha, beta = torch.where(same | (k < 0), self.low, shape)
        return alpha, beta


class GroupStepZScore(Slot):
    """Process supervision of GRPO (2402.03300, section 4.1.3): the z-scored rewards of the steps still to come.

    A step is worth the reward at its last token (what `step_rewards` puts there), and is compared with all steps of all
    rows of the group, so a row with more steps weighs more. Tokens after the last step's end get 0; so do all tokens
    of a group whose step rewards are equal up to rounding.
    """

    type: Literal["group_step_z_score"] = "group_step_z_score"
    eps: float = Field(default=1e-6, ge=0)
    ddof: Literal[0, 1] = 1

    needs: ClassVar[frozenset[Need]] = frozenset({Need.GROUP, Need.STEPS})
    formula: ClassVar[str] = (
        "A[t] = sum of z over the row's steps that end at t or later;  z = (rw - mean) / (std + eps) over the rewards "
        "at the step ends of the group, std over n - ddof"
    )

    def __call__(self, batch: Batch, memory: Memory) -> tuple[Signal, Memory]:
        ends = batch.mask & required(batch.step_end, "step_end")
        step, group = batch.reward[ends], batch.group[:, None].expand(ends.shape)[ends]
        score = z_score(step, group, torch.ones_like(group, dtype=torch.bool), self.eps, self.ddof)
        score = torch.zeros_like(batch.reward).masked_scatter(ends, score)
        return Signal(discounted(score, batch.mask, 1.0)), memory


class LeaveOneOut(RowAdvantage):
    """Distance to the mean of the group's *other* rows, which makes the baseline unbiased (RLOO). Group of one: 0."""

    type: Literal["leave_one_out"] = "leave_one_out"

    needs: ClassVar[frozenset[Need]] = frozenset({Need.GROUP})
    formula: ClassVar[str] = "A = R - mean of the group's other R = n/(n-1) (R - mean_group R);  R = sum_t rw[t]"

    def credit(
        self, total: Float[Tensor, "B"], group: Int[Tensor, "B"], valid: Bool[Tensor, "B"], memory: Memory
    ) -> tuple[Float[Tensor, "B"], Memory]:
        n = tensors.group_count(group, valid, total.dtype)
        return (total - tensors.group_mean(total, group, valid)) * n / (n - 1).clamp(min=1), memory


class FixedBaseline(RowAdvantage):
    """Distance to a constant."""

    type: Literal["fixed_baseline"] = "fixed_baseline"
    value: float

    formula: ClassVar[str] = "A = R - value;  R = sum_t rw[t]"

    def credit(
        self, total: Float[Tensor, "B"], group: Int[Tensor, "B"], valid: Bool[Tensor, "B"], memory: Memory
    ) -> tuple[Float[Tensor, "B"], Memory]:
        return total - self.value, memory


class BatchBaseline(RowAdvantage):
    """Distance to the mean of the whole step; the row's own share in it shrinks the expected gradient by (B-1)/B."""

    type: Literal["batch_baseline"] = "batch_baseline"

    formula: ClassVar[str] = "A = R - mean_batch R;  R = sum_t rw[t]"

    def credit(
        self, total: Float[Tensor, "B"], group: Int[Tensor, "B"], valid: Bool[Tensor, "B"], memory: Memory
    ) -> tuple[Float[Tensor, "B"], Memory]:
        return total - tensors.masked_mean(total, valid), memory


class EmaBaseline(RowAdvantage):
    """Distance to a moving average over the steps before this one; the step enters it after use, never before.

    The average starts at 0; `bias_correction` divides that start out again (the first step's baseline stays 0).
    """

    type: Literal["ema_baseline"] = "ema_baseline"
    decay: float = Field(default=0.9, ge=0, lt=1)
    bias_correction: bool = True

    formula: ClassVar[str] = (
        "A = R - b,  then b <- decay b + (1 - decay) mean_batch R;  bias_correction: b / (1 - decay^steps) is used"
    )

    def credit(
        self, total: Float[Tensor, "B"], group: Int[Tensor, "B"], valid: Bool[Tensor, "B"], memory: Memory
    ) -> tuple[Float[Tensor, "B"], Memory]:
        average, steps = memory.get("average", 0.0), memory.get("steps", 0)
        baseline = average / (1 - self.decay**steps) if self.bias_correction and steps else average
        if bool(valid.any()):
            mean = float(tensors.masked_mean(total, valid))
            memory = {**memory, "average": self.decay * average + (1 - self.decay) * mean, "steps": steps + 1}
        return total - baseline, memory


Advantage = Annotated[
    Gae
    | ReturnToGo
    | GreedyBaseline
    | GroupZScore
    | GroupMean
    | GroupMeanBatchStd
    | LeaveOneOut
    | Bnpo
    | GroupStepZScore
    | FixedBaseline
    | BatchBaseline
    | EmaBaseline,
    Field(discriminator="type"),
]
