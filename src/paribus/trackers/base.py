"""What a tracker is: a place that shows runs, told of them from their stored rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

Ending = Literal["done", "failed", "interrupted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Which run: `id` stays the same through resumes and is new for a run that was begun anew in the same folder."""

    id: str
    experiment: str  # the group
    arm: str
    seed: int
    name: str  # "ppo/seed-0", "base"
    config: Mapping[str, Any]  # the resolved configuration of the run
    started: float  # seconds since the epoch
    resumed: bool  # some of its points were sent before
    folder: Path  # for a tracker that keeps files with the experiment

    @property
    def tags(self) -> list[str]:
        return [self.arm, f"seed-{self.seed}"]


@dataclass(frozen=True, slots=True)
class Point:
    """Numbers that a run had after `step` completed steps, at `time` (seconds since the epoch); all are finite."""

    step: int
    time: float
    values: Mapping[str, float]


class TrackedRun(Protocol):
    """One run in a tracker."""

    def log(self, points: Sequence[Point]) -> None:
        """Take points in the order of their steps; none comes twice. What was taken survives a kill from here on."""

    def finish(self, ending: Ending, final: Point, texts: Mapping[str, str]) -> None:
        """Take the final numbers and texts, and close; an interrupted run has none and may be started again later."""


class Tracker(Protocol):
    """A kind of tracker; `where` names the store that it writes to, so that another store gets all points anew."""

    where: str

    def start(self, about: About) -> TrackedRun:
        """Open a run, or go on with it. Raises what the library raises."""
