"""Advantage estimators: from shaped rewards to the credit of each token."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from paribus import tensors
from paribus.algorithms.slot import Memory, Need, Slot, required
from paribus.batch import Batch, Signal
from paribus.lazy import torch

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
    from torch import Tensor


class Gae(Slot):
    """Generalised advantage estimation over the trained tokens of a row (1506.02438, eq. 16).

    Positions outside the mask (padding, tool output) are skipped: value and credit pass through them undecayed.
    `critic_lam` gives the critic's target another lambda than the policy's advantage (VC-PPO, 2503.01491); None: the
    same. `truncation` says what follows the last token of a row cut at the length limit: value 0, as after a stop token
    (what TRL, verl and OpenRLHF do), or the critic's value there, in which case the row must get no outcome reward.
    """

    type: Literal["gae"] = "gae"
    gamma: float = Field(default=1.0, ge=0, le=1)
    lam: float = Field(default=0.95, ge=0, le=1)
    critic_lam: float | None = Field(default=None, ge=0, le=1)
    truncation: Literal["zero", "bootstrap"] = "zero"

    needs: ClassVar[frozenset[Need]] = frozenset({Need.VALUES})
    formula: ClassVar[str] = (
        "A[t] = rw[t] + gamma V[t+1] - V[t] + gamma lam A[t+1];  target = A (with critic_lam) + V, before whitening"
    )

    def __call__(self, batch: Batch, memory: Memory) -> tuple[Signal, Memory]:
        mask = batch.mask
        reward, values = tensors.keep(batch.reward, mask), tensors.keep(required(batch.values, "values"), mask)
        after = torch.zeros_like(values[:, 0])
        if self.truncation == "bootstrap":
            after = tensors.keep(required(batch.final_value, "final_value"), batch.rollout.truncated)
        advantage = self._scan(reward, mask, values, after, self.lam)
        credit = advantage
        if self.critic_lam is not None and self.critic_lam != self.lam:
            credit = self._scan(reward, mask, values, after, self.critic_lam)
        return Signal(advantage, credit + values), memory

    def _scan(
        self,
        reward: Float[Tensor, "B T"],
        mask: Bool[Tensor, "B T"],
        values: Float[Tensor, "B T"],
        after: Float[Tensor, "B"],
        lam: float,
    ) -> Float[Tensor, "B T"]:
        next_value, running = after, torch.zeros_like(after)
        columns = []
        for rw, on, value in zip(*(reversed(x.unbind(1)) for x in (reward, mask, values)), strict=True):
            delta = rw + self.gamma * next_value - value
            running = torch.where(on, delta + self.gamma * lam * running, running)
            next_value = torch.where(on, value, next_value)
            columns.append(running)
        return tensors.keep(torch.stack(columns[::-1], 1), mask)


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
        centred = total - tensors.group_mean(total, group, valid)
        varied = ~tensors.uniform_groups(total, group, valid)
        scale = tensors.group_std(total, group, valid, self.ddof) + self.eps
        # dividing rounding noise by rounding noise would invent credit: uniform groups never reach the division
        return tensors.keep(centred, varied) / torch.where(varied, scale, torch.ones_like(scale)), memory


class GroupMean(RowAdvantage):
    """Distance to the mean of the prompt's group, in reward units (Dr. GRPO)."""

    type: Literal["group_mean"] = "group_mean"

    needs: ClassVar[frozenset[Need]] = frozenset({Need.GROUP})
    formula: ClassVar[str] = "A = R - mean_group R;  R = sum_t rw[t]"

    def credit(
        self, total: Float[Tensor, "B"], group: Int[Tensor, "B"], valid: Bool[Tensor, "B"], memory: Memory
    ) -> tuple[Float[Tensor, "B"], Memory]:
        return total - tensors.group_mean(total, group, valid), memory


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
            memory = {"average": self.decay * average + (1 - self.decay) * mean, "steps": steps + 1}
        return total - baseline, memory


Advantage = Annotated[
    Gae | GroupZScore | GroupMean | LeaveOneOut | FixedBaseline | BatchBaseline | EmaBaseline,
    Field(discriminator="type"),
]
