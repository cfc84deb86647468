"""Learning curves as numbers: one line per seed, their mean and spread, over several axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from paribus.report.blocks import Table
from paribus.report.message import Text, msg
from paribus.report.results import finished, rate, schedule
from paribus.store import StepRow, StoredExperiment, StoredRun, stat_value

Line = Sequence[tuple[int, float]]  # (completed steps, value)
Places = Mapping[str, Mapping[int, Mapping[int, float]]]  # [arm][seed][step]


class Axis(NamedTuple):
    """What curves run over: `at[arm][seed][step]` is where a finished run stood after a step."""

    label: Text
    title: Text  # beneath the drawing, with its unit
    at: Places


class Point(NamedTuple):
    """An arm at one step: its mean place, and mean and standard deviation over seeds (nan for one seed)."""

    place: float
    mean: float
    spread: float


class Curves(NamedTuple):
    """One panel: `lines[arm][seed]`."""

    name: str
    title: Text
    lines: Mapping[str, Mapping[int, Line]]

    def over(self, arm: str, axis: Axis) -> dict[int, list[tuple[float, float]]]:
        """Return the lines of an arm's seeds over an axis; steps without a place on it are left out."""
        at = axis.at[arm]
        return {
            seed: [(at[seed][step], y) for step, y in line if step in at[seed]]
            for seed, line in self.lines[arm].items()
        }

    def points(self, arm: str, axis: Axis | None = None) -> list[Point]:
        """Return the mean over seeds, and their spread, at the steps that every seed has (and has a place for)."""
        lines = self.lines[arm]
        if not lines:
            return []
        tables = [dict(line) for line in lines.values()]
        places = [
            axis.at[arm][seed] if axis else {s: float(s) for s in table}
            for seed, table in zip(lines, tables, strict=True)
        ]
        out = []
        for step in sorted(s for s in tables[0] if all(s in known for known in (*tables, *places))):
            values = [table[step] for table in tables]
            spread = float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
            out.append(Point(sum(p[step] for p in places) / len(places), sum(values) / len(values), spread))
        return out

    def mean(self, arm: str) -> list[tuple[float, float]]:
        """Return the mean over seeds at the steps that every seed has."""
        return [(p.place, p.mean) for p in self.points(arm)]


Read = Callable[[StepRow], float | None]


def stat(*names: str) -> Read:
    """Read the sum of the named statistics' values; None where none of them was counted."""

    def read(row: StepRow) -> float | None:
        found = [stat_value(row.stats[name]) for name in names if name in row.stats]
        known = [x for x in found if x is not None]
        return sum(known) if known else None

    return read


def gold(row: StepRow) -> float | None:
    """Read the task's verdict where training optimised another reward."""
    proxies = [name for name in row.stats if name.startswith("reward/") and name != "reward/task"]
    return stat_value(row.stats["gold"]) if proxies and "gold" in row.stats else None


def explained_variance(row: StepRow) -> float | None:
    """Read 1 - Var(target - value) / Var(target) of the critic; None without one, or where the target is constant."""
    error, target = _variance(row, "value_error"), _variance(row, "value_target")
    return None if error is None or not target else 1 - error / target


def _variance(row: StepRow, name: str) -> float | None:
    stored = row.stats.get(name, {})
    total, square, count = (stored.get(key) for key in ("sum", "square", "count"))
    if total is None or square is None or not count:
        return None
    return max(0.0, square / count - (total / count) ** 2)


def _given_loss(row: StepRow) -> float | None:
    """Read the loss where training is on given answers: there its level means something."""
    return stat("policy_loss")(row) if "logp_good" in row.stats else None


OUTSIDE = ("clip_low", "clip_high", "masked", "capped", "gated")  # of a gate, the part that it withholds
PANELS: tuple[tuple[str, Text, Read], ...] = (
    ("score", msg("training reward, mean of sampled responses"), stat("score")),
    ("gold", msg("gold score: the task's own verdict on the same responses"), gold),
    ("length", msg("response length, tokens"), stat("response_tokens")),
    ("truncated", msg("share of responses cut at the limit"), stat("truncated")),
    ("kl", msg("KL to the reference (k3 estimate), nats a token"), stat("kl_k3")),
    ("entropy", msg("entropy, nats a token"), stat("entropy")),
    ("grad-norm", msg("gradient norm of the policy, before clipping"), stat("grad_norm")),
    ("trust-region", msg("share of tokens outside the trust region: clipped, masked, capped or gated"), stat(*OUTSIDE)),
    ("refills", msg("rounds of further prompts, drawn in place of groups left out"), stat("refills")),
    ("kept-groups", msg("share of sampled groups whose rewards differ"), stat("kept_groups")),
    ("loss", msg("loss on given answers"), _given_loss),
    ("margin", msg("margin of the implicit reward, good answer less bad"), stat("implicit_margin")),
    ("ranked", msg("share of pairs that the implicit reward ranks right"), stat("implicit_accuracy")),
    ("logp-good", msg("log-prob of the good answers, nats an answer"), stat("logp_good")),
)
SIGNS: tuple[tuple[str, Text, Read], ...] = (
    ("uniform", msg("share of groups whose scores are all equal (zero variance)"), stat("uniform_groups")),
    ("upper-clip", msg("share of tokens clipped from above"), stat("clip_high")),
    ("explained", msg("explained variance of the critic"), explained_variance),
    ("value-loss", msg("loss of the critic"), stat("value_loss")),
)


def curves(exp: StoredExperiment, suite: str) -> list[Curves]:
    """Return a panel for everything that was recorded, evaluation accuracy first where it was measured on the way."""
    runs = finished(exp)
    out = []
    if any(len(run.eval_steps(suite)) > 1 for found in runs.values() for run in found.values()):
        lines = {arm: {s: _accuracy(exp.base, run, suite) for s, run in found.items()} for arm, found in runs.items()}
        out.append(Curves("accuracy", msg("accuracy on {suite}", suite=suite), lines))
    return out + read_panels(exp, PANELS)


def read_panels(exp: StoredExperiment, wanted: Sequence[tuple[str, Text, Read]]) -> list[Curves]:
    """Return those panels that any finished run has a value for."""
    out = []
    for name, title, read in wanted:
        lines = {arm: {s: _line(run, read) for s, run in found.items()} for arm, found in finished(exp).items()}
        if any(line for found in lines.values() for line in found.values()):
            out.append(Curves(name, title, lines))
    return out


def steps(exp: StoredExperiment) -> Axis:
    """Return the axis of completed steps."""
    return Axis(msg("steps"), msg("steps"), _places(exp, lambda run: {r.step: float(r.step) for r in run.steps}))


def axes(exp: StoredExperiment, price: float) -> list[Axis]:
    """Return what curves can run over: steps, samples and tokens; seconds and money where runs can be timed fairly."""
    samples = _places(exp, lambda run: {r.step: float(r.samples) for r in run.steps})
    tokens = _places(exp, lambda run: {r.step: float(r.tokens) for r in run.steps})
    out = [
        steps(exp),
        Axis(msg("samples"), msg("sampled responses"), samples),
        Axis(msg("tokens"), msg("sampled tokens"), tokens),
    ]
    if schedule(finished(exp)).comparable:
        dollars = msg("US dollars of training, {price} a device-hour", price=f"${price:.2f}")
        paid = _places(exp, lambda run: {step: x / 3600 * price for step, x in _seconds(run).items()})
        out.append(Axis(msg("time"), msg("seconds of training"), _places(exp, _seconds)))
        out.append(Axis(msg("money"), dollars, paid))
    return out


def _places(exp: StoredExperiment, read: Callable[[StoredRun], Mapping[int, float]]) -> Places:
    """Return where the steps of every finished run lie; all begin at 0."""
    return {arm: {seed: {0: 0.0, **read(run)} for seed, run in found.items()} for arm, found in finished(exp).items()}


def curves_data(panel: Curves, over: Sequence[Axis]) -> Table:
    """Return the numbers of a panel: one row a run and step, with its place on every axis."""
    rows: list[list[Text]] = []
    for arm, found in panel.lines.items():
        for seed, line in found.items():
            for step, y in line:
                places = [axis.at[arm][seed].get(step) for axis in over]
                rows.append([arm, str(seed), *(f"{x:.6g}" if x is not None else "" for x in places), f"{y:.6g}"])
    return Table([msg("arm"), msg("seed"), *(axis.title for axis in over), panel.title], rows, name=panel.name)


def _seconds(run: StoredRun) -> Mapping[int, float]:
    """Return the seconds of training, evaluations left out, that a run had taken by the end of each step."""
    rows = sorted((r for r in run.timing if r.suite is None), key=lambda r: r.step)
    return dict(zip((r.step for r in rows), accumulate(r.wall - r.seconds.get("eval", 0.0) for r in rows), strict=True))


def _line(run: StoredRun, read: Read) -> Line:
    return [(row.step, x) for row in run.steps if (x := read(row)) is not None]


def _accuracy(base: StoredRun | None, run: StoredRun, suite: str) -> Line:
    found = [(0, base)] if base is not None and suite in base.suites else []
    found += [(step, run) for step in run.eval_steps(suite)]
    line = [(step, rate(source.eval(suite, step))) for step, source in found]
    return [(step, x) for step, x in line if x is not None]
