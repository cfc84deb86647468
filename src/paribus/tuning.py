"""Equal tuning effort: every arm gets the same number of trials over its own declared ranges."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from paribus.part import Part
from paribus.settings import Budget
from paribus.types import Key


class Range(Part):
    """A stretch of numbers that trials are drawn from."""

    low: float
    high: float
    scale: Literal["log", "linear"] = "log"

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if self.low >= self.high:
            raise ValueError(f"low = {self.low:g} must be less than high = {self.high:g}")
        if self.scale == "log" and self.low <= 0:
            raise ValueError(f'low = {self.low:g} has no logarithm: use scale = "linear"')
        return self

    def at(self, share: float) -> float:
        """Return the number at a share of the way from low to high, on the range's scale."""
        if self.scale == "linear":
            return self.low + share * (self.high - self.low)
        return math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))


Choices = Range | tuple[Any, ...]


class Tune(Part):
    """A search before the runs, on a validation suite and on seeds that no run of the comparison uses.

    The trial with the highest mean of `by` over `seeds` wins for its arm, of equals the first.
    """

    by: str  # "<suite>:<metric>"; the suite's problems must not be those of the primary one
    trials: int = Field(ge=1)  # of every arm
    seeds: tuple[int, ...] = Field(min_length=1)
    budget: Budget | None = None  # of a trial; None: the experiment's
    ranges: dict[str, Choices] = Field(default_factory=dict)  # dotted key -> what to try, in every arm
    arm: dict[str, dict[str, Choices]] = Field(default_factory=dict)  # arm -> ranges of its own

    @field_validator("ranges", mode="before")
    @classmethod
    def _by_dotted_key(cls, ranges: Any) -> Any:
        return _dotted(ranges) if isinstance(ranges, Mapping) else ranges

    @field_validator("arm", mode="before")
    @classmethod
    def _own_by_dotted_key(cls, arms: Any) -> Any:
        if not isinstance(arms, Mapping):
            return arms
        return {name: _dotted(table) if isinstance(table, Mapping) else table for name, table in arms.items()}

    def values(self, arm: str) -> list[dict[str, Any]]:
        """Return what each trial of an arm changes, by dotted key; the same file gives the same trials.

        Lists alone are a grid: all of it where it has as many points as there are trials, else a random part of it.
        With a Range every key is drawn by Latin hypercube sampling. Raises ValueError where there is too little to try.
        """
        ranges = self.ranges | self.arm.get(arm, {})
        if not ranges:
            raise ValueError(f"tune: nothing to try for arm '{arm}': give [tune.ranges] or [tune.arm.{arm}]")
        rng = np.random.default_rng(Key(0, "tune", problem=",".join(ranges)).hash())
        lists = [choices for choices in ranges.values() if not isinstance(choices, Range)]
        if len(lists) == len(ranges):
            grid = list(itertools.product(*lists))
            if len(grid) < self.trials:
                raise ValueError(f"tune: arm '{arm}' has {len(grid)} points to try, fewer than trials = {self.trials}")
            picked = sorted(rng.permutation(len(grid))[: self.trials])
            return [dict(zip(ranges, grid[i], strict=True)) for i in picked]
        columns = {key: _stratified(choices, self.trials, rng) for key, choices in ranges.items()}
        return [{key: column[i] for key, column in columns.items()} for i in range(self.trials)]


def _dotted(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested tables as one, by dotted key; a table with `low` is a range."""
    out: dict[str, Any] = {}
    for name, value in table.items():
        key = f"{prefix}{name}"
        out |= _dotted(value, f"{key}.") if isinstance(value, Mapping) and "low" not in value else {key: value}
    return out


def _stratified(choices: Choices, trials: int, rng: np.random.Generator) -> Sequence[Any]:
    shares = (rng.permutation(trials) + rng.random(trials)) / trials
    if isinstance(choices, Range):
        return [choices.at(float(share)) for share in shares]
    return [choices[int(share * len(choices))] for share in shares]
