"""`paribus run --track`, whole: the run is the same run, and the tracker has its rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from paribus.trackers import kinds

EXPERIMENT = """
name = "tracked"
question = "q"
primary = "test:accuracy"
seeds = [0]
[model]
path = "tiny"
[task]
type = "jsonl"
path = "{data}"
[rollout]
prompts_per_step = 2
samples_per_prompt = 2
max_prompt = 64
max_response = 4
[optim]
lr = 1e-4
[budget]
steps = 2
[eval.test]
max_response = 4
[machine]
device = "cpu"
threads = 1
[arm.grpo]
base = "grpo"
"""
WANDB = """
import json
class Run:
    summary = {}
    def __init__(self, name): self.name = name
    def define_metric(self, *names, **options): pass
    def log(self, row): write({"run": self.name, **row})
    def finish(self, exit_code): write({"run": self.name, "exit": exit_code, **self.summary})
def write(row):
    with open(FILE, "a") as file:
        file.write(json.dumps(row) + "\\n")
def Settings(**options): return options
def init(**options): return Run(options["name"])
"""


def test_a_tracked_run_is_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    rows = [{"question": f"What is {a} + 1?", "answer": str(a + 1)} for a in range(3)]
    for split in ("train", "test"):
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    file, told = tmp_path / "exp.toml", tmp_path / "told.jsonl"
    file.write_text(EXPERIMENT.format(data=tmp_path))
    (tmp_path / "wandb.py").write_text(WANDB.replace("FILE", repr(str(told))))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(kinds.__file__).parents[2]}")
    command = [sys.executable, "-m", "paribus", "run", str(file)]

    def run(runs: str, *options: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([*command, "--runs", str(tmp_path / runs), *options], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done

    run("with", "--track", "wandb")
    run("without", "--no-report")
    paths = [tmp_path / runs / "tracked" / "grpo" / "seed-0" for runs in ("with", "without")]
    assert (paths[0] / "steps.jsonl").read_bytes() == (paths[1] / "steps.jsonl").read_bytes()
    infos = [json.loads((path / "run.json").read_text()) for path in paths]
    assert infos[0]["id"] == infos[1]["id"] and infos[0]["config_hash"] == infos[1]["config_hash"]
    assert (paths[0] / "config.json").read_bytes() == (paths[1] / "config.json").read_bytes()
    assert "finished earlier" in run("with", "--no-report").stderr  # neither asked for a tracker nor another run
    found = [json.loads(line) for line in told.read_text().splitlines()]
    grpo = [row for row in found if row["run"] == "grpo/seed-0"]
    assert [row["step"] for row in grpo if "train/reward" in row] == [1, 2]
    assert grpo[-1]["exit"] == 0 and Path(grpo[-1]["report"]).is_file()
    assert [row for row in found if row["run"] == "base" and "eval/test/accuracy" in row]
