"""The report in a few lines for a terminal: accuracy and cost of every arm, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from paribus.report.cost import timed, totals
from paribus.report.message import Text, msg, say
from paribus.report.results import primary
from paribus.report.text import aligned, percent, points
from paribus.report.verdict import judge, verdict
from paribus.store import read_experiment


def summary(experiment_dir: str | Path) -> list[str]:
    """Return the lines; the same numbers and the same verdict stand in the report."""
    exp = read_experiment(experiment_dir)
    s = primary(exp)
    arms = [arm for arm in exp.info.arms if s.table[arm].size]
    mean = {arm: float(s.table[arm].mean()) for arm in arms}
    measured = msg("{suite} {metric}, mean of seeds", suite=s.suite, metric=s.metric)
    head: Sequence[Text] = ["", *arms]
    rows: list[Sequence[Text]] = [[measured, *(percent(mean[arm]) for arm in arms)]]
    if s.base is not None and s.base.size:
        base = float(s.base.mean())
        over = msg("gain over base ({share}), points", share=percent(base))
        rows.append([over, *(points(mean[arm] - base) for arm in arms)])
    if timed(exp):
        cost = totals(exp, exp.info.price_per_hour)
        head = ["", *cost.columns[1:]]
        rows += cost.rows
    width = max(map(len, [head, *rows]))  # a gain has no ratio, so its row ends early
    cells = [[*map(say, row), *[""] * (width - len(row))] for row in [head, *rows]]
    return [*aligned(cells), "", *map(say, verdict(exp, s, judge(exp.info, s)))]
