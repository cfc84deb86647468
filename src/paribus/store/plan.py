"""What was planned before the runs: `plan.json` of an experiment's folder."""

from __future__ import annotations

from collections.abc import Mapping

from paribus.store.schema import SCHEMA_VERSION, Phase, Row


class ArmPlan(Row):
    """What one run of an arm is planned to need, at full lengths; bytes, empty where the model's shape is unknown.

    `memory` is the most that each component ever holds, `at_peak` what they hold at the fullest moment, `phases` the
    most of each phase, the process before any model not counted. `seconds` (training, of one run) and `dollars` come
    from a timed pilot, where there was one.
    """

    arm: str
    memory: Mapping[str, int] = {}
    at_peak: Mapping[str, int] = {}
    phases: Mapping[Phase, int] = {}
    peak: int | None = None
    peak_phase: Phase | None = None
    tokens: int | None = None  # sampled in one run, at most; None: the budget is in seconds
    seconds: float | None = None
    seconds_low: float | None = None
    seconds_high: float | None = None
    dollars: float | None = None


class SpreadRow(Row):
    """Standard deviations of scores (fractions) that the statistical plan assumes, and where they come from."""

    seed: float
    item: float
    residual: float
    source: str


class PowerRow(Row):
    """What the experiment can show if a run's true accuracy varies with standard deviation `seed` (fractions)."""

    seed: float
    detectable: float | None  # smallest difference found in 80 % of repeats, after Holm's correction
    seeds_for: Mapping[str, int | None]  # difference in points -> runs of each arm that find it
    margin: float | None  # smallest margin within which equal arms come out as equivalent in 80 % of repeats
    equivalence: float | None  # how often equal arms come out as equivalent within the declared margin
    seeds_equivalent: int | None  # runs of each arm that bring that to 80 %


class CheckRow(Row):
    """One condition of a fair comparison: whether it holds, by the file alone. None: the file can't tell."""

    check: str
    holds: bool | None
    reason: str


class PlanInfo(Row):
    """plan.json: memory, sampling, what can be shown and what is fair; written before the first run."""

    schema_version: int = SCHEMA_VERSION
    model: str  # where the model's shape was found, or why it is unknown
    device: str  # "cpu" or "cuda": whose way of holding memory was planned
    arms: tuple[ArmPlan, ...]
    seeds: int
    problems: int | None  # of the primary suite
    pairs: int  # comparisons that Holm's correction counts
    spread: SpreadRow
    power: tuple[PowerRow, ...]  # the assumed spread first, then others for orientation
    declared_margin: float | None  # fraction
    checks: tuple[CheckRow, ...]
