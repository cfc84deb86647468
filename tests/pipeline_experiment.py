"""The small experiment of the robustness tests, and what must be equal after a restart."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

PER_EPOCH = 3  # steps
EXPERIMENT = """
name = "kill"
question = "does a killed run come back as if nothing had happened?"
primary = "test:accuracy"
seeds = [0]
differs = ["advantage", "whiten", "critic", "shaping", "kl", "aggregate", "surrogate", "keep", "source", "objective",
  "ratio", "entropy", "imitation", "old"]
[task]
type = "jsonl"
path = "DATA"
[reward]
type = "noisy"
flip = 0.3
[reward.inner]
type = "task"
[rollout]
prompts_per_step = 4
samples_per_prompt = 3
max_response = 12
[optim]
lr = 1e-3
epochs = 2
minibatch_prompts = 2
[budget]
steps = STEPS
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
[arm.dapo]
base = "dapo"
[arm.dpo]
base = "dpo"
"""


def facts(run: Path) -> dict[str, str]:
    """Hash what must be equal: step rows, evaluation rows, stored rollouts, final weights."""
    files = [run / "steps.jsonl", run / "final" / "model.safetensors", *sorted((run / "eval").rglob("*.gz"))]
    files += sorted((run / "rollouts").glob("*.gz"))
    return {str(f.relative_to(run)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def write_experiment_file(folder: Path, steps: int) -> Path:
    """Write the experiment with its data (one epoch is PER_EPOCH steps) and return its path."""
    rows = [{"question": f"Add {a} and {a + 3}.", "answer": str(2 * a + 3)} for a in range(PER_EPOCH * 4 + 1)]
    for split in ("train", "test"):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    file = folder / "exp.toml"
    file.write_text(EXPERIMENT.replace("DATA", str(folder)).replace("STEPS", str(steps)), encoding="utf-8")
    return file
