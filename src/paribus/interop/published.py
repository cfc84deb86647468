"""Numbers that were published without their rows: counts of right answers, cost, memory, speed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, model_validator

from paribus.errors import ConfigError, DataError
from paribus.part import Part, load

_COUNTS = re.compile(r"(\d+)/(\d+)")


@dataclass(frozen=True, slots=True)
class Counts:
    """How many of the same problems one model solved."""

    name: str
    correct: int
    total: int


def parse_counts(text: str) -> Counts | None:
    """Return "776/1319" as counts; None if it is something else. Raises DataError for impossible ones."""
    match = _COUNTS.fullmatch(text)
    if not match:
        return None
    correct, total = int(match[1]), int(match[2])
    if correct > total or total < 2:
        raise DataError(
            f"{text}: write RIGHT/PROBLEMS, at most as many right answers as problems, of which two or more"
        )
    return Counts(text, correct, total)


class PublishedModel(Part):
    """What was published of one model; every number as printed, None where nothing was."""

    correct: int = Field(ge=0)
    untrained: bool = False  # the starting point of the others: it has no training cost
    hours: float | None = Field(default=None, gt=0)  # wall-clock of training
    price: float | None = Field(default=None, gt=0)  # dollars
    tokens_per_second: float | None = Field(default=None, gt=0)  # of training
    device_gb: float | None = Field(default=None, gt=0)  # peak seen from outside (nvidia-smi)
    allocated_gb: float | None = Field(default=None, gt=0)  # peak of PyTorch's allocator
    output_tokens: float | None = Field(default=None, gt=0)  # mean of an answer
    generation_seconds: float | None = Field(default=None, gt=0)  # for all problems
    decode_tokens_per_second: float | None = Field(default=None, gt=0)


class Published(Part):
    """A published comparison: models evaluated on the same problems, one run each."""

    title: str
    source: str = ""
    problems: int = Field(ge=2)
    device: str = ""
    capacity_gb: float | None = Field(default=None, gt=0)
    model: Mapping[str, PublishedModel] = Field(min_length=1)

    @model_validator(mode="after")
    def _counts_fit(self) -> Published:
        for name, model in self.model.items():
            if model.correct > self.problems:
                raise ValueError(f"model.{name}.correct: {model.correct} of {self.problems} problems")
        return self

    @property
    def counts(self) -> list[Counts]:
        return [Counts(name, model.correct, self.problems) for name, model in self.model.items()]


def read(path: Path, data: bytes) -> Published:
    """Return a file of published numbers. Raises ConfigError that names file and key."""
    try:
        tables = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: neither JSON lines, parquet nor TOML: {error}") from None
    return load(Published, tables, where=str(path))
