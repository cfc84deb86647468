"""Scores with their intervals: of every run, of every arm, against the base and against each other."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from paribus.report.blocks import Block, Drawing, Figure, Prose, Table
from paribus.report.figures import Effect, draw_effects, effects_data
from paribus.report.message import Joined, Text, msg
from paribus.report.responses import disagreement, length_limits
from paribus.report.results import ACCURACY, Scores, gain, scores, suites
from paribus.report.sentences import units
from paribus.report.text import DASH, count, number, percent, point_range, points, span
from paribus.report.verdict import MANY, judge
from paribus.stats import (
    crossed,
    crossed_bootstrap,
    detectable,
    paired,
    permutation,
    planned_se,
    probability_better,
    simple_effect,
    spread,
    wilson,
)
from paribus.stats.verdict import Verdict
from paribus.store import ExperimentInfo, StoredExperiment

RESAMPLING_SEED = 0
DRAWS = 4000


def accuracy(exp: StoredExperiment, s: Scores, found: Sequence[Verdict]) -> list[Block]:
    """Return the section: the primary metric with its checks, what limits and graders change, then other suites.

    `found` are the verdicts on the pairs of arms by the primary metric.
    """
    out: list[Block] = [*_drawn(exp.info, s, found), *_tables(exp.info, s, found)]
    out += [*_checks(s, found), *_noise(s)]
    out += [*length_limits(exp, s), *disagreement(s)]
    others = [name for name in suites(exp) if name != s.suite]
    if s.metric != ACCURACY:
        others.insert(0, s.suite)
    for name in others:
        other = scores(exp, name)
        text = msg(
            "Secondary: {metric} on {suite}. Nothing was declared of it before the runs, and its p values are not "
            "adjusted for the number of suites: read it as a hint.",
            metric=ACCURACY,
            suite=name,
        )
        out += [Prose(text), *_tables(exp.info, other, judge(exp.info, other), prefix=f"{name}-")]
        out += [*length_limits(exp, other), *disagreement(other)]
    return out


def _drawn(info: ExperimentInfo, s: Scores, found: Sequence[Verdict]) -> list[Block]:
    effects = [_gained(s, arm) for arm in info.arms if s.table[arm].size and s.base is not None]
    effects += [_differed(s, v) for v in found] if len(found) <= MANY else []
    if not effects:
        return []
    title = Joined(
        [msg("Gains over the base, and differences between arms, with intervals"), msg("rings are runs")], "; "
    )
    drawing = Drawing("", draw_effects(effects), effects_data(effects, "effects"))
    return [Figure("effects", title, [drawing], wide=True)]


def _gained(s: Scores, arm: str) -> Effect:
    g = gain(s, arm)
    assert g is not None and s.base is not None
    runs = [100 * float((row - s.base).mean()) for row in s.table[arm]]
    return Effect(msg("{arm} − base", arm=arm), 100 * g.estimate, 100 * g.low, 100 * g.high, runs)


def _differed(s: Scores, v: Verdict) -> Effect:
    """Return the difference of two arms; its rings are the seeds that both have."""
    common = [seed for seed in s.seeds[v.a] if seed in s.seeds[v.b]]
    means = {name: dict(zip(s.seeds[name], s.table[name].mean(1).tolist(), strict=True)) for name in (v.a, v.b)}
    runs = [100 * (means[v.a][seed] - means[v.b][seed]) for seed in common]
    i = v.interval
    return Effect(f"{v.a} − {v.b}", 100 * i.estimate, 100 * i.low, 100 * i.high, runs)


def _tables(info: ExperimentInfo, s: Scores, found: Sequence[Verdict], prefix: str = "") -> list[Block]:
    rows = [_run_row(msg("base"), "", s.base, None)] if s.base is not None and s.base.size else []
    for arm in info.arms:
        table, seeds = s.table[arm], s.seeds[arm]
        if not table.size:
            rows.append([arm, msg("no finished run"), *[DASH] * 7])
            continue
        if len(seeds) > 1:
            rows.append(_mean_row(s, arm))
        for scored, seed in zip(table, seeds, strict=True):
            rows.append(_run_row("" if len(seeds) > 1 else arm, msg("seed {seed}", seed=str(seed)), scored, s.base))
    columns: list[Text] = [
        msg("model"), msg("run"), s.metric, msg("95 % interval"), msg("correct / total"), msg("s.d. over seeds"),
        msg("gain over base"), msg("95 % interval"), msg("won / lost"),
    ]  # fmt: skip
    text = msg(
        "Gains are in percentage points. Intervals of means: two-way t (seeds x problems), so they speak of new seeds "
        "too; of single runs: Wilson for the score and Newcombe's paired interval for the gain where a problem is "
        "right or wrong, t over problems otherwise, so they speak of that checkpoint. Won and lost: problems whose "
        "score, mean over samples and seeds, is above or below the base's."
    )
    name = f"{prefix}accuracy"
    return [
        Table(columns, rows, labels=2, name=name),
        Prose(text, "note"),
        *_differences(found, f"{prefix}differences"),
    ]


def _mean_row(s: Scores, arm: str) -> list[Text]:
    table, g = s.table[arm], gain(s, arm)
    own = crossed(table) if table.shape[1] > 1 else None
    return [
        arm,
        msg("mean of {n} seeds", n=len(table)),
        percent(float(table.mean())),
        span(percent(own.low), percent(own.high)) if own else DASH,
        f"{_shown(float(table.mean(0).sum()))} / {table.shape[1]:,}",
        f"{100 * float(table.mean(1).std(ddof=1)):.2f}",
        points(g.estimate) if g else DASH,
        point_range(g) if g else DASH,
        _won_lost(table.mean(0), s.base),
    ]


def _run_row(model: Text, run: Text, scored: np.ndarray, base: np.ndarray | None) -> list[Text]:
    """Return a run's row; `scored` is [problems]. A problem's score is 0 or 1, or a mean over samples."""
    if np.isin(scored, (0, 1)).all():
        own = wilson(float(scored.sum()), scored.size)
    else:
        own = simple_effect(scored[None, :], np.zeros((1, scored.size)))
    g = paired(scored, base) if base is not None else None
    return [
        model,
        run,
        percent(own.estimate),
        span(percent(own.low), percent(own.high)),
        f"{_shown(float(scored.sum()))} / {scored.size:,}",
        "",
        *([points(g.estimate), point_range(g)] if g else ["", ""]),
        _won_lost(scored, base),
    ]


def _won_lost(scored: np.ndarray, base: np.ndarray | None) -> str:
    return "" if base is None else f"{int((scored > base).sum()):,} / {int((scored < base).sum()):,}"


def _shown(total: float) -> str:
    return f"{total:,.0f}" if math.isclose(total, round(total), abs_tol=1e-9) else f"{total:,.1f}"


KINDS: dict[str, Text] = {
    "better": msg("better"),
    "better_within": msg("better, within the margin"),
    "equivalent": msg("equivalent"),
    "inconclusive": msg("inconclusive"),
    "identical": msg("identical"),
}


def _differences(found: Sequence[Verdict], name: str) -> list[Block]:
    if not found:
        return []
    rows: list[list[Text]] = []
    for v in found:
        d = v.difference
        rows.append(
            [
                f"{v.a} − {v.b}",
                KINDS[v.kind] if v.better is None else msg("{arm} {kind}", arm=v.better, kind=KINDS[v.kind]),
                points(d.estimate),
                point_range(v.interval),
                number(v.p, 3),
                number(v.p_equivalent, 3),
                f"{d.wins:,} / {d.losses:,}",
                units(d),
            ]
        )
    columns = [
        msg("difference"), msg("verdict"), msg("points"), msg("95 % interval"), msg("p of a difference"),
        msg("p of equivalence"), msg("won / lost"), msg("over"),
    ]  # fmt: skip
    text = msg(
        "p values are adjusted over the pairs (Holm); intervals are of one pair alone. Won and lost: problems on which "
        "the first arm's mean over its runs is above or below the second's. Method: {methods}.",
        methods=Joined(list(dict.fromkeys(v.difference.method for v in found)), "; "),
    )
    caption = msg("Between arms, problem by problem")
    return [Table(columns, rows, caption=caption, labels=2, name=name), Prose(text, "note")]


def _checks(s: Scores, found: Sequence[Verdict]) -> list[Block]:
    """Return other methods' answers to the same question, where there are runs enough for them and not too many."""
    rows: list[list[Text]] = []
    for v in found if len(found) <= MANY else ():
        a, b = s.table[v.a], s.table[v.b]
        if v.difference.scope != "algorithms":
            continue
        boot = crossed_bootstrap(a, b, np.random.default_rng(RESAMPLING_SEED), DRAWS)
        dealt = permutation(a.mean(1), b.mean(1), np.random.default_rng(RESAMPLING_SEED))
        chance = probability_better(a.mean(1), b.mean(1))
        rows.append(
            [
                f"{v.a} − {v.b}",
                point_range(boot),
                msg("{p} of {splits} splits", p=number(dealt.p, 3), splits=dealt.splits),
                Joined([percent(chance.estimate, 0), span(percent(chance.low, 0), percent(chance.high, 0))], ", "),
            ]
        )
    if not rows:
        return []
    columns = [
        msg("difference"), msg("crossed bootstrap, points"), msg("permutation of runs, p"),
        msg("chance that a new run of the first scores higher"),
    ]  # fmt: skip
    text = msg(
        "The verdict does not rest on these. The crossed bootstrap draws seeds and problems again and is on the "
        "careful side; the permutation test takes runs alone as units and cannot go below 0.1 with 3 + 3 of them; the "
        "chance is Mann and Whitney's over pairs of runs, with a score interval. 95 % intervals of one pair alone."
    )
    return [
        Table(columns, rows, caption=msg("Checks of the differences by other methods"), name="checks"),
        Prose(text, "note"),
    ]


def _noise(s: Scores) -> list[Block]:
    """Return where the noise of a difference comes from, of the arms with two or more seeds, and what it hides."""
    tables = {arm: table for arm, table in s.table.items() if min(table.shape) >= 2}
    if not tables:
        return []
    found, seeds, problems = spread(tables), min(map(len, tables.values())), len(s.problems)
    rows: list[list[Text]] = [[label, number(100 * value)] for label, value in zip(PARTS, found, strict=True)]
    se, _ = planned_se(found, seeds, problems)
    design = msg("{seeds} and {problems}", seeds=count(seeds, "seed"), problems=count(problems, "problem"))
    rows.append([msg("standard error of a difference of two arms, {design}", design=design), number(100 * se)])
    least = detectable(found, seeds, problems)
    rows.append([msg("smallest difference found in 80 % of repeats, {design}", design=design), number(100 * least)])
    text = msg(
        "Standard deviations, pooled over the arms. More seeds shrink the first part and the last, more problems the "
        "second and the last; several samples of a problem shrink only the last. The smallest difference is that of "
        "one pair at 5 %, estimated from these very runs."
    )
    columns = [msg("source of noise"), msg("points")]
    return [Table(columns, rows, msg("Where the noise comes from"), name="noise"), Prose(text, "note")]


PARTS: tuple[Text, ...] = (
    msg("training seed: a run's true score around its arm's"),
    msg("problem: an arm's lead on one problem around its lead on all"),
    msg("the rest: one run on one problem"),
)
