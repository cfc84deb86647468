"""Names of directories and files of stored runs; no other module spells one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from paribus.errors import ConfigError

BASE = "_base"  # the evaluation of the untrained model; names that start with "_" are ours
TRACK = "_track"  # what trackers were sent, and their own files where they lie with the experiment
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SEED = re.compile(r"seed-(-?\d+)")
_ROWS = re.compile(r"(\d+)\.jsonl\.gz")
_STEP = re.compile(r"step-(\d+)")


def checked_name(name: str, what: str) -> str:
    """Return `name` if it is safe as a folder name on every system. Raises ConfigError."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{what} '{name}' cannot name a folder: use letters, digits, '.', '_' or '-', first a letter or digit"
        )
    return name


@dataclass(frozen=True, slots=True)
class RunPaths:
    """Where one run (an arm with a seed, or the base) keeps its files."""

    root: Path
    experiment: str
    arm: str
    seed: int

    @property
    def run(self) -> Path:
        return self.root / "run.json"

    @property
    def config(self) -> Path:
        return self.root / "config.json"

    @property
    def steps(self) -> Path:
        return self.root / "steps.jsonl"

    @property
    def timing(self) -> Path:
        return self.root / "timing.jsonl"

    @property
    def evals(self) -> Path:
        return self.root / "eval"

    def eval(self, suite: str, step: int) -> Path:
        return self.evals / checked_name(suite, "evaluation suite") / f"{step}.jsonl.gz"

    @property
    def rollout_files(self) -> Path:
        return self.root / "rollouts"

    def rollouts(self, step: int) -> Path:
        return self.rollout_files / f"{step}.jsonl.gz"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def final(self) -> Path:
        return self.root / "final"

    @property
    def done(self) -> Path:
        return self.root / "DONE"

    @property
    def failed(self) -> Path:
        return self.root / "FAILED.json"

    @property
    def lock(self) -> Path:
        return self.root / ".lock"


@dataclass(frozen=True, slots=True)
class ExperimentPaths:
    """Where an experiment keeps its runs: `<root>/<arm>/seed-<k>/`; the folder's name is the experiment's."""

    root: Path

    @property
    def name(self) -> str:
        return self.root.resolve().name

    @property
    def info(self) -> Path:
        return self.root / "experiment.json"

    @property
    def plan(self) -> Path:
        return self.root / "plan.json"

    def problems(self, suite: str) -> Path:
        return self.root / "problems" / f"{checked_name(suite, 'evaluation suite')}.jsonl.gz"

    def tracked(self, tracker: str) -> Path:
        return self.root / TRACK / f"{tracker}.json"

    @property
    def base(self) -> RunPaths:
        return RunPaths(self.root / BASE, self.name, BASE, 0)

    def run(self, arm: str, seed: int) -> RunPaths:
        return RunPaths(self.root / checked_name(arm, "arm") / f"seed-{seed}", self.name, arm, seed)

    def seeds(self, arm: str) -> list[int]:
        """Seeds of `arm` that have a folder, in order."""
        folder = self.root / checked_name(arm, "arm")
        matches = (_SEED.fullmatch(path.name) for path in folder.iterdir()) if folder.is_dir() else ()
        return sorted(int(match[1]) for match in matches if match)


@dataclass(frozen=True, slots=True)
class EvalPaths:
    """Where `paribus eval` leaves the results of one model, one file of rows a suite."""

    root: Path

    @property
    def info(self) -> Path:
        return self.root / "eval.json"

    def rows(self, suite: str) -> Path:
        return self.root / f"{checked_name(suite, 'evaluation suite')}.jsonl.gz"

    def problems(self, suite: str) -> Path:
        return self.root / "problems" / f"{checked_name(suite, 'evaluation suite')}.jsonl.gz"


def step_files(folder: Path) -> dict[int, Path]:
    """Return `<step>.jsonl.gz` files of a folder by step, in order; none if the folder does not exist."""
    matches = ((_ROWS.fullmatch(path.name), path) for path in folder.iterdir()) if folder.is_dir() else ()
    return dict(sorted((int(match[1]), path) for match, path in matches if match))


def checkpoint_path(folder: Path, step: int) -> Path:
    return folder / f"step-{step}"


def checkpoint_steps(folder: Path) -> dict[int, Path]:
    """Return checkpoint folders by step, newest first, complete or not."""
    matches = ((_STEP.fullmatch(path.name), path) for path in folder.iterdir()) if folder.is_dir() else ()
    return dict(sorted(((int(match[1]), path) for match, path in matches if match), reverse=True))
