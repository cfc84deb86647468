"""Timing before the runs: a few steps of every arm at the real shapes, by the real worker."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from paribus.algorithms import PolicyGradient
from paribus.experiment import Experiment, Setting, run_config
from paribus.part import dump, replace
from paribus.pipeline.compare import run_experiment
from paribus.store import (
    Attempt,
    ExperimentPaths,
    Phase,
    StepRow,
    StoredExperiment,
    StoredRun,
    TimingRow,
    read_experiment,
    stat_value,
    status,
    value_hash,
)
from paribus.store.files import remove_folder

PILOT = "_pilot"  # folder of an experiment's pilots
WARM_UP = (
    2  # first steps of a run that do not count: in stored runs the second still took 2 to 8 % longer than later ones
)
COUNTED = 2  # steps that do
ROUNDS = 2  # seeds: with two, the arms take turns in both orders, and a drift of the machine falls on all alike
LENGTH_PHASES: tuple[Phase, ...] = ("rollout", "old_logp", "ref_logp", "values", "policy_update", "critic_update")


class ArmTimes(NamedTuple):
    """What the pilot measured of an arm, in seconds; one entry for each counted step of each of its runs."""

    first: float  # mean of the runs' first steps
    steps: tuple[float, ...]
    scaling: float  # mean seconds of a step that grow with the responses' length
    policy_update: float  # mean seconds of a step: none while a critic warms up alone
    rollouts: tuple[float, ...]  # of each counted step
    save: float
    evals: dict[str, float]  # suite -> seconds of one evaluation of all its problems
    tokens: float  # sampled in a step
    samples: float  # sampled in a step, refills and probes included
    fill: float  # mean response length, as a share of the limit
    peaks: tuple[int, ...]  # bytes, the highest of each run: reserved by the device's allocator, or of the process
    device_bytes: int | None
    upper_clip: tuple[float, ...]  # share of tokens cut at the upper clip, of each counted step; none without a clip
    entropy_fall: tuple[float, ...]  # relative, from each step of a run to the next


class Times(NamedTuple):
    """What the pilot measured of an experiment, in seconds."""

    arms: dict[str, ArmTimes]
    base: float  # evaluating the untrained model on all suites
    around: float  # of each run, outside its recorded rows


def pilot(exp: Experiment, runs: Path | str, steps: int = COUNTED) -> Times:
    """Run the pilot of an experiment, or what is left of it, and return what it measured.

    It lies in `runs/<experiment>/_pilot/`, in a folder for each configuration; a stopped one goes on where it was. Its
    weights are thrown away when they have served. Raises what `run_experiment` raises.
    """
    short = shortened(exp, steps)
    paths = run_experiment(short, Path(runs) / exp.name / PILOT)
    stored = read_experiment(paths.root)
    for found in stored.runs.values():
        for run in found.values():
            for folder in (run.paths.final, run.paths.checkpoints):
                if folder.exists():
                    remove_folder(folder)
    return times(stored, exp)


def earlier(exp: Experiment, runs: Path | str, steps: int = COUNTED) -> Times | None:
    """Return what a finished pilot of this very configuration measured; None where there is none."""
    short = shortened(exp, steps)
    paths = ExperimentPaths(Path(runs) / exp.name / PILOT / short.name)
    wanted = [paths.base, *(paths.run(arm, seed) for arm in short.arms for seed in short.seeds)]
    done = all(status(run) == "done" for run in wanted)
    return times(read_experiment(paths.root), exp) if done else None


def shortened(exp: Experiment, steps: int = COUNTED) -> Experiment:
    """Return the experiment that the pilot runs: few steps, two seeds, and evaluations of one full batch.

    A critic's warm-up is left out, so that whole steps are timed; `predict` puts it back.
    """
    per_batch = exp.setting.machine.decode_rows
    suites = {
        name: replace(spec, every=None, limit=min(spec.limit or per_batch, max(1, per_batch // spec.samples)))
        for name, spec in exp.setting.eval.items()
    }
    arms = {
        name: replace(arm, **{"algorithm.critic.warmup": 0}) if critic_warm_up(exp, name) else arm
        for name, arm in exp.arms.items()
    }
    total = WARM_UP + steps
    changes = {"budget": {"steps": total}, "save.every": total, "eval": suites, "machine.parallel": 1}
    setting = replace(exp.setting, **changes)
    short = replace(exp, arms=arms, seeds=exp.seeds[:ROUNDS], setting=setting, factors={}, tune=None)
    identity = [run_config(short, arm) for arm in short.arms] + [dump(short.setting.machine)]
    return replace(short, name=f"steps-{value_hash(identity)[:8]}")


def critic_warm_up(exp: Experiment, arm: str) -> int:
    """Steps in which only the critic of an arm learns."""
    algorithm = exp.arms[arm].algorithm
    return algorithm.critic.warmup if isinstance(algorithm, PolicyGradient) and algorithm.critic is not None else 0


def times(stored: StoredExperiment, exp: Experiment) -> Times:
    """Read a finished pilot; `exp` is the experiment as it is meant, with all its problems."""
    every = [
        *([stored.base] if stored.base else []),
        *(run for found in stored.runs.values() for run in found.values()),
    ]
    counts = {name: len(spec.problems(exp.setting.task)) for name, spec in exp.setting.eval.items()}
    arms = {
        arm: _arm_times(list(found.values()), counts, exp.arms[arm].setting(exp.setting))
        for arm, found in stored.runs.items()
    }
    assert stored.base is not None, "run_experiment evaluates the base first"
    base = _evaluations([stored.base], counts)
    return Times(arms, sum(base.values()), _around(every))


def _arm_times(runs: Sequence[StoredRun], counts: dict[str, int], setting: Setting) -> ArmTimes:
    rows = [row for run in runs for row in run.timing if row.suite is None and row.step > WARM_UP]
    firsts = [_plain(row) for run in runs for row in run.timing if row.suite is None and row.step == 1]
    lengths = [s.stats["response_tokens"] for run in runs for s in run.steps if "response_tokens" in s.stats]
    responses = sum(x["count"] or 0 for x in lengths)
    mean_length = sum(x["sum"] or 0 for x in lengths) / responses if responses else math.nan
    return ArmTimes(
        first=statistics.fmean(firsts),
        steps=tuple(_plain(row) for row in rows),
        scaling=statistics.fmean(sum(row.seconds.get(p, 0.0) for p in LENGTH_PHASES) for row in rows),
        policy_update=statistics.fmean(row.seconds.get("policy_update", 0.0) for row in rows),
        rollouts=tuple(row.seconds.get("rollout", 0.0) for row in rows),
        save=sum(row.seconds.get("save", 0.0) for run in runs for row in run.timing) / len(runs),
        evals=_evaluations(runs, counts),
        tokens=statistics.fmean(run.steps[-1].tokens / run.steps[-1].step for run in runs),
        samples=statistics.fmean(run.steps[-1].samples / run.steps[-1].step for run in runs),
        fill=mean_length / setting.rollout.max_response,
        peaks=tuple(_peak(run) for run in runs),
        device_bytes=runs[0].info.attempts[-1].device_bytes,
        upper_clip=tuple(x for run in runs for s in run.steps[WARM_UP:] if (x := _stat(s, "clip_high")) is not None),
        entropy_fall=tuple(x for run in runs for x in _falls(run)),
    )


def _stat(step: StepRow, name: str) -> float | None:
    return stat_value(step.stats[name]) if name in step.stats else None


def _falls(run: StoredRun) -> list[float]:
    found = [x for step in run.steps if (x := _stat(step, "entropy"))]
    return [1 - after / before for before, after in pairwise(found)]


def _plain(row: TimingRow) -> float:
    """Seconds of a step without the checkpoint that may have been written in it."""
    return row.wall - row.seconds.get("save", 0.0)


def _peak(run: StoredRun) -> int:
    reserved = [size for row in run.timing for size in row.reserved_peak.values()]
    return max(reserved or [size for row in run.timing for size in row.rss_peak.values()])


def _evaluations(runs: Sequence[StoredRun], counts: dict[str, int]) -> dict[str, float]:
    """Mean seconds of each suite's evaluation, scaled from the problems that were asked to all of them."""
    out = {}
    for suite, count in counts.items():
        seconds = [
            row.seconds.get("eval", 0.0) * count / len({answer.problem_id for answer in run.eval(suite)})
            for run in runs
            for row in run.timing
            if row.suite == suite
        ]
        out[suite] = statistics.fmean(seconds)
    return out


def _around(runs: Sequence[StoredRun]) -> float:
    """Median seconds between the last row of a run and the first of the next, and within a run outside its rows.

    Only gaps after a finished run count: behind an interrupted one, somebody may have slept.
    """
    spans: list[tuple[Attempt, bool]] = []
    inside = []
    for run in runs:
        attempts = run.info.attempts
        spans += [(a, a is attempts[-1]) for a in attempts]
        if len(attempts) == 1 and attempts[0].ended is not None:
            inside.append((_at(attempts[0].ended) - _at(attempts[0].started)) - sum(row.wall for row in run.timing))
    spans.sort(key=lambda item: item[0].started)
    gaps = [
        _at(after.started) - _at(before.ended)
        for (before, last), (after, _) in pairwise(spans)
        if last and before.ended is not None
    ]
    return statistics.median(gaps) + (statistics.median(inside) if inside else 0.0)


def _at(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
