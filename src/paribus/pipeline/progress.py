"""What a person watching sees: bars with an ETA on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

HEARTBEAT = 10.0  # seconds between lines where there is no terminal


def clock_text(seconds: float) -> str:
    """Return `1:02:03` or `2:03`."""
    minutes, second = divmod(round(max(0.0, seconds)), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


class Watch:
    """Shows the runs of an experiment one after another; `plan` lists their labels (`ppo/seed-0`) in order.

    The estimate of what is left assumes that a run yet to come takes as long as the finished ones of the same arm
    (or of all arms, before there is one), and that the current run goes on as it went.
    """

    def __init__(self, plan: Sequence[str], stream: TextIO | None = None) -> None:
        self.plan = list(plan)
        self.stream = stream or sys.stderr
        self.console = Console(file=self.stream)
        self.took: dict[str, list[float]] = {}
        self.label = ""
        self.begun = self.spoken = time.perf_counter()
        self.done_share = 0.0
        self._bars: Progress | None = None
        self._task: Any = None

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
        self.label, self.begun, self.done_share = label, time.perf_counter(), 0.0
        if self._bars is not None:
            if self._task is not None:
                self._bars.remove_task(self._task)
            self._task = self._bars.add_task(label, total=None, detail="loading")

    def finish(self, seconds: float) -> None:
        """Count the current run's seconds towards the estimate of the ones to come."""
        self.took.setdefault(self.label.split("/")[0], []).append(seconds)

    def note(self, text: str) -> None:
        """Print a line that stays."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)
        self.spoken = time.perf_counter()

    def advance(self, what: str, done: int, total: int | None, detail: str, share: float) -> None:
        """Show that `done` of `total` is reached; `share` is the part of the run that is over, 0 to 1."""
        self.done_share = share
        detail = f"{detail}  left about {clock_text(self.left())}"
        if self._bars is not None:
            self._bars.update(
                self._task, description=f"{self.label} {what}", completed=done, total=total, detail=detail
            )
        elif time.perf_counter() - self.spoken >= HEARTBEAT or done == 1:
            self.note(f"{self.label}  {what} {done}{f'/{total}' if total else ''}  {detail}")

    def left(self) -> float:
        """Return the estimated seconds until the last run ends."""
        spent = time.perf_counter() - self.begun
        current = spent / self.done_share - spent if self.done_share else 0.0
        expected = spent + current
        times = [t for ts in self.took.values() for t in ts] or [expected]
        place = self.plan.index(self.label) if self.label in self.plan else len(self.plan)
        ahead = 0.0
        for label in self.plan[place + 1 :]:
            known = self.took.get(label.split("/")[0]) or times
            ahead += sum(known) / len(known)
        return current + ahead
