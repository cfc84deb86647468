"""The arguments of `paribus compare`: `[NAME=]SOURCE`, several sources of one name being runs of one arm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from paribus.errors import ConfigError, DataError
from paribus.interop import Choice, Counts, Outcomes, Published, PublishedModel, Run, read

BASE = "base"  # the name of the model that the others were trained from


class Argument(NamedTuple):
    """One argument as written: the name may be empty, the sources are one or several."""

    name: str
    sources: tuple[str, ...]


def parse(text: str) -> Argument:
    """Split `ppo=a.jsonl,b.jsonl`; a path that exists is taken whole, whatever signs are in it."""
    if text and Path(text).exists():
        return Argument("", (text,))
    name, equals, rest = text.partition("=")
    named = bool(equals) and "/" not in name  # runs/x=1/ppo is a path
    name, rest = (name, rest) if named else ("", text)
    sources = (rest,) if rest and Path(rest).exists() else tuple(part for part in rest.split(",") if part)
    if not sources or (named and not name):
        raise ConfigError(f"'{text}': write NAME=SOURCE, or NAME=SOURCE,SOURCE for several runs of one arm")
    return Argument(name, sources)


def load(arguments: Sequence[str], choice: Choice) -> list[Outcomes] | Published:
    """Read all arguments. Rows give outcomes, one for each name; counts and published files give `Published`.

    Raises ConfigError or DataError that names the argument.
    """
    arms: dict[str, list[Outcomes]] = {}
    counts: dict[str, Counts] = {}
    seen: Counter[str] = Counter()
    for name, sources in map(parse, arguments):
        for source in sources:
            found = read(source, choice)
            if isinstance(found, Published):
                if len(arguments) > 1 or name:
                    raise ConfigError(
                        f"{source}: published numbers are compared among themselves: give this file alone"
                    )
                return found
            label = name or found.name
            if not name:
                seen[label] += 1
            if isinstance(found, Counts):
                if label in counts:
                    raise ConfigError(f"{label}: counts of one run only; several runs need their rows")
                counts[label] = found
            else:
                arms.setdefault(label, []).append(found)
    twice = [label for label, times in seen.items() if times > 1 or (label in arms and len(arms[label]) > times)]
    if twice:
        raise ConfigError(f"two sources are called '{twice[0]}': name them, NAME=SOURCE")
    if counts and arms:
        raise ConfigError("counts and rows cannot be compared with each other: give rows of all, or counts of all")
    if len(counts or arms) < 2:
        raise ConfigError("compare needs at least two arms: A B, or NAME=SOURCE NAME=SOURCE")
    return published(counts) if counts else [merged(name, found) for name, found in arms.items()]


def published(counts: dict[str, Counts]) -> Published:
    """Return counts from the command line as a published comparison. Raises DataError for different test sets."""
    totals = {count.total for count in counts.values()}
    if len(totals) > 1:
        known = ", ".join(f"{name} {count.total}" for name, count in counts.items())
        raise DataError(f"the counts are of different numbers of problems ({known}): compare on the same ones")
    models = {name: PublishedModel(correct=count.correct, untrained=name == BASE) for name, count in counts.items()}
    return Published(title="", problems=totals.pop(), model=models)


def merged(name: str, parts: Sequence[Outcomes]) -> Outcomes:
    """Return several sources of one name as the runs of one arm. Raises ConfigError if a run comes twice."""
    runs: list[Run] = [run for part in parts for run in part.runs]
    twice = [label for label, times in Counter(run.label for run in runs).items() if times > 1]
    if twice:
        raise ConfigError(f"{name}: the run {twice[0]} comes twice: each source of a name is another run")
    sources, judged = sorted({part.source for part in parts}), sorted({part.judged for part in parts})
    notes = [note for part in parts for note in part.notes]
    return Outcomes(name, runs, "; ".join(sources), "; ".join(judged), notes)
