"""What rewards read and give: a graded response in, a number out; None where it cannot be told, never a silent 0."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pydantic import Field, model_validator

from paribus.errors import ConfigError
from paribus.part import Part, dump
from paribus.tasks.mathpool import Outcome
from paribus.types import Key, Problem, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One graded row. `key` (seed, step, problem, sample; purpose `noise`) says who is drawn where noise is added."""

    problem: Problem
    text: str
    truncated: bool
    verdict: Verdict
    key: Key


Values = list[float | None]  # one per row; None: could not be told
ModelScorer = Callable[[Sequence[Response]], list[float]]


class Judged(NamedTuple):
    """Rewards of some rows.

    `components` holds every term by its name, before weights. `failed` counts calls of user functions that crashed or
    ran out of time, `reason` says why the last of them did.
    """

    total: Values
    components: dict[str, Values]
    failed: int
    reason: str = ""


@dataclass(slots=True)
class Tally:
    """What is passed down while rows are judged: the reward models at hand, and what has been found so far.

    `outcomes` are those of user functions that were called before, row by row.
    """

    models: Mapping[str, ModelScorer] = field(default_factory=dict)
    outcomes: Mapping[Part, Sequence[Outcome]] = field(default_factory=dict)
    components: dict[str, Values] = field(default_factory=dict)
    failed: int = 0
    reason: str = ""


class Scorer(Part):
    """Base of whatever gives numbers to responses."""

    @property
    def version(self) -> str:
        """A short hash of source, settings and materials: equal versions give equal numbers. Raises ConfigError."""
        settings = json.dumps([dump(self), self.materials()], sort_keys=True).encode()
        return hashlib.sha256(_source_hash() + settings).hexdigest()[:12]

    def materials(self) -> list[str]:
        """Name by content what the numbers depend on beside code and settings. Raises ConfigError if it is absent."""
        return []


class Reward(Scorer):
    """Base of the kinds of reward."""

    @abstractmethod
    def score(self, rows: Sequence[Response], name: str, tally: Tally) -> Values:
        """Return one value per row; `name` is this reward's own, under which `record` stores what is returned."""

    def record(self, rows: Sequence[Response], name: str, tally: Tally) -> Values:
        """Score the rows and store the values as component `name`."""
        tally.components[name] = values = self.score(rows, name, tally)
        return values


class Learned(Scorer):
    """Base of what a learned model scores: `(raw - mean) / std`, then kept within `low` and `high` where given.

    `path` is the folder of a reward model; whoever judges supplies a scorer for it.
    """

    path: str
    mean: float = 0.0
    std: float = Field(default=1.0, gt=0)
    low: float | None = None
    high: float | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Learned:
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise ValueError(f"low = {self.low} must be less than high = {self.high}")
        return self

    def materials(self) -> list[str]:
        return [_folder_hash(self.path)]

    def scale(self, raw: float) -> float | None:
        """Return a raw score as it is rewarded; None for one that is not finite."""
        if not math.isfinite(raw):
            return None
        scaled = (raw - self.mean) / self.std
        low, high = -math.inf if self.low is None else self.low, math.inf if self.high is None else self.high
        return min(max(scaled, low), high)


def counted(verdict: Verdict) -> float | None:
    """Return a verdict's score, or None where the grader could not tell."""
    return verdict.score if verdict.status in ("ok", "unparsable") else None


def release(package: str, extra: str) -> str:
    """Return a package's version. Raises ConfigError naming the extra that installs it."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise ConfigError(f"this reward needs {package}: pip install 'paribus[{extra}]'") from None


@cache
def _source_hash() -> bytes:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()


@cache
def _folder_hash(path: str) -> str:
    files = sorted(p for p in Path(path).rglob("*") if p.is_file())
    if not files:
        raise ConfigError(f"{path}: no reward model here; give the folder that training one wrote")
    digest = hashlib.sha256()
    for each in files:
        digest.update(each.relative_to(path).as_posix().encode() + b"\0")
        with open(each, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]
