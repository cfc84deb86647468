"""The one value that every reader returns, and its join by problem: outer, and refusing what does not match."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from paribus.errors import DataError

Scores = Mapping[str, Sequence[float | None]]  # by problem, one for each sample; None: not counted


@dataclass(frozen=True, slots=True)
class Run:
    """The scores (0 to 1) of one trained model; `seed` where the source states it."""

    label: str
    seed: int | None
    scores: Scores


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The runs of one arm, where they come from, by what rule they were scored, and what a reader should know."""

    name: str
    runs: Sequence[Run]
    source: str
    judged: str
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Joined:
    """Scores of all arms on the same problems: `tables[name]` is [runs, problems], each the mean over samples.

    Runs are in the order of their seeds, then labels; problems in the order of their ids, so the order of rows and
    files never matters. `excluded` problems were not counted for at least one run and are left out for all.
    """

    problems: Sequence[str]
    excluded: Sequence[str]
    tables: Mapping[str, np.ndarray]
    runs: Mapping[str, Sequence[Run]] = field(default_factory=dict)


def join(arms: Sequence[Outcomes]) -> Joined:
    """Join all runs by problem. Raises DataError where two of them are about different problems."""
    runs = {arm.name: sorted(arm.runs, key=_order) for arm in arms}
    every = [(f"{name} ({run.label})", run.scores) for name, found in runs.items() for run in found]
    first_name, first = every[0]
    for name, scores in every[1:]:
        if scores.keys() != first.keys():
            raise DataError(_mismatch(first_name, first, name, scores))
    means = {name: [{p: _mean(run.scores[p]) for p in run.scores} for run in found] for name, found in runs.items()}
    ids = sorted(first)
    lost = {i for i in ids if any(mean[i] is None for found in means.values() for mean in found)}
    kept = [i for i in ids if i not in lost]
    if not kept:
        raise DataError(f"none of the {len(ids)} problems was scored in every run: there is nothing to compare")
    tables = {name: np.array([[mean[i] for i in kept] for mean in found], float) for name, found in means.items()}
    return Joined(kept, sorted(lost), tables, runs)


def _order(run: Run) -> tuple[bool, int, str]:
    return (run.seed is None, run.seed or 0, run.label)


def _mean(scores: Sequence[float | None]) -> float | None:
    known = [score for score in scores if score is not None]
    return math.fsum(known) / len(known) if known else None  # fsum: the same for every order of the samples


def _mismatch(one: str, first: Scores, other: str, second: Scores) -> str:
    parts = [
        f"{len(lacking):,} only in {name} ({', '.join(map(repr, sorted(lacking)[:3]))}{', …' * (len(lacking) > 3)})"
        for name, lacking in ((one, first.keys() - second.keys()), (other, second.keys() - first.keys()))
        if lacking
    ]
    return f"{one} and {other} are about different problems: {' and '.join(parts)}; evaluate both on the same ones"
