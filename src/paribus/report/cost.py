"""What the runs took: seconds, money, and what accuracy they bought."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from paribus.report.blocks import Block, Drawing, Figure, Prose, Table
from paribus.report.figures import Reached, draw_phases, draw_points, phases_data, points_data
from paribus.report.message import Joined, Message, Text, msg
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
from paribus.report.text import DASH, duration, listing, number, percent, ratio, span
from paribus.stats import Interval, log_ratio
from paribus.store import PHASES, StoredExperiment, StoredRun

Runs = Mapping[str, Mapping[int, StoredRun]]  # arm -> seed -> run
Measure = Callable[[StoredRun], float]
PHASE_NAMES: dict[str, Text] = {
    "rollout": msg("rollout"),
    "grade": msg("grading"),
    "old_logp": msg("old log-probs"),
    "ref_logp": msg("reference log-probs"),
    "values": msg("values"),
    "policy_update": msg("policy update"),
    "critic_update": msg("critic update"),
    "save": msg("saving"),
    "eval": msg("evaluation"),
    "other": msg("other"),
}


def timed(exp: StoredExperiment) -> dict[str, Mapping[int, StoredRun]]:
    """Return the arms that have finished runs, with these."""
    return {arm: found for arm, found in finished(exp).items() if found}


def cost(exp: StoredExperiment, s: Scores, price: float) -> list[Block]:
    """Return the split by phase, the totals per run, their ratios between arms, and what accuracy they bought."""
    runs = timed(exp)
    if not runs:
        return [Prose(msg("No finished run."), "note")]
    plan = schedule(runs)
    notes = msg(
        "Training: all recorded time that counts in the result, evaluations left out; one device a run. Tokens/s: "
        "sampled (response) tokens of a step over the whole step's seconds, the median over steps; prompt tokens are "
        "not counted. Ratios: geometric mean over the seeds that both arms finished, with the 95 % t interval of the "
        "log ratio."
    )
    return [
        *_drawn_phases(runs),
        totals(exp, price),
        *_fairness(plan),
        Prose(notes, "note"),
        _phases(runs),
        *_bought(exp, s, price),
    ]


def cost_sentences(exp: StoredExperiment) -> list[Message]:
    """Return what may be said of the wall-clock of arms: nothing where their runs were not timed fairly."""
    runs = timed(exp)
    plan = schedule(runs)
    out = []
    for arm, first in references(list(runs), exp.info.cells):
        found = cost_ratio(runs, arm, first, training_seconds, plan)
        if found is None:
            continue
        if found.n == 1:
            text = msg("Training {arm} took ×{ratio} of the wall-clock of {first}, from one run of each.",
                       arm=arm, first=first, ratio=f"{found.estimate:.2f}")  # fmt: skip
        else:
            text = msg(
                "Training {arm} took ×{ratio} of the wall-clock of {first} (95 % interval {interval}, {pairs}).",
                arm=arm,
                first=first,
                ratio=f"{found.estimate:.2f}",
                interval=span(f"{found.low:.2f}", f"{found.high:.2f}"),
                pairs=msg("{n} pairs of runs", n=found.n),
            )
        out.append(text)
    return out


def cost_ratio(runs: Runs, arm: str, reference: str, measure: Measure, plan: Schedule) -> Interval | None:
    """Return an arm's ratio to another over the seeds that both finished; None where there is none or it is unfair."""
    common = [seed for seed in runs[arm] if seed in runs[reference]]
    above, below = ([measure(runs[name][seed]) for seed in common] for name in (arm, reference))
    if not plan.comparable or not common or min(above + below) <= 0:
        return None
    return log_ratio(above, below)


def totals(exp: StoredExperiment, price: float) -> Table:
    """Return what a run of each arm took, mean over seeds, and the ratios between arms."""
    runs = timed(exp)
    plan, arms = schedule(runs), list(runs)
    against = references(arms, exp.info.cells)

    def row(label: Text, measure: Measure, show: Callable[[float], str], *, ratios: bool = False) -> list[Text]:
        means = [show(mean_over_seeds(runs[arm], measure)) if recorded(runs[arm]) else DASH for arm in arms]
        found = [cost_ratio(runs, arm, first, measure, plan) if ratios else None for arm, first in against]
        return [label, *means, *(ratio(x) if x else DASH if ratios else "" for x in found)]

    def hours(run: StoredRun) -> float:
        return training_seconds(run) / 3600

    def dollars(run: StoredRun) -> float:
        return hours(run) * price

    at_price = msg("price at {price} a device-hour", price=f"${price:.2f}")
    rows = [
        row(msg("training, wall-clock"), training_seconds, duration, ratios=True),
        row(msg("training, device-hours"), hours, lambda x: number(x, 3)),
        row(at_price, dollars, lambda x: f"${number(x, 3)}"),
        row(msg("median tokens/s"), median_rate, lambda x: number(x, 0) if x else DASH, ratios=True),
        row(msg("evaluation, wall-clock"), evaluation_seconds, duration),
        row(msg("work lost to restarts"), lambda run: run.lost_seconds, duration),
    ]
    relative = [msg("{arm} relative to {first}", arm=arm, first=first) for arm, first in against]
    return Table([msg("mean over seeds"), *arms, *relative], rows, name="cost")


def recorded(runs: Mapping[int, StoredRun]) -> bool:
    """Say whether any seconds of these runs were recorded; runs that another trainer made have none."""
    return any(run.timing for run in runs.values())


def median_rate(run: StoredRun) -> float:
    rates = token_rates(run)
    return float(np.median(rates)) if rates else 0.0


def evaluation_seconds(run: StoredRun) -> float:
    return phase_seconds(run).get("eval", 0.0)


def mean_over_seeds(runs: Mapping[int, StoredRun], measure: Measure) -> float:
    return sum(measure(run) for run in runs.values()) / len(runs)


def _fairness(plan: Schedule) -> list[Block]:
    faults: list[Text] = []
    if not plan.exclusive:
        faults.append(msg("runs overlapped in time, so they slowed each other down"))
    if not plan.alike:
        faults.append(msg("runs had different machines or thread counts, or unlike numbers of runs worked at a time"))
    if faults:
        return [Prose(msg("No cost ratios: {faults}.", faults=listing(faults)), "warning")]
    if not plan.interleaved:
        text = msg(
            "The arms did not take turns seed by seed, so a drift of the machine's speed may favour one of them."
        )
        return [Prose(text, "warning")]
    if plan.at_once > 1:
        text = msg(
            "{n} runs worked at a time, on cores of their own but sharing memory; the arms took turns, seed by seed.",
            n=plan.at_once,
        )
        return [Prose(text, "note")]
    return [Prose(msg("Runs had the machine to themselves and the arms took turns, seed by seed."), "note")]


def phase_means(runs: Mapping[int, StoredRun]) -> dict[str, float]:
    """Return the mean seconds of each phase over seeds, evaluations left out, in the order of a step."""
    splits = [phase_seconds(run) for run in runs.values()]
    means = {p: sum(split.get(p, 0.0) for split in splits) / len(splits) for p in PHASES if p != "eval"}
    return {p: seconds for p, seconds in means.items() if seconds}


def _drawn_phases(runs: Runs) -> list[Block]:
    split = {arm: phase_means(found) for arm, found in runs.items()}
    if not any(split.values()):
        return []
    drawing = Drawing("", draw_phases(split, PHASE_NAMES), phases_data(split, PHASE_NAMES, "phases"))
    return [Figure("phases", msg("Training seconds by phase"), [drawing], wide=True)]


def _phases(runs: Runs) -> Table:
    means = {arm: phase_means(found) for arm, found in runs.items()}
    totals = {arm: sum(split.values()) for arm, split in means.items()}
    rows: list[list[Text]] = []
    for phase in PHASES:
        if any(phase in split for split in means.values()):
            cells: list[Text] = []
            for arm, split in means.items():
                seconds = split.get(phase)
                cells += [DASH, ""] if seconds is None else [duration(seconds), percent(seconds / totals[arm], 1)]
            rows.append([PHASE_NAMES[phase], *cells])
    rows.append([msg("all"), *(cell for total in totals.values() for cell in (duration(total) if total else DASH, ""))])
    columns: list[Text] = [msg("phase"), *(c for arm in runs for c in (arm, msg("share")))]
    return Table(columns, rows, caption=msg("Training time by phase, a run"), name="phases")


def _bought(exp: StoredExperiment, s: Scores, price: float) -> list[Block]:
    """Return accuracy against what training cost, where the runs were timed fairly."""
    runs = timed(exp)
    if not schedule(runs).comparable or not price:
        return []
    points = [Reached(msg("base"), 0.0, 100 * float(s.base.mean()), [])] if s.base is not None and s.base.size else []
    for arm, found in runs.items():
        if s.table[arm].size:
            paid = [training_seconds(found[seed]) / 3600 * price for seed in s.seeds[arm]]
            scored = (100 * s.table[arm].mean(1)).tolist()
            mean = 100 * float(s.table[arm].mean())
            points.append(Reached(arm, sum(paid) / len(paid), mean, list(zip(paid, scored, strict=True))))
    x = msg("US dollars of training a run, {price} a device-hour", price=f"${price:.2f}")
    y = msg("{metric} on {suite}, %", metric=s.metric, suite=s.suite)
    drawing = Drawing("", draw_points(points, exp.info.arms, x, y), points_data(points, x, y, "accuracy-per-dollar"))
    title = Joined([msg("What the training bought"), msg("rings are runs")], "; ")
    return [Figure("accuracy-per-dollar", title, [drawing], wide=True)]
