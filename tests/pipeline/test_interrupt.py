"""Ctrl-C on the command line: the run in progress ends its step, and the same command goes on to the same result."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline_experiment import facts, write_experiment_file

STEPS = 12


def command(file: Path, runs: Path) -> list[str]:
    return [sys.executable, "-m", "paribus", "run", str(file), "--arm", "grpo", "--runs", str(runs)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_command_goes_on_to_the_same_result(number: signal.Signals, tmp_path: Path) -> None:
    file = write_experiment_file(tmp_path, steps=STEPS)
    whole = subprocess.run(command(file, tmp_path / "whole"), capture_output=True, text=True)
    assert whole.returncode == 0, whole.stderr
    process = subprocess.Popen(
        command(file, tmp_path / "cut"), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if "step 1/" in line:
            process.send_signal(number)
    assert process.wait() == 128 + number, said
    assert "stopping after this step" in said and "goes on from here" in said and "Traceback" not in said
    assert said.count("step 1/") == 1  # a handler that prints may double the line it interrupts
    again = subprocess.run(command(file, tmp_path / "cut"), capture_output=True, text=True)
    assert again.returncode == 0 and "goes on after step" in again.stderr, said + again.stderr
    runs = [tmp_path / name / "kill" / "grpo" / "seed-0" for name in ("whole", "cut")]
    assert facts(runs[0]) == facts(runs[1])
