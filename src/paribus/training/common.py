"""What recipes share: the order of the problems, the loop with its checkpoints, and the folder they end in."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from paribus.errors import ConfigError, RunError
from paribus.settings import OptimSpec
from paribus.store import checkpoint, files
from paribus.types import Key

CHECKPOINTS = "checkpoints"
HEARTBEAT = 10.0  # seconds between progress lines

Progress = Callable[[str], None]
Row = dict[str, float]


class Step(NamedTuple):
    """What one update reports: its loss, and the gradient norm before clipping."""

    loss: float
    norm: float


class Trainer(Protocol):
    """A network under training; a step is a pure function of the recipe, the step's number and the state before."""

    def step(self, step: int) -> Step: ...
    def save(self, folder: Path) -> None: ...
    def restore(self, folder: Path) -> None: ...


class Plan(NamedTuple):
    """How long to train, and how often to save; `identity` is the hash of the recipe."""

    name: str
    identity: str
    steps: int
    save_every: int


class Outcome(NamedTuple):
    """The last step's loss, and what was measured on the way."""

    loss: float
    curve: list[Row]


def refuse_inner_loop(optim: OptimSpec, instead: str) -> None:
    """Raise ValueError where a recipe sets what only a step's rows have: a loop over them."""
    if optim.epochs != 1 or optim.minibatch_prompts is not None:
        raise ValueError(f"optim.epochs and optim.minibatch_prompts mean nothing here: set {instead}")


def rows_of_step(problems: int, rows: int, seed: int, step: int) -> list[tuple[int, int]]:
    """Return (epoch, problem index) of each row of a step: epoch after epoch, each a fresh permutation."""
    places = (divmod(step * rows + i, problems) for i in range(rows))
    return [(epoch, _permutation(problems, seed, epoch)[place]) for epoch, place in places]


@functools.lru_cache(maxsize=2)
def _permutation(problems: int, seed: int, epoch: int) -> list[int]:
    rng = np.random.Generator(np.random.Philox(Key(seed, "order", epoch).hash()))
    return rng.permutation(problems).tolist()


def finished(out: Path, record: str, identity: str) -> bool:
    """Say whether `out` is this recipe's finished work; refuse a folder that holds anything but its checkpoints."""
    if (out / record).is_file() and files.read_json(out / record).get("identity") == identity:
        return True
    if out.is_dir() and any(p.name != CHECKPOINTS for p in out.iterdir()):
        raise ConfigError(f"{out}: holds something else already; give another folder with --out, or remove it")
    return False


def train(
    trainer: Trainer, plan: Plan, folder: Path, progress: Progress, *, measure: Callable[[], Row] = dict
) -> Outcome:
    """Take the steps that are left, saving every `plan.save_every`; `measure` adds to the curve at the same steps.

    Raises RunError when a gradient is not finite, ConfigError when `folder` holds another recipe's checkpoints.
    """
    found = checkpoint.latest_good(folder)
    for warning in found.warnings:
        progress(warning)
    loss, curve = float("nan"), []
    if found.path is not None:
        _refuse_others(folder, found.state, plan.identity)
        trainer.restore(found.path)
        loss, curve = found.state["loss"], found.state["curve"]
        progress(f"{plan.name}: resuming after step {found.step}")
    begun = spoken = time.perf_counter()
    for step in range(found.step, plan.steps):
        loss, norm = trainer.step(step)
        done, now = step + 1, time.perf_counter()
        if not np.isfinite(norm):
            raise RunError(f"step {done}: the gradient is not finite (loss {loss}): lower optim.lr")
        if now - spoken >= HEARTBEAT or done == plan.steps:
            left = (now - begun) / (done - found.step) * (plan.steps - done)
            progress(f"{plan.name}: step {done}/{plan.steps}  loss {loss:.3f}  left about {left:.0f} s")
            spoken = now
        if done % plan.save_every == 0 or done == plan.steps:
            measured = measure()
            if measured:
                curve.append({"step": done, "loss": loss, **measured})
                progress(f"{plan.name}: " + "  ".join(f"{name} {value:.3g}" for name, value in curve[-1].items()))
            checkpoint.commit(folder, done, 2, trainer.save, {"identity": plan.identity, "loss": loss, "curve": curve})
    return Outcome(loss, curve)


def _refuse_others(folder: Path, state: dict[str, Any], identity: str) -> None:
    if state["identity"] != identity:
        raise ConfigError(f"{folder}: checkpoints of another recipe; give another folder with --out, or remove it")
