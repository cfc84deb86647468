"""Responses that another trainer wrote down, whatever its format: who was asked, what was answered, at which step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paribus.errors import DataError
from paribus.interop import trl, verl
from paribus.interop.rows import Line, json_lines, load_bytes, value
from paribus.types import Problem

Messages = Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Answered:
    """One response. `problem` is its id where the file states it, `prompt` the text that was continued."""

    place: str
    problem: str | None
    prompt: str
    response: str
    reward: float | None
    advantage: float | None = None


def of_verl(path: Path) -> list[Answered]:
    """Return the rows of a validation or rollout dump. Raises DataError."""
    lines = json_lines(path, load_bytes(path))
    if not verl.matches(set(lines[0].data)):
        raise DataError(f"{lines[0].place}: not a dump of verl: expected keys input, output, score, step")
    return [
        Answered(
            line.place,
            str(line.data["problem_id"]) if line.data.get("problem_id") else None,
            str(value(line, "input")),
            str(value(line, "output")),
            _number(line, value(line, "score")),
        )
        for line in lines
    ]


def of_trl(path: Path) -> list[Answered]:
    """Return the rows of a completions file. Raises DataError."""
    out = []
    for i, row in enumerate(trl.read_table(path).to_pylist(), start=1):
        problem, found = row.get("problem_id"), row.get("reward")
        out.append(
            Answered(
                f"{path}, row {i}",
                None if problem is None else str(problem),
                _text(row["prompt"]),
                _text(row["completion"]),
                None if found is None or found != found else float(found),
                row["advantage"],
            )
        )
    return out


def _number(line: Line, found: Any) -> float | None:
    if found is not None and not isinstance(found, (bool, int, float)):
        raise DataError(f"{line.place}: score: expected a number, got {found!r}")
    return None if found is None else float(found)


def _text(found: Any) -> str:
    """Return a text, or the contents of a message list."""
    return found if isinstance(found, str) else "\n".join(str(message["content"]) for message in found)


class Asked:
    """The problems that may have been asked, found by their id or by the text that asks them."""

    def __init__(self, problems: Sequence[Problem], contents: Sequence[str]) -> None:
        self.problems = {p.id: p for p in problems}
        # the longest first: a short question may stand inside a long one
        self._contents = sorted(zip(contents, problems, strict=True), key=lambda pair: -len(pair[0]))
        self._known: dict[str, list[Problem]] = {}  # by prompt, which come back in every epoch

    def find(self, row: Answered) -> Problem:
        """Return the problem of a row. Raises DataError where there is none, or several."""
        if row.problem is not None:
            if row.problem not in self.problems:
                raise DataError(f"{row.place}: problem '{row.problem}' is not among those of the experiment")
            return self.problems[row.problem]
        found = self._asked_by(row.prompt)
        if len(found) != 1:
            raise DataError(
                f"{row.place}: its prompt asks {len(found)} problems of the experiment, not one, and such a row cannot "
                "be joined: use the exported scorer.py, which writes the problem's id beside each score"
            )
        return found[0]

    def holds(self, row: Answered) -> bool:
        """Say whether a row is about one of these problems."""
        return row.problem in self.problems if row.problem is not None else bool(self._asked_by(row.prompt))

    def _asked_by(self, prompt: str) -> list[Problem]:
        """Return the problems whose question is the longest that stands in a prompt; several where they read alike."""
        if prompt not in self._known:
            found = [(content, problem) for content, problem in self._contents if content in prompt]
            self._known[prompt] = [problem for content, problem in found if content == found[0][0]]
        return self._known[prompt]


def numbered(folder: Path, suffix: str) -> Iterator[tuple[int, Path]]:
    """Yield the files `<step><suffix>` or `..._<step><suffix>` of a folder, by step."""
    found = {}
    for path in folder.glob(f"*{suffix}") if folder.is_dir() else ():
        digits = path.name.removesuffix(suffix).rpartition("_")[2]
        if digits.isdecimal():
            found[int(digits)] = path
    yield from sorted(found.items())
