"""What the search before the runs tried and chose: `_tune/tuning.json` of an experiment's folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paribus.store import files
from paribus.store.layout import ExperimentPaths
from paribus.store.reader import read_versioned
from paribus.store.schema import SCHEMA_VERSION, Row

TUNE = "_tune"  # folder of the trials, an experiment of its own


class TrialRow(Row):
    """One trial: what it changed in its arm, and what it scored on the validation suite, mean over seeds."""

    arm: str
    trial: str  # the arm's name among the trials' runs
    values: Mapping[str, Any]  # dotted key -> value
    score: float
    chosen: bool


class TuningInfo(Row):
    """tuning.json: the budget of the search and every trial, those of an arm in order."""

    schema_version: int = SCHEMA_VERSION
    by: str  # "<suite>:<metric>"
    seeds: tuple[int, ...]
    trials: tuple[TrialRow, ...]


def write_tuning(paths: ExperimentPaths, info: TuningInfo) -> None:
    """Write the result of the search into the folder of the trials."""
    files.write_json(paths.root / "tuning.json", info.model_dump(mode="json"))


def read_tuning(paths: ExperimentPaths) -> TuningInfo | None:
    """Return what the search of an experiment found; None where there was none."""
    path = paths.root / TUNE / "tuning.json"
    return read_versioned(path, TuningInfo) if path.exists() else None
