"""Credit per token from what follows it: generalised advantages, and returns against a baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from paribus import tensors
from paribus.algorithms.slot import Memory, Need, Slot, required
from paribus.batch import Batch, Signal
from paribus.lazy import torch

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from torch import Tensor


def discounted(
    x: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"], decay: float | Float[Tensor, "B"]
) -> Float[Tensor, "B T"]:
    """`x` of each trained token plus that of the row's later ones, times `decay` per trained token of distance.

    Positions outside the mask (padding, tool output) neither add nor decay: the sum is carried across them.
    """
    running = torch.zeros_like(x[:, 0])
    columns = []
    for now, on in zip(*(reversed(y.unbind(1)) for y in (x, mask)), strict=True):
        running = torch.where(on, now + decay * running, running)
        columns.append(running)
    return tensors.keep(torch.stack(columns[::-1], 1), mask)


def following(x: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"], end: Float[Tensor, "B"]) -> Float[Tensor, "B T"]:
    """`x` at the row's next trained token, at each position; `end` after its last."""
    width = x.shape[1]
    place = torch.where(mask, torch.arange(width, device=x.device), width)
    ahead = place.flip(1).cummin(1).values.flip(1)[:, 1:]  # first trained position beyond each but the last
    ahead = torch.nn.functional.pad(ahead, (0, 1), value=width)
    return torch.cat([x, end[:, None]], 1).gather(1, ahead)


class Gae(Slot):
    """Generalised advantage estimation over the trained tokens of a row (1506.02438, eq. 16).

    Positions outside the mask (padding, tool output) are skipped: value and credit pass through them undecayed.
    `length_adaptive` gives each row its own lambda in place of `lam`, from its trained tokens L (VAPO, 2504.05118).
    `critic_lam` gives the critic's target another lambda than the policy's advantage (VC-PPO, 2503.01491); None: the
    same. `truncation` says what follows the last token of a row cut at the length limit: value 0, as after a stop token
    (what TRL, verl and OpenRLHF do), or the critic's value there, in which case the row must get no outcome reward.
    """

    type: Literal["gae"] = "gae"
    gamma: float = Field(default=1.0, ge=0, le=1)
    lam: float = Field(default=0.95, ge=0, le=1)
    length_adaptive: float | None = Field(default=None, gt=0)
    critic_lam: float | None = Field(default=None, ge=0, le=1)
    truncation: Literal["zero", "bootstrap"] = "zero"

    needs: ClassVar[frozenset[Need]] = frozenset({Need.VALUES})
    formula: ClassVar[str] = (
        "A[t] = rw[t] + gamma V[t+1] - V[t] + gamma lam A[t+1];  target = A (with critic_lam) + V, before whitening;  "
        "length_adaptive: lam = clip(1 - 1/(length_adaptive L), 0, 1)"
    )

    def __call__(self, batch: Batch, memory: Memory) -> tuple[Signal, Memory]:
        mask = batch.mask
        reward, values = tensors.keep(batch.reward, mask), tensors.keep(required(batch.values, "values"), mask)
        after = torch.zeros_like(values[:, 0])
        if self.truncation == "bootstrap":
            after = tensors.keep(required(batch.final_value, "final_value"), batch.rollout.truncated)
        surprise = reward + self.gamma * following(values, mask, after) - values
        advantage = discounted(surprise, mask, self.gamma * self.decay(mask, values.dtype))
        credit = advantage
        if self.critic_lam is not None:
            credit = discounted(surprise, mask, self.gamma * self.critic_lam)
        return Signal(advantage, credit + values), memory

    def decay(self, mask: Bool[Tensor, "B T"], dtype: torch.dtype) -> float | Float[Tensor, "B"]:
        """Lambda of the policy's advantage; of each row where it adapts to the row's length."""
        if self.length_adaptive is None:
            return self.lam
        length = mask.sum(1).clamp(min=1).to(dtype)
        return (1 - 1 / (self.length_adaptive * length)).clamp(0, 1)


class ReturnToGo(Slot):
    """The reward still to come, without a baseline (REINFORCE++, which whitens it over the step)."""

    type: Literal["return_to_go"] = "return_to_go"
    gamma: float = Field(default=1.0, ge=0, le=1)

    formula: ClassVar[str] = "A[t] = sum_s>=t gamma^(s-t) rw[s], over trained tokens"

    def __call__(self, batch: Batch, memory: Memory) -> tuple[Signal, Memory]:
        return Signal(discounted(tensors.keep(batch.reward, batch.mask), batch.mask, self.gamma)), memory


class GreedyBaseline(Slot):
    """The reward still to come less the score of the greedy response to the prompt (ReMax).

    Rows whose greedy response has no score get no credit; they stay in the denominators.
    """

    type: Literal["greedy_baseline"] = "greedy_baseline"
    gamma: float = Field(default=1.0, ge=0, le=1)

    needs: ClassVar[frozenset[Need]] = frozenset({Need.GREEDY})
    formula: ClassVar[str] = "A[t] = sum_s>=t gamma^(s-t) rw[s] - score of the prompt's greedy response"

    def __call__(self, batch: Batch, memory: Memory) -> tuple[Signal, Memory]:
        baseline = required(batch.greedy_score, "greedy_score")
        togo = discounted(tensors.keep(batch.reward, batch.mask), batch.mask, self.gamma)
        return Signal(tensors.keep(togo - baseline[:, None], batch.mask & baseline.isfinite()[:, None])), memory
