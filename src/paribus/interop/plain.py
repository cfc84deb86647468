"""Plain JSON lines of `{"problem_id": ..., "correct": ...}`: what any script can write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from paribus.errors import DataError
from paribus.interop.outcomes import Outcomes
from paribus.interop.rows import Choice, Line, Row, identifier, outcomes, score, value

FIELDS = '"problem_id" and "correct" or "score", perhaps "seed" or "run", and "sample"'


def matches(keys: set[str]) -> bool:
    return "problem_id" in keys and bool(keys & {"correct", "score"})


def read(name: str, path: Path, lines: Sequence[Line], choice: Choice) -> Outcomes:
    """Return the runs of a file; a column "seed" or "run" tells several apart. Raises DataError."""
    keys = {key for line in lines for key in line.data}
    column = choice.metric or _only(path, keys, ("correct", "score"), "--metric")
    if column is None:
        raise DataError(f"{path}: no score; expected {FIELDS}")
    run = _only(path, keys, ("seed", "run"), None)
    rows = (
        Row(
            line.place,
            identifier(line, run) if run else None,
            str(identifier(line, "problem_id")),
            identifier(line, "sample") if "sample" in keys else None,
            score(value(line, column), line.place, column),
        )
        for line in lines
    )
    return outcomes(name, path, rows, "JSON lines", column)


def _only(path: Path, keys: set[str], known: tuple[str, str], option: str | None) -> str | None:
    """Return which of two columns a file has. Raises DataError if it has both."""
    present = [key for key in known if key in keys]
    if len(present) > 1:
        way = f"choose one with {option}" if option else "keep one"
        raise DataError(f"{path}: has the columns '{present[0]}' and '{present[1]}': {way}")
    return present[0] if present else None
