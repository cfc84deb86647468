"""Run a function in processes that can be killed: a grader that hangs, crashes or eats memory costs one verdict.

Signals and threads cannot stop a computer algebra system; ending its process can. The workers are plain
subprocesses that speak JSON lines, so they start from threads, event loops and daemonic processes alike, and
never import the caller's main module.
"""

from __future__ import annotations

import atexit
import faulthandler
import importlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Literal, NamedTuple

from paribus.errors import RunError

START_SECONDS = 120.0  # imports and warm-up on a loaded machine
MEMORY_BYTES = 4 * 2**30  # address space of a worker (Linux)


class Outcome(NamedTuple):
    """What became of one call: its value, or `timeout` (killed) or `error` (raised or died) with the reason."""

    status: Literal["ok", "timeout", "error"]
    value: Any = None
    detail: str = ""


@dataclass(slots=True)
class Counts:
    """How a pool has fared since it was made."""

    calls: int = 0
    timeouts: int = 0
    errors: int = 0
    starts: int = 0


class _Worker:
    """One process, started at its first call and started again after it was killed or died."""

    def __init__(self, target: str, warm_up: tuple[Any, ...], counts: Counts) -> None:
        self._target = target
        self._warm_up = warm_up
        self._counts = counts
        self._process: subprocess.Popen[str] | None = None

    def call(self, arguments: Sequence[Any], seconds: float) -> Outcome:
        if self._process is None or self._process.poll() is not None:
            self._start()
        return self._ask(arguments, seconds)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> None:
        self.close()
        self._counts.starts += 1
        self._process = subprocess.Popen(
            [sys.executable, "-m", "paribus.tasks.mathpool", self._target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"},
        )
        first = self._ask(self._warm_up, START_SECONDS)
        if first.status != "ok":
            self.close()
            raise RunError(f"a worker for {self._target} could not start: {first.detail}")

    def _ask(self, arguments: Sequence[Any], seconds: float) -> Outcome:
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            process.kill()

        timer = threading.Timer(seconds, expire)
        timer.daemon = True
        timer.start()
        try:
            process.stdin.write(json.dumps([seconds, *arguments]) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if line.endswith("\n"):
            status, value = json.loads(line)
            return Outcome("ok", value) if status == "ok" else Outcome("error", None, value)
        self.close()
        if expired.is_set():
            return Outcome("timeout", None, f"killed after {seconds:g} s")
        return Outcome("error", None, f"the worker died with exit status {process.returncode}")


class Pool:
    """Calls of one module-level function, each under a time limit, in `workers` persistent processes.

    Arguments and values are JSON data. `warm_up` holds the arguments of a first call that pays for imports outside
    the limit. Safe to use from any thread.
    """

    def __init__(self, function: Callable[..., Any], *, workers: int = 1, warm_up: tuple[Any, ...]) -> None:
        self.counts = Counts()
        self._lock = threading.Lock()
        self._workers = workers
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        self._all = [
            _Worker(f"{function.__module__}:{function.__qualname__}", warm_up, self.counts) for _ in range(workers)
        ]
        for worker in self._all:
            self._idle.put(worker)

    def call(self, *arguments: Any, seconds: float) -> Outcome:
        """Return the outcome of one call; waits for an idle worker first (waiting is not counted as its time)."""
        worker = self._idle.get()
        try:
            outcome = worker.call(arguments, seconds)
        finally:
            self._idle.put(worker)
        with self._lock:
            self.counts.calls += 1
            self.counts.timeouts += outcome.status == "timeout"
            self.counts.errors += outcome.status == "error"
        return outcome

    def map(self, arguments: Sequence[tuple[Any, ...]], *, seconds: float) -> list[Outcome]:
        """Return one outcome per tuple of arguments, in their order whatever order they finish in."""
        if self._workers == 1 or len(arguments) <= 1:
            return [self.call(*each, seconds=seconds) for each in arguments]
        with ThreadPoolExecutor(self._workers) as threads:
            return list(threads.map(lambda each: self.call(*each, seconds=seconds), arguments))

    def close(self) -> None:
        """End the processes; a later call starts them again."""
        for worker in self._all:
            worker.close()


_pools: dict[tuple[Callable[..., Any], int], Pool] = {}
_pools_lock = threading.Lock()


def shared_pool(function: Callable[..., Any], *, workers: int, warm_up: tuple[Any, ...]) -> Pool:
    """Return this process's one pool for `function` and that number of workers, made at its first use."""
    with _pools_lock:
        if (function, workers) not in _pools:
            _pools[function, workers] = Pool(function, workers=workers, warm_up=warm_up)
        return _pools[function, workers]


def _close_all() -> None:
    for pool in _pools.values():
        pool.close()


def _forget() -> None:
    """After a fork the pipes belong to the parent: the child starts its own workers."""
    global _pools_lock
    _pools_lock = threading.Lock()
    _pools.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget)


def _serve(target: str) -> None:
    """The life of a worker: read `[seconds, arguments...]`, write `["ok", value]` or `["error", reason]`, until EOF."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the function prints must not be read as a reply
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    function: Callable[..., Any] | None = None
    for line in sys.stdin:
        seconds, *arguments = json.loads(line)
        # should the parent be gone, nobody else ends a call that hangs
        faulthandler.dump_traceback_later(seconds + 5, exit=True)
        try:
            if function is None:
                module, _, name = target.partition(":")
                function = getattr(importlib.import_module(module), name)
            reply = ["ok", function(*arguments)]
        except Exception as error:  # the caller counts it, whatever it is
            reply = ["error", f"{type(error).__name__}: {error}"]
        faulthandler.cancel_dump_traceback_later()
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


if __name__ == "__main__":
    _serve(sys.argv[1])
