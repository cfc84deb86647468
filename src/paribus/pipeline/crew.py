"""The runs at work: started, listened to and stopped together, wherever an executor lets them work."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from paribus.errors import ConfigError, Interrupted, RunError
from paribus.experiment import Experiment
from paribus.pipeline.progress import Watch, clock_text

LOOK = 0.1  # seconds between two looks for a signal while no run reports


class Job(NamedTuple):
    """One run: an arm and a seed, or the base's evaluation (`arm` None)."""

    arm: str | None
    seed: int

    @property
    def label(self) -> str:
        return "base" if self.arm is None else f"{self.arm}/seed-{self.seed}"


class Said(NamedTuple):
    """What a run reports. Its last word is the kind "end", with `crash`: how it ended if it could not say it, or ""."""

    job: Job
    kind: str
    fields: dict[str, Any]


class Executor(Protocol):
    """Where the runs of one experiment's folder work, each in a process of its own; leaving the context kills them."""

    def __enter__(self) -> Executor: ...

    def __exit__(self, *unused: object) -> None: ...

    def room(self, exp: Experiment, base_bytes: int) -> int:
        """Return how many runs work at a time; `base_bytes` is the resident peak of the base's evaluation, or 0."""

    def start(self, exp: Experiment, job: Job) -> None:
        """Begin a run."""

    def reports(self, timeout: float) -> list[Said]:
        """Return what runs have said, in order; wait at most `timeout` seconds for it."""

    def signal(self, job: Job, number: int) -> None:
        """Pass a signal on to a run, unless it has just ended; called from a signal handler."""


@dataclass
class _Live:
    """A run at work: when it began, and how it said that it ended."""

    began: float = field(default_factory=time.perf_counter)
    how: str = ""
    why: dict[str, Any] = field(default_factory=dict)


class Crew:
    """Runs at work, each in a fresh process, so that its memory is its own and a crash takes no other along.

    Within the context Ctrl-C and SIGTERM go to all of them: the first asks each to stop after its step, the second at
    once. `failed` says which runs failed, and why.
    """

    def __init__(self, watch: Watch, executor: Executor) -> None:
        self.watch, self.executor = watch, executor
        self.failed: list[str] = []
        self._live: dict[Job, _Live] = {}
        self._asked: int | None = None  # the signal that asked for the stop
        self._refused = ""  # why the experiment cannot be run at all
        self._told = False

    def __enter__(self) -> Crew:
        self._old = {n: signal.signal(n, self._on_signal) for n in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *unused: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def start(self, exp: Experiment, job: Job) -> None:
        """Begin a run."""
        self.watch.start(job.label)
        self.executor.start(exp, job)
        self._live[job] = _Live()
        if self._asked is not None:  # just now, when the new run was not yet among those that it reached
            self.executor.signal(job, self._asked)

    def wait_for_room(self, at_once: int) -> None:
        """Listen to the runs until fewer than `at_once` are at work.

        Raises Interrupted once all have stopped because they were asked to, ConfigError where a run found that the
        experiment cannot be run.
        """
        while self._live and (len(self._live) >= at_once or self._asked is not None):
            said = self.executor.reports(LOOK)
            if self._asked is not None and not self._told:  # not in the handler: it may interrupt a print half done
                self.watch.note("stopping after this step (once more: at once); the same command goes on from here")
                self._told = True
            for one in said:
                self._hear(*one)
        if self._refused:
            raise ConfigError(self._refused)
        if self._asked is not None:
            raise Interrupted(self._asked)

    def _hear(self, job: Job, kind: str, fields: dict[str, Any]) -> None:
        """Show one report of a run, or note its end."""
        watch, label = self.watch, job.label
        if kind == "note":
            watch.note(fields["text"])
        elif kind == "step":
            total = fields["total"]
            share = fields["step"] / total if total else 0.0
            watch.advance(label, "step", fields["step"], total, fields["detail"], share)
        elif kind == "eval":
            share = fields["done"] / fields["total"] if job.arm is None else None
            watch.advance(label, f"eval {fields['suite']}", fields["done"], fields["total"], "", share)
        elif kind == "evaluated":
            accuracy = 100 * fields["correct"] / max(1, fields["total"])
            at = "" if job.arm is None else f" after step {fields['step']}"
            counts = f"{fields['correct']:g}/{fields['total']}"
            watch.note(f"{label}: {fields['suite']} accuracy {accuracy:.2f} % ({counts}){at}")
        elif kind == "end":
            self._end(job, fields["crash"])
        else:
            self._live[job].how, self._live[job].why = kind, fields

    def _end(self, job: Job, crash: str) -> None:
        run = self._live.pop(job)
        seconds, label = time.perf_counter() - run.began, job.label
        if run.how == "interrupted":
            self._stop(run.why["number"])
        elif run.how == "error" and run.why["code"] != RunError.code:
            self._refused = self._refused or run.why["text"]
            self._stop(signal.SIGTERM)
        elif run.how == "error" or (crash and self._asked is None):
            reason = run.why["text"] if run.how else crash
            self.failed.append(f"{label}: {reason}")
            self.watch.note(f"{label}: FAILED: {reason}")
        elif not crash:
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
        for job in list(self._live):
            self.executor.signal(job, number)
