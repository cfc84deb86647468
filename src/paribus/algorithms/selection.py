"""Which tokens of a step the policy learns from."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from paribus import tensors
from paribus.algorithms.slot import Need, Slot

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from torch import Tensor


class TopEntropy(Slot):
    """The share of tokens at which the old policy was least certain (2506.01939, section 5).

    The threshold is one number for the whole step: the quantile 1 - `share` of the entropies of all trained tokens,
    interpolated linearly; tokens on it are selected. The others lose their advantage, after whitening, and nothing
    else: they stay in the denominators, in the KL term and in the critic's loss.
    """

    type: Literal["top_entropy"] = "top_entropy"
    share: float = Field(default=0.2, gt=0, le=1)

    needs: ClassVar[frozenset[Need]] = frozenset({Need.ENTROPY})
    formula: ClassVar[str] = "A[t] <- 0 where entropy_old[t] < quantile(entropy_old of the step's tokens, 1 - share)"

    def __call__(self, entropy: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Bool[Tensor, "B T"]:
        return mask & (tensors.keep(entropy, mask) >= self.threshold(entropy[mask]))

    def threshold(self, entropy: Float[Tensor, "N"]) -> Float[Tensor, ""]:
        """Of any number of tokens (torch.quantile refuses more than 2^24)."""
        if not len(entropy):
            return entropy.new_zeros(())
        ordered = entropy.sort().values
        place = round((1 - self.share) * (len(ordered) - 1), 9)  # rounding must not lift it above the token it is at
        below = int(place)
        return ordered[below].lerp(ordered[min(below + 1, len(ordered) - 1)], place - below)
