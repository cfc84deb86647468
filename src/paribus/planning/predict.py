"""Time and cost before the runs: what a timed pilot says of whole runs.

What a run takes is predicted as

    around + first step + (steps - 1) x step + checkpoints x save + evaluations

`around` is what no row records: starting the process, loading, the final weights. The pilot's steps are the first of a
training, so a change of response lengths, or of the share of rows without a gradient, is not seen: the interval covers
the spread of the timed steps only, and `longest` says what a run would take if every response ran to the limit.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from paribus.experiment import Experiment, Setting
from paribus.planning.pilot import ArmTimes, Times, critic_warm_up, earlier, pilot
from paribus.planning.text import table
from paribus.report.text import duration
from paribus.stats import Interval
from paribus.store.plan import PlanInfo

METHOD = "t on the logarithms of step seconds, their spread pooled over the arms"


class RunCost(NamedTuple):
    """What one run of an arm is predicted to take, in seconds."""

    steps: int
    training: Interval  # as the report counts it: evaluations left out
    evaluation: float
    around: float
    longest: float  # training, if every response ran to the limit

    @property
    def wall(self) -> Interval:
        """The whole run, from starting its process to its end."""
        return _moved(self.training, self.evaluation + self.around)


class Prediction(NamedTuple):
    """What an experiment is predicted to take: `arms` a run each, `whole` everything one after another, in seconds."""

    arms: dict[str, RunCost]
    base: float
    whole: Interval
    price_per_hour: float

    def dollars(self, seconds: float) -> float:
        return seconds / 3600 * self.price_per_hour


def predict(exp: Experiment, measured: Times, level: float = 0.95) -> Prediction:
    """Return what the runs of an experiment will take if they go as the pilot did."""
    spread, df = relative_spread([arm.steps for arm in measured.arms.values()])
    arms = {name: _run_cost(exp, name, measured, spread, df, level) for name in exp.arms}
    base = measured.around + measured.base
    runs = [arms[name].wall for name in exp.arms]
    low, middle, high = (sum(getattr(run, side) for run in runs) for side in ("low", "estimate", "high"))
    n, seeds = sum(len(arm.steps) for arm in measured.arms.values()), len(exp.seeds)
    whole = Interval(base + seeds * middle, base + seeds * low, base + seeds * high, n, METHOD)
    return Prediction(arms, base, whole, exp.setting.machine.price_per_hour)


def relative_spread(steps: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Return the standard deviation of log step seconds within arms, pooled, and its degrees of freedom."""
    logs = [[math.log(seconds) for seconds in arm] for arm in steps]
    df = sum(len(arm) - 1 for arm in logs)
    squares = sum((x - statistics.fmean(arm)) ** 2 for arm in logs for x in arm)
    return (math.sqrt(squares / df) if df else math.nan), df


def _run_cost(exp: Experiment, name: str, measured: Times, spread: float, df: int, level: float) -> RunCost:
    setting, arm = exp.arms[name].setting(exp.setting), measured.arms[name]
    step = statistics.fmean(arm.steps)
    n = steps_of(setting, arm)
    alone = min(n, critic_warm_up(exp, name))
    saves = -(-n // setting.save.every)
    training = arm.first + (n - 1) * step - alone * arm.policy_update + saves * arm.save
    longer = n * arm.scaling * (1 / arm.fill - 1) if arm.fill > 0 else 0.0
    if setting.budget.seconds is not None:
        span = Interval(training, setting.budget.seconds, setting.budget.seconds + step, len(arm.steps), "the budget")
        longer = 0.0
    else:
        span = _log_interval(training, spread * math.sqrt(1 / len(arm.steps) + 1 / n), df, level, len(arm.steps))
    evaluations = {
        suite: 1 + ((n - 1) // spec.every if spec.every is not None else 0) for suite, spec in setting.eval.items()
    }
    seconds = sum(count * arm.evals[suite] for suite, count in evaluations.items())
    return RunCost(n, span, seconds, measured.around, training + longer)


def steps_of(setting: Setting, arm: ArmTimes) -> int:
    """Return how many steps a run's budget pays for, at what a step of the pilot drew or took."""
    budget = setting.budget
    if budget.steps is not None:
        return budget.steps
    if budget.samples is not None:
        return math.ceil(budget.samples / arm.samples)
    if budget.tokens is not None:
        return math.ceil(budget.tokens / arm.tokens)
    assert budget.seconds is not None
    return max(1, math.ceil((budget.seconds - arm.first) / statistics.fmean(arm.steps)) + 1)


def _log_interval(estimate: float, se: float, df: int, level: float, n: int) -> Interval:
    """An interval that is symmetric on the logarithm; infinite where nothing could be learned of the spread."""
    from paribus.stats.interval import t_quantile

    if not df:
        return Interval(estimate, 0.0, math.inf, n, "one step: no spread")
    factor = math.exp(t_quantile(level, df) * se)
    return Interval(estimate, estimate / factor, estimate * factor, n, METHOD)


def _moved(x: Interval, by: float) -> Interval:
    return x._replace(estimate=x.estimate + by, low=x.low + by, high=x.high + by)


def from_pilot(exp: Experiment, runs: Path | str) -> list[str]:
    """Run a pilot, or what is left of it, and return what it predicts as lines for a terminal."""
    return text(exp, predict(exp, pilot(exp, runs)))


def timed(plan: PlanInfo, exp: Experiment, runs: Path | str) -> PlanInfo:
    """Return a plan with the training seconds and dollars of a run that an earlier pilot predicts, if there was one."""
    measured = earlier(exp, runs)
    if measured is None:
        return plan
    cost = predict(exp, measured)
    rows = []
    for arm in plan.arms:
        span = cost.arms[arm.arm].training
        bounds = {"seconds_low": span.low, "seconds_high": span.high} if math.isfinite(span.high) else {}
        known = {"seconds": span.estimate, "dollars": cost.dollars(span.estimate), **bounds}
        rows.append(arm.model_copy(update=known))
    return plan.model_copy(update={"arms": tuple(rows)})


def text(exp: Experiment, cost: Prediction) -> list[str]:
    """Return the predicted time and price of an experiment as lines for a terminal."""

    def row(label: str, *cells: str) -> list[str]:
        return [label, *cells]

    arms, seeds = list(cost.arms.values()), len(exp.seeds)
    rows = [
        row("steps", *(f"{arm.steps:,}" for arm in arms)),
        row("training", *(duration(arm.training.estimate) for arm in arms)),
        row("  interval", *(span(arm.training) for arm in arms)),
        row("  if every response ran to the limit", *(duration(arm.longest) for arm in arms)),
        row("evaluation", *(duration(arm.evaluation) for arm in arms)),
        row("starting and loading", *(duration(arm.around) for arm in arms)),
        row("one run", *(duration(arm.wall.estimate) for arm in arms)),
        row(f"all {seeds} seeds", *(duration(seeds * arm.wall.estimate) for arm in arms)),
        row("price of all seeds", *(f"${cost.dollars(seeds * arm.wall.estimate):.3f}" for arm in arms)),
    ]
    whole = cost.whole
    return [
        "Predicted time, from the timed steps of a pilot",
        *table(["one run", *cost.arms], rows),
        f"Whole experiment, one run after another: {duration(whole.estimate)} ({span(whole)}), "
        f"${cost.dollars(whole.estimate):.3f} at ${cost.price_per_hour:.2f} an hour.",
        "The interval covers the spread of the timed steps; responses that grow or shrink in training are not in it.",
    ]


def span(x: Interval) -> str:
    """Return the bounds of an interval of seconds."""
    return f"{duration(x.low)} to {duration(x.high)}" if math.isfinite(x.high) else "unknown from one step"
