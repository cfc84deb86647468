"""What trackers are told of a stored run: its steps with their seconds and memory, its evaluations, its end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from paribus.report.results import ACCURACY, by_problem, graded, rate, training_seconds
from paribus.store import EvalRow, StepRow, StoredRun, TimingRow, stat_value, value_hash
from paribus.store.layout import BASE
from paribus.trackers.base import About, Point


@dataclass
class Sent:
    """How far a run was sent: the last step, the last evaluation of each suite, and the end."""

    step: int = 0
    evals: dict[str, int] = field(default_factory=dict)
    ended: str | None = None

    @property
    def nothing(self) -> bool:
        return self.step == 0 and not self.evals


def about(run: StoredRun, folder: Path, resumed: bool) -> About:
    """Say which run it is; its identity is that of run.json and the moment when it was first begun."""
    info = run.info
    first = info.attempts[0].started
    return About(
        id=value_hash([info.experiment, info.arm, info.seed, info.id, first])[:16],
        experiment=info.experiment,
        arm="base" if info.arm == BASE else info.arm,
        seed=info.seed,
        name="base" if info.arm == BASE else f"{info.arm}/seed-{info.seed}",
        config=run.config,
        started=datetime.fromisoformat(first).timestamp(),
        resumed=resumed,
        folder=folder,
    )


def new_points(run: StoredRun, sent: Sent, primary: str) -> list[Point]:
    """Return what the run has beyond `sent`, in the order of steps, an evaluation after its step.

    A row whose timing is not written yet waits for it. Rows that a restart did again are those that were sent.
    """
    clock, timing = _clock(run), {(row.suite, row.step): row for row in run.timing}
    start, over = datetime.fromisoformat(run.info.attempts[0].started).timestamp(), run.status == "done"
    found = []
    for row in run.steps:
        key = (None, row.step)
        if row.step > sent.step and (over or key in timing):
            found.append((row.step, 0, Point(row.step, clock.get(key, start), _step_values(row, timing.get(key)))))
    for suite in run.suites:
        for step in run.eval_steps(suite):
            at = (suite, step)
            if step > sent.evals.get(suite, -1) and (over or at in timing):
                values = _eval_values(suite, run.eval(suite, step), primary, timing.get(at))
                found.append((step, 1, Point(step, clock.get(at, clock.get((None, step), start)), values)))
    return [point for _, _, point in sorted(found, key=lambda item: item[:2])]


def count(points: Sequence[Point], sent: Sent) -> None:
    """Note that these points were sent."""
    for point in points:
        suites = {name.split("/")[1] for name in point.values if name.startswith("eval/")}
        sent.step = sent.step if suites else max(sent.step, point.step)
        for suite in suites:
            sent.evals[suite] = point.step


def final_point(run: StoredRun, primary: str) -> Point:
    """Return the numbers that stand for a run that is over: steps, tokens, seconds and its last evaluations."""
    found: dict[str, float] = {"final/seconds": training_seconds(run), "final/lost_seconds": run.lost_seconds}
    if run.steps:
        last = run.steps[-1]
        found |= {"final/steps": last.step, "final/samples": last.samples, "final/tokens": last.tokens}
    for suite in run.suites:
        if run.eval_steps(suite):
            values = _eval_values(suite, run.eval(suite), primary, None)
            found |= {name.replace("eval/", "final/", 1): value for name, value in values.items()}
    start = datetime.fromisoformat(run.info.attempts[0].started).timestamp()
    return Point(run.steps[-1].step if run.steps else 0, max(_clock(run).values(), default=start), found)


def _clock(run: StoredRun) -> dict[tuple[str | None, int], float]:
    """Return when each row was written, by its attempt's start and the seconds recorded since then."""
    at = {a.number: datetime.fromisoformat(a.started).timestamp() for a in run.info.attempts}
    out: dict[tuple[str | None, int], float] = {}
    for row in run.all_timing:
        at[row.attempt] = at.get(row.attempt, 0.0) + row.wall
        out[row.suite, row.step] = at[row.attempt]
    return out


def _step_values(row: StepRow, timing: TimingRow | None) -> dict[str, float]:
    values: dict[str, Any] = {f"train/{name}": stat_value(stat) for name, stat in row.stats.items()}
    values |= {"train/samples": row.samples, "train/tokens": row.tokens, "train/dropped": row.dropped}
    if timing is not None:
        values |= {f"seconds/{phase}": seconds for phase, seconds in timing.seconds.items()}
        values |= {"seconds/step": timing.wall}
        for name in ("rss_peak", "allocated_peak", "reserved_peak"):
            peaks = getattr(timing, name)
            values |= {f"memory/{name}": max(peaks.values())} if peaks else {}
    return _finite(values)


def _eval_values(suite: str, rows: Sequence[EvalRow], primary: str, timing: TimingRow | None) -> dict[str, float]:
    """Return an evaluation's means; `primary` is "<suite>:<metric>"."""
    values: dict[str, Any] = {ACCURACY: rate(rows)}
    of, _, metric = primary.partition(":")
    if of == suite and metric != ACCURACY:
        values[metric.replace("@", "_at_")] = _mean(list(by_problem(rows, graded(rows), metric).values()))
    values["tokens"] = _mean([row.tokens for row in rows])
    values["truncated"] = _mean([row.truncated for row in rows])
    values["reward"], values["kl"] = _mean([row.reward for row in rows]), _mean([row.kl for row in rows])
    if timing is not None:
        values["seconds"] = timing.wall
    return {f"eval/{suite}/{name}": value for name, value in _finite(values).items()}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _finite(values: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items() if value is not None and math.isfinite(value)}
