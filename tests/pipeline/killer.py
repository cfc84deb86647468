"""Run one arm and die by SIGKILL at a chosen moment: `python killer.py EXP ROOT ARM [WHERE STEP CALL]`.

WHERE is `rollout`, `update` or `save`; the kill comes inside step STEP, at the CALL-th forward pass of that phase (for
`save`: when half of the CALL-th file is written).
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from paribus.experiment import load_experiment
from paribus.pipeline import session as session_module
from paribus.pipeline import worker


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm_trap(where: str, at: int, call: int) -> None:
    """Wrap the phase so that it dies in the middle of step `at` (1-based)."""
    state = {"phase": "", "calls": 0, "step": 1}
    inside = {"rollout": ("rollout",), "update": ("policy_update", "critic_update"), "save": ("save",)}[where]
    real_clock = session_module.Clock.__call__

    def clocked(self: Any, phase: str) -> Any:
        state["phase"], state["calls"] = phase, 0 if phase not in inside else state["calls"]
        return real_clock(self, phase)

    session_module.Clock.__call__ = clocked  # type: ignore[method-assign]
    real_record = session_module.Session.record

    def record(self: Any, *args: Any) -> None:
        real_record(self, *args)
        state["step"] = self.step + 1

    session_module.Session.record = record  # type: ignore[method-assign]

    def count() -> bool:
        if state["phase"] in inside and state["step"] == at:
            state["calls"] += 1
            return state["calls"] == call
        return False

    if where == "save":
        trap_save(at, call)
        return
    real_forward = torch.nn.Linear.forward

    def forward(self: torch.nn.Linear, x: torch.Tensor) -> torch.Tensor:
        if count():
            die()
        return real_forward(self, x)

    torch.nn.Linear.forward = forward  # type: ignore[method-assign]


def trap_save(at: int, call: int) -> None:
    """Die with half of the `call`-th file of checkpoint `at` on disk."""
    real = session_module.checkpoint.commit

    def commit(folder: Path, step: int, keep: int, write: Callable[[Path], None], state: Any) -> Any:
        def half(path: Path) -> None:
            write(path)
            victim = sorted(path.iterdir())[call % len(list(path.iterdir()))]
            os.truncate(victim, victim.stat().st_size // 2)
            die()

        return real(folder, step, keep, half if step == at else write, state)

    session_module.checkpoint.commit = commit  # type: ignore[assignment]


if __name__ == "__main__":
    file, root, arm, *trap = sys.argv[1:]
    torch.set_num_threads(1)
    if trap:
        arm_trap(trap[0], int(trap[1]), int(trap[2]))
    worker.run_arm(load_experiment(file), arm, 0, Path(root), lambda kind, **fields: None)
