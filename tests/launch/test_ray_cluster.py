"""The executor of a Ray cluster with a small fake Ray: what is asked of it, and what follows when a worker is lost."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paribus.errors import ConfigError, Interrupted
from paribus.experiment import Experiment, load_experiment
from paribus.launch import ray_cluster
from paribus.launch.ray_cluster import RESTARTS, Home, RayCluster
from paribus.pipeline.compare import run_experiment
from paribus.pipeline.crew import Job
from pipeline_experiment import write_experiment_file

END = [("end", {"crash": "", "killed": False})]
KILLED = [("end", {"crash": "its process was killed by signal 9", "killed": True})]


class RayError(Exception):
    pass


class Call:
    """A pending call: what it returns or raises when it is asked for."""

    def __init__(self, value: Callable[[], Any]) -> None:
        self.value = value


class FakeRay(types.ModuleType):
    """Enough of Ray to place actors whose words a test has written, by job; an exception among them is raised."""

    def __init__(self, words: dict[Job, list[Any]], nodes: list[dict[str, float]], fault: str = "") -> None:
        super().__init__("ray")
        self.words, self.fault = words, fault
        self.exceptions = types.SimpleNamespace(RayError=RayError, RayTaskError=type("RayTaskError", (RayError,), {}))
        self.nodes = lambda: [
            {"Alive": True, "Resources": r, "NodeManagerAddress": f"10.0.0.{i}", "NodeID": str(i)}
            for i, r in enumerate(nodes)
        ]
        self.did: list[str] = []
        self.options: dict[str, Any] = {}
        self.patience: list[float] = []

    def is_initialized(self) -> bool:
        return True

    def remote(self, what: Any) -> Any:
        def options(**given: Any) -> Any:
            if what is Home.fault:
                return types.SimpleNamespace(remote=lambda home: Call(lambda: self.fault))
            self.options = given
            return types.SimpleNamespace(remote=self._actor)

        return types.SimpleNamespace(options=options)

    def _actor(self, home: Home, data: dict[str, Any], job: Job, patience: float) -> Any:
        self.did.append(f"place {job.label}")
        self.patience.append(patience)
        method = lambda value: types.SimpleNamespace(remote=lambda *a: Call(lambda: value(*a)))  # noqa: E731
        return types.SimpleNamespace(
            job=job,
            placed=method(lambda: []),
            listen=method(lambda: self.words[job].pop(0) if job in self.words else END),
            stop=types.SimpleNamespace(remote=lambda number: self.did.append(f"stop {job.label} {number}")),
        )

    def wait(self, calls: list[Call], num_returns: int, timeout: float) -> tuple[list[Call], list[Call]]:
        return calls[:num_returns], calls[num_returns:]

    def get(self, call: Call) -> Any:
        value = call.value()
        if isinstance(value, Exception):
            raise value
        return value

    def kill(self, actor: Any) -> None:
        self.did.append(f"kill {actor.job.label}")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeRay]:
    def make(
        words: dict[Job, list[Any]] | None = None, nodes: list[dict[str, float]] | None = None, fault: str = ""
    ) -> FakeRay:
        fake = FakeRay(words or {}, nodes or [{"CPU": 4.0}], fault)
        strategies = types.ModuleType("ray.util.scheduling_strategies")
        strategies.NodeAffinitySchedulingStrategy = lambda node, soft: node  # type: ignore[attr-defined]
        for module in (fake, types.ModuleType("ray.util"), strategies):
            monkeypatch.setitem(sys.modules, module.__name__, module)
        return fake

    return make


@pytest.fixture(scope="module")
def exp(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return load_experiment(write_experiment_file(tmp_path_factory.mktemp("ray"), 2))


PPO = Job("ppo", 0)


def test_a_lost_worker_and_a_killed_process_start_again(
    exp: Experiment, tmp_path: Path, cluster: Callable[..., FakeRay], capsys: pytest.CaptureFixture[str]
) -> None:
    ray = cluster({PPO: [[("note", {"text": "hello"})], RayError("The node died.\nlong story"), KILLED, END]})
    run_experiment(exp, tmp_path, arms=["ppo"], on=RayCluster)
    assert ray.did.count("place ppo/seed-0") == 3 and ray.patience == [0.0, 0.0, 120.0, 120.0]
    said = capsys.readouterr().err
    assert "ppo/seed-0: its worker was lost: The node died.; it starts again (1 of 3 times)" in said
    assert "(2 of 3 times)" in said and "ppo/seed-0: done in" in said
    assert ray.options == {"num_cpus": 1, "num_gpus": 0, "max_restarts": 0, "max_concurrency": 2}
    assert not list(tmp_path.glob("*/.cluster-*"))


def test_a_run_that_is_killed_again_and_again_fails(
    exp: Experiment, tmp_path: Path, cluster: Callable[..., FakeRay]
) -> None:
    ray = cluster({PPO: [KILLED] * 9})
    with pytest.raises(Exception, match="ppo/seed-0: its process was killed by signal 9"):
        run_experiment(exp, tmp_path, arms=["ppo"], on=RayCluster)
    assert ray.did.count("place ppo/seed-0") == 1 + RESTARTS


def test_a_program_error_is_not_tried_again(exp: Experiment, tmp_path: Path, cluster: Callable[..., FakeRay]) -> None:
    ray = cluster({PPO: [[("end", {"crash": "its process ended with exit code 1", "killed": False})]]})
    with pytest.raises(Exception, match="exit code 1"):
        run_experiment(exp, tmp_path, arms=["ppo"], on=RayCluster)
    assert ray.did.count("place ppo/seed-0") == 1


def test_a_stop_reaches_placed_runs_and_withdraws_waiting_ones(
    exp: Experiment, tmp_path: Path, cluster: Callable[..., FakeRay]
) -> None:
    stopped = [("interrupted", {"number": 2}), *END]
    ray = cluster({PPO: [[], [], [], stopped], Job("grpo", 0): [[], KILLED]})
    with RayCluster(tmp_path) as executor:
        executor.start(exp, PPO)
        executor.reports(0)  # it has its place
        executor.start(exp, Job("grpo", 0))
        executor.signal(PPO, signal.SIGINT)
        executor.signal(Job("grpo", 0), signal.SIGINT)
        said = executor.reports(0)
    assert "stop ppo/seed-0 2" in ray.did and "kill grpo/seed-0" in ray.did
    assert [(s.job.arm, s.kind) for s in said] == [("grpo", "interrupted"), ("grpo", "end")]


def test_nothing_starts_again_once_all_are_to_stop(
    exp: Experiment, tmp_path: Path, cluster: Callable[..., FakeRay]
) -> None:
    words: dict[Job, list[Any]] = {PPO: [[("interrupted", {"number": 15})], KILLED]}
    ray = cluster(words)
    with pytest.raises(Interrupted):
        run_experiment(exp, tmp_path, arms=["ppo"], on=lambda root: _stopped(RayCluster(root)))
    assert ray.did.count("place ppo/seed-0") == 1


def _stopped(executor: RayCluster) -> RayCluster:
    executor._stopping = True
    return executor


def test_as_many_runs_as_the_nodes_have_room_for(
    exp: Experiment, tmp_path: Path, cluster: Callable[..., FakeRay], capsys: pytest.CaptureFixture[str]
) -> None:
    def room(**changes: Any) -> int:
        sets = [f"machine.{key}={value}" for key, value in changes.items()]
        other = load_experiment(write_experiment_file(tmp_path, 2), sets)
        with RayCluster(tmp_path / "runs") as executor:
            return executor.room(other, 0)

    cluster(nodes=[{"CPU": 7.0, "GPU": 2.0}, {"CPU": 3.0}, {}])
    assert room(threads=3) == 3
    assert room(threads=1, device="cuda") == 2
    assert room(threads=4, device="cuda") == 1
    assert room(threads=3, parallel=9) == 9  # an autoscaler may add nodes


def test_a_run_without_a_node_says_what_it_waits_for(
    exp: Experiment, tmp_path: Path, cluster: Callable[..., FakeRay], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster(nodes=[{"CPU": 0.5}])
    run_experiment(exp, tmp_path, arms=["ppo"], on=RayCluster)
    assert "ppo/seed-0: waits for a node with 1 CPU: none of those in the cluster" in capsys.readouterr().err


def test_a_node_that_does_not_share_the_folder_refuses_all(
    exp: Experiment, tmp_path: Path, cluster: Callable[..., FakeRay]
) -> None:
    ray = cluster(fault="node b: no folder /runs")
    with pytest.raises(ConfigError, match="node b: no folder /runs"):
        run_experiment(exp, tmp_path, on=RayCluster)
    assert not ray.did and not list(tmp_path.glob("*/.cluster-*"))


def test_without_ray_the_line_that_installs_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'paribus\[ray\]'"):
        RayCluster(tmp_path)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A folder with a marker that this process has locked, as the machine of the command has."""
    marker = tmp_path / ".cluster-1"
    with open(marker, "w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        yield Home(str(tmp_path), str(tmp_path), str(marker), ray_cluster.code_version())


def elsewhere(home: Home) -> str:
    """Return what another process finds at fault."""
    code = f"from paribus.launch.ray_cluster import Home; print(Home(*{tuple(home)!r}).fault())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_node_is_looked_from_for_folders_locks_and_code(home: Home, tmp_path: Path) -> None:
    assert elsewhere(home) == ""
    assert "no folder /nowhere" in elsewhere(home._replace(cwd="/nowhere"))
    assert "another folder than on the machine of the command" in elsewhere(home._replace(marker="/nowhere/.marker"))
    assert "another version of Paribus" in elsewhere(home._replace(code="older"))
    free = tmp_path / "free"
    free.touch()  # which nobody has locked: as if the lock of the command's machine were not seen
    assert "do not hold across nodes" in elsewhere(home._replace(marker=str(free)))


def test_a_refused_node_runs_nothing(home: Home, tmp_path: Path) -> None:
    host = ray_cluster.Host(home._replace(cwd="/nowhere"), {}, PPO, 0.0)
    assert host.placed() == []
    (kind, fields), end = host.listen()
    assert kind == "error" and fields["code"] == ConfigError.code and "no folder /nowhere" in fields["text"]
    assert end == ("end", {"crash": ""})
    host.stop(2)
    assert os.getcwd() != "/nowhere"
