"""KL divergence to the reference, from the sampled tokens' log-probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from paribus.algorithms.slot import Need, Slot
from paribus.lazy import torch

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

KlKind = Literal["k1", "k2", "k3", "abs"]


class KlEstimate(Slot):
    """Base of the two places where a KL term can stand: in the loss and in the reward.

    Per token, with d = lp_ref - lp: k1 = -d, k2 = d^2/2, k3 = exp(d) - 1 - d, abs = |d| (Schulman, "Approximating KL
    divergence"). d is first kept within [floor, ceiling], the estimate then within [-clamp, clamp]; outside of either
    the gradient is exactly 0. A ceiling keeps exp(d) finite where the policy has all but dropped a token.
    """

    coef: float = Field(ge=0)
    estimator: KlKind = "k3"
    floor: float | None = Field(default=None, le=0)
    ceiling: float | None = Field(default=20.0, ge=0)
    clamp: float | None = Field(default=None, gt=0)

    needs: ClassVar[frozenset[Need]] = frozenset({Need.REFERENCE})

    def estimate(self, logp: Float[Tensor, "B T"], ref_logp: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """The bare estimate, without the coefficient; log-probabilities in float32 or wider."""
        d = ref_logp - logp
        if self.floor is not None or self.ceiling is not None:
            d = d.clamp(min=self.floor, max=self.ceiling)
        value = divergence(d, self.estimator)
        return value if self.clamp is None else value.clamp(-self.clamp, self.clamp)


class Kl(KlEstimate):
    """KL as a term of the loss, averaged as the policy loss is.

    As a loss, k1 has expected gradient 0 on-policy, k2 that of the reverse KL, k3 that of the forward KL (2510.01555).
    Two ways to descend the reverse KL whatever the estimator: `straight_through` keeps the value and takes the gradient
    of k2, unbounded d (verl's k1+ and k3+); `unbiased` multiplies by the ratio to the old policy, gradient included,
    which holds off-policy too (DeepSeek-V3.2; TRL's use_bias_correction_kl).
    """

    straight_through: bool = False
    unbiased: bool = False

    formula: ClassVar[str] = (
        "loss[t] += coef * estimator(d[t]) [* r[t] if unbiased], d = clip(lp_ref - lp, floor, ceiling), within "
        "+-clamp;  straight_through: with the gradient of (lp_ref - lp)^2/2"
    )

    @model_validator(mode="after")
    def _one_gradient(self) -> Kl:
        if self.straight_through and self.unbiased:
            raise ValueError("straight_through and unbiased each give the estimate another gradient: choose one")
        return self

    def penalty(
        self, logp: Float[Tensor, "B T"], ref_logp: Float[Tensor, "B T"], log_ratio: Float[Tensor, "B T"]
    ) -> Float[Tensor, "B T"]:
        """The estimate as the loss has it, without the coefficient."""
        value = self.estimate(logp, ref_logp)
        if self.unbiased:
            return value * log_ratio.exp()
        if self.straight_through:
            slope = divergence(ref_logp - logp, "k2")
            return value.detach() + slope - slope.detach()
        return value


def divergence(d: Float[Tensor, "..."], kind: KlKind) -> Float[Tensor, "..."]:
    """The estimator `kind` of d = lp_ref - lp, elementwise."""
    if kind == "k1":
        return -d
    if kind == "k2":
        return d * d / 2
    if kind == "abs":
        return d.abs()
    return torch.expm1(d) - d  # expm1: exp(d) - 1 cancels for small d
