"""What may be said: the verdict, the headline numbers and the accuracy table."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from paribus.report.blocks import Block, Prose, Table, Tile
from paribus.report.interactions import sentences
from paribus.report.results import Scores, contrast, gain, level_text, pair_level, pairs
from paribus.report.text import DASH, count, listing, percent, point_range, points
from paribus.stats import Paired, crossed, crossed_bootstrap, paired, wilson
from paribus.store import EvalRow, ExperimentInfo

BOOTSTRAP_SEED = 0


def family_level(info: ExperimentInfo) -> float:
    """Return the level of each interval between arms such that all of them hold together at 95 %."""
    return pair_level(len(pairs(info.arms, info.cells)))


def verdict(info: ExperimentInfo, s: Scores) -> list[str]:
    """Return the sentences that the data allow; where a difference is not shown, the arms are not called the same."""
    done = [arm for arm in info.arms if s.seeds[arm]]
    if not done:
        return ["No run has finished yet: there is nothing to compare."]
    level = family_level(info)
    out = sentences(info, s)
    out += [_pair_sentence(s, a, b, level) for a, b in pairs(done, info.cells)]
    if s.base is not None:
        out.append(_gain_sentence(s, done))
    if len(done) < len(info.arms):
        out.append(f"No finished run of {listing([a for a in info.arms if a not in done])}.")
    return out


def _gain_sentence(s: Scores, done: list[str]) -> str:
    parts = []
    for arm in done:
        g = gain(s, arm)
        assert g is not None
        shown = "above" if g.low > 0 else "below" if g.high < 0 else "not shown to differ from"
        parts.append(f"{arm} is {shown} the base ({points(g.estimate)} points, 95 % interval {point_range(g)})")
    single = [arm for arm in done if len(s.seeds[arm]) == 1]
    close = f"; of {listing(single)} only one run is finished, so this speaks of its checkpoint" if single else ""
    return f"{'; '.join(parts)}{close}."


def _pair_sentence(s: Scores, a: str, b: str, level: float) -> str:
    c = contrast(s, a, b, level)
    assert c is not None
    effect = f"{points(c.estimate)} points, {level_text(level)} {point_range(c)}"
    if isinstance(c, Paired):
        what = f"{a} minus {b}: {effect} on {count(c.n, 'problem')} ({c.wins} won, {c.losses} lost, p = {c.p:.3f})"
        return f"{what}. One run per arm: this speaks of these two checkpoints, not of the algorithms."
    units = f"{len(s.seeds[a])} + {len(s.seeds[b])} runs and {count(len(s.problems), 'problem')}"
    if c.low > 0 or c.high < 0:
        high, low = (a, b) if c.low > 0 else (b, a)
        return f"{high} scored higher than {low}: {a} minus {b} {effect}, over {units}."
    reach = max(abs(c.low), abs(c.high))
    return (
        f"No difference shown between {a} and {b}: {a} minus {b} {effect}, over {units}. That does not make them the "
        f"same: a true difference of up to {100 * reach:.1f} points is compatible with these runs."
    )


def tiles(info: ExperimentInfo, s: Scores) -> list[Tile]:
    """Return the headline numbers: base, arms, and each difference between arms."""
    out = []
    if s.base is not None and s.base.size:
        out.append(Tile("base", percent(float(s.base.mean()), 1), count(len(s.problems), "problem")))
    done = [arm for arm in info.arms if s.table[arm].size]
    for arm in done:
        g = gain(s, arm)
        detail = f"{points(g.estimate, 1)} points over base" if g else count(len(s.problems), "problem")
        runs = count(len(s.seeds[arm]), "run")
        out.append(Tile(arm, percent(float(s.table[arm].mean()), 1), f"{detail}, {runs}"))
    level = family_level(info)
    for a, b in pairs(done, info.cells):
        c = contrast(s, a, b, level)
        if c:
            out.append(Tile(f"{a} − {b}", f"{points(c.estimate, 1)} pts", f"{level_text(level)} {point_range(c)}"))
    return out


def accuracy(info: ExperimentInfo, s: Scores) -> list[Block]:
    """Return the tables of accuracy, gains over the base and differences between arms on one suite."""
    rows = [_run_row("base", "", s.base_rows, None)] if s.base_rows else []
    for arm in info.arms:
        table, seeds = s.table[arm], s.seeds[arm]
        if not table.size:
            rows.append([arm, "no finished run", *[DASH] * 6])
            continue
        if len(seeds) > 1:
            rows.append(_mean_row(s, arm))
        for i, seed in enumerate(seeds):
            own = paired(table[i], s.base) if s.base is not None else None
            rows.append(_run_row("" if len(seeds) > 1 else arm, f"seed {seed}", s.rows[arm, seed], own))
    columns = [
        "model", "run", "accuracy", "95 % interval", "correct / total", "s.d. over seeds", "gain over base",
        "95 % interval",
    ]  # fmt: skip
    text = (
        "Gains are in percentage points. Intervals of means: two-way t (seeds x problems), so they speak of new seeds "
        "too; of single runs: Wilson for the accuracy, Newcombe's paired interval for the gain, so they speak of that "
        "checkpoint."
    )
    return [Table(columns, rows, labels=2), Prose(text, "note"), *differences(info, s)]


def _mean_row(s: Scores, arm: str) -> list[str]:
    table, g = s.table[arm], gain(s, arm)
    own = crossed(table) if table.shape[1] > 1 else None
    return [
        arm,
        f"mean of {count(len(table), 'seed')}",
        percent(float(table.mean())),
        f"{percent(own.low)} to {percent(own.high)}" if own else DASH,
        f"{_shown(float(table.mean(0).sum()))} / {table.shape[1]:,}",
        f"{100 * float(table.mean(1).std(ddof=1)):.2f}",
        points(g.estimate) if g else DASH,
        point_range(g) if g else DASH,
    ]


def _run_row(model: str, run: str, rows: Sequence[EvalRow], own: Paired | None) -> list[str]:
    known = [row.score for row in rows if row.score is not None]
    w = wilson(sum(known), len(known))
    total = f"{_shown(sum(known))} / {len(known):,}"
    interval = f"{percent(w.low)} to {percent(w.high)}"
    gained = [points(own.estimate), point_range(own)] if own else ["", ""]
    return [model, run, percent(w.estimate), interval, total, "", *gained]


def _shown(total: float) -> str:
    return f"{total:,.0f}" if math.isclose(total, round(total), abs_tol=1e-9) else f"{total:,.1f}"


def differences(info: ExperimentInfo, s: Scores) -> list[Block]:
    """Return the table of differences between arms, each with a check by resampling."""
    level = family_level(info)
    rows = []
    for a, b in pairs([arm for arm in info.arms if s.table[arm].size], info.cells):
        c = contrast(s, a, b, level)
        if c is None:
            continue
        if isinstance(c, Paired):
            check = f"{c.wins} won, {c.losses} lost, mid-p McNemar p = {c.p:.3f}"
            rows.append([f"{a} − {b}", "one checkpoint each", points(c.estimate), point_range(c), c.method, check])
            continue
        boot = crossed_bootstrap(s.table[a], s.table[b], np.random.default_rng(BOOTSTRAP_SEED), 4000, level)
        scope = f"{len(s.seeds[a])} + {len(s.seeds[b])} runs"
        check = f"crossed bootstrap {point_range(boot)}"
        rows.append([f"{a} − {b}", scope, points(c.estimate), point_range(c), c.method, check])
    if not rows:
        return []
    columns = ["difference", "speaks of", "points", level_text(level), "method", "check"]
    return [Table(columns, rows, caption="Between arms, problem by problem", labels=2)]
