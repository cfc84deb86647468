"""Rewards of single steps, for process supervision: a splitter says where steps end, a scorer what each is worth."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from paribus.part import Part
from paribus.rewards.base import Learned, ModelScorer, Response, Scorer, counted
from paribus.rewards.function import Parameters, UserFunction, check_columns, columns


class StepScore(NamedTuple):
    """A step's score; `end` is the offset just past its last character in the response. A step worth 0 is a step."""

    end: int
    score: float


class Lines(Part):
    """Splits a response after each `separator`, which belongs to the step it ends, and at the end of the text.

    A blank piece is no step: it belongs to the step before it (to the first one, at the start). The line that begins
    with `marker` is a step of its own (`answer = "own"`) or belongs to the step before it (`"last"`).
    """

    type: Literal["lines"] = "lines"
    separator: str = Field(default="\n", min_length=1)
    answer: Literal["own", "last"] = "own"
    marker: str = Field(default="####", min_length=1)

    def ends(self, text: str) -> list[int]:
        """Return the offset just past each step; the steps are the whole text, unless that is blank."""
        ends: list[int] = []
        start = 0
        while start < len(text):
            at = text.find(self.separator, start)
            end = len(text) if at < 0 else at + len(self.separator)
            piece = text[start:end].strip()
            joins = not piece or (self.answer == "last" and piece.startswith(self.marker))
            if joins and ends:
                ends[-1] = end
            elif piece:
                ends.append(end)
            start = end
        return ends


class StepScorer(Scorer):
    """Base of the kinds of step scorer."""

    split: Lines = Lines()

    @abstractmethod
    def score(
        self, rows: Sequence[Response], ends: Sequence[Sequence[int]], models: Mapping[str, ModelScorer]
    ) -> list[list[float] | None]:
        """Return one score per step of each row; None for a row whose steps could not be judged."""


_EQUATION = re.compile(
    r"(?<![0-9.,+*/=-])(?<![+*/=-] )([0-9]{1,9}) ?([-+*/]) ?([0-9]{1,9}) ?= ?([0-9]{1,9})(?![0-9]|[.,][0-9]| ?[-+*/=])"
)


class StoriesSteps(StepScorer):
    """Judges the lines of a worked solution against the problem's own, by rule.

    A line is worth 1 if every equation `a op b = c` in it is right and gives a result of the gold solution that no
    earlier line gave, else 0 (also without any equation); the last line that begins with the marker is worth the
    verdict's score, an earlier one 0. A step of several lines is worth their product. A row has no scores when the
    grader could not tell or the problem has no worked solution.
    """

    type: Literal["stories"] = "stories"

    def score(
        self, rows: Sequence[Response], ends: Sequence[Sequence[int]], models: Mapping[str, ModelScorer]
    ) -> list[list[float] | None]:
        return [self._row(row, stops) for row, stops in zip(rows, ends, strict=True)]

    def _row(self, row: Response, ends: Sequence[int]) -> list[float] | None:
        verdict = counted(row.verdict)
        left = Counter(int(equation[3]) for equation in _EQUATION.findall(row.problem.solution))
        if verdict is None or not left:
            return None
        lines = [
            (i, line.strip())
            for i, step in enumerate(_steps(row.text, ends))
            for line in step.split("\n")
            if line.strip()
        ]
        answers = [k for k, (_, line) in enumerate(lines) if line.startswith(self.split.marker)]
        scores = [1.0] * len(ends)
        for k, (i, line) in enumerate(lines):
            if k in answers:
                scores[i] *= verdict if k == answers[-1] else 0.0
            else:
                scores[i] *= _line(line, left)
        return scores


def _line(line: str, left: Counter[int]) -> float:
    """Score a line; the results that it gives are taken out of those left."""
    equations = _EQUATION.findall(line)
    return float(bool(equations) and all([_right(equation, left) for equation in equations]))


def _right(equation: tuple[str, str, str, str], left: Counter[int]) -> bool:
    a, operation, b, c = equation
    x, y, result = int(a), int(b), int(c)
    true = {"+": x + y == result, "-": x - y == result, "*": x * y == result, "/": y != 0 and x == y * result}
    if not true[operation] or not left[result]:
        return False
    left[result] -= 1
    return True


class FunctionSteps(UserFunction, StepScorer):
    """Asks a user function, once per response: `f(steps=[...], **columns) -> list`, a number per step's text.

    A call that crashes, runs out of time, or gives None for a step leaves its row without scores.
    """

    type: Literal["function"] = "function"

    @classmethod
    def inspect(cls, parameters: Parameters, data: Mapping[str, Any]) -> dict[str, Any]:
        check_columns(parameters, ("steps",), f"{data['path']}: function '{data['name']}'")
        return {}

    def score(
        self, rows: Sequence[Response], ends: Sequence[Sequence[int]], models: Mapping[str, ModelScorer]
    ) -> list[list[float] | None]:
        texts = [_steps(row.text, stops) for row, stops in zip(rows, ends, strict=True)]
        calls: list[tuple[int | None, dict[str, Any]]] = [
            (len(steps), columns(row.problem, row.truncated) | {"steps": steps})
            for row, steps in zip(rows, texts, strict=True)
            if steps
        ]
        outcomes = iter(self.call(calls))
        values = [next(outcomes).value if steps else [] for steps in texts]
        return [None if scores is None or None in scores else scores for scores in values]


class ModelSteps(Learned, StepScorer):
    """The score that a process reward model gives to the response up to the end of each step."""

    type: Literal["model"] = "model"

    def score(
        self, rows: Sequence[Response], ends: Sequence[Sequence[int]], models: Mapping[str, ModelScorer]
    ) -> list[list[float] | None]:
        prefixes = [replace(row, text=row.text[:end]) for row, stops in zip(rows, ends, strict=True) for end in stops]
        scores = iter([self.scale(raw) for raw in models[self.path](prefixes)])
        out: list[list[float] | None] = []
        for stops in ends:
            values = [next(scores) for _ in stops]
            known = [value for value in values if value is not None]
            out.append(known if len(known) == len(values) else None)
        return out


StepSpec = Annotated[StoriesSteps | FunctionSteps | ModelSteps, Field(discriminator="type")]


def _steps(text: str, ends: Sequence[int]) -> list[str]:
    return [text[start:end] for start, end in pairwise([0, *ends])]


def step_scores(
    spec: StepSpec, rows: Sequence[Response], models: Mapping[str, ModelScorer] | None = None
) -> list[list[StepScore] | None]:
    """Return the scored steps of each row, in order, none for a blank response; None where they could not be judged."""
    ends = [spec.split.ends(row.text) for row in rows]
    scores = spec.score(rows, ends, models or {})
    return [
        None if values is None else [StepScore(*pair) for pair in zip(stops, values, strict=True)]
        for stops, values in zip(ends, scores, strict=True)
    ]
