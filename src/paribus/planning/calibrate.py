"""`paribus calibrate`: how far to trust the verdict on an experiment like this, from the spread of its stored runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from paribus.errors import DataError
from paribus.experiment import load_experiment
from paribus.planning.text import table
from paribus.report.results import Scores, primary
from paribus.stats import Spread, detectable, difference, spread
from paribus.stats.crossed import anova
from paribus.stats.simulate import Design, Operating, fit, operating, sample, truth
from paribus.stats.verdict import identical
from paribus.store import ExperimentPaths, read_experiment

ALPHA = 0.05
SPLITS = 1000  # at most so many splits of an arm's runs are judged
FEWEST = 4  # runs of one arm that can be held against each other, two and two


class Plan(NamedTuple):
    """What is going to be judged; the margin is a fraction, and of the design only its size is known.

    Where an experiment has one arm (`alone`), that is half of its runs against the other half.
    """

    name: str
    primary: str
    design: Design
    margin: float | None
    alone: bool


class Between(NamedTuple):
    """The standard deviation of a run's true accuracy, pooled over arms, with its 95 % interval; and the rest."""

    parts: Spread
    low: float
    high: float
    runs: int
    arms: int
    accuracy: float


class Again(NamedTuple):
    """One arm against itself: its runs split into two sets of `size`, in `splits` ways of `possible`."""

    arm: str
    runs: int
    size: int
    splits: int
    possible: int
    better: int
    close: int | None
    identical: int


class Calibration(NamedTuple):
    """What the simulation of a plan found; `simulated` by true difference."""

    plan: Plan
    between: Between
    detectable: tuple[float, float, float]  # at the estimated spread, at the low and the high end of its interval
    simulated: dict[float, Operating]
    again: list[Again]


def calibrate(
    source: Path,
    runs: Path = Path("runs"),
    *,
    repeats: int = 2000,
    margin: float | None = None,
    seed: int = 0,
    report: Callable[[str], None],
) -> Calibration:
    """Simulate the design of an experiment, given as its folder of runs or its file, with the spread of its runs.

    `margin` in points replaces the declared one. Raises DataError where no arm has two finished runs.
    """
    plan, scores = _read(source, runs)
    if margin is not None:
        plan = plan._replace(margin=margin / 100)
    between = measure(scores, source)
    null = fit(between.parts, between.accuracy, plan.design)
    found, low, high = (
        _detectable(null._replace(spread=value), ALPHA / len(null.pairs))
        for value in (between.parts.seed, between.low, between.high)
    )
    simulated = {}
    effects = sorted({0.0, found / 2, found, *([plan.margin] if plan.margin else [])})
    for i, effect in enumerate(effects):
        design = null._replace(effect=effect)
        drawn = sample(design, np.random.default_rng([seed, i]), repeats)
        simulated[effect] = operating(design, drawn, margin=plan.margin, alpha=ALPHA)
        report(f"simulated {i + 1} of {len(effects)} true differences")
    again = [judge_again(arm, t, plan.margin, seed) for arm, t in scores.table.items() if len(t) >= FEWEST]
    return Calibration(plan, between, (found, low, high), simulated, again)


def _detectable(null: Design, alpha: float) -> float:
    """Return the smallest effect found in 80 % of repeats, where the effect itself differs from problem to problem.

    A difference that turns few problems makes those differ much, so the plan is made again at the effect it gave.
    """
    effect = 0.0
    for _ in range(4):
        effect = detectable(truth(null._replace(effect=effect)), null.seeds, null.problems, alpha=alpha)
    return effect


def _read(source: Path, runs: Path) -> tuple[Plan, Scores]:
    """Return what the file or the stored experiment plans, and the stored scores."""
    if source.suffix != ".toml":
        stored = read_experiment(source)
        info, scores = stored.info, primary(stored)
        groups = len({cell.levels for cell in info.cells}) or 1
        design = Design(len(info.seeds), len(scores.problems), arms=len(info.arms), groups=groups)
        return _plan(source, info.name, info.primary, design, info.margin), scores
    exp = load_experiment(source)
    scores = primary(read_experiment(ExperimentPaths(runs / exp.name).root))
    limit = exp.setting.eval[exp.primary.split(":")[0]].limit
    groups = len({tuple(arm.levels.items()) for arm in exp.arms.values()})
    design = Design(len(exp.seeds), limit or len(scores.problems), arms=len(exp.arms), groups=groups)
    return _plan(source, exp.name, exp.primary, design, exp.margin), scores


def _plan(source: Path, name: str, primary: str, design: Design, margin: float | None) -> Plan:
    alone = design.arms == 1
    if alone:
        design = design._replace(arms=2, seeds=design.seeds // 2)
    if design.seeds < 2:
        raise DataError(
            f"{source}: nothing can be said of algorithms with one seed an arm, nor of one arm against itself with "
            "fewer than four; give the file more seeds"
        )
    return Plan(name, primary, design, None if margin is None else margin / 100, alone)


def measure(scores: Scores, source: Path) -> Between:
    """Estimate the spread between runs with its uncertainty: that of the mean square between seeds (chi-squared)."""
    from scipy.special import chdtri

    tables = {arm: t for arm, t in scores.table.items() if len(t) >= 2}
    if not tables:
        raise DataError(
            f"{source}: no arm has two finished runs, so the spread between runs is unknown; run more seeds"
        )
    parts = spread(tables)
    squares = [anova(t) for t in tables.values()]
    df = sum(len(t) - 1 for t in tables.values())
    mean_square = sum(s.seed * (s.shape[0] - 1) for s in squares) / df
    ends = (mean_square * df / chdtri(df, p) for p in (0.025, 0.975))
    low, high = (math.sqrt(max(0.0, end - parts.residual**2) / len(scores.problems)) for end in ends)
    accuracy = float(np.mean([t.mean() for t in tables.values()]))
    if not 0 < accuracy < 1:
        raise DataError(f"{source}: the mean score is {accuracy:g}; experiments are simulated between 0 and 1 only")
    return Between(parts, low, high, sum(map(len, tables.values())), len(tables), accuracy)


def judge_again(arm: str, runs: np.ndarray, margin: float | None, seed: int = 0) -> Again:
    """Judge one arm against itself (A/A): every ordered split of its runs [runs, problems] into two equal sets."""
    size = len(runs) // 2
    possible = math.comb(len(runs), size) * math.comb(len(runs) - size, size)
    chosen = list(_splits(len(runs), size)) if possible <= SPLITS else _drawn(len(runs), size, seed)
    better = close = same = 0
    for one, other in chosen:
        a, b = runs[list(one)], runs[list(other)]
        if identical(a, b):
            same += 1
            continue
        d = difference(a, b)
        better += d.p() < ALPHA
        close += margin is not None and d.p_equivalent(margin) < ALPHA
    return Again(arm, len(runs), size, len(chosen), possible, better, None if margin is None else close, same)


def _splits(runs: int, size: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    for one in combinations(range(runs), size):
        for other in combinations(sorted(set(range(runs)) - set(one)), size):
            yield one, other


def _drawn(runs: int, size: int, seed: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    rng = np.random.default_rng([seed, runs])
    orders = [rng.permutation(runs).tolist() for _ in range(SPLITS)]
    return [(tuple(order[:size]), tuple(order[size : 2 * size])) for order in orders]


def text(c: Calibration) -> str:
    """Return the calibration for a terminal."""
    plan, between, parts = c.plan, c.between, c.between.parts
    margin = "no margin declared" if plan.margin is None else f"margin {100 * plan.margin:g} points"
    found, low, high = (f"{100 * value:.1f}" for value in c.detectable)
    repeats = next(iter(c.simulated.values())).repeats
    several = f", Holm over {len(plan.design.pairs)} pairs" if len(plan.design.pairs) > 1 else ""
    arms, seeds = plan.design.arms, plan.design.seeds
    runs = f"{seeds} + {seeds} seeds of one arm" if plan.alone else f"{arms} arms x {seeds} seeds"
    lines = [
        f"{plan.name}, {plan.primary}: {runs} x {plan.design.problems:,} problems, {margin}",
        "",
        f"From {between.runs} finished runs of {_arms(between.arms)}",
        f"  between runs: {100 * parts.seed:.2f} points of accuracy (standard deviation; 95 % interval "
        f"{100 * between.low:.2f} to {100 * between.high:.2f})",
        f"  between problems, of the arms' difference: {100 * parts.item:.1f} points",
        f"  one answer: {100 * parts.residual:.1f} points",
        f"Smallest difference found in 80 % of repeats: {found} points ({low} to {high} over that interval)",
        "",
        f"The verdict on {repeats:,} simulated experiments{several}",
        *table(*_simulated(c)),
        "",
        '"one checkpoint": mid-p McNemar on the first run of each arm, which is no test of algorithms.',
        f"A share of 5 % has a Monte-Carlo standard error of {100 * math.sqrt(0.05 * 0.95 / repeats):.1f} points.",
        "",
    ]
    lines += [_again(again) for again in c.again]
    if not c.again:
        lines += [f"No arm has {FEWEST} finished runs, so none is held against itself (A/A)."]
    return "\n".join(lines)


def _arms(n: int) -> str:
    return "1 arm" if n == 1 else f"{n} arms"


def _simulated(c: Calibration) -> tuple[list[str], list[list[str]]]:
    header = ["true difference", '"better"', "false claim", "95 % interval covers", "one checkpoint differs"]
    header += ["within the margin"] if c.plan.margin is not None else []
    rows = []
    for effect, o in c.simulated.items():
        better = "—" if effect == 0 else f"{o.better:.1%}"
        row = [f"{100 * effect:.2f}", better, f"{o.wrong:.1%}", f"{o.covered:.1%}", f"{o.single:.1%}"]
        rows.append(row + ([f"{o.close:.1%}"] if c.plan.margin is not None else []))
    return header, rows


def _again(a: Again) -> str:
    ways = f"{a.splits:,} ordered splits" if a.splits == a.possible else f"{a.splits:,} drawn of {a.possible:,} splits"
    close = "" if a.close is None else f", within the margin in {a.close:,}"
    same = f", identical in {a.identical:,}" if a.identical else ""
    return (
        f'A/A, {a.arm} against itself: {ways} of its {a.runs} runs into {a.size} + {a.size}: "better" in {a.better:,}'
        f"{close}{same}. The splits share runs, so this is one draw rather than {a.splits:,}."
    )
