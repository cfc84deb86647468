"""How far the runs of an experiment are, read from their files: at any moment, half-written lines dropped."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal

from paribus.report.curves import Read, explained_variance, stat
from paribus.report.panels import HEALTH
from paribus.report.text import number
from paribus.store import StepRow, StoredRun, TimingRow, read_experiment, stat_value

State = Literal["waiting", "running", "silent", "interrupted", "failed", "done"]
RECENT = 5  # steps over which speed and health are told
COLLAPSE = 0.1  # of the entropy that the run began with
SILENT = 120.0  # seconds without a row, and ten times what a step takes: the process is gone, or stuck
_SIGNS = {sign.name: sign for sign in HEALTH}


@dataclass(frozen=True, slots=True)
class RunProgress:
    """One run as it stands; None where there is nothing (yet) to tell."""

    label: str
    state: State
    step: int = 0
    total: int | None = None
    step_seconds: float | None = None  # median of the recent steps
    left: float | None = None  # seconds until its last step
    spent: float = 0.0  # recorded seconds
    reward: float | None = None
    kl: float | None = None
    entropy: float | None = None
    length: float | None = None
    truncated: float | None = None
    memory: int | None = None  # bytes: device allocator where there is one, else the process
    accuracy: float | None = None  # of the last evaluation
    alerts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """The whole experiment: its runs in the order in which they are done."""

    name: str
    suite: str
    runs: Sequence[RunProgress]
    left: float | None  # seconds until the last run's end, if runs go on one after another

    def count(self, *states: State) -> int:
        return sum(run.state in states for run in self.runs)

    @property
    def over(self) -> bool:
        return self.count("waiting", "running", "silent", "interrupted") == 0


@dataclass
class Reader:
    """Reads an experiment again and again; the rows of files that did not change are kept."""

    folder: Path
    _kept: dict[Path, tuple[object, RunProgress]] = field(default_factory=dict)

    def read(self, now: float | None = None) -> Progress:
        """Return the state at `now` (seconds since the epoch). Raises DataError if this is no experiment."""
        exp = read_experiment(self.folder)
        now = time.time() if now is None else now
        suite, setting = exp.info.primary.split(":")[0], exp.info.resolved.get("setting", {})
        runs = [self._run(exp.base, "base", suite, {}, now)] if exp.base else []
        for seed in exp.info.seeds:
            for arm in exp.info.arms:
                label, stored = f"{arm}/seed-{seed}", exp.runs[arm].get(seed)
                waiting = RunProgress(label, "waiting", total=_total(setting))
                runs.append(waiting if stored is None else self._run(stored, label, suite, setting, now))
        return Progress(exp.info.name, suite, runs, _left(runs))

    def _run(self, run: StoredRun, label: str, suite: str, setting: Mapping[str, Any], now: float) -> RunProgress:
        paths = run.paths
        files = [paths.run, paths.config, paths.steps, paths.timing, paths.done, paths.failed, paths.evals / suite]
        stamps = tuple((s.st_mtime_ns, s.st_size) for file in files if file.exists() for s in [file.stat()])
        last = max((mtime for mtime, _ in stamps), default=0) / 1e9
        kept = self._kept.get(paths.root)
        found = kept[1] if kept and kept[0] == stamps else run_progress(run, label, suite, setting)
        self._kept[paths.root] = (stamps, found)
        if found.state == "running" and now - last > max(SILENT, 10 * (found.step_seconds or 0.0)):
            return _replaced(found, now - last)
        return found


def _replaced(run: RunProgress, silence: float) -> RunProgress:
    minutes = silence / 60
    return replace(run, state="silent", alerts=[*run.alerts, f"no row for {minutes:.0f} min: stopped, or stuck?"])


def run_progress(run: StoredRun, label: str, suite: str, setting: Mapping[str, Any]) -> RunProgress:
    """Return how far one stored run is."""
    config = run.config.get("setting", setting) if run.paths.config.exists() else setting
    steps, timing = run.steps, [row for row in run.timing if row.suite is None]
    recent, total = timing[-RECENT:], _total(config)
    speed = median(row.wall for row in recent) if recent else None
    done = steps[-1].step if steps else 0
    state: State = run.status if run.status != "interrupted" else _unfinished(run)
    return RunProgress(
        label=label,
        state=state,
        step=done,
        total=total,
        step_seconds=speed,
        left=speed * (total - done) if speed is not None and total is not None and state != "done" else None,
        spent=sum(row.wall for row in run.all_timing),
        reward=_last(steps, "reward"),
        kl=_last(steps, "kl_k3"),
        entropy=_last(steps, "entropy"),
        length=_last(steps, "response_tokens"),
        truncated=_last(steps, "truncated"),
        memory=_memory(run.all_timing),
        accuracy=_accuracy(run, suite),
        alerts=[*([run.failure] if run.failure else []), *alerts(steps)],
    )


def _unfinished(run: StoredRun) -> State:
    """A run without an end is at work, unless it was stopped in good order."""
    return "interrupted" if run.info.status == "interrupted" else "running"


def _total(setting: Mapping[str, Any]) -> int | None:
    """Return the steps of a budget of steps or samples; None where tokens or seconds decide."""
    budget = setting.get("budget", {})
    if budget.get("samples"):
        rollout = setting["rollout"]
        return -(-int(budget["samples"]) // (rollout["prompts_per_step"] * rollout["samples_per_prompt"]))
    return budget.get("steps")


def _last(steps: Sequence[StepRow], name: str) -> float | None:
    return stat_value(steps[-1].stats[name]) if steps and name in steps[-1].stats else None


def _memory(timing: Sequence[TimingRow]) -> int | None:
    device = [size for row in timing for size in row.allocated_peak.values()]
    return max(device or [size for row in timing for size in row.rss_peak.values()], default=None)


def _accuracy(run: StoredRun, suite: str) -> float | None:
    if not run.eval_steps(suite):
        return None
    known = [row.score for row in run.eval(suite) if row.score is not None]
    return sum(known) / len(known) if known else None


def alerts(steps: Sequence[StepRow]) -> list[str]:
    """Return what is unhealthy in the recent steps (their mean), each with the threshold that it crossed."""
    recent = steps[-RECENT:]
    out = []
    uniform, cut, explained = (_mean(recent, read) for read in (stat("uniform_groups"), stat("truncated"),
                                                                explained_variance))  # fmt: skip
    if uniform is not None and not _SIGNS["uniform"].healthy(uniform):
        out.append(f"{100 * uniform:.0f} % of groups without variance (> {100 * (_SIGNS['uniform'].high or 0):.0f} %)")
    if cut is not None and not _SIGNS["truncated"].healthy(cut):
        out.append(f"{100 * cut:.0f} % of responses cut (> {100 * (_SIGNS['truncated'].high or 0):.0f} %)")
    if explained is not None and not _SIGNS["explained"].healthy(explained):
        out.append(f"explained variance of the critic {number(explained, 3)} (< {_SIGNS['explained'].low:g})")
    first, now = _mean(steps[:1], stat("entropy")), _mean(recent, stat("entropy"))
    if first and now is not None and now < COLLAPSE * first:
        out.append(f"entropy collapsed: {now:.3g} nats a token, began at {first:.3g} (< {100 * COLLAPSE:.0f} % of it)")
    skipped = sum(bool(stat("nonfinite")(row)) for row in steps)
    if skipped:
        out.append(f"{skipped} steps with a gradient that is not finite")
    blank = sorted({name for row in recent for name, found in row.stats.items() if _not_finite(found)})
    if blank:
        out.append(f"not a finite number: {', '.join(blank)}")
    return out


def _mean(rows: Sequence[StepRow], read: Read) -> float | None:
    known = [value for row in rows if (value := read(row)) is not None]
    return sum(known) / len(known) if known else None


def _not_finite(found: Mapping[str, float | None]) -> bool:
    """Rows hold null where a number was not finite."""
    return any(value is None for value in found.values())


def _left(runs: Sequence[RunProgress]) -> float | None:
    """Estimate the rest: a run yet to come takes as long as the finished ones of its arm, or of all."""
    took: dict[str, list[float]] = {}
    for run in runs:
        if run.state == "done" and run.label != "base":
            took.setdefault(run.label.split("/")[0], []).append(run.spent)
    every = [seconds for found in took.values() for seconds in found]
    every = every or [run.spent + run.left for run in runs if run.left is not None]
    total = 0.0
    for run in runs:
        if run.state in ("done", "failed"):
            continue
        known = took.get(run.label.split("/")[0]) or every
        expected = run.left if run.left is not None else sum(known) / len(known) if known else None
        if expected is None:
            return None
        total += expected
    return total
