"""What `paribus plan` prints: the arms, their differences, what each needs, and the budget."""

from __future__ import annotations

from typing import Any

from paribus.algorithms import Need
from paribus.experiment import Experiment, differences


def cell(value: Any) -> str:
    """Return a value as it stands in a table."""
    if value is None:
        return "—"
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(cell, value)) if isinstance(value, (list, tuple)) else str(value)


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    """Return aligned lines."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in [header, *rows]]
    return [lines[0].rstrip(), "  ".join("-" * w for w in widths), *(line.rstrip() for line in lines[1:])]


def text(exp: Experiment) -> str:
    """Return the plan of an experiment as text for a terminal."""
    rows = differences(exp)
    undeclared = [row.key for row in rows if not row.declared]
    lines = [f"{exp.name}: {exp.question}", f"primary: {exp.primary}   seeds: {', '.join(map(str, exp.seeds))}", ""]
    names = list(exp.arms)
    if rows:
        body = [[row.key, *map(cell, row.values), "yes" if row.declared else "NO"] for row in rows]
        lines += ["Differences between the arms", *table(["key", *names, "declared"], body)]
    else:
        lines += ["The arms do not differ."]
    lines += ["", "What each arm needs", *table(["", *names], _needs(exp)), ""]
    if undeclared:
        lines += [
            f"NOT CONTROLLED: undeclared differences in {', '.join(undeclared)}.",
            'Declare them (`differs = ["slot", ...]` at the top of the file) or make the arms equal in them.',
        ]
    else:
        lines += ["Controlled: every difference is declared."]
    return "\n".join(lines)


def _needs(exp: Experiment) -> list[list[str]]:
    columns = []
    for arm in exp.arms.values():
        setting, needs = arm.setting(exp.setting), arm.algorithm.needs
        steps = setting.total_steps
        per_step = setting.rollout.prompts_per_step * setting.rollout.samples_per_prompt
        columns.append(
            {
                "critic": "yes" if Need.VALUES in needs else "no",
                "reference": "yes" if Need.REFERENCE in needs else "no",
                "samples per step": str(per_step),
                "updates per step": str(setting.updates_per_rollout),
                "steps": str(steps) if steps else f"until {_budget(exp)}",
                "samples per run": f"{steps * per_step:,}" if steps else "—",
                "sampled tokens per run, at most": f"{steps * per_step * setting.rollout.max_response:,}"
                if steps
                else "—",
            }
        )
    return [[key, *(column[key] for column in columns)] for key in columns[0]]


def _budget(exp: Experiment) -> str:
    budget = exp.setting.budget
    return f"{budget.tokens:,} tokens" if budget.tokens else f"{budget.seconds:g} s"
