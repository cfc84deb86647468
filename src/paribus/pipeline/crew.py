"""The processes of the runs at work: started, listened to, stopped together; each run is alone in its own."""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import threading
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

from paribus.errors import ConfigError, Interrupted, ParibusError, RunError
from paribus.experiment import Experiment
from paribus.lazy import run_processes
from paribus.part import dump
from paribus.pipeline.progress import Watch, clock_text

LOOK = 0.1  # seconds between two looks for a signal while no run reports


class Job(NamedTuple):
    """One run: an arm and a seed, or the base's evaluation (`arm` None)."""

    arm: str | None
    seed: int

    @property
    def label(self) -> str:
        return "base" if self.arm is None else f"{self.arm}/seed-{self.seed}"


@dataclass
class _Worker:
    """A run at work: its process, what it reports through, and how it said that it ended."""

    job: Job
    process: Any
    channel: Connection
    ended: tuple[Any, ...] = ()
    began: float = field(default_factory=time.perf_counter)


class Crew:
    """Runs at work, each in a fresh process, so that its memory is its own and a crash takes no other along.

    Within the context Ctrl-C and SIGTERM go to all of them: the first asks each to stop after its step, the second at
    once. `failed` says which runs failed, and why. Whatever ends the context ends the processes.
    """

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.failed: list[str] = []
        self._live: list[_Worker] = []
        self._asked: int | None = None  # the signal that asked for the stop
        self._refused = ""  # why the experiment cannot be run at all
        self._told = False

    def __enter__(self) -> Crew:
        self._old = {n: signal.signal(n, self._on_signal) for n in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *unused: object) -> None:
        for worker in self._live:
            worker.process.kill()
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def start(self, exp: Experiment, job: Job, root: Path) -> None:
        """Begin a run."""
        context = run_processes()
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(dump(exp), job, str(root), theirs), daemon=False)
        self.watch.start(job.label)
        process.start()
        theirs.close()
        self._live.append(_Worker(job, process, ours))
        if self._asked is not None:  # just now, when the new process was not yet among those that it reached
            os.kill(process.pid, self._asked)

    def wait_for_room(self, at_once: int) -> None:
        """Listen to the runs until fewer than `at_once` are at work.

        Raises Interrupted once all have stopped because they were asked to, ConfigError where a run found that the
        experiment cannot be run.
        """
        while self._live and (len(self._live) >= at_once or self._asked is not None):
            ready = wait([worker.channel for worker in self._live], timeout=LOOK)
            if self._asked is not None and not self._told:  # not in the handler: it may interrupt a print half done
                self.watch.note("stopping after this step (once more: at once); the same command goes on from here")
                self._told = True
            for worker in [w for w in self._live if w.channel in ready]:
                self._hear(worker)
        if self._refused:
            raise ConfigError(self._refused)
        if self._asked is not None:
            raise Interrupted(self._asked)

    def _hear(self, worker: _Worker) -> None:
        """Show one report of a run, or note its end."""
        try:
            kind, fields = worker.channel.recv()
        except (EOFError, OSError):  # its end, in the middle of a report where it was killed
            self._end(worker)
            return
        watch, label = self.watch, worker.job.label
        if kind == "note":
            watch.note(fields["text"])
        elif kind == "step":
            total = fields["total"]
            share = fields["step"] / total if total else 0.0
            watch.advance(label, "step", fields["step"], total, fields["detail"], share)
        elif kind == "eval":
            share = fields["done"] / fields["total"] if worker.job.arm is None else None
            watch.advance(label, f"eval {fields['suite']}", fields["done"], fields["total"], "", share)
        elif kind == "evaluated":
            accuracy = 100 * fields["correct"] / max(1, fields["total"])
            at = "" if worker.job.arm is None else f" after step {fields['step']}"
            counts = f"{fields['correct']:g}/{fields['total']}"
            watch.note(f"{label}: {fields['suite']} accuracy {accuracy:.2f} % ({counts}){at}")
        else:
            worker.ended = (kind, *fields)

    def _end(self, worker: _Worker) -> None:
        worker.process.join()
        worker.channel.close()
        self._live.remove(worker)
        how, *why = worker.ended or ("",)
        seconds, label, code = time.perf_counter() - worker.began, worker.job.label, worker.process.exitcode
        if how == "interrupted":
            self._stop(why[0])
        elif how == "error" and why[0] != RunError.code:
            self._refused = self._refused or why[1]
            self._stop(signal.SIGTERM)
        elif how == "error" or (code and self._asked is None):
            reason = why[1] if how else _crash(code)
            self.failed.append(f"{label}: {reason}")
            self.watch.note(f"{label}: FAILED: {reason}")
        elif not code:
            self.watch.finish(label, seconds)
            self.watch.note(f"{label}: done in {clock_text(seconds)}")
        self.watch.drop(label)

    def _stop(self, number: int) -> None:
        """Ask the others to stop, unless they know already: a second signal would stop them in the middle of a step."""
        if self._asked is None:
            self._on_signal(number)

    def _on_signal(self, number: int, frame: object = None) -> None:
        """Pass a signal on to every run at work."""
        self._asked = self._asked or number
        for worker in self._live:
            try:
                os.kill(worker.process.pid, number)
            except ProcessLookupError:
                continue  # it has just ended by itself


def _crash(code: int) -> str:
    """Say how a process ended that could not say it itself."""
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}, see the traceback above"
    memory = " (killed for want of memory, probably: lower machine.micro_tokens or machine.decode_rows)"
    return f"its process {how}{memory if code == -9 else ''}; the last checkpoint is intact"


def _work(data: dict[str, Any], job: Job, root: str, channel: Connection) -> None:
    """The body of a run's process."""
    from paribus.part import load
    from paribus.pipeline.worker import run_arm, run_base

    if os.name == "posix":
        os.setpgid(0, 0)  # Ctrl-C reaches the parent alone, which passes it on once
    threading.Thread(target=_die_with_parent, daemon=True).start()

    def report(kind: str, **fields: Any) -> None:
        if kind == "step":
            stats = fields.pop("stats")
            shown = {"score": "score", "response_tokens": "tokens"}
            fields["detail"] = "  ".join(f"{text} {stats[k].value or 0:.3g}" for k, text in shown.items() if k in stats)
        channel.send((kind, fields))

    try:
        exp = load(Experiment, data)
        if job.arm is None:
            run_base(exp, Path(root), report)
        else:
            run_arm(exp, job.arm, job.seed, Path(root), report)
    except Interrupted as stop:
        channel.send(("interrupted", (stop.code - 128,)))
    except KeyboardInterrupt:  # before the run could listen: there is nothing to save yet
        channel.send(("interrupted", (signal.SIGINT,)))
    except ParibusError as error:
        channel.send(("error", (error.code, str(error))))


def _die_with_parent() -> None:
    """End this process when the one that started it is gone: nobody is left to show or stop it."""
    parent = mp.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
