"""Runs on a Ray cluster: an actor for each holds its CPUs and GPU, and starts and hears the run's own process there."""

from __future__ import annotations

import fcntl
import os
import socket
import sys
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from paribus.engines.heap import ask_huge_pages
from paribus.errors import ConfigError
from paribus.experiment import Experiment
from paribus.launch.needs import Needs, needs_of
from paribus.part import dump
from paribus.pipeline.crew import Job, Said
from paribus.pipeline.processes import Worker
from paribus.store.provenance import code_version

RESTARTS = 3  # of one run that was killed or whose node was lost; each goes on from its last checkpoint
PATIENCE = 120.0  # seconds that it then waits for the lock of its folder: a file server keeps a lost node's for so long

Words = list[tuple[str, dict[str, Any]]]  # kinds and fields of reports, in order


class Home(NamedTuple):
    """What every node must see as the machine of the command does: the folders, a locked file in one, this code."""

    root: str
    cwd: str
    marker: str
    code: str

    def fault(self) -> str:
        """Return why no run can work on this machine, or nothing."""
        here = f"node {socket.gethostname()}"
        for folder in (self.cwd, self.root):
            if not Path(folder).is_dir():
                return (
                    f"{here}: no folder {folder}: start the command and keep --runs where all nodes share the storage"
                )
        try:
            file = os.open(self.marker, os.O_RDWR)
        except OSError:
            return f"{here}: {self.root} is another folder than on the machine of the command: all nodes must share it"
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return "" if self.code == code_version() else f"{here}: has another version of Paribus: install the same"
        finally:
            os.close(file)
        return f"{here}: file locks in {self.root} do not hold across nodes: mount the storage with locks"


class Host:
    """The actor of one run, on whatever node has room for it."""

    def __init__(self, home: Home, data: dict[str, Any], job: Job, patience: float) -> None:
        self._words: Words = []
        self._worker: Worker | None = None
        fault = home.fault()
        if fault:
            self._words = [("error", {"code": ConfigError.code, "text": fault}), ("end", {"crash": ""})]
            return
        os.chdir(home.cwd)  # relative paths of the experiment mean what they mean there
        vars(sys.modules["__main__"]).pop("__file__", None)  # else the run's process would import Ray's worker program
        ask_huge_pages()
        self._worker = Worker(data, job, Path(home.root), patience)

    def placed(self) -> Words:
        """Return nothing, once this actor has its place on a node."""
        return []

    def listen(self) -> Words:
        """Wait for what the run reports and return it, the rest of what is there too."""
        words = self._words
        if self._worker is None:
            return words
        words.append(self._worker.read())
        while words[-1][0] != "end" and self._worker.channel.poll():
            words.append(self._worker.read())
        self._words = []
        return words

    def stop(self, number: int) -> None:
        """Pass a signal on to the run's process."""
        if self._worker is not None:
            self._worker.signal(number)


@dataclass
class _Run:
    """A run as it is seen from here: its actor, the call that is pending, and how often it was started again."""

    data: dict[str, Any]
    needs: Needs
    actor: Any = None
    heard: Any = None
    placed: bool = False
    restarts: int = 0


class RayCluster:
    """The executor of a Ray cluster: that of RAY_ADDRESS or of `ray start` on this machine, else one of this machine.

    A run whose process is killed or whose node is lost starts again, elsewhere if need be, and goes on from its last
    checkpoint. Raises ConfigError where a node does not share the folder of the runs, or its code.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._ray = _ray()
        self._live: dict[Job, _Run] = {}
        self._signals: list[tuple[Job, int]] = []
        self._notes: list[Said] = []
        self._stopping = False

    def __enter__(self) -> RayCluster:
        self.root.mkdir(parents=True, exist_ok=True)
        self._marker = self.root / f".cluster-{uuid.uuid4().hex}"
        self._file = os.open(self._marker, os.O_RDWR | os.O_CREAT, 0o666)
        self._ours = not self._ray.is_initialized()
        try:
            self._lock_marker()
            if self._ours:
                os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
                self._ray.init(include_dashboard=False, logging_level="WARNING")
            self._home = Home(str(self.root), os.getcwd(), str(self._marker), code_version())
            self._check_nodes()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused: object) -> None:
        for run in self._live.values():
            self._ray.kill(run.actor)
        if self._ours:
            self._ray.shutdown()
        os.close(self._file)
        self._marker.unlink(missing_ok=True)

    def room(self, exp: Experiment, base_bytes: int) -> int:
        """Return `machine.parallel`, or under "auto" as many runs as the nodes that are there now have room for."""
        if exp.setting.machine.parallel != "auto":
            return exp.setting.machine.parallel
        every = [needs_of(exp, Job(arm, exp.seeds[0])) for arm in exp.arms]
        return max(1, self._fitting(Needs(max(n.cpus for n in every), max(n.gpus for n in every))))

    def start(self, exp: Experiment, job: Job) -> None:
        """Begin a run: ask for its place. Raises ConfigError as `needs_of` does."""
        needs = needs_of(exp, job)
        if not self._fitting(needs):
            self._note(job, f"waits for a node with {needs}: none of those in the cluster has as many")
        self._live[job] = self._placed(job, _Run(dump(exp), needs))

    def reports(self, timeout: float) -> list[Said]:
        """Return what runs have said; wait at most `timeout` seconds for it."""
        self._pass_signals_on()
        pending = [run.heard for run in self._live.values()]
        if pending:
            self._ray.wait(pending, num_returns=1, timeout=timeout)
            pending, _ = self._ray.wait(pending, num_returns=len(pending), timeout=0)
        for job, run in [(job, run) for job, run in self._live.items() if run.heard in pending]:
            self._notes += [Said(job, *words) for words in self._heard(job, run)]
        said, self._notes = self._notes, []
        return said

    def signal(self, job: Job, number: int) -> None:
        """Pass a signal on to a run at the next look: a handler may have interrupted Ray in the middle of a call."""
        self._stopping = True
        self._signals.append((job, number))

    def _heard(self, job: Job, run: _Run) -> Iterable[tuple[str, dict[str, Any]]]:
        """Take what a run's actor has returned, and ask for more or place the run anew."""
        errors = self._ray.exceptions
        try:
            words: Words = self._ray.get(run.heard)
        except errors.RayTaskError as error:  # not of the run, whose process reports its own: of its actor
            words = [("end", {"crash": f"its actor failed: {error}", "killed": False})]
        except errors.RayError as error:
            why = str(error).strip().partition("\n")[0]
            words = [("end", {"crash": f"its worker was lost: {why}", "killed": True})]
        run.placed = True
        kind, fields = words[-1] if words else ("", {})
        if kind != "end":
            run.heard = run.actor.listen.remote()
            return words
        self._ray.kill(run.actor)
        if not fields.get("killed") or self._stopping or run.restarts == RESTARTS:
            del self._live[job]
            return words
        run.restarts += 1
        self._live[job] = self._placed(job, run)
        text = f"{job.label}: {fields['crash']}; it starts again ({run.restarts} of {RESTARTS} times)"
        return [*words[:-1], ("note", {"text": text})]

    def _placed(self, job: Job, run: _Run) -> _Run:
        """Ask for a place for a run, new or started again."""
        asked = self._ray.remote(Host).options(
            num_cpus=run.needs.cpus, num_gpus=run.needs.gpus, max_restarts=0, max_concurrency=2
        )
        run.actor = asked.remote(self._home, run.data, job, PATIENCE if run.restarts else 0.0)
        run.placed, run.heard = False, run.actor.placed.remote()
        return run

    def _pass_signals_on(self) -> None:
        signals, self._signals = self._signals, []
        for job, number in signals:
            run = self._live.get(job)
            if run is None:
                continue
            if run.placed:
                run.actor.stop.remote(number)
            else:  # still waiting for a place, or just about to get one: nothing is done that could be saved
                self._ray.kill(run.actor)
                del self._live[job]
                self._notes += [Said(job, "interrupted", {"number": number}), Said(job, "end", {"crash": ""})]

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]

    def _fitting(self, needs: Needs) -> int:
        """Count the runs for which the nodes have room when nothing else is at work on them."""
        return sum(
            min(int(node["Resources"].get(name, 0) // n) for name, n in (("CPU", needs.cpus), ("GPU", needs.gpus)) if n)
            for node in self._nodes()
        )

    def _lock_marker(self) -> None:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigError(
                f"{self.root}: files cannot be locked here ({error.strerror}), so that nothing would keep two nodes "
                "from writing the same run: choose a --runs folder on storage with locks"
            ) from None

    def _check_nodes(self) -> None:
        """Look from every node that is there now; one that comes later is looked from when it gets a run."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        asked = {
            node["NodeManagerAddress"]: self._ray.remote(Home.fault)
            .options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False))
            .remote(self._home)
            for node in self._nodes()
        }
        for address, answer in asked.items():
            try:
                fault = self._ray.get(answer)
            except self._ray.exceptions.RayError as error:
                last = str(error).strip().rpartition("\n")[2]
                fault = f"node {address}: Paribus cannot be used there: {last}"
            if fault:
                raise ConfigError(fault)

    def _note(self, job: Job, text: str) -> None:
        self._notes.append(Said(job, "note", {"text": f"{job.label}: {text}"}))


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise ConfigError("runs on a Ray cluster need Ray: pip install 'paribus[ray]'") from None
    return ray
