"""Whitening of advantages: its own slot, never hidden inside an estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from paribus import tensors
from paribus.algorithms.slot import Slot
from paribus.lazy import torch

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from torch import Tensor


class Whiten(Slot):
    """Mean 0 and variance 1 over the whole step, once, before it is cut into minibatches.

    `over` says of what: of all trained tokens (long rows weigh more), or of rows, each entering with its mean.
    `shift_mean` False gives the mean back, so that only the scale changes. A single value becomes 0.
    """

    over: Literal["tokens", "sequences"] = "tokens"
    eps: float = Field(default=1e-8, gt=0)
    ddof: Literal[0, 1] = 1
    shift_mean: bool = True

    formula: ClassVar[str] = "A <- (A - mean A) / sqrt(var A + eps), var over n - ddof  [+ mean A unless shift_mean]"

    def __call__(self, advantage: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        sample, valid = advantage, mask
        if self.over == "sequences":
            sample = tensors.keep(advantage, mask).sum(1) / mask.sum(1).clamp(min=1)
            valid = mask.any(1)
        mean = tensors.masked_mean(sample, valid)
        scale = torch.rsqrt(tensors.masked_var(sample, valid, self.ddof) + self.eps)
        white = (advantage - mean) * scale
        return tensors.keep(white if self.shift_mean else white + mean, mask)
