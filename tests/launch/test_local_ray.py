"""Runs on a real Ray cluster of this machine: killed in the middle, stopped by Ctrl-C, the same bits in the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from paribus.experiment import Experiment, load_experiment
from paribus.launch import RayCluster
from paribus.pipeline.compare import run_experiment
from paribus.report.results import schedule
from paribus.store import read_experiment
from pipeline_experiment import facts

pytestmark = pytest.mark.ray
ray = pytest.importorskip("ray", reason="Ray is not installed: make test-ray")

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "experiments" / "quickstart.toml"
SMALL = {
    "machine.device": "cpu",
    "budget.steps": 6,
    "save.every": 1,
    "rollout.prompts_per_step": 8,
    "rollout.max_response": 48,
    "eval.test.limit": 32,
    "eval.test.max_response": 48,
    "eval.sampled.limit": 4,
    "eval.sampled.max_response": 48,
}
SETS = [f"{key}={value}" for key, value in SMALL.items()]
RUNS = [(arm, seed) for arm in ("ppo", "grpo") for seed in (0, 1, 2)]


@pytest.fixture(scope="module")
def exp() -> Experiment:
    return load_experiment(QUICKSTART, SETS)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same runs on this machine, one after another."""
    return run_experiment(
        load_experiment(QUICKSTART, [*SETS, "machine.parallel=1"]), tmp_path_factory.mktemp("alone")
    ).root


@pytest.fixture
def two_workers() -> Iterator[None]:
    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="ERROR")
    yield
    ray.shutdown()


def same(root: Path, alone: Path, runs: list[tuple[str, int]] = RUNS) -> None:
    for arm, seed in runs:
        assert facts(root / arm / f"seed-{seed}") == facts(alone / arm / f"seed-{seed}"), (arm, seed)
    for file in (alone / "_base" / "eval").rglob("*.gz"):
        assert (root / file.relative_to(alone)).read_bytes() == file.read_bytes()


def process_of(run: Path) -> psutil.Process:
    """Return the process that holds the lock of a run."""
    for process in psutil.process_iter():
        try:
            if any(file.path == str(run / ".lock") for file in process.open_files()):
                return process
        except psutil.Error:
            continue
    raise AssertionError(f"no process is working on {run}")


def kill_in_the_middle(run: Path, worker: bool, killed: list[str]) -> None:
    """Wait for the second step and kill the run's process, or Ray's worker that started it."""
    end = time.monotonic() + 240
    while time.monotonic() < end:
        steps = run / "steps.jsonl"
        if steps.exists() and len(steps.read_text().splitlines()) >= 2:
            process = process_of(run)
            while worker and not process.name().startswith("ray::"):
                process = process.parents()[0]
            killed.append(process.name())
            process.send_signal(signal.SIGKILL)
            return
        time.sleep(0.01)


def attempts(root: Path, arm: str, seed: int) -> list[dict[str, Any]]:
    return json.loads((root / arm / f"seed-{seed}" / "run.json").read_text())["attempts"]


def test_killed_workers_go_on_and_all_runs_are_those_in_sequence(
    exp: Experiment, alone: Path, two_workers: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root, killed = tmp_path / "quickstart", []
    victims = {("ppo", 0): True, ("grpo", 1): False}
    threads = [
        threading.Thread(target=kill_in_the_middle, args=(root / arm / f"seed-{seed}", worker, killed))
        for (arm, seed), worker in victims.items()
    ]
    for thread in threads:
        thread.start()
    run_experiment(exp, tmp_path, on=RayCluster)
    for thread in threads:
        thread.join()
    same(root, alone)
    said = capfd.readouterr().err
    assert len(killed) == 2 and sum(name.startswith("ray::") for name in killed) == 1
    assert said.count("it starts again (1 of 3 times)") == 2 and said.count("goes on after step") == 2
    assert said.count(": done in") == 7 and "FAILED" not in said
    for run in RUNS:
        found = attempts(root, *run)
        assert [a["ended"] is None for a in found] == ([True, False] if run in victims else [False])
        assert {a["parallel"] for a in found} == {2}
    stored = schedule(read_experiment(root).runs)
    assert stored.exclusive and stored.at_once == 2
    assert not list(root.glob(".cluster-*"))
    idle = [attempts(folder, "ppo", 1)[0]["idle_rss"] for folder in (root, alone)]
    assert abs(idle[0] - idle[1]) < 20e6, idle  # the run's process holds nothing of Ray


def test_a_stopped_command_goes_on_to_the_same_result(alone: Path, tmp_path: Path) -> None:
    sets = [word for value in SETS for word in ("--set", value)]
    command = [sys.executable, "-m", "paribus", "run", str(QUICKSTART), "--on", "ray", "--runs", str(tmp_path), *sets]
    command += ["--seed", "0"]
    environment = {**os.environ, "RAY_ADDRESS": "local"}
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment, cwd=ROOT
    )
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if "step 1/" in line and said.count("step 1/") == 1:
            process.send_signal(signal.SIGINT)
    assert process.wait() == 130, said
    assert said.count("stopping after this step") == 1 and "Traceback" not in said and "FAILED" not in said, said
    states = {json.loads(file.read_text())["status"] for file in (tmp_path / "quickstart").glob("*/seed-*/run.json")}
    assert states == {"interrupted"}
    again = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT)
    assert again.returncode == 0 and "goes on after step" in again.stderr, again.stderr
    same(tmp_path / "quickstart", alone, [("ppo", 0), ("grpo", 0)])
    assert (tmp_path / "quickstart" / "report" / "report.html").exists()
