"""Kill -9 at any moment, start again: the run is the uninterrupted one, bit by bit."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from paribus.experiment import load_experiment
from paribus.pipeline import worker
from pipeline_experiment import PER_EPOCH, facts, write_experiment_file

ARMS = ("ppo", "grpo")
STEPS = 6


def start(file: Path, root: Path, arm: str, *trap: object) -> int:
    killer = Path(__file__).with_name("killer.py")
    command = [sys.executable, str(killer), str(file), str(root), arm, *map(str, trap)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, -9), done.stderr
    return done.returncode


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_experiment_file(tmp_path_factory.mktemp("kill"), STEPS)


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


@pytest.mark.parametrize(("arm", "where"), [("dapo", "rollout"), ("dpo", "update")])
def test_refills_and_own_pairs_come_back_too(arm: str, where: str, experiment: Path, tmp_path: Path) -> None:
    """Killed in a refill, and in an update on pairs that the starting policy, no longer at hand, had sampled."""
    exp = load_experiment(experiment)
    for name in ("whole", "killed"):
        if name == "killed":
            stored = [json.loads(line) for line in (tmp_path / "whole" / arm / "seed-0" / "steps.jsonl").open()]
            late = [row for row in stored if row["step"] > PER_EPOCH]
            at = next(row["step"] for row in late if arm == "dpo" or row["stats"]["refills"]["sum"])
            # a response has 12 tokens at most: the 15th belongs to a refill
            assert start(experiment, tmp_path / name, arm, where, at, 15 if where == "rollout" else 2) == -9
        worker.run_arm(exp, arm, 0, tmp_path / name, lambda kind, **fields: None)
    whole, killed = (tmp_path / name / arm / "seed-0" for name in ("whole", "killed"))
    assert len(json.loads((killed / "run.json").read_text())["attempts"]) == 2
    assert facts(killed) == facts(whole)
