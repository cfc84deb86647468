"""The report in a few lines for a terminal: accuracy and cost of every arm, and the verdict."""

from __future__ import annotations

from pathlib import Path

from paribus.report.blocks import Table
from paribus.report.cost import cost
from paribus.report.results import scores, suites
from paribus.report.text import percent, points
from paribus.report.verdict import verdict
from paribus.store import read_experiment


def summary(experiment_dir: str | Path) -> list[str]:
    """Return the lines; the same numbers stand in the report."""
    exp = read_experiment(experiment_dir)
    s = scores(exp, suites(exp)[0])
    arms = [arm for arm in exp.info.arms if s.table[arm].size]
    mean = {arm: float(s.table[arm].mean()) for arm in arms}
    rows = [[f"{s.suite} accuracy, mean of seeds", *(percent(mean[arm]) for arm in arms)]]
    if s.base is not None:
        base = float(s.base.mean())
        rows.append([f"gain over base ({percent(base)}), points", *(points(mean[arm] - base) for arm in arms)])
    head = ["", *arms]
    totals = next((block for block in cost(exp, exp.info.price_per_hour) if isinstance(block, Table)), None)
    if totals is not None:
        head = ["", *totals.columns[1:]]
        rows += [list(row) for row in totals.rows]
    rows = [row + [""] * (len(head) - len(row)) for row in [head, *rows]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [*lines, "", *verdict(exp.info, s)]
