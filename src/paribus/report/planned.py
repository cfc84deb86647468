"""What was planned before the runs against what they turned out to need and to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paribus.report.blocks import Block, Prose, Table
from paribus.report.cost import PHASE_NAMES, timed
from paribus.report.memory import KINDS, peaks_of
from paribus.report.message import Joined, Text, msg
from paribus.report.results import Scores, training_seconds
from paribus.report.text import DASH, duration, gigabytes, number, percent, span
from paribus.stats import detectable, spread
from paribus.store import PHASES, StoredExperiment, StoredRun
from paribus.store.plan import ArmPlan, PlanInfo

RSS, ALLOCATED, _ = KINDS


def planned(exp: StoredExperiment, s: Scores, plan: PlanInfo | None, price: float) -> list[Block]:
    """Return the section; nothing where no plan was stored, or no run has finished."""
    runs = timed(exp)
    if plan is None or not runs:
        return []
    arms = [arm for arm in plan.arms if arm.arm in runs]
    text = msg(
        "Memory: the most at once above the idle process (its imports, no model), or of the device's allocator; "
        "planned at full lengths, so an upper bound where responses are shorter. Tokens: planned at most. Time and "
        "money: from a pilot of timed steps, with 95 % intervals, where there was one."
    )
    rows = [row for arm in arms for row in _arm(arm, plan.device, runs[arm.arm], price)]
    columns = [msg("arm"), msg("quantity"), msg("planned"), msg("measured"), msg("measured against planned")]
    return [
        Table(columns, rows, labels=2, name="planned"),
        Prose(text, "note"),
        *_phases(arms, plan.device, runs),
        *_components(arms),
        *_shown(plan, s),
    ]


def _arm(arm: ArmPlan, device: str, runs: Mapping[int, StoredRun], price: float) -> list[list[Text]]:
    """Return an arm's rows: memory, tokens, time and money, each where it was planned."""
    tokens = _mean([run.steps[-1].tokens for run in runs.values() if run.steps])
    seconds = _mean([training_seconds(run) for run in runs.values()])
    paid = None if seconds is None else seconds / 3600 * price
    bounds = None if arm.seconds_low is None or arm.seconds_high is None else (arm.seconds_low, arm.seconds_high)
    expected: Text = DASH if arm.seconds is None else duration(arm.seconds)
    if bounds is not None:
        expected = Joined([expected, span(*map(duration, bounds))], ", ")
    peak = max(above_idle(runs, device).values(), default=None)
    at = PHASE_NAMES[arm.peak_phase] if arm.peak_phase else msg("whole run")
    found: list[tuple[Text, Text, float | None, Text, float | None]] = [
        (msg("peak of memory, {phase}", phase=at), gigabytes(arm.peak), arm.peak, gigabytes(peak), peak),
        (msg("tokens of a run"), number(arm.tokens, 0), arm.tokens, number(tokens, 0), tokens),
        (msg("training of a run"), expected, arm.seconds, duration(seconds or 0.0), seconds),
        (msg("money for a run"), _dollars(arm.dollars), arm.dollars, _dollars(paid), paid),
    ]
    rows = [
        [what, plan, measured if real is not None else DASH, _error(real, aim)]
        for what, plan, aim, measured, real in found
        if aim is not None
    ]
    return [["" if i else arm.arm, *row] for i, row in enumerate(rows)]


def above_idle(runs: Mapping[int, StoredRun], device: str) -> dict[str, int]:
    """Return the peak of each phase over an arm's runs: of the allocator on a device, else above the idle process.

    Empty on a CPU where no run has stored how large its process was before any model.
    """
    if device != "cpu":
        return peaks_of(runs, ALLOCATED[1])
    out: dict[str, int] = {}
    for seed, run in runs.items():
        idle = [a.idle_rss for a in run.info.attempts if a.idle_rss is not None]
        if len(idle) == len(run.info.attempts):
            for phase, size in peaks_of({seed: run}, RSS[1]).items():
                out[phase] = max(out.get(phase, 0), size - min(idle))
    return out


def _phases(arms: Sequence[ArmPlan], device: str, runs: Mapping[str, Mapping[int, StoredRun]]) -> list[Block]:
    """Return the peaks phase by phase, planned and measured side by side."""
    measured = {arm.arm: above_idle(runs[arm.arm], device) for arm in arms}
    phases = [p for p in PHASES if any(p in arm.phases for arm in arms)]
    if not phases:
        return []
    rows: list[list[Text]] = [
        [
            PHASE_NAMES[phase],
            *(
                cell
                for arm in arms
                for cell in (gigabytes(arm.phases.get(phase)), gigabytes(measured[arm.arm].get(phase)))
            ),
        ]
        for phase in phases
    ]
    heads = [head for arm in arms for head in (msg("{arm}, planned", arm=arm.arm), msg("{arm}, measured", arm=arm.arm))]
    return [Table([msg("phase"), *heads], rows, msg("Peaks of memory by phase"), name="planned-phases")]


def _components(arms: Sequence[ArmPlan]) -> list[Block]:
    """Return what the plan says that each component holds: at most, and at the fullest moment."""
    names = list(dict.fromkeys(name for arm in arms for name in arm.memory))
    if not names:
        return []
    rows: list[list[Text]] = [
        [name, *(c for arm in arms for c in (gigabytes(arm.memory.get(name)), gigabytes(arm.at_peak.get(name))))]
        for name in names
    ]
    total = [c for arm in arms for c in ("", gigabytes(sum(arm.at_peak.values())))]
    rows.append([msg("all"), *total])
    heads = [head for arm in arms for head in (msg("{arm}, at most", arm=arm.arm), msg("at its peak"))]
    caption = msg("Memory by component, as planned")
    return [Table([msg("component"), *heads], rows, caption, name="planned-memory")]


def _shown(plan: PlanInfo, s: Scores) -> list[Block]:
    """Return what the experiment was planned to be able to show, against what its own noise allows."""
    tables = {arm: table for arm, table in s.table.items() if min(table.shape) >= 2}
    real = spread(tables) if tables else None
    least = detectable(real, min(map(len, tables.values())), len(s.problems)) if real else None
    aim = plan.power[0].detectable if plan.power else None
    pairs: list[tuple[Text, float | None, float | None]] = [
        (msg("s.d. between training seeds"), plan.spread.seed, real.seed if real else None),
        (msg("s.d. between problems, of a difference"), plan.spread.item, real.item if real else None),
        (msg("s.d. of one run on one problem"), plan.spread.residual, real.residual if real else None),
        (msg("smallest difference found in 80 % of repeats"), aim, least),
    ]
    rows: list[list[Text]] = [[what, _points(a), _points(b)] for what, a, b in pairs]
    columns = [msg("in points"), msg("planned"), msg("measured")]
    text = msg(
        "Planned for {seeds} seeds; the spread was taken from: {source}. The planned difference counts Holm's "
        "correction over the pairs, the measured one is that of one pair.",
        seeds=plan.seeds,
        source=plan.spread.source,
    )
    return [Table(columns, rows, msg("What could be shown"), name="planned-power"), Prose(text, "note")]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _points(share: float | None) -> str:
    return number(None if share is None else 100 * share)


def _dollars(amount: float | None) -> str:
    return DASH if amount is None else f"${number(amount, 3)}"


def _error(measured: float | None, plan: float | None) -> str:
    if measured is None or not plan:
        return DASH
    change = percent(measured / plan - 1, 1)
    return change if change.startswith("−") else f"+{change}"
