"""What all readers share: lines of JSON with their places, scores checked, repeated rows told from samples."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from paribus.errors import DataError, nearest
from paribus.interop.outcomes import Outcomes, Run


@dataclass(frozen=True, slots=True)
class Choice:
    """What to read where a source holds several things: evaluation suite, answer filter, score column."""

    suite: str | None = None
    filter: str | None = None
    metric: str | None = None


class Line(NamedTuple):
    """One JSON object of a file; `place` is "file, line n"."""

    place: str
    data: Mapping[str, Any]


class Row(NamedTuple):
    """One scored sample; `run` is a seed or a name, None where the file is one run; `sample` None where not stated."""

    place: str
    run: int | str | None
    problem: str
    sample: int | str | None
    score: float | None


def shown(text: str) -> str:
    """Return other people's text as a message may quote it: signs that could move the cursor or hide are spelt out."""
    return text if text.isprintable() else repr(text)


def load_bytes(path: Path) -> bytes:
    """Return a file's content, unpacked if it is gzip. Raises DataError."""
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: not readable: {error}") from None


def json_lines(path: Path, data: bytes) -> list[Line]:
    """Return the JSON objects of a file, one a line; empty lines are skipped. Raises DataError."""
    out = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            found = json.loads(line)
        except ValueError as error:
            raise DataError(f"{place}: not a line of JSON: {error}") from None
        if not isinstance(found, dict):
            raise DataError(f"{place}: expected an object with keys, got {type(found).__name__}")
        out.append(Line(place, found))
    if not out:
        raise DataError(f"{path}: holds no rows")
    return out


def value(line: Line, key: str) -> Any:
    """Return the value of a key that every row must have. Raises DataError."""
    if key not in line.data:
        raise DataError(f"{line.place}: missing key '{key}'; found: {', '.join(map(shown, line.data))}")
    return line.data[key]


def identifier(line: Line, key: str) -> int | str:
    """Return a value that names something: text or a whole number. Raises DataError."""
    found = value(line, key)
    if isinstance(found, bool) or not isinstance(found, (int, str)):
        raise DataError(f"{line.place}: {key}: expected text or a whole number, got {found!r}")
    return found


def score(found: Any, place: str, key: str) -> float | None:
    """Return a score as a number from 0 to 1; None (null) means not counted. Raises DataError."""
    if found is None:
        return None
    if not isinstance(found, (bool, int, float)) or not math.isfinite(found):
        raise DataError(f"{place}: {key}: expected true, false or a number from 0 to 1, got {found!r}")
    if not 0 <= found <= 1:
        raise DataError(
            f"{place}: {key}: {found!r} is outside 0 to 1, so a difference is not in percentage points; "
            "choose a column of correctness with --metric, or rescale it"
        )
    return float(found)


def chosen(wanted: str | None, known: Sequence[str], *, what: str, option: str, where: str) -> str:
    """Return the only one of `known`, or the wanted one. Raises DataError where the choice is open or unknown."""
    if wanted is not None:
        if wanted not in known:
            raise DataError(f"{where}: no {what} '{wanted}'{nearest(wanted, map(shown, known))}")
        return wanted
    if len(known) != 1:
        listed = ", ".join(map(shown, known))
        raise DataError(f"{where}: holds {len(known)} {what}s ({listed}): choose one with {option}")
    return known[0]


def outcomes(
    name: str, path: Path, rows: Iterable[Row], source: str, judged: str, *, repeats: str | None = None
) -> Outcomes:
    """Gather rows into runs.

    Rows that state the same run, problem and sample must agree, and count once. Where no sample is stated, the rows
    of a problem are its samples: as many for each problem, unless they all agree (then they are copies) or the
    format explains more of them (`repeats`). Raises DataError.
    """
    numbered: dict[tuple[int | str | None, str, int | str], Row] = {}
    found: dict[int | str | None, dict[str, list[float | None]]] = {}
    copies = 0
    for row in rows:
        if row.sample is not None:
            first = numbered.setdefault((row.run, row.problem, row.sample), row)
            if first is not row:
                if first.score != row.score:
                    raise DataError(
                        f"{row.place}: problem {row.problem!r} (sample {row.sample!r}) was scored {first.score} at "
                        f"{first.place.rsplit(', ', 1)[-1]} and {row.score} here"
                    )
                copies += 1
                continue
        found.setdefault(row.run, {}).setdefault(row.problem, []).append(row.score)
    notes = [f"{path}: {copies:,} repeated rows counted once"] if copies else []
    if len({run is None for run in found}) > 1:
        raise DataError(f"{path}: some rows name their run and some do not")
    for run, problems in found.items():
        notes += _even(path, run, problems, repeats)
    runs = [Run(_label(path, run), run if isinstance(run, int) else None, scores) for run, scores in found.items()]
    return Outcomes(name, runs, source, judged, notes)


def _label(path: Path, run: int | str | None) -> str:
    return str(path) if run is None else f"seed-{run}" if isinstance(run, int) else run


def _even(path: Path, run: int | str | None, problems: dict[str, list[float | None]], repeats: str | None) -> list[str]:
    """Check that every problem has as many samples; collapse plain copies."""
    sizes = Counter(map(len, problems.values()))
    if len(sizes) == 1:
        (size,) = sizes
        return [f"{path}: {size} rows for each problem, taken as samples: their mean counts"] if size > 1 else []
    low, high = min(sizes), max(sizes)
    if all(len(set(scores)) == 1 for scores in problems.values()):
        for scores in problems.values():
            del scores[1:]
        return [f"{path}: problems have {low} to {high} rows with one and the same score each, counted once"]
    odd = next(problem for problem, scores in problems.items() if len(scores) == high)
    if repeats is None:
        raise DataError(
            f"{path}: problems have {low} to {high} rows{'' if run is None else f' in run {run!r}'} (most: {odd!r}): "
            'number the samples in a column "sample", or remove the rows that are there twice'
        )
    return [f"{path}: problems have {low} to {high} rows ({repeats}); the mean over a problem's rows counts"]
