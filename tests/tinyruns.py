"""Whole runs on the toy model: its folder, a few problems, and rewards that differ by chance."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paribus.experiment import Experiment, resolve
from paribus.models.hf import save_model
from paribus.part import merge
from paribus.pipeline.worker import run_arm
from paribus.store import ExperimentPaths, RunPaths
from toymodels import llama, tokenizer

STEPS_FILE = "def worth(steps, **columns):\n    return [len(step) % 3 / 2 for step in steps]\n"
# the toy model is never right: a noisy verdict is 1 as often as 0, by the row's key
REWARD = {"type": "noisy", "inner": {"type": "task"}, "flip": 0.5}


def write_materials(folder: Path) -> None:
    """Write the toy model, two splits of problems and a step scorer's file into `folder`."""
    save_model(llama(num_hidden_layers=1), tokenizer(), folder / "model")
    rows = [{"question": f"add {a} and {a + 3}.", "answer": str(2 * a + 3)} for a in range(4)]
    for split in ("train", "test"):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    (folder / "worth.py").write_text(STEPS_FILE, encoding="utf-8")


def experiment(folder: Path, arms: Mapping[str, Any], **tables: Any) -> Experiment:
    """Two prompts by four samples of at most 8 tokens, two steps; `tables` are laid over the setting."""
    data: dict[str, Any] = {
        "name": "tiny",
        "question": "?",
        "primary": "test:accuracy",
        "seeds": [0],
        "model": {"path": str(folder / "model")},
        "task": {"type": "jsonl", "path": str(folder)},
        "reward": REWARD,
        "rollout": {"prompts_per_step": 2, "samples_per_prompt": 4, "max_prompt": 120, "max_response": 8},
        "optim": {"lr": 1e-2},
        "budget": {"steps": 2},
        "save": {"every": 1, "rollouts_every": 1},
        "eval": {"test": {"max_response": 8, "limit": 2}},
        "machine": {"device": "cpu", "threads": 1},
        "arm": dict(arms),
    }
    return resolve(merge(data, tables), where="tiny")


def run(exp: Experiment, arm: str, root: Path) -> RunPaths:
    """Run an arm of seed 0 in this process, or go on with it, and return its paths."""
    run_arm(exp, arm, 0, root, lambda kind, **fields: None)
    return ExperimentPaths(root).run(arm, 0)


def steps(paths: RunPaths) -> list[dict[str, Any]]:
    return [json.loads(line) for line in paths.steps.read_text().splitlines()]
