"""Field names of everything that is stored, versioned; writer and reader share them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from paribus.types import Status, Stop

SCHEMA_VERSION = 1

Phase = Literal[
    "rollout", "grade", "old_logp", "ref_logp", "values", "policy_update", "critic_update", "save", "eval", "other"
]

PHASES: tuple[Phase, ...] = (
    "rollout",
    "grade",
    "old_logp",
    "ref_logp",
    "values",
    "policy_update",
    "critic_update",
    "save",
    "eval",
    "other",
)

RunStatus = Literal["running", "interrupted", "done", "failed"]
StatRow = dict[str, float | None]  # {sum, count} | {max, count} | {sum, square, count}; null where it was not finite


class Row(BaseModel):
    """Base of all stored values: immutable, refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class StepRow(Row):
    """One training step: only what the same run gives again bit by bit.

    `step` counts completed steps: the first row is step 1, and checkpoint `step-10` or evaluation `10` stand after
    row 10. `samples` and `tokens` (sampled ones) are cumulative, `dropped` is this step's prompts left out.
    """

    step: int
    samples: int
    tokens: int
    dropped: int = 0
    stats: Mapping[str, StatRow]


class TimingRow(Row):
    """Seconds and memory of one step, or of one evaluation at `step`; kept through restarts, so lost work shows.

    `seconds` by phase add up to the row's wall-clock. `tokens` are those sampled in the row. Memory is in bytes, the
    peak within each phase: `rss_peak` of the process, `allocated_peak` and `reserved_peak` of the device's allocator.
    `attempt` is filled in by the writer.
    """

    step: int
    attempt: int = 0
    suite: str | None = None  # evaluation suite; None: a training step
    seconds: Mapping[Phase, float]
    tokens: int = 0
    rss: int | None = None  # at the end of the row
    rss_peak: Mapping[Phase, int] = {}
    allocated_peak: Mapping[Phase, int] = {}
    reserved_peak: Mapping[Phase, int] = {}

    @property
    def wall(self) -> float:
        return sum(self.seconds.values())


class ShortRow(Row):
    """The same response as if it had been cut at a shorter length limit, graded again."""

    limit: int  # tokens
    answer: str | None
    score: float | None
    status: Status
    truncated: bool


class EvalRow(Row):
    """One response to one problem: the unit that every paired statistic needs."""

    problem_id: str
    sample: int = 0
    response: str
    answer: str | None
    score: float | None  # null: not counted (the gold is unreadable or the grader failed)
    status: Status
    format: bool
    truncated: bool
    tokens: int
    prompt_tokens: int
    grader: str  # version hash
    reward: float | None = None  # what training optimises, where that is not the grader's score
    kl: float | None = None  # to the starting policy: log-prob ratio of the response, where the suite asks for it
    references: Mapping[str, float | None] = {}  # scores by the reference graders that ran beside the declared one
    short: ShortRow | None = None  # under a second, shorter length limit, where the suite has one


class RolloutRow(Row):
    """One training response as it was rewarded."""

    problem_id: str
    sample: int
    prompt: str
    response: str
    score: float | None
    parts: Mapping[str, float | None] = {}
    advantage: float | None  # mean over the row's trained tokens
    tokens: int
    stop: Stop


class ProblemRow(Row):
    """What an evaluation asked, stored once per experiment for the report's examples."""

    problem_id: str
    question: str
    gold: str


class GraderInfo(Row):
    """Which grader scored the run."""

    name: str
    policy: str
    version: str


class HubInfo(Row):
    """Which rows of the hub were read: the data set's id, its configuration, its split, and the commit."""

    id: str
    config: str
    split: str
    revision: str


class DataInfo(Row):
    """Which problems were used, and how: hashes are over ids and contents in order.

    `graders` are the declared grader of these problems and then the reference graders. Runs of earlier versions lack
    `prompts`, `graders`, and where the data was read from.
    """

    name: str
    split: str
    n: int
    hash: str
    prompts: str | None = None  # hash of the rendered prompts
    graders: tuple[GraderInfo, ...] = ()
    source: str | None = None  # the file, or the hub's id and split; None: generated
    columns: Mapping[str, str] = {}  # what was read -> the column that it was read from
    hub: HubInfo | None = None


class RunFacts(Row):
    """What the pipeline knows of a run and the store cannot find out.

    `config_hash` identifies the configuration less what may change between attempts (machine, saving). `data` is
    keyed by use: `train`, the names of the evaluation suites, and `given` for answers that were not sampled.
    """

    config_hash: str
    grader: GraderInfo
    data: Mapping[str, DataInfo]
    device: str  # "cpu: AMD EPYC 7B13", "cuda: NVIDIA L40S"
    device_bytes: int | None  # capacity of the device's own memory, or of the host for a CPU
    threads: int
    parallel: int = 1  # runs at work at a time, this one included, at most
    determinism: str  # the level that holds, in words
    idle_rss: int | None = None  # bytes of the process after its imports, before any model is loaded


class SuiteInfo(Row):
    """One evaluated suite of a folder that `paribus eval` wrote: its settings, resolved, and what it asked."""

    spec: Mapping[str, Any]
    data: DataInfo


class EvalInfo(Row):
    """eval.json: which model was evaluated, how, and on what; a suite stands here once all its rows are written."""

    schema_version: int = SCHEMA_VERSION
    model: Mapping[str, Any]  # as the file or `--model` names it
    weights: str  # hash of the parameters, wherever they lie and in whatever files
    seed: int  # of sampled decoding
    device: str
    threads: int
    code: str  # hash of the package's own source
    packages: Mapping[str, str]
    suites: Mapping[str, SuiteInfo]


class Attempt(Row):
    """One process that worked on a run: where and with what."""

    number: int
    started: str  # ISO 8601, UTC
    ended: str | None = None  # null: still running, or killed
    host: str
    platform: str
    device: str
    device_bytes: int | None
    threads: int
    parallel: int = 1
    determinism: str
    idle_rss: int | None = None
    python: str
    packages: Mapping[str, str]
    code: str  # hash of the package's own source
    git: str | None


class RunInfo(Row):
    """run.json. `id` is the hash of configuration, data and code; the marker files, not `status`, say how it ended."""

    schema_version: int = SCHEMA_VERSION
    id: str
    experiment: str
    arm: str
    seed: int
    status: RunStatus
    config_hash: str
    grader: GraderInfo
    data: Mapping[str, DataInfo]
    attempts: tuple[Attempt, ...]


class DifferenceRow(Row):
    """One setting in which the arms differ; `declared` is False for one that nobody announced."""

    path: str
    values: Mapping[str, Any]  # by arm
    declared: bool
    note: str = ""


class FactorRow(Row):
    """What the experiment varies across all arms: its levels in order, and the keys that they change."""

    name: str
    levels: tuple[str, ...]
    changes: Mapping[str, Mapping[str, Any]]  # by level: dotted key -> value


class CellRow(Row):
    """Which arm of the file a stored arm is, and at which level of each factor (in the order of the factors)."""

    arm: str
    of: str
    levels: tuple[str, ...]


class ExperimentInfo(Row):
    """experiment.json: what was asked, of which arms, and in what they differ.

    With factors, `arms` are the cells: every arm of the file at every combination of levels.
    """

    schema_version: int = SCHEMA_VERSION
    name: str
    question: str
    primary: str  # "<suite>:<metric>", declared before running: accuracy, pass@k or maj@k
    seeds: tuple[int, ...]
    arms: tuple[str, ...]  # in the order of the file
    differences: tuple[DifferenceRow, ...]
    margin: float | None = None  # percentage points within which arms count as equivalent, declared before running
    price_per_hour: float
    resolved: Mapping[str, Any]  # the whole experiment without defaults left
    created: str = ""  # ISO 8601, UTC; filled in by the first writing
    factors: tuple[FactorRow, ...] = ()
    cells: tuple[CellRow, ...] = ()  # one for each arm, where there are factors


def stat_value(stat: StatRow) -> float | None:
    """Return the mean or the maximum that a stored statistic holds; None where nothing finite was counted."""
    count = stat.get("count")
    if not count:
        return None
    if "max" in stat:
        return stat["max"]
    total = stat["sum"]
    return None if total is None else total / count
