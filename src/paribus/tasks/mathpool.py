"""Run a function in processes that can be killed: one that hangs, crashes or eats memory costs one outcome.

Signals and threads cannot stop a computer algebra system; ending its process can. A worker is a plain subprocess
that speaks JSON lines, so it starts from threads, event loops and daemonic processes alike and never imports the
caller's main module. It loads the function once and forks a child to call it; a child that overruns is killed and
forked again within milliseconds, without loading anything anew.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, Literal, NamedTuple, NoReturn

from paribus.errors import RunError

MEMORY_BYTES = 4 * 2**30  # address space of a child (Linux)
CLOCK = 10  # a call may take this many times its limit by the clock: the limit itself is of processor time


class Outcome(NamedTuple):
    """What became of one call: its value, or `timeout` (killed) or `error` (raised or died) with the reason."""

    status: Literal["ok", "timeout", "error"]
    value: Any = None
    detail: str = ""


@dataclass(slots=True)
class Counts:
    """How the calls of a pool have ended so far."""

    calls: int = 0
    timeouts: int = 0
    errors: int = 0


class _Worker:
    """One subprocess, started at its first call and again should it ever be gone."""

    def __init__(self, target: str, warm_up: tuple[Any, ...]) -> None:
        self._target = target
        self._warm_up = warm_up
        self._process: subprocess.Popen[str] | None = None

    def call(self, arguments: Sequence[Any], seconds: float) -> Outcome:
        if self._process is None or self._process.poll() is not None:
            self._start()
        return self._ask(arguments, seconds)

    def close(self) -> None:
        """End the subprocess; it ends by itself when its input does, at the latest after the call it is in."""
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def _start(self) -> None:
        self.close()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "paribus.tasks.mathpool", self._target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C is for the run, which may want to finish its step
        )
        first = self._ask(self._warm_up, 0)
        if first.status != "ok":
            self.close()
            raise RunError(f"a worker for {self._target} could not start: {first.detail}")

    def _ask(self, arguments: Sequence[Any], seconds: float) -> Outcome:
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps([seconds, *arguments]) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            return Outcome("error", None, f"the worker ended with exit status {process.wait()}")
        return Outcome(*json.loads(line))


class Pool:
    """Calls of one module-level function, each under a time limit, in `workers` persistent processes.

    The limit is of processor time, so that a busy machine gives the same outcomes as an idle one; a call that only
    waits is killed after CLOCK times as long. Arguments and values are JSON data. `warm_up` holds the arguments of a
    first call that pays for imports outside the limit. Safe to use from any thread.
    """

    def __init__(self, function: Callable[..., Any], *, workers: int = 1, warm_up: tuple[Any, ...]) -> None:
        self.counts = Counts()
        self._lock = threading.Lock()
        target = f"{function.__module__}:{function.__qualname__}"
        self._workers = [_Worker(target, warm_up) for _ in range(workers)]
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)

    def call(self, *arguments: Any, seconds: float) -> Outcome:
        """Return the outcome of one call; waits for an idle worker first, which is not counted as its time."""
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
        if len(self._workers) == 1 or len(arguments) == 1:
            return [self.call(*each, seconds=seconds) for each in arguments]
        with ThreadPoolExecutor(len(self._workers)) as threads:
            return list(threads.map(lambda each: self.call(*each, seconds=seconds), arguments))

    def close(self) -> None:
        """End the processes; a later call starts them again."""
        for worker in self._workers:
            worker.close()


_pools: dict[tuple[Callable[..., Any], int, tuple[Any, ...]], Pool] = {}
_pools_lock = threading.Lock()


def shared_pool(function: Callable[..., Any], *, workers: int, warm_up: tuple[Any, ...]) -> Pool:
    """Return this process's one pool for these (hashable) arguments, made at its first use."""
    key = (function, workers, warm_up)
    with _pools_lock:
        if key not in _pools:
            _pools[key] = Pool(function, workers=workers, warm_up=warm_up)
        return _pools[key]


@atexit.register
def _close_all() -> None:
    for pool in _pools.values():
        pool.close()


def _forget() -> None:
    """After a fork the pipes belong to the parent: the child starts its own workers."""
    global _pools_lock
    _pools_lock = threading.Lock()
    _pools.clear()


os.register_at_fork(after_in_child=_forget)


def _serve(target: str) -> None:
    """The life of a worker: read `[seconds, arguments...]`, write an Outcome, until the input ends."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the function prints must not be read as a reply
    module, _, name = target.partition(":")
    _, *warm_up = json.loads(sys.stdin.readline())
    try:
        function = getattr(importlib.import_module(module), name)
        first = Outcome("ok", function(*warm_up))
    except Exception as error:  # told to the caller, who raises it
        first = Outcome("error", None, f"{type(error).__name__}: {error}")
    print(json.dumps(first), file=replies, flush=True)
    if first.status == "ok":
        child, pipe = _fork(function)
        for line in sys.stdin:
            print(json.dumps(_supervise(child, pipe, line)), file=replies, flush=True)
            if pipe.closed:
                child, pipe = _fork(function)


def _supervise(child: int, pipe: Connection, line: str) -> Outcome:
    """Have the child answer one request; a child that overruns is killed, and one that is gone leaves `pipe` closed."""
    seconds = json.loads(line)[0]
    pipe.send_bytes(line.encode())
    in_time = pipe.poll(CLOCK * seconds)
    if in_time:
        try:
            return Outcome(*json.loads(pipe.recv_bytes()))
        except (EOFError, ConnectionResetError):
            pass
    os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    pipe.close()
    if in_time and code != -signal.SIGPROF:
        return Outcome("error", None, f"the process died with exit status {code}")
    return Outcome("timeout", None, f"killed after {seconds:g} s")


def _fork(function: Callable[..., Any]) -> tuple[int, Connection]:
    ours, theirs = Pipe()
    child = os.fork()
    if not child:
        ours.close()
        _work(function, theirs)
    theirs.close()
    return child, ours


def _work(function: Callable[..., Any], pipe: Connection) -> NoReturn:
    """The life of a child: call the function for each request, until its parent is gone."""
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    while True:
        try:
            seconds, *arguments = json.loads(pipe.recv_bytes())
        except EOFError:
            os._exit(0)
        signal.setitimer(signal.ITIMER_PROF, seconds)  # nobody handles SIGPROF: the kernel ends the process
        try:
            outcome = Outcome("ok", function(*arguments))
        except Exception as error:  # whatever it is, the caller counts it
            outcome = Outcome("error", None, f"{type(error).__name__}: {error}")
        signal.setitimer(signal.ITIMER_PROF, 0)
        pipe.send_bytes(json.dumps(outcome).encode())


if __name__ == "__main__":
    _serve(sys.argv[1])
