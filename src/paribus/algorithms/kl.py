"""KL divergence to the reference, from the sampled tokens' log-probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

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
    """

    formula: ClassVar[str] = "loss[t] += coef * estimator(d[t]), d = clip(lp_ref - lp, floor, ceiling), within +-clamp"


def divergence(d: Float[Tensor, "..."], kind: KlKind) -> Float[Tensor, "..."]:
    """The estimator `kind` of d = lp_ref - lp, elementwise."""
    if kind == "k1":
        return -d
    if kind == "k2":
        return d * d / 2
    if kind == "abs":
        return d.abs()
    return torch.expm1(d) - d  # expm1: exp(d) - 1 cancels for small d
