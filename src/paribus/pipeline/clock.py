"""Seconds and peak memory of each phase of a run."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil

from paribus.engines.heap import give_back_freed_pages
from paribus.lazy import torch

GIVEN_BACK_FROM = 1 << 30  # bytes of resident memory from which a step's freed pages go back to the system
SAMPLE_SECONDS = 0.02  # between two looks at the process's resident memory


@dataclass
class Clock:
    """Times phases (the innermost counts) and watches resident memory in a background thread.

    `cuda` is True when allocator peaks of the CUDA device are to be read as well.
    """

    cuda: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    rss_peak: dict[str, int] = field(default_factory=dict)  # bytes
    allocated_peak: dict[str, int] = field(default_factory=dict)  # bytes, of the CUDA allocator
    reserved_peak: dict[str, int] = field(default_factory=dict)
    _stack: list[str] = field(default_factory=lambda: ["other"])
    _mark: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self._process = psutil.Process()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Charge the time inside to `phase`, and not to the phase around it."""
        self._charge()
        self._stack.append(phase)
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
        try:
            yield
        finally:
            if self.cuda:
                torch.cuda.synchronize()
                for peaks, peak in (
                    (self.allocated_peak, torch.cuda.max_memory_allocated()),
                    (self.reserved_peak, torch.cuda.max_memory_reserved()),
                ):
                    peaks[phase] = max(peaks.get(phase, 0), peak)
            self._charge()
            self._stack.pop()

    def take(self) -> dict[str, Any]:
        """Return what was measured since the last call as the fields of a TimingRow, and start anew."""
        self._charge()
        row = {
            "seconds": {k: round(v, 6) for k, v in self.seconds.items()},
            "rss": self._process.memory_info().rss,
            "rss_peak": dict(self.rss_peak),
            "allocated_peak": dict(self.allocated_peak),
            "reserved_peak": dict(self.reserved_peak),
        }
        self.seconds, self.rss_peak, self.allocated_peak, self.reserved_peak = {}, {}, {}, {}
        if row["rss"] > GIVEN_BACK_FROM:
            give_back_freed_pages()
        return row

    def close(self) -> None:
        self._done.set()
        self._thread.join()

    def _charge(self) -> None:
        now = time.perf_counter()
        phase = self._stack[-1]
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._mark
        self._mark = now
        self._look(phase)

    def _look(self, phase: str) -> None:
        self.rss_peak[phase] = max(self.rss_peak.get(phase, 0), self._process.memory_info().rss)

    def _watch(self) -> None:
        while not self._done.wait(SAMPLE_SECONDS):
            self._look(self._stack[-1])
