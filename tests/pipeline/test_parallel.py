"""Several runs at a time: the same bits as one after another, stopped together, none left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from paribus.errors import RunError
from paribus.experiment import load_experiment
from paribus.pipeline.compare import run_experiment
from paribus.store import StoredRun, read_experiment
from pipeline_experiment import facts, write_experiment_file

STEPS = 8
ARMS = ("ppo", "grpo")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_experiment_file(tmp_path_factory.mktemp("parallel"), STEPS)


@pytest.fixture(scope="module")
def alone(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of both arms, one after the other."""
    exp = load_experiment(file, ["machine.parallel=1"])
    return run_experiment(exp, tmp_path_factory.mktemp("alone"), arms=ARMS).root


def command(file: Path, runs: Path) -> list[str]:
    arms = [word for arm in ARMS for word in ("--arm", arm)]
    return [
        sys.executable,
        "-m",
        "paribus",
        "run",
        str(file),
        "--set",
        "machine.parallel=2",
        *arms,
        "--runs",
        str(runs),
    ]


def start(file: Path, runs: Path) -> tuple[subprocess.Popen[str], str]:
    """Start the command and return once both runs have made their first step."""
    process = subprocess.Popen(command(file, runs), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert process.stderr is not None
    said = ""
    while said.count("step 1/") < len(ARMS):
        line = process.stderr.readline()
        assert line, said
        said += line
    return process, said


def spans(run: StoredRun) -> list[tuple[str, str]]:
    return [(a.started, a.ended or "") for a in run.info.attempts]


def same(root: Path, alone: Path) -> None:
    for arm in ARMS:
        assert facts(root / arm / "seed-0") == facts(alone / arm / "seed-0")


def test_side_by_side_and_one_after_another_give_the_same_bits(file: Path, alone: Path, tmp_path: Path) -> None:
    root = run_experiment(load_experiment(file, ["machine.parallel=2"]), tmp_path, arms=ARMS).root
    same(root, alone)
    base = Path("_base", "eval", "test", "0.jsonl.gz")
    assert (root / base).read_bytes() == (alone / base).read_bytes()
    for folder, number in ((root, 2), (alone, 1)):
        stored = read_experiment(folder)
        first, second = (stored.runs[arm][0] for arm in ARMS)
        assert {a.parallel for run in (first, second) for a in run.info.attempts} == {number}
        assert stored.base is not None and spans(stored.base)[0][1] <= min(spans(first)[0][0], spans(second)[0][0])
        overlap = spans(second)[0][0] < spans(first)[0][1] and spans(first)[0][0] < spans(second)[0][1]
        assert overlap == (number == 2)


def test_one_stop_reaches_all_and_the_same_command_goes_on(file: Path, alone: Path, tmp_path: Path) -> None:
    process, said = start(file, tmp_path)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    said += process.stderr.read()
    assert process.wait() == 128 + signal.SIGINT, said
    assert said.count("stopping after this step") == 1 and "Traceback" not in said and "FAILED" not in said
    done = [json.loads((tmp_path / "kill" / arm / "seed-0" / "run.json").read_text()) for arm in ARMS]
    assert [info["status"] for info in done] == ["interrupted", "interrupted"]
    again = subprocess.run(command(file, tmp_path), capture_output=True, text=True)
    assert again.returncode == 0 and again.stderr.count("goes on after step") == len(ARMS), again.stderr
    same(tmp_path / "kill", alone)


def test_a_second_stop_is_obeyed_at_once_and_loses_no_checkpoint(file: Path, alone: Path, tmp_path: Path) -> None:
    process, said = start(file, tmp_path)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    said += process.stderr.read()
    assert process.wait() == 128 + signal.SIGTERM and "Traceback" not in said, said
    assert subprocess.run(command(file, tmp_path), capture_output=True).returncode == 0
    same(tmp_path / "kill", alone)


def test_no_process_outlives_a_killed_parent(file: Path, tmp_path: Path) -> None:
    process, _ = start(file, tmp_path)
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) >= len(ARMS)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive


def test_a_run_that_crashes_takes_no_other_along(file: Path, alone: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "kill" / "ppo"
    blocked.parent.mkdir()
    blocked.write_text("where the first run's folder should be")
    with pytest.raises(RunError, match=r"ppo/seed-0: its process ended with exit code 1"):
        run_experiment(load_experiment(file, ["machine.parallel=2"]), tmp_path, arms=ARMS)
    assert facts(tmp_path / "kill" / "grpo" / "seed-0") == facts(alone / "grpo" / "seed-0")
