"""Stories: the embedded task, an endless stream of multi-step word problems whose answers are computed."""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Iterator
from typing import Literal

from pydantic import Field, model_validator

from paribus.errors import DataError
from paribus.tasks.base import SPLITS, Split, Task
from paribus.tasks.stories.kinds import SHAPES, build
from paribus.tasks.stories.worked import Draws, Kind, Mistakes, Story, demonstrate, results, solve
from paribus.types import Key, Problem

__all__ = ["Mistakes", "Stories"]

_SHARES = {"test": 15, "validation": 10, "train": 75}  # percent of all possible questions


def split_of(question: str) -> Split:
    """The split that a question belongs to, whatever the knobs: a hash of its text, so no text is in two splits."""
    bucket = int.from_bytes(hashlib.blake2b(question.encode(), digest_size=8).digest(), "little") % 100
    for split in SPLITS:
        bucket -= _SHARES[split]
        if bucket < 0:
            return split
    raise AssertionError("the shares add up to 100")


class Stories(Task):
    """Grade-school stories of one to four steps, made up on the spot: needs no data and no network.

    Story `n` is a pure function of `n` and the knobs; its question's hash says which split it is in; a split is the
    first so many different ones. `solution` is the worked solution, closed by `#### answer`.
    """

    type: Literal["stories"] = "stories"
    kinds: tuple[Kind, ...] = tuple(SHAPES)
    min_steps: int = Field(default=1, ge=1, le=4)
    max_steps: int = Field(default=4, ge=1, le=4)
    largest: int = Field(default=40, ge=20, le=999)  # no number in a story or in its right solution exceeds this
    train: int = Field(default=7473, ge=1)  # sizes of the splits
    validation: int = Field(default=1000, ge=1)
    test: int = Field(default=1319, ge=1)

    @model_validator(mode="after")
    def _kinds_can_have_such_steps(self) -> Stories:
        if not self.kinds:
            raise ValueError("kinds: name at least one")
        for kind in self.kinds:
            if self.max_steps < max(SHAPES[kind].least, self.min_steps) or self.min_steps > SHAPES[kind].most:
                raise ValueError(
                    f"kind '{kind}' has {SHAPES[kind].least} to {SHAPES[kind].most} steps: "
                    f"none between min_steps = {self.min_steps} and max_steps = {self.max_steps}"
                )
        return self

    def problems(self, split: Split) -> list[Problem]:
        """Return the split's problems, its size as declared."""
        return list(_problems(self, split))

    def story(self, number: int) -> Story:
        """Story `number` of the endless stream."""
        attempt = 0
        while True:
            draws = Draws("story", number, attempt)
            kind = draws.choice(self.kinds)
            shape = SHAPES[kind]
            n = draws.between(max(shape.least, self.min_steps), min(shape.most, self.max_steps))
            story = build(draws, kind, n, self.largest)
            if story is not None:
                return story
            attempt += 1

    def demonstration(self, problem: Problem, key: Key, rates: Mistakes) -> str:
        """What somebody who makes mistakes at these rates would write for `problem`; the same key, the same text."""
        return demonstrate(self.story(int(problem.id.removeprefix("story-"))), Draws(key.hash()), rates)


def _stream(task: Stories, split: Split) -> Iterator[Problem]:
    seen: set[str] = set()
    fruitless = 0
    known = _known_splits(task)
    for number in itertools.count():
        if fruitless == 100_000:
            break
        fruitless += 1
        if number < len(known) and known[number] != split:
            continue
        story = task.story(number)
        if number == len(known):
            known.append(split_of(story.question))
        if known[number] == split and story.question not in seen:
            seen.add(story.question)
            fruitless = 0
            yield Problem(
                id=f"story-{number}",
                question=story.question,
                gold=str(results(story.steps)[-1]),
                solution=solve(story),
                tags={"kind": story.kind, "steps": str(len(story.steps))},
            )
    raise DataError(f"stories: these knobs make only {len(seen)} different {split} problems; allow more kinds or steps")


@functools.lru_cache(maxsize=8)
def _known_splits(task: Stories) -> list[Split]:
    """The splits of the stream's first stories, as far as somebody has read: no other split has to make them again."""
    return []


@functools.lru_cache(maxsize=8)
def _problems(task: Stories, split: Split) -> tuple[Problem, ...]:
    size = {"train": task.train, "validation": task.validation, "test": task.test}[split]
    stream = _stream(task, split)
    return tuple(next(stream) for _ in range(size))
