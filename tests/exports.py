"""A small experiment whose arms can be exported, and what the tests of exports share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from paribus.experiment import Experiment, resolve

QUESTIONS = 6


def write_data(folder: Path) -> Path:
    """Write a training and a test file of sums."""
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "test"):
        rows = [{"question": f"What is {i} + {i + 1}?", "answer": str(2 * i + 1)} for i in range(QUESTIONS)]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def table(data: Path, **changes: Any) -> dict[str, Any]:
    """Return the tables of an experiment file: PPO and GRPO as verl 0.5 ran them, in an update of one micro-batch."""
    return {
        "name": "sums",
        "question": "Does a critic pay?",
        "primary": "test:accuracy",
        "seeds": [0, 1],
        "differs": ["advantage", "whiten", "critic"],
        "model": {"path": "Qwen/Qwen2.5-0.5B-Instruct"},
        "task": {
            "type": "jsonl",
            "path": str(data),
            "prompt": "{question} Put the answer within \\boxed{}.",
            "grader": {"type": "answer", "policy": "boxed"},
        },
        "rollout": {"prompts_per_step": 4, "samples_per_prompt": 4, "max_response": 20},
        "optim": {"lr": 1e-6, "weight_decay": 0.01},
        "budget": {"steps": 6},
        "eval": {"test": {"max_response": 40}},
        "arm": {"ppo": {"base": "verl_05_ppo"}, "grpo": {"base": "verl_05_grpo"}},
    } | changes


def experiment(data: Path, **changes: Any) -> Experiment:
    return resolve(table(data, **changes), where="sums.toml")


def one_arm(data: Path, base: str, **changes: Any) -> Experiment:
    """Return an experiment of one arm; `changes` are of the arm."""
    return experiment(data, arm={"only": {"base": base, **changes}}, differs=[])


def overrides(path: Path) -> dict[str, str]:
    """Return the lines of an override list by their keys, without the sign of an added key."""
    return dict(line.lstrip("+").split("=", 1) for line in path.read_text().splitlines())
