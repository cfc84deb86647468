"""A story under construction: its people, its sentences, and the program that grows with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from paribus.tasks.stories.worked import Draws, Operation, Ref, Step, compute

GIRLS = ("Mia", "Ana", "Zoe", "Eva", "Lily", "Nora", "Ruth", "Ivy")
BOYS = ("Tom", "Ben", "Sam", "Leo", "Max", "Omar", "Hugo", "Finn")
THINGS = (
    "apples", "pears", "plums", "books", "pens", "cups", "coins", "cards", "shells", "stones", "stickers", "marbles",
    "toys", "eggs", "cookies", "flowers", "balls", "beads", "stamps", "buttons",
)  # fmt: skip


class Person(NamedTuple):
    """Somebody in a story."""

    name: str
    she: str


class Cast(NamedTuple):
    """Three different people and what the story counts; `other` is compared with `who`, `friend` gives and takes."""

    who: Person
    other: Person
    friend: Person
    things: str


PEOPLE = tuple(Person(name, "she") for name in GIRLS) + tuple(Person(name, "he") for name in BOYS)


@dataclass
class Sheet:
    """A story under construction: sentences so far, steps so far, and the value of what is being counted."""

    draws: Draws
    largest: int
    sentences: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    values: list[int] = field(default_factory=list)

    def tell(self, *phrasings: str) -> None:
        """Add one of the phrasings."""
        self.sentences.append(self.draws.choice(phrasings))

    def step(
        self, operation: Operation, left: int | Ref, right: int | Ref, say: str, trap: Operation | str | None = None
    ) -> Ref:
        """Add a step and return its result."""
        a, b = self.value(left), self.value(right)
        self.steps.append(Step(operation, left, right, say, trap))  # type: ignore[arg-type]
        self.values.append(compute(operation, a, b))
        return Ref(len(self.values) - 1)

    def value(self, operand: int | Ref) -> int:
        return self.values[operand.step] if isinstance(operand, Ref) else operand

    def number(self, low: int, high: int) -> int:
        """A number in low..high, no larger than the knob allows."""
        return self.draws.between(low, max(low, min(high, self.largest)))

    @property
    def small(self) -> int:
        """The most that is added or taken away in one step."""
        return max(9, self.largest // 6)

    def product(self) -> tuple[int, int]:
        """Two factors of 2..9 whose product the knob allows."""
        left = self.number(2, min(9, self.largest // 2))
        return left, self.number(2, min(9, self.largest // left))


def events(sheet: Sheet, cast: Cast, count: int | Ref, n: int, named: bool = False) -> int | Ref:
    """Let `n` things happen to what `cast.who` has, one step each, and return what is left.

    `named`: say the name first, where a pronoun could mean somebody else.
    """
    who, friend, things = cast.who.name, cast.friend.name, cast.things
    for _ in range(n):
        have = sheet.value(count)
        room = sheet.largest - have
        gain = room >= 2 and (have < 4 or sheet.draws.chance(0.5))
        k = sheet.number(2, min(sheet.small, room if gain else have - 1))
        he = who if named else cast.who.she
        he_ = who if named else cast.who.she.capitalize()
        named = sheet.draws.chance(0.25)  # the friend acts
        if gain and named:
            sheet.tell(f"{friend} gives {who} {k} more.", f"Then {friend} brings {k} more {things} for {who}.")
        elif named:
            sheet.tell(f"{friend} takes {k} of them.", f"Then {friend} gets {k} {things} from {who}.")
        elif gain:
            sheet.tell(
                f"{he_} buys {k} more.",
                f"{he_} finds {k} more {things}.",
                f"Then {he} gets {k} more from {friend}.",
                f"Later {he} picks up {k} more {things}.",
            )
        else:
            sheet.tell(
                f"{he_} gives {k} to {friend}.",
                f"{he_} loses {k} of them.",
                f"Then {he} sells {k} {things}.",
                f"Later {he} gives away {k} {things}.",
            )
        count = sheet.step("+" if gain else "-", count, k, f"Now {who} has {{}} {things}.")
    return count


def ask(sheet: Sheet, cast: Cast) -> None:
    sheet.tell(
        f"How many {cast.things} does {cast.who.name} have now?",
        f"How many {cast.things} does {cast.who.name} have in the end?",
        f"How many {cast.things} has {cast.who.name} got now?",
    )


def choose(sheet: Sheet) -> Cast:
    first, second = sheet.draws.pair(PEOPLE)
    third = sheet.draws.choice([p for p in PEOPLE if p not in (first, second)])
    return Cast(first, second, third, sheet.draws.choice(THINGS))
