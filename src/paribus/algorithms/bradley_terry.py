"""The loss of reward models: Bradley-Terry on the scores of a pair, with margins and centring."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from paribus.algorithms.metrics import fraction, mean
from paribus.algorithms.slot import Slot, required
from paribus.batch import Mean, Stats
from paribus.lazy import torch

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


class BradleyTerry(Slot):
    """Negative log-likelihood that the good answer beats the bad one (InstructGPT, 2203.02155, eq. 1).

    `margin`: the data says by how much at least (Llama 2, 2307.09288, section 3.2.2). `centre` draws the sum of a
    pair's scores to 0, since the likelihood leaves their level open (2312.09244; TRL's center_rewards_coefficient).
    """

    centre: float = Field(default=0.0, ge=0)
    margin: bool = False

    formula: ClassVar[str] = "loss = 1/pairs sum -log sig(r_good - r_bad [- margin]) + centre (r_good + r_bad)^2"

    def per_pair(
        self, good: Float[Tensor, "N"], bad: Float[Tensor, "N"], margin: Float[Tensor, "N"] | None = None
    ) -> Float[Tensor, "N"]:
        gap = good - bad
        if self.margin:
            gap = gap - required(margin, "margin")
        return -torch.nn.functional.logsigmoid(gap) + self.centre * (good + bad).square()

    def __call__(
        self,
        good: Float[Tensor, "N"],
        bad: Float[Tensor, "N"],
        pairs: float,
        margin: Float[Tensor, "N"] | None = None,
    ) -> tuple[Float[Tensor, ""], Stats]:
        """Share of the loss of an update of `pairs` pairs; scores are those at each answer's own last token."""
        value = self.per_pair(good, bad, margin).sum() / max(pairs, 1)
        gap = (good - bad).detach()
        every = torch.ones_like(gap, dtype=torch.bool)
        stats: Stats = {
            "loss": Mean(value.detach(), every.sum().double() / max(pairs, 1)),
            "accuracy": fraction(gap > 0, every),
            "score_margin": mean(gap, every),
        }
        return value, stats
