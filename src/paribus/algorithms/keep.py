"""Which rows of a step train at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from paribus import tensors
from paribus.algorithms.slot import Need, Slot

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
    from torch import Tensor


class All(Slot):
    """Every scored row."""

    type: Literal["all"] = "all"

    formula: ClassVar[str] = "every scored row trains"

    @property
    def rounds(self) -> int:
        """How often the step may draw further prompts in place of the groups that it leaves out."""
        return 0

    def __call__(
        self, score: Float[Tensor, "B"], group: Int[Tensor, "B"], scored: Bool[Tensor, "B"]
    ) -> Bool[Tensor, "B"]:
        return scored


class DropUniform(Slot):
    """Rows of groups whose task scores differ; the others leave both the loss and its denominators.

    DAPO's filter (eq. 11), judged on the score before any shaping, without its refilling of the batch.
    """

    type: Literal["drop_uniform"] = "drop_uniform"

    needs: ClassVar[frozenset[Need]] = frozenset({Need.GROUP})
    formula: ClassVar[str] = "a scored row trains where max_group score > min_group score"

    @property
    def rounds(self) -> int:
        """How often the step may draw further prompts in place of the groups that it leaves out."""
        return 0

    def __call__(
        self, score: Float[Tensor, "B"], group: Int[Tensor, "B"], scored: Bool[Tensor, "B"]
    ) -> Bool[Tensor, "B"]:
        return _varied(score, group, scored)


class Refill(Slot):
    """As `drop_uniform`, and the step draws further prompts until it has kept as many groups as it set out with (DAPO).

    It draws at most `rounds` more times and then trains on what it has: a step's cost stays bounded.
    """

    type: Literal["refill"] = "refill"
    rounds: int = Field(ge=1)

    needs: ClassVar[frozenset[Need]] = frozenset({Need.GROUP})
    formula: ClassVar[str] = (
        "a scored row trains where max_group score > min_group score; further prompts until the step is full again, "
        "at most rounds times"
    )

    def __call__(
        self, score: Float[Tensor, "B"], group: Int[Tensor, "B"], scored: Bool[Tensor, "B"]
    ) -> Bool[Tensor, "B"]:
        return _varied(score, group, scored)


def _varied(score: Float[Tensor, "B"], group: Int[Tensor, "B"], scored: Bool[Tensor, "B"]) -> Bool[Tensor, "B"]:
    return scored & ~tensors.uniform_groups(score, group, scored)


Keep = Annotated[All | DropUniform | Refill, Field(discriminator="type")]
