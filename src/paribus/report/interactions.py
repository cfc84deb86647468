"""Does a factor change what the choice of method is worth: accuracy by level, and differences of differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from paribus.report.blocks import Block, Figure, Prose, Table
from paribus.report.figures import Effect, draw_effects
from paribus.report.results import Scores, level_text, pair_level, pairs
from paribus.report.text import DASH, count, listing, number, percent, point_range, points
from paribus.stats import Interval, interaction, simple_effect
from paribus.store import ExperimentInfo

SAYS = ("shown", "flat", "not shown", "one run")


class Contrast(NamedTuple):
    """a - b at `high` less a - b at `low`; `interval` is None where a cell has no finished run with a common seed."""

    factor: str
    a: str
    b: str
    high: str
    low: str
    interval: Interval | None
    seeds: Sequence[int]
    runs: Sequence[float]  # seed by seed

    @property
    def label(self) -> str:
        return f"{self.a} − {self.b}: {self.high} − {self.low}"

    @property
    def says(self) -> str:
        """Return what the interval allows, one of SAYS; "nothing" without one."""
        if self.interval is None:
            return "nothing"
        if len(self.seeds) == 1:
            return "one run"
        if self.interval.low > 0 or self.interval.high < 0:
            return "shown"
        return "flat" if self.interval.low == self.interval.high else "not shown"

    @property
    def effect(self) -> str:
        return (
            DASH if self.interval is None else f"{points(self.interval.estimate)} points, {point_range(self.interval)}"
        )


def arms_of(info: ExperimentInfo) -> list[str]:
    """Return the arms of the file, each of which was run at every combination of levels."""
    return list(dict.fromkeys(cell.of for cell in info.cells))


def contrasts(info: ExperimentInfo, s: Scores) -> list[Contrast]:
    """Return the interaction of every two arms with every factor, each level against the factor's first.

    Where there are several factors, a level is the mean over all levels of the others, cell by cell.
    """
    wanted = [
        (i, factor, a, b, level)
        for i, factor in enumerate(info.factors)
        for a, b in pairs(arms_of(info))
        for level in factor.levels[1:]
    ]
    out = []
    for i, factor, a, b, level in wanted:
        low = factor.levels[0]
        corners = [(a, level), (b, level), (a, low), (b, low)]
        seeds = _common(info, s, i, corners)
        tables = [_table(info, s, i, arm, at, seeds) for arm, at in corners]
        found, runs = None, []
        if seeds and tables[0].size:
            a_high, b_high, a_low, b_low = tables
            found = interaction(a_high, b_high, a_low, b_low, pair_level(len(wanted)))
            runs = [float(x) for x in (a_high - b_high - a_low + b_low).mean(1)]
        out.append(Contrast(factor.name, a, b, level, low, found, seeds, runs))
    return out


def sentences(info: ExperimentInfo, s: Scores) -> list[str]:
    """Return what may be said of the interactions; where none is shown, none is denied."""
    every = contrasts(info, s)
    out = []
    level = level_text(pair_level(len(every)))
    for factor in info.factors:
        found = [c for c in every if c.factor == factor.name]
        shown, flat, unshown, single = ([c for c in found if c.says == what] for what in SAYS)
        if shown:
            moved = "; ".join(_moved(c) for c in shown)
            out.append(f"Interaction with {factor.name} shown: {moved} ({level}), over {_units(shown[0], s)}.")
        if flat:
            out.append(
                f"Nothing can be said of an interaction with {factor.name} where it is 0 for every problem in every "
                f"seed: {'; '.join(_moved(c) for c in flat)}."
            )
        if unshown:
            reach = max(max(abs(c.interval.low), abs(c.interval.high)) for c in unshown if c.interval)
            out.append(
                f"No interaction with {factor.name} shown: {'; '.join(_moved(c) for c in unshown)} ({level}), over "
                f"{_units(unshown[0], s)}. That does not mean that there is none: a true one of up to "
                f"{100 * reach:.1f} points is compatible with these runs."
            )
        if single:
            out.append(
                f"Interaction with {factor.name}, one run a cell: {'; '.join(_moved(c) for c in single)} ({level}). "
                "This speaks of these checkpoints, not of the algorithms."
            )
    return out


def interactions(info: ExperimentInfo, s: Scores) -> list[Block]:
    """Return the section: levels, accuracy by arm and level, differences of differences, simple effects."""
    out: list[Block] = [_levels(info)]
    if len(info.factors) > 1:
        text = "Each level is the mean over all levels of the other factors; interactions of three are not estimated."
        out.append(Prose(text, "note"))
    out += [_by_level(info, s, i) for i in range(len(info.factors))]
    every = contrasts(info, s)
    if not every:
        out.append(Prose("There is one arm, so there is nothing for a factor to interact with.", "note"))
    else:
        out += [Prose(text) for text in sentences(info, s)]
        effects = [_drawn(c, c.interval) for c in every if c.interval is not None]
        if effects:
            title = "Differences of differences, with intervals; rings are seeds"
            out.append(Figure("interactions", title, draw_effects(effects), wide=True))
        out.append(_differences(every))
    out.append(_simple(info, s))
    return out


def _levels(info: ExperimentInfo) -> Table:
    rows = []
    for factor in info.factors:
        for level in factor.levels:
            told = ", ".join(f"{path} = {value}" for path, value in factor.changes[level].items())
            rows.append([factor.name, level, told or "as the file says"])
    return Table(["factor", "level", "changes"], rows, "What was varied across all arms", labels=3)


def _by_level(info: ExperimentInfo, s: Scores, i: int) -> Table:
    factor = info.factors[i]
    rows = [[arm, *(_accuracy(info, s, i, arm, level) for level in factor.levels)] for arm in arms_of(info)]
    return Table(["arm", *factor.levels], rows, f"Accuracy on {s.suite} by {factor.name}, with 95 % intervals")


def _accuracy(info: ExperimentInfo, s: Scores, i: int, arm: str, level: str) -> str:
    table = _table(info, s, i, arm, level, _common(info, s, i, [(arm, level)]))
    if not table.size:
        return DASH
    own = simple_effect(table, np.zeros_like(table))
    return f"{percent(own.estimate)} ({number(100 * own.low)} to {number(100 * own.high)})"


def _differences(every: Sequence[Contrast]) -> Table:
    rows = [
        [
            c.factor,
            f"{c.a} − {c.b}",
            f"{c.high} − {c.low}",
            points(c.interval.estimate) if c.interval else DASH,
            point_range(c.interval) if c.interval else DASH,
            f"{c.interval.method}, {count(len(c.seeds), 'seed')}" if c.interval else "no common finished seed",
        ]
        for c in every
    ]
    columns = ["factor", "difference of arms", "between levels", "points", level_text(pair_level(len(rows))), "method"]
    return Table(columns, rows, "Differences of differences, problem by problem within each seed", labels=3)


def _simple(info: ExperimentInfo, s: Scores) -> Table:
    rows = []
    for i, factor in enumerate(info.factors):
        for arm in arms_of(info):
            for level in factor.levels[1:]:
                ends = [(arm, level), (arm, factor.levels[0])]
                seeds = _common(info, s, i, ends)
                high, low = (_table(info, s, i, *end, seeds) for end in ends)
                own = simple_effect(high, low) if high.size else None
                told = [points(own.estimate), point_range(own), own.method] if own else [DASH, DASH, DASH]
                rows.append([factor.name, arm, f"{level} − {factor.levels[0]}", *told])
    columns = ["factor", "arm", "between levels", "points", "95 % interval", "method"]
    return Table(columns, rows, "What each factor does within one arm", labels=3)


def _drawn(c: Contrast, interval: Interval) -> Effect:
    label = f"{c.factor}, {c.label}"
    runs = [100 * x for x in c.runs]
    return Effect(label, 100 * interval.estimate, 100 * interval.low, 100 * interval.high, runs)


def _moved(c: Contrast) -> str:
    return f"from {c.low} to {c.high}, {c.a} minus {c.b} moves by {c.effect}"


def _units(c: Contrast, s: Scores) -> str:
    return listing([count(len(c.seeds), "seed"), count(len(s.problems), "problem")])


def _cells(info: ExperimentInfo, i: int, arm: str, level: str) -> list[str]:
    return [cell.arm for cell in info.cells if cell.of == arm and cell.levels[i] == level]


def _common(info: ExperimentInfo, s: Scores, i: int, corners: Sequence[tuple[str, str]]) -> list[int]:
    """Return the seeds that every cell of every corner has finished."""
    names = [name for arm, level in corners for name in _cells(info, i, arm, level)]
    return [seed for seed in s.seeds[names[0]] if all(seed in s.seeds[name] for name in names)]


def _table(info: ExperimentInfo, s: Scores, i: int, arm: str, level: str, seeds: Sequence[int]) -> np.ndarray:
    """Return scores [seeds, problems] of an arm at a level of factor `i`, means over the other factors' levels."""
    names = _cells(info, i, arm, level)
    return np.mean([s.table[n][[s.seeds[n].index(seed) for seed in seeds]] for n in names], axis=0)
