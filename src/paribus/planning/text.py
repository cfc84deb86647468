"""What `paribus plan` prints: the arms, their differences, what each needs, and the budget."""

from __future__ import annotations

from typing import Any

from paribus.algorithms import Need
from paribus.experiment import Experiment, PlanRow, differences
from paribus.factors import changes_text
from paribus.report.text import aligned


def cell(value: Any) -> str:
    """Return a value as it stands in a table."""
    if value is None:
        return "—"
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(cell, value)) if isinstance(value, (list, tuple)) else str(value)


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    """Return aligned lines, a rule below the header."""
    rule = ["-" * max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return aligned([header, rule, *rows])


def text(exp: Experiment) -> str:
    """Return the plan of an experiment as text for a terminal."""
    rows = differences(exp)
    undeclared = [row.key for row in rows if not row.declared]
    lines = [f"{exp.name}: {exp.question}", f"primary: {exp.primary}   seeds: {', '.join(map(str, exp.seeds))}", ""]
    lines += _factorial(exp, rows) if exp.factors else _plain(exp, rows)
    if undeclared:
        lines += [
            f"NOT CONTROLLED: undeclared differences in {', '.join(undeclared)}.",
            'Declare them (`differs = ["slot", ...]` at the top of the file) or make the arms equal in them.',
        ]
    else:
        lines += ["Controlled: every difference is declared."]
    return "\n".join(lines)


def _plain(exp: Experiment, rows: list[PlanRow]) -> list[str]:
    needs = _needs(exp)
    by_key = [[key, *(column[key] for column in needs)] for key in needs[0]]
    return [*_differences(rows, list(exp.arms)), "", "What each arm needs", *table(["", *exp.arms], by_key), ""]


def _factorial(exp: Experiment, rows: list[PlanRow]) -> list[str]:
    """Levels, then the differences of the file's arms, then one line for each combination: arms may be many here."""
    levels = [
        [name, level, changes_text(changes)] for name, f in exp.factors.items() for level, changes in f.levels.items()
    ]
    lines = ["Factors, crossed with every arm", *table(["factor", "level", "changes"], levels), ""]
    first = {arm.of: i for i, arm in reversed(list(enumerate(exp.arms.values())))}
    owners = [arm.of for arm in exp.arms.values()]
    fixed = [row for row in rows if all(row.values[i] == row.values[first[of]] for i, of in enumerate(owners))]
    names = list(dict.fromkeys(owners))
    lines += _differences([row._replace(values=tuple(row.values[first[n]] for n in names)) for row in fixed], names)
    varied = [row for row in rows if row not in fixed]
    lines += ["", f"Differences between the levels: {', '.join(row.key for row in varied) or 'none'}"]
    needs = _needs(exp)
    body = [
        [name, arm.of, *arm.levels.values(), *column.values()]
        for (name, arm), column in zip(exp.arms.items(), needs, strict=True)
    ]
    return [*lines, "", "What each arm needs", *table(["arm", "of", *exp.factors, *needs[0]], body), ""]


def _differences(rows: list[PlanRow], names: list[str]) -> list[str]:
    if not rows:
        return ["The arms do not differ."]
    body = [[row.key, *map(cell, row.values), "yes" if row.declared else "NO"] for row in rows]
    return ["Differences between the arms", *table(["key", *names, "declared"], body)]


def _needs(exp: Experiment) -> list[dict[str, str]]:
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
    return columns


def _budget(exp: Experiment) -> str:
    budget = exp.setting.budget
    return f"{budget.tokens:,} tokens" if budget.tokens else f"{budget.seconds:g} s"
