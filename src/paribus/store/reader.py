"""Reading stored runs: complete rows only, unknown versions refused, nothing guessed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

from paribus.errors import DataError, nearest
from paribus.part import load
from paribus.store import files
from paribus.store.advice import FILE, Advice
from paribus.store.layout import EvalPaths, ExperimentPaths, RunPaths, step_files
from paribus.store.plan import PlanInfo
from paribus.store.schema import (
    SCHEMA_VERSION,
    EvalInfo,
    EvalRow,
    ExperimentInfo,
    ProblemRow,
    RolloutRow,
    Row,
    RunInfo,
    StepRow,
    TimingRow,
)

R = TypeVar("R", bound=Row)


def read_versioned(path: Path, cls: type[R]) -> R:
    """Read a JSON file that states its schema version. Raises DataError for any version but ours."""
    data = files.read_json(path)
    version = data.get("schema_version") if isinstance(data, Mapping) else None
    if version != SCHEMA_VERSION:
        raise DataError(
            f"{path}: schema version {version!r}, but this version of Paribus reads {SCHEMA_VERSION}; "
            "use the version that wrote it"
        )
    return load(cls, data, where=str(path))


def read_run_info(paths: RunPaths) -> RunInfo:
    return read_versioned(paths.run, RunInfo)


@dataclass(frozen=True)
class StoredRun:
    """One run as it lies on disk; files are read when first asked for."""

    paths: RunPaths

    @cached_property
    def info(self) -> RunInfo:
        return read_run_info(self.paths)

    @cached_property
    def config(self) -> dict[str, Any]:
        return files.read_json(self.paths.config)

    @property
    def status(self) -> Literal["interrupted", "done", "failed"]:
        """How the run ended, by the marker file written last."""
        if self.paths.done.exists():
            return "done"
        return "failed" if self.paths.failed.exists() else "interrupted"

    @cached_property
    def failure(self) -> str | None:
        """Why a failed run failed, in one line."""
        if not self.paths.failed.exists():
            return None
        data = files.read_json(self.paths.failed)
        return f"{data['error']}: {data['message']}"

    @cached_property
    def steps(self) -> list[StepRow]:
        return files.read_rows(self.paths.steps, StepRow)

    @cached_property
    def all_timing(self) -> list[TimingRow]:
        """Every timing row, those of work that a crash undid included."""
        return files.read_rows(self.paths.timing, TimingRow)

    @cached_property
    def timing(self) -> list[TimingRow]:
        """One row per step and evaluation that counts: of a repeated one the last, of an undone one none."""
        last = {(row.suite, row.step): row for row in self.all_timing}
        reached = self.steps[-1].step if self.steps else 0
        return [row for row in last.values() if row.step <= reached]

    @property
    def lost_seconds(self) -> float:
        """Wall-clock of recorded work that had to be done again."""
        return sum(row.wall for row in self.all_timing) - sum(row.wall for row in self.timing)

    @property
    def suites(self) -> list[str]:
        folder = self.paths.evals
        return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []

    def eval_steps(self, suite: str) -> list[int]:
        return list(step_files(self.paths.evals / suite))

    def eval(self, suite: str, step: int | Literal["last"] = "last") -> list[EvalRow]:
        """Return the rows of one evaluation. Raises DataError if there is none."""
        found = step_files(self.paths.evals / suite)
        if step == "last" and found:
            step = max(found)
        if step == "last" or step not in found:
            stored = ", ".join(map(str, found)) or "none"
            raise DataError(f"{self.paths.evals / suite}: no evaluation at step {step}; stored: {stored}")
        return files.read_rows(found[step], EvalRow)

    def rollout_steps(self) -> list[int]:
        return list(step_files(self.paths.rollout_files))

    def rollouts(self, step: int) -> list[RolloutRow]:
        return files.read_rows(self.paths.rollouts(step), RolloutRow)


@dataclass(frozen=True)
class StoredExperiment:
    """An experiment as it lies on disk: `runs[arm][seed]` in the order of the arms and seeds; `base` may be absent."""

    paths: ExperimentPaths
    info: ExperimentInfo
    base: StoredRun | None
    runs: Mapping[str, Mapping[int, StoredRun]]

    @property
    def plan(self) -> PlanInfo | None:
        """What was planned before the runs, where it was."""
        return read_versioned(self.paths.plan, PlanInfo) if self.paths.plan.exists() else None

    def problems(self, suite: str) -> dict[str, ProblemRow]:
        return {row.problem_id: row for row in files.read_rows(self.paths.problems(suite), ProblemRow)}

    @cached_property
    def advice(self) -> Advice | None:
        """What `paribus advise` predicted before the runs; None where nobody asked it."""
        path = self.paths.root / FILE
        return read_versioned(path, Advice) if path.exists() else None


@dataclass(frozen=True)
class StoredEval:
    """What `paribus eval` left of one model: `info.suites` are the finished ones."""

    paths: EvalPaths
    info: EvalInfo

    def rows(self, suite: str) -> list[EvalRow]:
        """Return the rows of a finished suite. Raises DataError if there is none of this name."""
        if suite not in self.info.suites:
            raise DataError(f"{self.paths.root}: no finished suite '{suite}'{nearest(suite, self.info.suites)}")
        return files.read_rows(self.paths.rows(suite), EvalRow)

    def problems(self, suite: str) -> dict[str, ProblemRow]:
        return {row.problem_id: row for row in files.read_rows(self.paths.problems(suite), ProblemRow)}


def read_eval(folder: str | Path) -> StoredEval:
    """Read a folder that `paribus eval` wrote. Raises DataError."""
    paths = EvalPaths(Path(folder))
    return StoredEval(paths, read_versioned(paths.info, EvalInfo))


def read_experiment(folder: str | Path) -> StoredExperiment:
    """Read what an experiment folder holds; runs that have not begun are left out. Raises DataError."""
    paths = ExperimentPaths(Path(folder))
    if not paths.info.exists():
        raise DataError(f"{paths.root}: not an experiment folder (no {paths.info.name}); expected runs/<experiment>")
    info = read_versioned(paths.info, ExperimentInfo)
    runs = {
        arm: {seed: StoredRun(run) for seed in paths.seeds(arm) if (run := paths.run(arm, seed)).run.exists()}
        for arm in info.arms
    }
    base = StoredRun(paths.base) if paths.base.run.exists() else None
    return StoredExperiment(paths, info, base, runs)
