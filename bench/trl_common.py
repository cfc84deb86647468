"""What TRL's trainers share here: the gate between two steps, and how they are set up."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from peer import Line, Phases
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

STEPS = 10**6  # more than will be asked for
LEARNING_RATE = 1e-6


class Gate(TrainerCallback):
    """Holds the trainer before each step until a line asks for it, and answers when the step is done."""

    def __init__(self, line: Line, phases: Phases, tokens: int) -> None:
        self.line, self.phases, self.tokens = line, phases, tokens

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        self.line.ready()

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        self.line.wait()
        self.phases.begin()

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        self.line.answer(self.phases.end(), self.tokens)


def arguments(doc: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--scratch", required=True, help="folder that the trainer may write to")
    parser.add_argument("--prompts", type=int, required=True)
    return parser


def load(path: str) -> tuple[Any, Any]:
    """Return model and tokenizer, float32."""
    model = AutoModelForCausalLM.from_pretrained(path, dtype="float32")
    return model, AutoTokenizer.from_pretrained(path, padding_side="left")


def settings(scratch: str) -> dict[str, Any]:
    """Return what all trainers are given: float32 on the CPU, nothing written, no recomputation of activations."""
    return {
        "output_dir": scratch,
        "use_cpu": True,
        "bf16": False,
        "fp16": False,
        "gradient_checkpointing": False,
        "learning_rate": LEARNING_RATE,
        "lr_scheduler_type": "constant",
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }


def time_optimizer(trainer: Any, phases: Phases, phase: str = "update") -> None:
    """Charge the optimizer's steps to a phase; the trainer makes its optimizer when training begins."""
    make = trainer.create_optimizer

    def made(*args: Any, **kwargs: Any) -> Any:
        optimizer = make(*args, **kwargs)
        phases.wrap(trainer.optimizer, "step", phase)
        return optimizer

    trainer.create_optimizer = made
