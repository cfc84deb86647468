"""Runs as processes of this machine: each in a fresh one, heard through a pipe, stopped by signals."""

from __future__ import annotations

import contextlib
import multiprocessing as mp
import os
import signal
import threading
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import psutil

from paribus.engines.machine import fitting, runs_at_once
from paribus.errors import Interrupted, ParibusError
from paribus.experiment import Experiment
from paribus.lazy import run_processes
from paribus.part import dump
from paribus.pipeline.crew import Job, Said
from paribus.store import ExperimentPaths, RunPaths, status, wait_for_lock


class Processes:
    """The executor of this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._live: dict[Job, Worker] = {}

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *unused: object) -> None:
        for worker in self._live.values():
            worker.process.kill()

    def room(self, exp: Experiment, base_bytes: int) -> int:
        """Return what is asked, or under "auto" as many runs as have cores and memory; see `Executor`."""
        machine = exp.setting.machine
        asked = runs_at_once(machine, [arm.setting(exp.setting).model for arm in exp.arms.values()])
        return asked if machine.parallel != "auto" else fitting(asked, base_bytes, psutil.virtual_memory().available)

    def start(self, exp: Experiment, job: Job) -> None:
        """Begin a run."""
        self._live[job] = Worker(dump(exp), job, self.root)

    def reports(self, timeout: float) -> list[Said]:
        """Return what runs have said, one report of each; wait at most `timeout` seconds for it."""
        ready = wait([worker.channel for worker in self._live.values()], timeout)
        said = [Said(job, *worker.read()) for job, worker in self._live.items() if worker.channel in ready]
        for job, kind, _ in said:
            if kind == "end":
                del self._live[job]
        return said

    def signal(self, job: Job, number: int) -> None:
        """Pass a signal on to a run."""
        if job in self._live:
            self._live[job].signal(number)


class Worker:
    """The process of one run, and what it reports through.

    `data` is the dumped experiment; `patience` the seconds that the run waits for another process, which is believed
    to be gone, to let go of its folder.
    """

    def __init__(self, data: dict[str, Any], job: Job, root: Path, patience: float = 0.0) -> None:
        context = run_processes()
        self.channel, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=_work, args=(data, job, str(root), theirs, patience), daemon=False)
        self.process.start()
        theirs.close()

    def read(self) -> tuple[str, dict[str, Any]]:
        """Wait for the next report and return it: its kind and fields; "end" is the last."""
        try:
            return self.channel.recv()
        except (EOFError, OSError):  # its end, in the middle of a report where it was killed
            self.process.join()
            self.channel.close()
            code = self.process.exitcode
            return "end", {"crash": _crash(code) if code else "", "killed": code < 0}

    def signal(self, number: int) -> None:
        """Send a signal to the process, unless it has just ended by itself."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, number)


def run_paths(root: Path, job: Job) -> RunPaths:
    """Return where the run of a job lies under the folder of its experiment."""
    paths = ExperimentPaths(root)
    return paths.base if job.arm is None else paths.run(job.arm, job.seed)


def _crash(code: int) -> str:
    """Say how a process ended that could not say it itself."""
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}, see the traceback above"
    memory = " (killed for want of memory, probably: lower machine.micro_tokens or machine.decode_rows)"
    return f"its process {how}{memory if code == -9 else ''}; the last checkpoint is intact"


def _work(data: dict[str, Any], job: Job, root: str, channel: Connection, patience: float) -> None:
    """The body of a run's process."""
    from paribus.part import load
    from paribus.pipeline.worker import run_arm, run_base

    if os.name == "posix":
        os.setpgid(0, 0)  # Ctrl-C reaches the parent alone, which passes it on once
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})  # where a parent had blocked them
    threading.Thread(target=_die_with_parent, daemon=True).start()

    def report(kind: str, **fields: Any) -> None:
        if kind == "step":
            stats = fields.pop("stats")
            shown = {"score": "score", "response_tokens": "tokens"}
            fields["detail"] = "  ".join(f"{text} {stats[k].value or 0:.3g}" for k, text in shown.items() if k in stats)
        channel.send((kind, fields))

    try:
        paths = run_paths(Path(root), job)
        if patience:
            wait_for_lock(paths, patience)
            if status(paths) == "done":  # it was lost between its last file and its last word
                return
        exp = load(Experiment, data)
        if job.arm is None:
            run_base(exp, Path(root), report)
        else:
            run_arm(exp, job.arm, job.seed, Path(root), report)
    except Interrupted as stop:
        channel.send(("interrupted", {"number": stop.code - 128}))
    except KeyboardInterrupt:  # before the run could listen: there is nothing to save yet
        channel.send(("interrupted", {"number": signal.SIGINT}))
    except ParibusError as error:
        channel.send(("error", {"code": error.code, "text": str(error)}))


def _die_with_parent() -> None:
    """End this process when the one that started it is gone: nobody is left to show or stop it."""
    parent = mp.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
