"""What a person watching sees: bars with an ETA on a terminal, plain lines elsewhere."""

from __future__ import annotations

import heapq
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

HEARTBEAT = 10.0  # seconds between lines where there is no terminal


def clock_text(seconds: float) -> str:
    """Return `1:02:03` or `2:03`."""
    minutes, second = divmod(round(max(0.0, seconds)), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


@dataclass
class _Live:
    """A run at work: when it began, when it last said something, and how much of it is over (0 to 1)."""

    bar: Any
    begun: float
    spoken: float
    share: float = 0.0

    @property
    def whole(self) -> float | None:
        """Return the seconds from begin to end if it goes on as it went; None before it has said how far it is."""
        return (time.perf_counter() - self.begun) / self.share if self.share else None


class Watch:
    """Shows the runs of an experiment; `plan` lists their labels (`ppo/seed-0`) in the order in which they begin.

    The estimate of what is left assumes that a run yet to come takes as long as the finished ones of the same arm
    (or of all arms, before there is one), that those at work go on as they went, and that `at_once` work at a time.
    """

    def __init__(self, plan: Sequence[str], stream: TextIO | None = None) -> None:
        self.ahead = list(plan)
        self.at_once = 1
        self.stream = stream or sys.stderr
        self.console = Console(file=self.stream)
        self.took: dict[str, list[float]] = {}
        self.live: dict[str, _Live] = {}
        self._bars: Progress | None = None

    def __enter__(self) -> Watch:
        if self.console.is_terminal:
            columns = (TextColumn("{task.description:<18}"), BarColumn(28), MofNCompleteColumn())
            self._bars = Progress(*columns, TextColumn("{task.fields[detail]}"), console=self.console, transient=True)
            self._bars.start()
        return self

    def __exit__(self, *unused: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def start(self, label: str) -> None:
        """Show a run that begins."""
        self.ahead = [other for other in self.ahead if other != label]
        bar = None if self._bars is None else self._bars.add_task(label, total=None, detail="loading")
        self.live[label] = _Live(bar, begun=time.perf_counter(), spoken=time.perf_counter())

    def skip(self, label: str) -> None:
        """Say that a run of the plan needs no work."""
        self.ahead = [other for other in self.ahead if other != label]
        self.note(f"{label}: finished earlier")

    def finish(self, label: str, seconds: float) -> None:
        """Count a run's seconds towards the estimate of the ones to come."""
        self.took.setdefault(label.split("/")[0], []).append(seconds)

    def drop(self, label: str) -> None:
        """Show a run no longer: it is not at work any more, however it ended."""
        run = self.live.pop(label)
        if self._bars is not None:
            self._bars.remove_task(run.bar)

    def note(self, text: str) -> None:
        """Print a line that stays."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def advance(self, label: str, what: str, done: int, total: int | None, detail: str, share: float | None) -> None:
        """Show that `done` of `total` is reached; `share` is the part of the run that is over, None: as before."""
        run = self.live[label]
        run.share = run.share if share is None else share
        detail = f"{detail}  left about {clock_text(self.left())}"
        if self._bars is not None:
            self._bars.update(run.bar, description=f"{label} {what}", completed=done, total=total, detail=detail)
        elif time.perf_counter() - run.spoken >= HEARTBEAT or done == 1:
            self.note(f"{label}  {what} {done}{f'/{total}' if total else ''}  {detail}")
            run.spoken = time.perf_counter()

    def left(self) -> float:
        """Return the estimated seconds until the last run ends: each yet to come takes the place that is free first."""
        places = [max(0.0, run.begun + self._expected(label) - time.perf_counter()) for label, run in self.live.items()]
        places += [0.0] * (self.at_once - len(places))
        heapq.heapify(places)
        for label in self.ahead:
            heapq.heapreplace(places, places[0] + self._expected(label))
        return max(places)

    def _expected(self, label: str) -> float:
        """Return the seconds that a run takes: by its own pace, by its arm's finished runs, or by what others took."""
        own = self.live[label].whole if label in self.live else None
        if own is not None:
            return own
        others = [run.whole for run in self.live.values() if run.whole is not None]
        known = self.took.get(label.split("/")[0]) or [t for ts in self.took.values() for t in ts] or others
        return sum(known) / len(known) if known else 0.0
