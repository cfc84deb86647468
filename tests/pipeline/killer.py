"""Run one arm and die by SIGKILL at a chosen moment: `python killer.py EXP ROOT ARM [WHERE STEP CALL]`.

WHERE is `rollout`, `update` or `save`; the kill comes inside step STEP, at the CALL-th token or micro-batch of that
phase (for `save`: with the CALL-th file half written).
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from paribus.engines import learner, local
from paribus.experiment import load_experiment
from paribus.pipeline import session as session_module
from paribus.pipeline import worker


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm_trap(where: str, at: int, call: int) -> None:
    """Wrap the phase so that it dies in the middle of step `at` (1-based)."""
    state = {"phase": "", "calls": 0, "step": 1}
    inside = "policy_update" if where == "update" else where
    real_clock = session_module.Clock.__call__

    def clocked(self: Any, phase: str) -> Any:
        state["phase"] = phase
        return real_clock(self, phase)

    session_module.Clock.__call__ = clocked  # type: ignore[method-assign]
    real_prompts = session_module.Session.prompts

    def prompts(self: Any, step: int, refill: int = 0) -> Any:
        state["step"] = self.step + 1
        return real_prompts(self, step, refill)

    session_module.Session.prompts = prompts  # type: ignore[method-assign]

    def count() -> bool:
        if state["phase"] == inside and state["step"] == at:
            state["calls"] += 1
            return state["calls"] == call
        return False

    if where == "save":
        trap_save(at, call)
        return
    # what is called once a token (rollout) and once a micro-batch (update), in the middle of the phase's work
    module, name = (local, "choose") if where == "rollout" else (learner, "token_scores")
    real = getattr(module, name)

    def trapped(*args: Any, **options: Any) -> Any:
        result = real(*args, **options)
        if count():
            die()
        return result

    setattr(module, name, trapped)


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
