"""Does a factor change what the choice of method is worth: accuracy by level, and differences of differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from paribus.report.blocks import Block, Drawing, Figure, Prose, Table
from paribus.report.figures import Effect, draw_effects, effects_data
from paribus.report.message import Joined, Text, msg
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
    def effect(self) -> Text:
        if self.interval is None:
            return DASH
        return msg(
            "{points} points, {interval}", points=points(self.interval.estimate), interval=point_range(self.interval)
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


def sentences(info: ExperimentInfo, s: Scores) -> list[Text]:
    """Return what may be said of the interactions; where none is shown, none is denied."""
    every = contrasts(info, s)
    out: list[Text] = []
    level = level_text(pair_level(len(every)))
    for factor in info.factors:
        found = [c for c in every if c.factor == factor.name]
        shown, flat, unshown, single = ([c for c in found if c.says == what] for what in SAYS)
        if shown:
            out.append(
                msg(
                    "Interaction with {factor} shown: {moved} ({level}), over {units}.",
                    factor=factor.name,
                    moved=_moved(shown),
                    level=level,
                    units=_units(shown[0], s),
                )
            )
        if flat:
            out.append(
                msg(
                    "Nothing can be said of an interaction with {factor} where it is 0 for every problem in every "
                    "seed: {moved}.",
                    factor=factor.name,
                    moved=_moved(flat),
                )
            )
        if unshown:
            reach = max(max(abs(c.interval.low), abs(c.interval.high)) for c in unshown if c.interval)
            out.append(
                msg(
                    "No interaction with {factor} shown: {moved} ({level}), over {units}. That does not mean that "
                    "there is none: a true one of up to {reach} points is compatible with these runs.",
                    factor=factor.name,
                    moved=_moved(unshown),
                    level=level,
                    units=_units(unshown[0], s),
                    reach=f"{100 * reach:.1f}",
                )
            )
        if single:
            out.append(
                msg(
                    "Interaction with {factor}, one run a cell: {moved} ({level}). This speaks of these checkpoints, "
                    "not of the algorithms.",
                    factor=factor.name,
                    moved=_moved(single),
                    level=level,
                )
            )
    return out


def interactions(info: ExperimentInfo, s: Scores) -> list[Block]:
    """Return the section: levels, accuracy by arm and level, differences of differences, simple effects."""
    out: list[Block] = [_levels(info)]
    if len(info.factors) > 1:
        text = msg(
            "Each level is the mean over all levels of the other factors; interactions of three are not estimated."
        )
        out.append(Prose(text, "note"))
    out += [_by_level(info, s, i) for i in range(len(info.factors))]
    every = contrasts(info, s)
    if not every:
        out.append(Prose(msg("There is one arm, so there is nothing for a factor to interact with."), "note"))
    else:
        out += [Prose(text) for text in sentences(info, s)]
        effects = [_drawn(c, c.interval) for c in every if c.interval is not None]
        if effects:
            title = Joined([msg("Differences of differences, with intervals"), msg("rings are seeds")], "; ")
            drawing = Drawing("", draw_effects(effects), effects_data(effects, "interactions"))
            out.append(Figure("interactions", title, [drawing], wide=True))
        out.append(_differences(every))
    out.append(_simple(info, s))
    return out


def _levels(info: ExperimentInfo) -> Table:
    rows: list[list[Text]] = []
    for factor in info.factors:
        for level in factor.levels:
            told = ", ".join(f"{path} = {value}" for path, value in factor.changes[level].items())
            rows.append([factor.name, level, told or msg("as the file says")])
    columns = [msg("factor"), msg("level"), msg("changes")]
    return Table(columns, rows, msg("What was varied across all arms"), labels=3, name="levels")


def _by_level(info: ExperimentInfo, s: Scores, i: int) -> Table:
    factor = info.factors[i]
    rows = [[arm, *(_accuracy(info, s, i, arm, level) for level in factor.levels)] for arm in arms_of(info)]
    caption = msg("Accuracy on {suite} by {factor}, with 95 % intervals", suite=s.suite, factor=factor.name)
    return Table([msg("arm"), *factor.levels], rows, caption, name=f"accuracy-by-{factor.name}")


def _accuracy(info: ExperimentInfo, s: Scores, i: int, arm: str, level: str) -> Text:
    table = _table(info, s, i, arm, level, _common(info, s, i, [(arm, level)]))
    if not table.size:
        return DASH
    own = simple_effect(table, np.zeros_like(table))
    return msg(
        "{share} ({low} to {high})",
        share=percent(own.estimate),
        low=number(100 * own.low),
        high=number(100 * own.high),
    )


def _differences(every: Sequence[Contrast]) -> Table:
    rows = [
        [
            c.factor,
            f"{c.a} − {c.b}",
            f"{c.high} − {c.low}",
            points(c.interval.estimate) if c.interval else DASH,
            point_range(c.interval) if c.interval else DASH,
            Joined([c.interval.method, count(len(c.seeds), "seed")], ", ")
            if c.interval
            else msg("no common finished seed"),
        ]
        for c in every
    ]
    columns = [
        msg("factor"), msg("difference of arms"), msg("between levels"), msg("points"),
        level_text(pair_level(len(rows))), msg("method"),
    ]  # fmt: skip
    caption = msg("Differences of differences, problem by problem within each seed")
    return Table(columns, rows, caption, labels=3, name="differences-of-differences")


def _simple(info: ExperimentInfo, s: Scores) -> Table:
    rows: list[list[Text]] = []
    for i, factor in enumerate(info.factors):
        for arm in arms_of(info):
            for level in factor.levels[1:]:
                ends = [(arm, level), (arm, factor.levels[0])]
                seeds = _common(info, s, i, ends)
                high, low = (_table(info, s, i, *end, seeds) for end in ends)
                own = simple_effect(high, low) if high.size else None
                told = [points(own.estimate), point_range(own), own.method] if own else [DASH, DASH, DASH]
                rows.append([factor.name, arm, f"{level} − {factor.levels[0]}", *told])
    columns = [
        msg("factor"), msg("arm"), msg("between levels"), msg("points"), msg("95 % interval"), msg("method"),
    ]  # fmt: skip
    return Table(columns, rows, msg("What each factor does within one arm"), labels=3, name="simple-effects")


def _drawn(c: Contrast, interval: Interval) -> Effect:
    label = f"{c.factor}, {c.label}"
    runs = [100 * x for x in c.runs]
    return Effect(label, 100 * interval.estimate, 100 * interval.low, 100 * interval.high, runs)


def _moved(found: Sequence[Contrast]) -> Joined:
    return Joined(
        [
            msg(
                "from {low} to {high}, {a} minus {b} moves by {effect}",
                low=c.low,
                high=c.high,
                a=c.a,
                b=c.b,
                effect=c.effect,
            )
            for c in found
        ],
        "; ",
    )


def _units(c: Contrast, s: Scores) -> Text:
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
