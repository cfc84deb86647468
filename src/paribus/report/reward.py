"""What training optimised against what it was meant for, and how far the policy went from its start to get it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from paribus.report.blocks import Block, Drawing, Figure, Prose, Table
from paribus.report.curves import Read, gold, stat
from paribus.report.figures import Reached, draw_points, points_data
from paribus.report.message import Joined, Text, msg
from paribus.report.results import Scores, finished, rescored, scores, suites, taught_by_start
from paribus.report.text import DASH, count, listing, number, span
from paribus.stats import simple_effect
from paribus.store import EvalRow, StoredExperiment, StoredRun

PREFIX = "reward/"
KL, REWARD = msg("KL to the starting policy, nats a response"), msg("mean reward")
CLEAN = {"reward/task"}  # the components of a reward that is the task's own score


class Measured(NamedTuple):
    """A suite's evaluations; no `reward` where the task's score was optimised, no `kl` where none was asked for."""

    gold: Scores
    reward: Scores | None
    kl: Scores | None

    @property
    def optimised(self) -> Scores:
        return self.reward or self.gold


class Quarters(NamedTuple):
    """Means of a run's training statistic over the first and over the last quarter of its steps."""

    first: float
    last: float

    @property
    def change(self) -> float:
        return self.last - self.first


def reward_and_kl(exp: StoredExperiment) -> list[Block]:
    """Return the section; nothing where no evaluation holds a reward of its own or a KL."""
    measured = [m for m in (_measure(exp, suite) for suite in suites(exp)) if m.reward or m.kl]
    if not measured:
        return []
    out: list[Block] = []
    for m in measured:
        out += [_table(exp, m), *_frontiers(exp, m, sum(b.kind == "figure" for b in out))]
    out.append(_note(measured))
    if any(m.reward for m in measured):
        out += [*_training(exp), *_components(exp)]
    return out


def _measure(exp: StoredExperiment, suite: str) -> Measured:
    found = scores(exp, suite)
    rows = [row for part in (found.base_rows, *found.rows.values()) for row in part]
    proxied, asked = any(row.reward is not None for row in rows), any(row.kl is not None for row in rows)
    return Measured(
        found, rescored(found, column=_rewards) if proxied else None, rescored(found, column=_kls) if asked else None
    )


def _rewards(rows: Sequence[EvalRow]) -> list[float | None]:
    """Return what training optimised: a run whose rows hold no reward of their own was trained on the scores."""
    own = any(row.reward is not None for row in rows)
    return [row.reward if own else row.score for row in rows]


def _kls(rows: Sequence[EvalRow]) -> list[float | None]:
    return [row.kl for row in rows]


def _table(exp: StoredExperiment, m: Measured) -> Table:
    columns, shown = [msg("model"), msg("runs"), msg("gold accuracy, %"), msg("95 % interval")], [(m.gold, 100.0, 2)]
    if m.reward:
        columns += [msg("training reward"), msg("95 % interval")]
        shown.append((m.reward, 1.0, 3))
    if m.kl:
        columns += [msg("KL, nats a response"), msg("95 % interval")]
        shown.append((m.kl, 1.0, 3))
    columns += [msg("correlation of reward and gold")] if m.reward else []
    rows: list[list[Text]] = []
    if m.gold.base is not None:
        tables = [(_base(s), scale, digits) for s, scale, digits in shown]
        rows.append([msg("base"), "", *_estimates(tables), *_correlation(m, m.gold.base_rows)])
    for arm in exp.info.arms:
        tables = [(s.table[arm], scale, digits) for s, scale, digits in shown]
        answers = [row for seed in m.gold.seeds[arm] for row in m.gold.rows[arm, seed]]
        rows.append([arm, str(len(m.gold.seeds[arm])), *_estimates(tables), *_correlation(m, answers)])
    caption = msg("Final evaluations on {suite}", suite=m.gold.suite)
    return Table(columns, rows, caption, name=f"{m.gold.suite}-reward-and-kl")


def _base(s: Scores) -> np.ndarray:
    return np.empty((0, 0)) if s.base is None else s.base[None, :]


def _estimates(tables: Sequence[tuple[np.ndarray, float, int]]) -> list[Text]:
    """Return each table's mean and its interval: over seeds and problems, of one run over problems."""
    out: list[Text] = []
    for table, scale, digits in tables:
        own = simple_effect(table, np.zeros_like(table)) if table.size else None
        ends = [scale * x for x in (own.estimate, own.low, own.high)] if own else [None] * 3
        mean, low, high = (number(x, digits) for x in ends)
        out += [mean, DASH if DASH in (low, high) else span(low, high)]
    return out


def _correlation(m: Measured, rows: Sequence[EvalRow]) -> list[Text]:
    """Return Pearson's correlation of reward and score over the responses that have both."""
    if m.reward is None:
        return []
    known = np.array([(row.reward, row.score) for row in rows if row.reward is not None and row.score is not None])
    if len(known) < 2 or not known.std(0).all():
        return [DASH]
    return [Joined([number(float(np.corrcoef(known.T)[0, 1])), count(len(known), "response")], ", ")]


def _frontiers(exp: StoredExperiment, m: Measured, drawn: int) -> list[Block]:
    """Return a drawing of reward against KL for the arms that share a reward, and what it shows.

    `drawn` is the number of such drawings that the page has already.
    """
    if m.kl is None:
        return []
    out: list[Block] = []
    for level, arms in _by_reward(exp).items():
        points = _reached(m, arms, with_base=not level)
        if any(p.runs for p in points):
            drawn += 1
            name = "frontier" if drawn == 1 else f"frontier-{drawn}"
            drawing = Drawing("", draw_points(points, exp.info.arms, KL, REWARD), points_data(points, KL, REWARD, name))
            where = msg("Reward against KL on {suite}", suite=m.gold.suite)
            title = Joined([Joined([where, *([" ".join(level)] if level else [])], ", "), msg("rings are runs")], "; ")
            out.append(Figure(name, title, [drawing], wide=True))
            out += _dominance(points)
    return out


def _by_reward(exp: StoredExperiment) -> dict[tuple[str, ...], list[str]]:
    """Return the arms by their levels of the factors that change the reward: only like rewards share an axis."""
    changed = [{path.split(".")[0] for c in factor.changes.values() for path in c} for factor in exp.info.factors]
    varying = [i for i, tables in enumerate(changed) if "reward" in tables]
    levels = {cell.arm: tuple(cell.levels[i] for i in varying) for cell in exp.info.cells}
    out: dict[tuple[str, ...], list[str]] = {}
    for arm in exp.info.arms:
        out.setdefault(levels.get(arm, ()), []).append(arm)
    return out


def _reached(m: Measured, arms: Sequence[str], *, with_base: bool) -> list[Reached]:
    kl, reward = m.kl, m.optimised
    assert kl is not None
    out = []
    if with_base and kl.base is not None and reward.base is not None and kl.base.size and reward.base.size:
        out.append(Reached(msg("base"), float(kl.base.mean()), float(reward.base.mean()), []))
    for arm in arms:
        if kl.table[arm].size and reward.table[arm].size:
            runs = [(float(x.mean()), float(y.mean())) for x, y in zip(kl.table[arm], reward.table[arm], strict=True)]
            out.append(Reached(arm, float(kl.table[arm].mean()), float(reward.table[arm].mean()), runs))
    return out


def _dominance(points: Sequence[Reached]) -> list[Block]:
    """Return which arms another model beats: at least its reward at no more KL.

    The base is not judged: its KL is 0 by definition, and only an estimate could be less.
    """
    if len(points) < 2:
        return []
    better = [(p.label, [q.label for q in points if _beats(q, p)]) for p in points if p.runs]
    free = [label for label, found in better if not found]
    beaten = [msg("{arm} is dominated by {others}", arm=arm, others=listing(found)) for arm, found in better if found]
    return [
        Prose(
            msg(
                "Not dominated, by their means: {free}; dominated is what another model here exceeds in reward at no "
                "more KL, or equals at less. {beaten}This describes where these runs ended, a point for each model and "
                "no curve; no difference was tested.",
                free=listing(free) if free else msg("no arm"),
                beaten=msg("{sentences}. ", sentences=Joined(beaten, "; ")) if beaten else "",
            )
        )
    ]


def _beats(q: Reached, p: Reached) -> bool:
    return q.y >= p.y and q.x <= p.x and (q.x, q.y) != (p.x, p.y)


def _note(measured: Sequence[Measured]) -> Prose:
    texts: list[Text] = [msg("Gold is the task's own score.")]
    if any(m.reward for m in measured):
        texts.append(
            msg(
                "Training reward is what training optimised, on the same answers; where that was the task's score "
                "itself, it is shown again. Correlations are Pearson's, over all answers of an arm, of the reward "
                "where it is not the score."
            )
        )
    if any(m.kl for m in measured):
        texts.append(
            msg(
                "KL is the log-prob of an answer under the policy less that under the starting policy, summed over "
                "its tokens; its mean over answers that the policy sampled estimates the KL without bias, and may fall "
                "below 0."
            )
        )
    texts.append(msg("Intervals: two-way t (seeds x problems); of the base and of single runs, t over problems."))
    return Prose(Joined(texts), "note")


def quarters(run: StoredRun, read: Read) -> Quarters | None:
    """Return what a run's training statistic was at first and at last; None with fewer than four known steps."""
    known = [x for row in run.steps if (x := read(row)) is not None]
    n = len(known) // 4
    return Quarters(sum(known[:n]) / n, sum(known[-n:]) / n) if n else None


def _training(exp: StoredExperiment) -> list[Block]:
    """Return how reward and gold moved in training, and a warning where gold fell while the reward rose."""
    of_start = taught_by_start(exp)
    rows: list[list[Text]] = []
    flagged: list[int] = []
    warnings: list[Text] = []
    for arm, runs in finished(exp).items():
        pairs = [(quarters(run, stat("score")), quarters(run, gold)) for run in runs.values() if arm not in of_start]
        known = [(proxy, true) for proxy, true in pairs if proxy is not None and true is not None]
        if not known:
            continue
        proxy, true = (Quarters(*np.mean(side, axis=0).tolist()) for side in zip(*known, strict=True))
        apart = sum(p.change > 0 > g.change for p, g in known)
        if proxy.change > 0 > true.change:
            flagged.append(len(rows))
            changes = {"reward": _signed(proxy.change), "gold": _signed(true.change)}
            warnings.append(msg("{arm} (reward {reward}, gold {gold})", arm=arm, **changes))
        rows.append([arm, _moved(proxy), _moved(true), msg("{n} of {all}", n=apart, all=len(known))])
    out: list[Block] = []
    if rows:
        columns = [
            msg("arm"), msg("training reward"), msg("gold score"),
            msg("runs in which gold fell while the reward rose"),
        ]  # fmt: skip
        caption = msg("In training, from the first quarter of the steps to the last, means over seeds")
        out.append(Table(columns, rows, caption, marked=frozenset(flagged), name="reward-in-training"))
    if warnings:
        text = msg(
            "Gold fell while the training reward rose, a sign of over-optimisation: {arms}. This describes these runs; "
            "no difference was tested.",
            arms=listing(warnings),
        )
        out.append(Prose(text, "warning"))
    return out


def _components(exp: StoredExperiment) -> list[Block]:
    """Return the means of the reward's components in training, at first and at last."""
    runs = {arm: list(found.values()) for arm, found in finished(exp).items() if found}
    names = sorted({n for f in runs.values() for run in f for r in run.steps for n in r.stats if n.startswith(PREFIX)})
    if set(names) <= CLEAN:
        return []
    rows: list[list[Text]] = []
    for name in names:
        found = {arm: [q for run in part if (q := quarters(run, stat(name)))] for arm, part in runs.items()}
        means = [Quarters(*np.mean(q, axis=0).tolist()) if q else None for q in found.values()]
        rows.append([name.removeprefix(PREFIX), *(_moved(mean) if mean else DASH for mean in means)])
    caption = msg("Components of the reward, before weights, likewise")
    out: list[Block] = [Table([msg("component"), *runs], rows, caption, name="reward-components")]
    start = [arm for arm in taught_by_start(exp) if arm in runs]
    if start:
        text = msg(
            "Of {arms} these are the starting policy's answers, whatever was learnt from them.", arms=listing(start)
        )
        out.append(Prose(text, "note"))
    return out


def _moved(q: Quarters) -> str:
    return f"{number(q.first, 3)} → {number(q.last, 3)} ({_signed(q.change)})"


def _signed(change: float) -> str:
    return f"{change:+,.3f}".replace("-", "−")
