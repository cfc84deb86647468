"""The plan as text for a terminal: the arms' diff, memory, what can be shown, and the fairness check."""

from __future__ import annotations

from paribus.experiment import Experiment
from paribus.planning import theory
from paribus.planning.plan import checkpoint_detectable
from paribus.planning.text import table, text
from paribus.store import PHASES, ArmPlan, PlanInfo
from paribus.store.plan import PowerRow

SEVEN_B = 7e9  # parameters of the theoretical table
MOST_COLUMNS = 5  # arms side by side
COLUMNS = ("policy", "critic", "reference", "reward model", "activations", "logits", "KV cache")  # by first words


def screen(exp: Experiment, plan: PlanInfo) -> str:
    """Return everything that `paribus plan` prints."""
    return "\n".join([text(exp), "", *memory_lines(plan), "", *power_lines(exp, plan), "", *fairness_lines(plan)])


def memory_lines(plan: PlanInfo) -> list[str]:
    """Return memory by component and by phase, in GB = 10^9 bytes, one column an arm."""
    if any(arm.peak is None for arm in plan.arms):
        return [f"Memory: not planned. {plan.model}"]
    arms = plan.arms
    where = "an NVIDIA GPU" if plan.device == "cuda" else "a CPU, beside the idle process"
    head = [
        f"Memory of one run in GB = 10^9 bytes, on {where}, every response at its limit",
        f"shape: {plan.model}",
    ]
    if len(arms) > MOST_COLUMNS:
        return [*head, *_by_arm(arms)]
    parts = dict.fromkeys(name for arm in arms for name in arm.memory)
    components = [[name, *(_gb(arm.memory.get(name)) for arm in arms)] for name in parts]
    phases = [
        [phase, *(_gb(arm.phases.get(phase)) for arm in arms)]
        for phase in PHASES
        if any(phase in arm.phases for arm in arms)
    ]
    peak = [["peak", *(_gb(arm.peak) for arm in arms)], ["  in phase", *(str(arm.peak_phase) for arm in arms)]]
    return [
        *head,
        *table(["the most that each component holds", *(arm.arm for arm in arms)], components),
        "",
        *table(["the most that each phase holds", *(arm.arm for arm in arms)], [*phases, *peak]),
        *_savings(arms),
    ]


def _by_arm(arms: tuple[ArmPlan, ...]) -> list[str]:
    """Return one line an arm: what its peak is made of."""
    rows = []
    for arm in arms:
        parts = [sum(size for name, size in arm.at_peak.items() if name.startswith(first)) for first in COLUMNS]
        rows.append([arm.arm, *map(_gb, parts), _gb(arm.peak), str(arm.peak_phase)])
    return table(["at the peak", *COLUMNS, "peak", "in phase"], rows)


def _savings(arms: tuple[ArmPlan, ...]) -> list[str]:
    """Say how much less than the first arm's each other arm's peak is: one number per reading would mislead."""
    first = arms[0]
    lines = []
    for arm in arms[1:]:
        if first.peak and arm.peak and arm.peak != first.peak:
            share = 100 * (1 - arm.peak / first.peak)
            less = f"{abs(share):.0f} % {'less' if share > 0 else 'more'}"
            lines.append(f"{arm.arm} peaks at {less} than {first.arm} (`--memory-theory` explains 25, 33 and 44-47 %).")
    return lines


def _gb(size: int | None) -> str:
    return "—" if size is None else f"{size / 1e9:.3f}"


def power_lines(exp: Experiment, plan: PlanInfo) -> list[str]:
    """Return what the experiment can show at the assumed spread, and at others."""
    if plan.problems is None or not plan.power:
        return ["What it can show: unknown, since the data of the primary suite is not at hand to be counted."]
    size = f"{plan.seeds} seed{'s' * (plan.seeds > 1)} x {plan.problems:,} problems"
    head = f"What it can show: {size}, {plan.pairs} comparison{'s' * (plan.pairs > 1)}, 80 % power at 5 %"
    first, *others = plan.power
    lines = [head, f"spread of a run's true accuracy: {100 * first.seed:.2f} points ({plan.spread.source})"]
    if first.detectable is None:
        points = 100 * checkpoint_detectable(plan.problems)
        lines.append(f"One seed: nothing can be said of the methods; of two checkpoints, {points:.1f} points or more.")
    else:
        lines.append(f"Smallest difference found: {100 * first.detectable:.1f} points.")
    lines.append(_margin(plan, first))
    effects = list(first.seeds_for)
    header = ["spread", "found from", *(f"seeds for {e}" for e in effects), "equivalent within"]
    rows = [_power_row(row, effects) for row in (first, *others)]
    return [*lines, *table(header, rows), "All but seeds in points; — : no number of seeds below 1,000 does."]


def _margin(plan: PlanInfo, row: PowerRow) -> str:
    if plan.declared_margin is None:
        return "No margin is declared, so arms can't come out as equivalent: `margin = 2` at the top of the file."
    text = f"Equivalence within the declared {100 * plan.declared_margin:g} points"
    if row.equivalence is None:
        return f"{text} needs two seeds or more."
    seeds = "no number of seeds brings it to 80 %" if row.seeds_equivalent is None else f"{row.seeds_equivalent} seeds"
    return f"{text}: equal arms come out so in {100 * row.equivalence:.0f} % of repeats; for 80 %: {seeds}."


def _power_row(row: PowerRow, effects: list[str]) -> list[str]:
    def points(value: float | None) -> str:
        return "—" if value is None or value > 1 else f"{100 * value:.1f}"

    needed = [str(row.seeds_for[e]) if row.seeds_for[e] is not None else "—" for e in effects]
    return [f"{100 * row.seed:.2f}", points(row.detectable), *needed, points(row.margin)]


def fairness_lines(plan: PlanInfo) -> list[str]:
    """Return each condition of a fair comparison with yes, no or ?, and why."""
    words = {True: "yes", False: "NO", None: "?"}
    return [
        "Is it fair? Checked in the file, before any run",
        *table(["", "", ""], [[row.check, words[row.holds], row.reason] for row in plan.checks])[2:],
    ]


def theory_lines() -> list[str]:
    """Return the theoretical table of 7B models at 2 bytes, and what each reading of it says."""
    return [
        "Memory in theory, four models of 7B parameters in half precision (2 bytes); activations and caches left out",
        *table(theory.HEADER, theory.rows(SEVEN_B)),
        *theory.readings(SEVEN_B),
        "So `a third` counts weights alone, without a reward model on either side; with one it is a quarter. What",
        "training needs is gradients and optimizer too, and there a critic costs as much as the policy: 44 to 47 %.",
        "A sampling engine of its own holds one more copy of the policy's weights: 14 GB for either method.",
    ]
