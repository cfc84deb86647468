"""Worked examples in front of a question: drawn by identity, or written out; never the problem itself."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from paribus.errors import DataError
from paribus.part import Part
from paribus.tasks.base import Task
from paribus.tasks.grading import Answer
from paribus.types import Key, Problem

Messages = list[dict[str, str]]


class Example(Part):
    """One worked example as it is shown: the question goes into the task's prompt, the answer stands as written."""

    question: str
    answer: str


def asks_for_box(task: Task) -> bool:
    """Say whether answers of this task stand in `\\boxed{}`: its grader reads nothing else, or its prompt says so."""
    if isinstance(task.grader, Answer) and task.grader.policy != "flexible":
        return task.grader.policy == "boxed"
    return not isinstance(task.grader, Answer) or "\\boxed" in f"{task.system or ''}\n{task.prompt}"


def demonstration(task: Task, problem: Problem) -> str | None:
    """Return a right answer to `problem` in the declared form: its worked solution where there is one, else the gold.

    Whatever is shown, the task's own grader takes as right and well-formed; None where nothing of the kind can be
    made (the gold cannot be read).
    """
    if isinstance(task.grader, Answer) and not asks_for_box(task):
        stated = f"{task.grader.marker.strip()} {problem.gold}"
    else:
        stated = f"\\boxed{{{problem.gold}}}"
    work = problem.solution.strip()
    body = work.rpartition("\n####")[0] or work  # solutions close with `#### answer`, which may be another form
    for text in (work, f"{body}\n{stated}" if body else stated):
        if text:
            verdict = task.grader.grade(text, problem.gold)
            if verdict.score == 1 and verdict.format:
                return text
    return None


class Shots:
    """Draws `count` worked examples for each problem from `pool`, by the identity of the problem alone.

    The draw is uniform, another one for every problem, and the same for every model, arm, seed and order of the
    file: scores then average over the luck of the examples instead of sharing it, and pairs stay pairs. Problems
    with the question's own id or text are never drawn for it, nor those that have no right answer to show.
    """

    def __init__(self, task: Task, pool: Sequence[Problem], count: int) -> None:
        self.task, self.count = task, count
        self.pool = sorted(pool, key=lambda p: hashlib.blake2b(p.id.encode()).digest())
        self._shown: dict[str, str | None] = {}

    def turns(self, problem: Problem) -> Messages:
        """Return the user and assistant turns shown before `problem`. Raises DataError where the pool is too small."""
        out: Messages = []
        taken = {_plain(problem.question)}
        for shot in self._candidates(problem):
            answer = self._answer(shot)
            if shot.id != problem.id and _plain(shot.question) not in taken and answer is not None:
                taken.add(_plain(shot.question))
                out += [*_asked(self.task, shot), {"role": "assistant", "content": answer}]
            if len(taken) == 1 + self.count:
                return out
        raise DataError(f"{len(self.pool)} problems are too few to show {self.count} other ones before {problem.id}")

    def _candidates(self, problem: Problem) -> Iterator[Problem]:
        """Yield the pool in a random order of the problem's own: draws first, then whatever they left out."""
        size = len(self.pool)
        for draw in range(size):
            yield self.pool[Key(0, "shots", problem=problem.id, sample=draw).hash() % size]
        yield from self.pool

    def _answer(self, shot: Problem) -> str | None:
        if shot.id not in self._shown:
            self._shown[shot.id] = demonstration(self.task, shot)
        return self._shown[shot.id]


def written(task: Task, examples: Sequence[Example], problems: Sequence[Problem]) -> Messages:
    """Return the turns of examples that a file writes out. Raises DataError if one is among the evaluated problems."""
    asked: Mapping[str, str] = {_plain(p.question): p.id for p in problems}
    out: Messages = []
    for number, example in enumerate(examples):
        found = asked.get(_plain(example.question))
        if found is not None:
            raise DataError(f"examples[{number}] is the evaluated problem {found}: take another one")
        shot = Problem(id=f"examples[{number}]", question=example.question, gold="")
        out += [*_asked(task, shot), {"role": "assistant", "content": example.answer}]
    return out


def opening(messages: Messages) -> tuple[Messages, Messages]:
    """Return the system messages that messages begin with, and the turns after them."""
    count = next((i for i, message in enumerate(messages) if message["role"] != "system"), len(messages))
    return messages[:count], messages[count:]


def _asked(task: Task, shot: Problem) -> Messages:
    return opening(task.messages(shot))[1]


def _plain(question: str) -> str:
    return " ".join(question.split()).casefold()
