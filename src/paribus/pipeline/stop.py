"""Ctrl-C and SIGTERM: the first asks for a stop after the step, the second stops at once; a run stays resumable."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Any

from paribus.errors import Interrupted


class StopRequest:
    """A context in which SIGINT and SIGTERM set a flag instead of killing."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._old: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._old[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise Interrupted if a stop was asked for: called where stopping loses nothing."""
        if self.number is not None:
            raise Interrupted(self.number)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            raise Interrupted(number)
        self.number = number
