"""Kill -9 at any moment, start again: the run is the uninterrupted one, bit by bit."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

ARMS = ("ppo", "grpo")
STEPS, PER_EPOCH = 6, 3
EXPERIMENT = f"""
name = "kill"
question = "does a killed run come back as if nothing had happened?"
primary = "test:accuracy"
seeds = [0]
differs = ["advantage", "whiten", "critic", "shaping", "kl", "aggregate"]
[task]
type = "jsonl"
path = "DATA"
[rollout]
prompts_per_step = 4
samples_per_prompt = 3
max_response = 12
[optim]
lr = 1e-3
epochs = 2
minibatch_prompts = 2
[budget]
steps = {STEPS}
[save]
every = 2
[eval.test]
max_response = 12
every = 2
[machine]
device = "cpu"
threads = 1
[arm.ppo]
base = "ppo"
[arm.grpo]
base = "grpo"
"""


def start(file: Path, root: Path, arm: str, *trap: object) -> int:
    killer = Path(__file__).with_name("killer.py")
    command = [sys.executable, str(killer), str(file), str(root), arm, *map(str, trap)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, -9), done.stderr
    return done.returncode


def facts(run: Path) -> dict[str, str]:
    """Hash what must be equal: step rows, evaluation rows, stored rollouts, final weights."""
    files = [run / "steps.jsonl", run / "final" / "model.safetensors", *sorted((run / "eval").rglob("*.gz"))]
    files += sorted((run / "rollouts").glob("*.gz"))
    return {str(f.relative_to(run)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kill")
    rows = [{"question": f"Add {a} and {a + 3}.", "answer": str(2 * a + 3)} for a in range(PER_EPOCH * 4 + 1)]
    for split in ("train", "test"):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    file = folder / "exp.toml"
    file.write_text(EXPERIMENT.replace("DATA", str(folder)), encoding="utf-8")
    return file


@pytest.mark.parametrize("arm", ARMS)
def test_killed_three_times_and_still_the_same(arm: str, experiment: Path, tmp_path: Path) -> None:
    assert start(experiment, tmp_path / "whole", arm) == 0
    rng = random.Random(arm)
    moments = [
        ("rollout", rng.randint(1, PER_EPOCH), rng.randint(2, 11)),
        ("save", 4, rng.randint(0, 9)),  # the second epoch's first checkpoint
        ("update", rng.randint(PER_EPOCH + 2, STEPS), rng.randint(1, 4)),  # in the second epoch
    ]
    for moment in moments:
        assert start(experiment, tmp_path / "killed", arm, *moment) == -9, f"not killed at {moment}"
    assert start(experiment, tmp_path / "killed", arm) == 0
    whole, killed = (tmp_path / name / arm / "seed-0" for name in ("whole", "killed"))
    assert facts(killed) == facts(whole)
    steps = [json.loads(line)["step"] for line in (killed / "steps.jsonl").read_text().splitlines()]
    assert steps == list(range(1, STEPS + 1))
    lost = [json.loads(line)["attempt"] for line in (killed / "timing.jsonl").read_text().splitlines()]
    assert max(lost) == len(moments) + 1
