"""The verdict on pairs of arms: better, better but within the margin, equivalent, inconclusive, or identical."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from paribus.stats.counts import checkpoint_problems, checkpoint_problems_for_equivalence
from paribus.stats.difference import Difference, difference
from paribus.stats.interval import Interval
from paribus.stats.multiple import holm
from paribus.stats.power import (
    MOST_PROBLEMS,
    Spread,
    equivalence_power,
    problems_needed,
    seeds_for_equivalence,
    seeds_needed,
    spread,
)

POWER = 0.8  # what `Settle` plans for

Kind = Literal["better", "better_within", "equivalent", "inconclusive", "identical"]


class Settle(NamedTuple):
    """What would settle an inconclusive pair in 80 % of repeats; None where no number does, or nothing is open.

    Runs per arm are meant at the problems there are, problems at the runs there are (of the arm with fewer). `seeds`
    and `problems` show the observed difference if it is the true one; the other two show equivalence within the margin
    if there is no true difference. For checkpoints only problems count.
    """

    seeds: int | None = None
    problems: int | None = None
    equivalent_seeds: int | None = None
    equivalent_problems: int | None = None


class Verdict(NamedTuple):
    """What the data say of A - B.

    "better": the difference is not 0, and `better` names the higher arm; "better_within": so it is, and yet shown to be
    less than the margin; "equivalent": shown to be less than the margin; "identical": every score is the same,
    nothing is tested, and p is 1. The p values, adjusted by Holm over the pairs, decide; `interval` is that of this
    pair alone, at 1 - alpha.
    """

    a: str
    b: str
    kind: Kind
    better: str | None
    difference: Difference
    interval: Interval
    p: float
    p_equivalent: float | None
    margin: float | None
    settle: Settle


def verdicts(
    tables: Mapping[str, np.ndarray],
    pairs: Sequence[tuple[str, str]],
    *,
    margin: float | None,
    alpha: float = 0.05,
    paired: bool = False,
) -> list[Verdict]:
    """Return the verdict on every pair of scores [seeds, problems], Holm over all pairs.

    Differences and equivalences are two families of tests, each adjusted on its own; `margin` is a fraction declared
    before the runs, None tests no equivalence. `paired` as in `difference`.
    """
    same = [identical(tables[a], tables[b]) for a, b in pairs]
    found = [difference(tables[a], tables[b], paired=paired) for a, b in pairs]
    differ = holm([1.0 if alike else d.p() for d, alike in zip(found, same, strict=True)])
    close = None
    if margin is not None:
        close = holm([1.0 if alike else d.p_equivalent(margin) for d, alike in zip(found, same, strict=True)])
    out = []
    for i, ((a, b), d) in enumerate(zip(pairs, found, strict=True)):
        p, p_equivalent = float(differ[i]), None if close is None or same[i] else float(close[i])
        kind = "identical" if same[i] else _kind(p < alpha, p_equivalent is not None and p_equivalent < alpha)
        better = None if kind not in ("better", "better_within") else a if d.estimate > 0 else b
        settle = Settle()
        if kind == "inconclusive":
            settle = _settle(tables[a], tables[b], d, margin, alpha / len(pairs))
        out.append(Verdict(a, b, kind, better, d, d.interval(1 - alpha), p, p_equivalent, margin, settle))
    return out


def identical(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether two tables [seeds, problems] hold the same scores: run by run, or all runs of both alike."""
    return np.array_equal(a, b) or bool((a == b[0]).all() and (b == a[0]).all())


def _kind(differ: bool, close: bool) -> Kind:
    if differ:
        return "better_within" if close else "better"
    return "equivalent" if close else "inconclusive"


def _settle(a: np.ndarray, b: np.ndarray, d: Difference, margin: float | None, alpha: float) -> Settle:
    """Plan for one pair at its share of alpha, which is on the careful side of Holm, with runs counted as unpaired."""
    if d.scope == "checkpoints":
        square = float(((a.mean(0) - b.mean(0)) ** 2).mean())
        settle = Settle(problems=checkpoint_problems(d.estimate, square, alpha))
        if margin is None:
            return settle
        enough = checkpoint_problems_for_equivalence(margin, square - d.estimate**2, alpha)
        return settle._replace(equivalent_problems=enough)
    parts, seeds, effect = spread({"a": a, "b": b}), min(d.seeds), abs(d.estimate)
    settle = Settle(
        seeds=seeds_needed(parts, effect, d.problems, alpha=alpha),
        problems=problems_needed(parts, effect, seeds, alpha=alpha),
    )
    if margin is None:
        return settle
    return settle._replace(
        equivalent_seeds=seeds_for_equivalence(parts, margin, d.problems, alpha=alpha),
        equivalent_problems=_problems_for_equivalence(parts, margin, seeds, alpha),
    )


def _problems_for_equivalence(parts: Spread, margin: float, seeds: int, alpha: float) -> int | None:
    numbers = range(2, MOST_PROBLEMS + 1)
    shown = bisect_left(numbers, POWER, key=lambda n: equivalence_power(parts, margin, seeds, n, alpha=alpha))
    return numbers[shown] if shown < len(numbers) else None
