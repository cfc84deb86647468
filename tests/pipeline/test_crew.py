"""The order of runs and the news of them, with an executor that only writes down what it is asked."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paribus.errors import ConfigError, Interrupted, RunError
from paribus.experiment import Experiment, load_experiment
from paribus.pipeline.compare import jobs, run_experiment
from paribus.pipeline.crew import Crew, Job, Said
from paribus.pipeline.progress import Watch
from pipeline_experiment import write_experiment_file


class Script:
    """An executor whose runs say what a test has written for them, all at the next look."""

    def __init__(self, says: dict[str, list[tuple[str, dict[str, Any]]]] | None = None, room: int = 2) -> None:
        self.says, self.places = says or {}, room
        self.did: list[str] = []
        self._said: list[Said] = []

    def __call__(self, root: Path) -> Script:
        return self

    def __enter__(self) -> Script:
        return self

    def __exit__(self, *unused: object) -> None:
        self.did.append("left")

    def room(self, exp: Experiment, base_bytes: int) -> int:
        return self.places

    def start(self, exp: Experiment, job: Job) -> None:
        self.did.append(f"{job.label} {exp.setting.machine.parallel}")
        words = self.says.get(job.label, [("end", {"crash": ""})])
        self._said += [Said(job, *word) for word in words]

    def reports(self, timeout: float) -> list[Said]:
        said, self._said = self._said, []
        return said

    def signal(self, job: Job, number: int) -> None:
        self.did.append(f"{job.label} signal {number}")
        self._said += [Said(job, "interrupted", {"number": number}), Said(job, "end", {"crash": ""})]


@pytest.fixture(scope="module")
def exp(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return load_experiment(write_experiment_file(tmp_path_factory.mktemp("crew"), 2), ["seeds=[0, 1]"])


ARMS = ("ppo", "grpo")


def test_the_base_is_alone_and_arms_take_turns(exp: Experiment, tmp_path: Path) -> None:
    script = Script()
    run_experiment(exp, tmp_path, arms=ARMS, on=script)
    assert script.did == ["base 1", "ppo/seed-0 2", "grpo/seed-0 2", "grpo/seed-1 2", "ppo/seed-1 2", "left"]


def test_a_failed_base_lets_no_run_begin(exp: Experiment, tmp_path: Path) -> None:
    script = Script({"base": [("end", {"crash": "its process was killed by signal 11"})]})
    with pytest.raises(RunError, match="base: its process was killed by signal 11"):
        run_experiment(exp, tmp_path, on=script)
    assert script.did == ["base 1", "left"]


def test_a_failed_run_is_told_after_the_others_are_done(exp: Experiment, tmp_path: Path) -> None:
    script = Script({"ppo/seed-0": [("error", {"code": 3, "text": "disk full"}), ("end", {"crash": ""})]})
    with pytest.raises(RunError, match="ppo/seed-0: disk full"):
        run_experiment(exp, tmp_path, arms=ARMS, on=script)
    assert len(script.did) == 6


def test_an_experiment_that_cannot_run_stops_the_others(exp: Experiment, tmp_path: Path) -> None:
    refused = [("error", {"code": 2, "text": "no such key"}), ("end", {"crash": ""})]
    script = Script({"ppo/seed-0": refused, "grpo/seed-0": []})
    with pytest.raises(ConfigError, match="no such key"):
        run_experiment(exp, tmp_path, arms=ARMS, on=script)
    assert script.did[-2:] == [f"grpo/seed-0 signal {signal.SIGTERM:d}", "left"]


def test_a_signal_reaches_every_run_once(exp: Experiment) -> None:
    said, script = io.StringIO(), Script({"a/seed-0": [], "b/seed-0": []})
    with Watch([], said) as watch, Crew(watch, script) as crew:
        for arm in ("a", "b"):
            crew.start(exp, Job(arm, 0))
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(Interrupted) as stop:
            crew.wait_for_room(1)
    assert stop.value.code == 130 and said.getvalue().count("stopping after this step") == 1
    assert script.did[2:] == ["a/seed-0 signal 2", "b/seed-0 signal 2"]


def test_the_base_can_be_asked_for_alone(exp: Experiment) -> None:
    assert jobs(exp, arms=["_base"]) == [Job(None, 0)]


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[Path]:
    """An experiment's folder whose base another process is evaluating."""
    lock = tmp_path / "kill" / "_base" / ".lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        import fcntl
        import time

        with open(lock, "r+") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            os.write(theirs, b"!")
            time.sleep(60)
        os._exit(0)
    os.read(ours, 1)
    yield tmp_path
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_two_jobs_do_not_evaluate_the_base_at_once(exp: Experiment, holder: Path) -> None:
    with pytest.raises(RunError, match=r"base: .*another process is working on this run"):
        run_experiment(exp, holder, arms=ARMS)
    assert not (holder / "kill" / "ppo").exists()
