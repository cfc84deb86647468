"""What the runs took: seconds, money and memory, and what an answer costs afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from paribus.report.blocks import Block, Prose, Table
from paribus.report.results import (
    Schedule,
    Scores,
    finished,
    phase_seconds,
    references,
    schedule,
    token_rates,
    training_seconds,
)
from paribus.report.text import DASH, duration, gigabytes, listing, number, percent, ratio
from paribus.stats import log_ratio
from paribus.store import PHASES, EvalRow, Phase, StoredExperiment, StoredRun, TimingRow

Runs = Mapping[str, Mapping[int, StoredRun]]  # arm -> seed -> run
Measure = Callable[[StoredRun], float]
PHASE_NAMES = {
    "rollout": "rollout",
    "grade": "grading",
    "old_logp": "old log-probs",
    "ref_logp": "reference log-probs",
    "values": "values",
    "policy_update": "policy update",
    "critic_update": "critic update",
    "save": "saving",
    "eval": "evaluation",
    "other": "other",
}


def cost(exp: StoredExperiment, price: float) -> list[Block]:
    """Return the totals per run, their ratios between arms, and the split by phase."""
    runs = {arm: found for arm, found in finished(exp).items() if found}
    if not runs:
        return [Prose("No finished run.", "note")]
    plan, arms = schedule(runs), list(runs)
    against = references(arms, exp.info.cells)

    def row(label: str, measure: Measure, show: Callable[[float], str], *, ratios: bool = False) -> list[str]:
        means = [show(mean_over_seeds(runs[arm], measure)) for arm in arms]
        return [label, *means, *(_ratio(runs, arm, first, measure, plan, ratios) for arm, first in against)]

    def hours(run: StoredRun) -> float:
        return training_seconds(run) / 3600

    rows = [
        row("training, wall-clock", training_seconds, duration, ratios=True),
        row("training, device-hours", hours, lambda x: number(x, 3)),
        row(f"price at ${price:.2f} a device-hour", lambda run: hours(run) * price, lambda x: f"${number(x, 3)}"),
        row("median tokens/s", median_rate, lambda x: number(x, 0) if x else DASH, ratios=True),
        row("evaluation, wall-clock", evaluation_seconds, duration),
        row("work lost to restarts", lambda run: run.lost_seconds, duration),
    ]
    heads = [*arms, *(f"{arm} relative to {first}" for arm, first in against)]
    return [
        Table(["mean over seeds", *heads], rows),
        *_fairness(plan),
        Prose(
            "Training: all recorded time that counts in the result, evaluations left out; one device a run. Tokens/s: "
            "sampled (response) tokens of a step over the whole step's seconds, the median over steps; prompt tokens "
            "are not counted. Ratios: geometric mean over the seeds that both arms finished, with the 95 % t interval "
            "of the log ratio.",
            "note",
        ),
        _phases(runs),
    ]


def median_rate(run: StoredRun) -> float:
    return float(np.median(token_rates(run))) if run.steps else 0.0


def evaluation_seconds(run: StoredRun) -> float:
    return phase_seconds(run).get("eval", 0.0)


def mean_over_seeds(runs: Mapping[int, StoredRun], measure: Measure) -> float:
    return sum(measure(run) for run in runs.values()) / len(runs)


def _ratio(runs: Runs, arm: str, reference: str, measure: Measure, plan: Schedule, wanted: bool) -> str:
    common = [seed for seed in runs[arm] if seed in runs[reference]]
    above, below = ([measure(runs[name][seed]) for seed in common] for name in (arm, reference))
    if not wanted:
        return ""
    if not plan.comparable or not common or min(above + below) <= 0:
        return DASH
    return ratio(log_ratio(above, below))


def _fairness(plan: Schedule) -> list[Block]:
    faults = []
    if not plan.exclusive:
        faults.append("runs overlapped in time, so they slowed each other down")
    if not plan.alike:
        faults.append("runs had different machines or thread counts")
    if faults:
        return [Prose(f"No cost ratios: {listing(faults)}.", "warning")]
    if not plan.interleaved:
        text = "The arms did not take turns seed by seed, so a drift of the machine's speed may favour one of them."
        return [Prose(text, "warning")]
    return [Prose("Runs had the machine to themselves and the arms took turns, seed by seed.", "note")]


def phase_means(runs: Mapping[int, StoredRun]) -> dict[str, float]:
    """Return the mean seconds of each phase over seeds, evaluations left out, in the order of a step."""
    splits = [phase_seconds(run) for run in runs.values()]
    means = {p: sum(split.get(p, 0.0) for split in splits) / len(splits) for p in PHASES if p != "eval"}
    return {p: seconds for p, seconds in means.items() if seconds}


def _phases(runs: Runs) -> Table:
    means = {arm: phase_means(found) for arm, found in runs.items()}
    totals = {arm: sum(split.values()) for arm, split in means.items()}
    rows = []
    for phase in PHASES:
        if any(phase in split for split in means.values()):
            cells = []
            for arm, split in means.items():
                seconds = split.get(phase)
                cells += [DASH, ""] if seconds is None else [duration(seconds), percent(seconds / totals[arm], 1)]
            rows.append([PHASE_NAMES[phase], *cells])
    rows.append(["all", *(cell for total in totals.values() for cell in (duration(total), ""))])
    return Table(["phase", *(c for arm in runs for c in (arm, "share"))], rows, caption="Training time by phase, a run")


def memory(exp: StoredExperiment) -> list[Block]:
    """Return the peaks of memory by phase: the process, then the device's allocator where there is one."""
    runs = {arm: found for arm, found in finished(exp).items() if found}
    kinds: list[tuple[str, Callable[[TimingRow], Mapping[Phase, int]]]] = [
        ("process, resident (RSS)", lambda row: row.rss_peak),
        ("device allocator, allocated", lambda row: row.allocated_peak),
        ("device allocator, reserved", lambda row: row.reserved_peak),
    ]
    rows = []
    for label, read in kinds:
        peaks = {arm: _peaks(found, read) for arm, found in runs.items()}
        if any(peaks.values()):
            whole = [max(p.values(), default=None) for p in peaks.values()]
            rows.append([label, "whole run", *map(gigabytes, whole)])
            for phase in PHASES:
                if any(phase in p for p in peaks.values()):
                    rows.append(["", PHASE_NAMES[phase], *(gigabytes(p.get(phase)) for p in peaks.values())])
    if not rows:
        return [Prose("No memory was recorded.", "note")]
    text = (
        "Highest value of all steps and seeds while the phase ran. GB = 10^9 bytes (1 GiB = 1.074 GB). Memory that an "
        "earlier phase left allocated counts in the later ones."
    )
    return [Table(["peak", "phase", *runs], rows, labels=2), Prose(text, "note")]


def _peaks(runs: Mapping[int, StoredRun], read: Callable[[TimingRow], Mapping[Phase, int]]) -> dict[str, int]:
    out: dict[str, int] = {}
    for run in runs.values():
        for row in run.all_timing:
            for phase, size in read(row).items():
                out[phase] = max(out.get(phase, 0), size)
    return out


def inference(exp: StoredExperiment, s: Scores) -> list[Block]:
    """Return what the final evaluations say of length, speed and form of the answers."""
    models: list[tuple[str, list[tuple[StoredRun, Sequence[EvalRow]]]]] = []
    if exp.base is not None and s.base_rows:
        models.append(("base", [(exp.base, s.base_rows)]))
    done = finished(exp)
    models += [(arm, [(done[arm][seed], s.rows[arm, seed]) for seed in s.seeds[arm]]) for arm in exp.info.arms]
    rows = [[name, *_profile(s.suite, found)] for name, found in models if found]
    columns = [
        "model", "output tokens, mean", "of right answers", "of wrong ones", "tokens per right answer", "time",
        "tokens/s", "cut at the limit", "no answer found", "format kept", "right among finished",
    ]  # fmt: skip
    text = (
        "From the final evaluations, all seeds of an arm together; time is the mean of one evaluation, grading "
        "included. Right among finished leaves out responses cut at the length limit."
    )
    return [Table(columns, rows), Prose(text, "note")]


def _profile(suite: str, found: Sequence[tuple[StoredRun, Sequence[EvalRow]]]) -> list[str]:
    rows = [row for _, part in found for row in part]
    known = [row for row in rows if row.score is not None]
    right = [row for row in known if row.score == 1]
    wrong = [row for row in known if row.score != 1]
    ended = [row for row in known if not row.truncated]
    tokens = sum(row.tokens for row in rows)
    seconds = [_eval_seconds(run, suite) for run, _ in found]
    timed = [x for x in seconds if x is not None]
    full = len(timed) == len(found) and sum(timed) > 0
    return [
        number(_mean_tokens(rows), 1),
        number(_mean_tokens(right), 1),
        number(_mean_tokens(wrong), 1),
        number(tokens / len(right) if right else None, 1),
        duration(sum(timed) / len(timed)) if full else DASH,
        number(tokens / sum(timed), 0) if full else DASH,
        percent(_share(rows, lambda row: row.truncated), 1),
        percent(_share(rows, lambda row: row.status == "unparsable"), 1),
        percent(_share(rows, lambda row: row.format), 1),
        percent(_share(ended, lambda row: row.score == 1), 1),
    ]


def _eval_seconds(run: StoredRun, suite: str) -> float | None:
    """Return the seconds of the run's last evaluation of the suite."""
    last = max(run.eval_steps(suite))
    found = [row.seconds.get("eval", 0.0) for row in run.timing if (row.suite, row.step) == (suite, last)]
    return found[-1] if found else None


def _mean_tokens(rows: Sequence[EvalRow]) -> float | None:
    return sum(row.tokens for row in rows) / len(rows) if rows else None


def _share(rows: Sequence[EvalRow], test: Callable[[EvalRow], bool]) -> float | None:
    return sum(map(test, rows)) / len(rows) if rows else None
