"""Corrections of the mismatch between the engine that sampled and the learner's own log-probs: weights of the loss.

rho[t] = exp(lp_old[t] - lp_sampled[t]), both of the policy that sampled: same weights, other kernels or precision.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from paribus import tensors
from paribus.algorithms.metrics import fraction, largest
from paribus.algorithms.slot import Need, Slot
from paribus.batch import Stats

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from torch import Tensor


class Mismatch(Slot):
    """Base: a detached weight for each token's policy loss, laid on before it is aggregated.

    A row or token of weight 0 stays in the denominators, which shrinks the step. The KL term is not weighted.
    """

    clamp: float = Field(default=20.0, gt=0)  # of log rho, a row's sum included, so that exp stays finite

    needs: ClassVar[frozenset[Need]] = frozenset({Need.OLD})

    @abstractmethod
    def weight(self, log_rho: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """`log_rho` is 0 outside the mask and within the clamp."""

    def __call__(
        self, old_logp: Float[Tensor, "B T"], sampled_logp: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T"], Stats]:
        log_rho = tensors.keep(old_logp - sampled_logp, mask).clamp(-self.clamp, self.clamp)
        weight = self.weight(log_rho, mask)
        rho = log_rho.exp()
        stats: Stats = {
            "mismatch_deviation": largest((rho - 1).abs(), mask),
            "mismatch_corrected": fraction((weight - rho).abs() > 1e-6 * rho, mask),
        }
        return weight, stats

    def _product(self, log_rho: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """The row's product of ratios at each of its tokens."""
        return tensors.broadcast(log_rho.sum(1).clamp(-self.clamp, self.clamp), mask).exp()


class Bounds(Mismatch):
    """Base of the corrections with two bounds; `low` None: no lower bound."""

    low: float | None = Field(default=None, ge=0, lt=1)
    high: float = Field(ge=1)  # below 1 even equal engines would be corrected

    def _inside(self, rho: Float[Tensor, "..."]) -> Bool[Tensor, "..."]:
        return (rho <= self.high) & (rho >= (self.low or 0.0))


class TruncatedToken(Bounds):
    """Truncated importance sampling per token (TIS): the ratio, held within its bounds."""

    type: Literal["truncated_token"] = "truncated_token"
    high: float = Field(default=2.0, ge=1)

    formula: ClassVar[str] = "loss[t] *= clip(rho[t], low, high)"

    def weight(self, log_rho: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        return log_rho.exp().clamp(self.low, self.high)


class TruncatedSequence(Bounds):
    """Truncated importance sampling per row: the product of its ratios, held within its bounds."""

    type: Literal["truncated_sequence"] = "truncated_sequence"
    high: float = Field(default=2.0, ge=1)

    formula: ClassVar[str] = "loss[t] *= clip(prod_s rho[s], low, high)"

    def weight(self, log_rho: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        return self._product(log_rho, mask).clamp(self.low, self.high)


class MaskedToken(Bounds):
    """The ratio where it is within its bounds, else 0: IcePop; without a lower bound, masked importance sampling."""

    type: Literal["masked_token"] = "masked_token"
    low: float | None = Field(default=0.5, ge=0, lt=1)
    high: float = Field(default=5.0, ge=1)

    formula: ClassVar[str] = "loss[t] *= rho[t] if low <= rho[t] <= high else 0"

    def weight(self, log_rho: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        rho = log_rho.exp()
        return tensors.keep(rho, self._inside(rho))


class MaskedSequence(Bounds):
    """The row's product of ratios where it is within its bounds, else 0 (MIS)."""

    type: Literal["masked_sequence"] = "masked_sequence"
    high: float = Field(default=3.0, ge=1)

    formula: ClassVar[str] = "loss[t] *= q if low <= q <= high else 0, q = prod_s rho[s]"

    def weight(self, log_rho: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        product = self._product(log_rho, mask)
        return tensors.keep(product, self._inside(product))


class GeometricMask(Bounds):
    """Each token's own ratio, in rows whose geometric mean ratio is within its bounds; 0 in the others."""

    type: Literal["geometric_mask"] = "geometric_mask"
    low: float | None = Field(default=0.999, ge=0, lt=1)
    high: float = Field(default=1.002, ge=1)

    formula: ClassVar[str] = "loss[t] *= rho[t] if low <= exp(mean_s log rho[s]) <= high else 0"

    def weight(self, log_rho: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        mean = log_rho.sum(1) / mask.sum(1).clamp(min=1)
        return tensors.keep(log_rho.exp(), self._inside(mean.exp())[:, None])


Correction = Annotated[
    TruncatedToken | TruncatedSequence | MaskedToken | MaskedSequence | GeometricMask, Field(discriminator="type")
]
