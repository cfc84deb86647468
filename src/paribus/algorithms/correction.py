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

    A row or token of weight 0 stays in the denominators, which shrinks the step. The KL term is not weighted. `low`
    None: no lower bound. An engine's log-prob of -inf (a token that its truncation left out) counts as rho = e^clamp.
    """

    low: float | None = Field(default=None, ge=0, le=1)
    high: float = Field(ge=1)  # below 1 even equal engines would be corrected
    clamp: float = Field(default=20.0, gt=0)  # of log rho, a row's sum included, so that exp stays finite

    needs: ClassVar[frozenset[Need]] = frozenset({Need.OLD})

    @abstractmethod
    def measured(self, log_rho: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """What the bounds are held against; `log_rho` is 0 outside the mask and within the clamp."""

    @abstractmethod
    def weight(
        self, measured: Float[Tensor, "B T"], inside: Bool[Tensor, "B T"], rho: Float[Tensor, "B T"]
    ) -> Float[Tensor, "B T"]: ...

    def __call__(
        self, old_logp: Float[Tensor, "B T"], sampled_logp: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T"], Stats]:
        log_rho = tensors.keep(old_logp - sampled_logp, mask).clamp(-self.clamp, self.clamp)
        rho, measured = log_rho.exp(), self.measured(log_rho, mask)
        inside = (measured <= self.high) & (measured >= (self.low or 0.0))
        stats: Stats = {
            "mismatch_deviation": largest((rho - 1).abs(), mask),
            "mismatch_corrected": fraction(~inside, mask),
        }
        return self.weight(measured, inside, rho), stats

    def _product(self, log_rho: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """The row's product of ratios at each of its tokens."""
        return tensors.broadcast(log_rho.sum(1).clamp(-self.clamp, self.clamp), mask).exp()


class Truncated(Mismatch):
    """Base: what is measured, held within the bounds."""

    def weight(
        self, measured: Float[Tensor, "B T"], inside: Bool[Tensor, "B T"], rho: Float[Tensor, "B T"]
    ) -> Float[Tensor, "B T"]:
        return measured.clamp(self.low, self.high)


class Masked(Mismatch):
    """Base: what is measured where it is within the bounds, else 0."""

    def weight(
        self, measured: Float[Tensor, "B T"], inside: Bool[Tensor, "B T"], rho: Float[Tensor, "B T"]
    ) -> Float[Tensor, "B T"]:
        return tensors.keep(measured, inside)


class TruncatedToken(Truncated):
    """Truncated importance sampling per token (TIS): the ratio, held within its bounds."""

    type: Literal["truncated_token"] = "truncated_token"
    high: float = Field(default=2.0, ge=1)

    formula: ClassVar[str] = "loss[t] *= clip(rho[t], low, high)"

    def measured(self, log_rho: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        return log_rho.exp()


class TruncatedSequence(Truncated):
    """Truncated importance sampling per row: the product of its ratios, held within its bounds."""

    type: Literal["truncated_sequence"] = "truncated_sequence"
    high: float = Field(default=2.0, ge=1)

    formula: ClassVar[str] = "loss[t] *= clip(prod_s rho[s], low, high)"

    def measured(self, log_rho: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        return self._product(log_rho, mask)


class MaskedToken(Masked):
    """The ratio where it is within its bounds, else 0: IcePop; without a lower bound, masked importance sampling."""

    type: Literal["masked_token"] = "masked_token"
    low: float | None = Field(default=0.5, ge=0, le=1)
    high: float = Field(default=5.0, ge=1)

    formula: ClassVar[str] = "loss[t] *= rho[t] if low <= rho[t] <= high else 0"

    def measured(self, log_rho: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        return log_rho.exp()


class MaskedSequence(Masked):
    """The row's product of ratios where it is within its bounds, else 0 (MIS)."""

    type: Literal["masked_sequence"] = "masked_sequence"
    high: float = Field(default=3.0, ge=1)

    formula: ClassVar[str] = "loss[t] *= q if low <= q <= high else 0, q = prod_s rho[s]"

    def measured(self, log_rho: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        return self._product(log_rho, mask)


class GeometricMask(Mismatch):
    """Each token's own ratio, in rows whose geometric mean ratio is within its bounds; 0 in the others."""

    type: Literal["geometric_mask"] = "geometric_mask"
    low: float | None = Field(default=0.999, ge=0, le=1)
    high: float = Field(default=1.002, ge=1)

    formula: ClassVar[str] = "loss[t] *= rho[t] if low <= exp(mean_s log rho[s]) <= high else 0"

    def measured(self, log_rho: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        return tensors.broadcast(log_rho.sum(1) / mask.sum(1).clamp(min=1), mask).exp()

    def weight(
        self, measured: Float[Tensor, "B T"], inside: Bool[Tensor, "B T"], rho: Float[Tensor, "B T"]
    ) -> Float[Tensor, "B T"]:
        return tensors.keep(rho, inside)


Correction = Annotated[
    TruncatedToken | TruncatedSequence | MaskedToken | MaskedSequence | GeometricMask, Field(discriminator="type")
]
