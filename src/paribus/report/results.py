"""The numbers behind the page: finished runs, their scores on the same problems, their seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate

import numpy as np

from paribus.errors import DataError
from paribus.report.message import Message, msg
from paribus.stats import Interval, Paired, crossed, paired
from paribus.stats.samples import majority, pass_at_k
from paribus.store import CellRow, EvalRow, StoredExperiment, StoredRun

ALPHA = 0.05
ACCURACY = "accuracy"  # the metric that is the mean score over samples
Column = Callable[[Sequence[EvalRow]], Sequence[float | None]]  # one number a row of an evaluation, or none


@dataclass(frozen=True)
class Scores:
    """Final scores of every finished run on one suite, problem by problem (or another number of each response).

    `table[arm]` is [seeds, problems] in the order of `seeds[arm]` and `problems`: by the metric, means over samples
    for accuracy; `base` is [problems], or None without an evaluation of the base. `excluded` problems were not counted
    for at least one model and are left out of all comparisons.
    """

    suite: str
    metric: str
    problems: Sequence[str]
    excluded: Sequence[str]
    seeds: Mapping[str, Sequence[int]]
    table: Mapping[str, np.ndarray]
    base: np.ndarray | None
    rows: Mapping[tuple[str, int], Sequence[EvalRow]]
    base_rows: Sequence[EvalRow]

    @property
    def samples(self) -> int:
        """The least number of samples that any problem has in any evaluation; 0 without evaluations."""
        every = [self.base_rows, *self.rows.values()] if self.base_rows else list(self.rows.values())
        return min((min(Counter(row.problem_id for row in rows).values(), default=0) for rows in every), default=0)


def finished(exp: StoredExperiment) -> dict[str, dict[int, StoredRun]]:
    """Return the runs that are done, by arm and seed; only these are compared."""
    return {arm: {s: r for s, r in runs.items() if r.status == "done"} for arm, runs in exp.runs.items()}


def suites(exp: StoredExperiment) -> list[str]:
    """Return the evaluation suites, the primary one first."""
    primary = exp.info.primary.split(":")[0]
    found = {s for runs in finished(exp).values() for run in runs.values() for s in run.suites}
    return [primary, *sorted(found - {primary})]


def graded(rows: Sequence[EvalRow]) -> list[float | None]:
    return [row.score for row in rows]


def rate(rows: Sequence[EvalRow]) -> float | None:
    """Return the mean score of the responses that count; None where none does."""
    known = [row.score for row in rows if row.score is not None]
    return sum(known) / len(known) if known else None


def primary(exp: StoredExperiment) -> Scores:
    """Return the scores of the metric that was declared before the runs."""
    suite, _, metric = exp.info.primary.partition(":")
    return scores(exp, suite, metric=metric)


def scores(exp: StoredExperiment, suite: str, metric: str = ACCURACY) -> Scores:
    """Join all final evaluations of a suite by problem. Raises DataError if two are about different problems."""
    rows = {(arm, s): run.eval(suite) for arm, runs in finished(exp).items() for s, run in runs.items()}
    has_base = exp.base is not None and suite in exp.base.suites
    base_rows = exp.base.eval(suite) if exp.base is not None and has_base else []
    return _joined(suite, metric, graded, exp.info.arms, rows, base_rows)


def rescored(s: Scores, *, metric: str = ACCURACY, column: Column = graded) -> Scores:
    """Return the same evaluations by another metric, or another number of each response."""
    return _joined(s.suite, metric, column, list(s.seeds), s.rows, s.base_rows)


def _joined(
    suite: str,
    metric: str,
    column: Column,
    arms: Sequence[str],
    rows: Mapping[tuple[str, int], Sequence[EvalRow]],
    base_rows: Sequence[EvalRow],
) -> Scores:
    means = {key: by_problem(found, column(found), metric) for key, found in rows.items()}
    every = ([by_problem(base_rows, column(base_rows), metric)] if base_rows else []) + list(means.values())
    names = [*(["the base"] if base_rows else []), *(f"{arm}/seed-{s}" for arm, s in rows)]
    for name, other in zip(names, every, strict=True):
        if other.keys() != every[0].keys():
            odd = sorted(other.keys() ^ every[0].keys())
            raise DataError(
                f"suite {suite}: {name} and {names[0]} were evaluated on different problems "
                f"({len(odd)} differ, for example '{odd[0]}'); evaluate both on the same ones"
            )
    ids = list(every[0]) if every else []
    counted = {i: all(m[i] is not None for m in every) for i in ids}
    kept, excluded = [i for i in ids if counted[i]], [i for i in ids if not counted[i]]
    seeds = {arm: [s for a, s in rows if a == arm] for arm in arms}
    table = {
        arm: np.array([[means[arm, s][i] for i in kept] for s in found], float).reshape(len(found), len(kept))
        for arm, found in seeds.items()
    }
    base = np.array([every[0][i] for i in kept], float) if base_rows else None
    return Scores(suite, metric, kept, excluded, seeds, table, base, rows, base_rows)


def by_problem(
    rows: Sequence[EvalRow], values: Sequence[float | None], metric: str = ACCURACY
) -> dict[str, float | None]:
    """Return each problem's score over its samples that count: the problem is the unit; None where too few count."""
    found: dict[str, list[tuple[str | None, float]]] = {}
    for row, value in zip(rows, values, strict=True):
        known = found.setdefault(row.problem_id, [])
        if value is not None:
            known.append((row.answer, value))
    return {problem: _worth(known, metric) for problem, known in found.items()}


def _worth(samples: Sequence[tuple[str | None, float]], metric: str) -> float | None:
    """Return what one problem's (answer, score) samples are worth by a metric.

    Among votes all right answers count as one, wrong ones by their text; a missing answer does not vote.
    """
    kind, _, most = metric.partition("@")
    k = int(most) if most else 1
    if len(samples) < k:
        return None
    if kind == "pass":
        return float(pass_at_k(len(samples), sum(score == 1 for _, score in samples), k))
    if kind == "maj":
        right = [float(score == 1) for _, score in samples]
        votes = [True if score == 1 else answer for answer, score in samples]
        return majority(votes, right, k)
    return sum(score for _, score in samples) / len(samples)


def gain(s: Scores, arm: str, level: float = 0.95) -> Interval | Paired | None:
    """Return the arm's mean score minus the base's; over seeds and problems where there are at least two of each."""
    x = s.table[arm]
    if s.base is None or not x.size:
        return None
    if min(x.shape) >= 2:
        return crossed(x - s.base[None, :], level)
    return paired(x[0], s.base, level)


def pairs(arms: Sequence[str], cells: Sequence[CellRow] = ()) -> list[tuple[str, str]]:
    """Return every later arm against every earlier one: (grpo, ppo) where the file names ppo first.

    With the cells of an experiment that has factors, only arms at the same levels are held against each other.
    """
    levels = {cell.arm: cell.levels for cell in cells}
    return [(b, a) for i, a in enumerate(arms) for b in arms[i + 1 :] if levels.get(a) == levels.get(b)]


def references(arms: Sequence[str], cells: Sequence[CellRow] = ()) -> list[tuple[str, str]]:
    """Return every arm with the first one, or with the first at the same levels where there are factors."""
    found = pairs(arms, cells)
    later = {a for a, _ in found}
    return [(a, b) for b in arms if b not in later for a, other in found if other == b]


def pair_level(comparisons: int) -> float:
    """Return the level of each of so many intervals such that all of them hold together at 95 % (Bonferroni)."""
    return 1 - ALPHA / max(1, comparisons)


def level_text(level: float) -> Message:
    return msg("{level} % interval", level=f"{100 * level:.4g}")


def taught_by_start(exp: StoredExperiment) -> list[str]:
    """Return the arms that train on answers of the starting policy: their records of sampled responses are of it."""
    arms = exp.info.resolved.get("arms", {})
    sources = {arm: arms.get(arm, {}).get("algorithm", {}).get("source", {}) for arm in exp.info.arms}
    return [arm for arm, source in sources.items() if source.get("of") == "start"]


@dataclass(frozen=True)
class Schedule:
    """How fair a comparison of seconds is: no more runs at a time than there was room for, alike machines, turns.

    `at_once` is the number of runs at a time that all were started with, each on cores of its own.
    """

    exclusive: bool
    interleaved: bool
    alike: bool
    at_once: int = 1

    @property
    def comparable(self) -> bool:
        return self.exclusive and self.alike


def schedule(runs: Mapping[str, Mapping[int, StoredRun]]) -> Schedule:
    """Read from the recorded times of all attempts how runs overlapped, and whether arms took turns by seed."""
    every = [run for found in runs.values() for run in found.values()]
    attempts = [a for run in every for a in run.info.attempts]
    starts = [(datetime.fromisoformat(a.started), 1) for a in attempts if a.ended]
    ends = [(datetime.fromisoformat(a.ended), -1) for a in attempts if a.ended]
    moments = sorted(starts + ends)  # at one moment an end counts before a start
    at_once = min((a.parallel for a in attempts), default=1)
    exclusive = max(accumulate(change for _, change in moments), default=0) <= at_once
    order = [run.info.seed for run in sorted(every, key=lambda run: run.info.attempts[0].started)]
    place = {seed: i for i, seed in enumerate(dict.fromkeys(order))}
    turns = [place[seed] for seed in order]
    # runs that begin together may be recorded in either order
    interleaved = all(before <= now for before, now in zip(accumulate(turns, max), turns[at_once:], strict=False))
    machines = {(a.device, a.host, a.threads, a.parallel) for a in attempts}
    return Schedule(exclusive, interleaved, len(machines) == 1, at_once)


def training_seconds(run: StoredRun) -> float:
    """Return the wall-clock that a run's recorded steps took, evaluations left out."""
    return sum(row.wall - row.seconds.get("eval", 0.0) for row in run.timing)


def phase_seconds(run: StoredRun) -> dict[str, float]:
    """Return the seconds of each phase over the whole run."""
    total: dict[str, float] = {}
    for row in run.timing:
        for phase, seconds in row.seconds.items():
            total[phase] = total.get(phase, 0.0) + seconds
    return total


def token_rates(run: StoredRun) -> list[float]:
    """Return each training step's sampled tokens per second of its wall-clock."""
    rows = [(r.tokens, r.wall - r.seconds.get("eval", 0.0)) for r in run.timing if r.suite is None]
    return [tokens / seconds for tokens, seconds in rows if seconds > 0]
