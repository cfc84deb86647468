"""Aggregations: from a loss per token to the update's loss, dividing only by `Totals` or a row's own length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from paribus import tensors
from paribus.algorithms.slot import Slot
from paribus.batch import Totals

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from torch import Tensor


class SequenceMeanTokenMean(Slot):
    """Mean over a row's tokens, then over rows: every row weighs the same, a token less the longer its row."""

    type: Literal["sequence_mean_token_mean"] = "sequence_mean_token_mean"

    formula: ClassVar[str] = "loss = 1/sequences  sum_b  1/L_b  sum_t loss[b,t]"

    def __call__(self, x: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"], total: Totals) -> Float[Tensor, ""]:
        rows = tensors.keep(x, mask).sum(1) / mask.sum(1).clamp(min=1)
        return rows.sum() / max(total.sequences, 1)


class TokenMean(Slot):
    """Mean over all tokens of the update: every token weighs the same, a row more the longer it is."""

    type: Literal["token_mean"] = "token_mean"

    formula: ClassVar[str] = "loss = 1/tokens  sum_b sum_t loss[b,t]"

    def __call__(self, x: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"], total: Totals) -> Float[Tensor, ""]:
        return tensors.masked_sum(x, mask) / max(total.tokens, 1)


class SequenceMeanTokenSum(Slot):
    """Sum over a row's tokens, mean over rows: the policy gradient itself."""

    type: Literal["sequence_mean_token_sum"] = "sequence_mean_token_sum"

    formula: ClassVar[str] = "loss = 1/sequences  sum_b sum_t loss[b,t]"

    def __call__(self, x: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"], total: Totals) -> Float[Tensor, ""]:
        return tensors.masked_sum(x, mask) / max(total.sequences, 1)


class Constant(Slot):
    """Sum over a row's tokens divided by the response limit, mean over rows: no length enters (Dr. GRPO)."""

    type: Literal["constant"] = "constant"

    formula: ClassVar[str] = "loss = 1/(sequences * limit)  sum_b sum_t loss[b,t]"

    def __call__(self, x: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"], total: Totals) -> Float[Tensor, ""]:
        return tensors.masked_sum(x, mask) / (max(total.sequences, 1) * total.horizon)


Aggregate = Annotated[SequenceMeanTokenMean | TokenMean | SequenceMeanTokenSum | Constant, Field(discriminator="type")]
