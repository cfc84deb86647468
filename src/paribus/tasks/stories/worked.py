"""Worked solutions: a story's steps are computed and told line by line, as they should be or with declared mistakes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeVar

from pydantic import Field

from paribus.part import Part

T = TypeVar("T")
Operation = Literal["+", "-", "*", "/"]
Kind = Literal[
    "chain", "groups", "rate", "compare", "inverse", "times", "half", "together", "money", "share", "two", "missing"
]


class Draws:
    """A stream of choices that is a pure function of its key: hashing, since NumPy's streams may change by version."""

    def __init__(self, *key: object) -> None:
        self._root = hashlib.blake2b("\x1f".join(map(str, key)).encode(), digest_size=16).digest()
        self._count = 0

    def below(self, n: int) -> int:
        """An integer in 0..n-1; its bias of n / 2^64 is beyond notice."""
        self._count += 1
        text = self._root + self._count.to_bytes(8, "little")
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") % n

    def between(self, low: int, high: int) -> int:
        """An integer in low..high, both included."""
        return low + self.below(high - low + 1)

    def choice(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def chance(self, rate: float) -> bool:
        if rate <= 0:  # nothing has to be drawn, but the stream goes on as if it were
            self._count += 1
            return False
        return self.below(1 << 53) < rate * (1 << 53)

    def pair(self, options: Sequence[T]) -> tuple[T, T]:
        """Two different options, in random order."""
        i, j = self.below(len(options)), self.below(len(options) - 1)
        return options[i], options[j + (j >= i)]


class Ref(NamedTuple):
    """The result of step `step` as an operand."""

    step: int


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a worked solution.

    `say` is the sentence with `{}` for the equation. `trap` is the mistake that people make at this very step: another
    operation, or leaving the step out. Only a step that continues from an earlier one can be left out.
    """

    operation: Operation
    left: int | Ref
    right: int | Ref
    say: str
    trap: Operation | Literal["skip"] | None = None

    @property
    def skips_to(self) -> Ref | None:
        """What stands for the result when the step is left out: the latest earlier result it would have used."""
        refs = [x for x in (self.left, self.right) if isinstance(x, Ref)]
        return max(refs) if refs else None


@dataclass(frozen=True, slots=True)
class Story:
    """A problem with the program that solves it; the last step's result is the answer."""

    kind: Kind
    question: str
    steps: tuple[Step, ...] = field(default=())


class Mistakes(Part):
    """Rates of the mistakes in demonstrations; each step draws for itself, and a mistake carries through to the end."""

    skip: float = Field(default=0.0, ge=0, le=1)  # a step that continues from an earlier one is left out
    slip: float = Field(default=0.0, ge=0, le=1)  # per number given in the story: copied wrong by one
    trap: float = Field(default=0.0, ge=0, le=1)  # a step's typical mistake is made, in kinds that `hard` does not name
    hard: Mapping[Kind, float] = Field(default_factory=dict)  # the same for the named kinds


def compute(operation: Operation, left: int, right: int) -> int:
    """Arithmetic of natural numbers: exact in right solutions; after a mistake `-` is the distance, `/` rounds down."""
    if operation == "+":
        return left + right
    if operation == "-":
        return abs(left - right)
    return left * right if operation == "*" else left // max(right, 1)


def results(steps: Sequence[Step]) -> list[int]:
    """The right result of every step."""
    values: list[int] = []
    for step in steps:
        left, right = (values[x.step] if isinstance(x, Ref) else x for x in (step.left, step.right))
        values.append(compute(step.operation, left, right))
    return values


def solve(story: Story) -> str:
    """The worked solution: one line a step, then `#### answer`."""
    return demonstrate(story, Draws(), Mistakes())


def demonstrate(story: Story, draws: Draws, rates: Mistakes) -> str:
    """The solution as somebody who makes mistakes at these rates would write it."""
    trap_rate = rates.hard.get(story.kind, rates.trap)
    values: list[int] = []
    lines: list[str] = []
    for step in story.steps:
        trapped = step.trap is not None and draws.chance(trap_rate)
        skipped = draws.chance(rates.skip)
        if step.skips_to is not None and (skipped or (trapped and step.trap == "skip")):
            values.append(values[step.skips_to.step])
            continue
        left, right = (_operand(x, values, draws, rates.slip) for x in (step.left, step.right))
        operation = step.trap if trapped and step.trap is not None and step.trap != "skip" else step.operation
        values.append(compute(operation, left, right))
        lines.append(step.say.format(f"{left} {operation} {right} = {values[-1]}"))
    return "\n".join([*lines, f"#### {values[-1]}"])


def _operand(operand: int | Ref, values: Sequence[int], draws: Draws, slip: float) -> int:
    if isinstance(operand, Ref):
        return values[operand.step]
    return operand + draws.choice((-1, 1)) if draws.chance(slip) else operand
