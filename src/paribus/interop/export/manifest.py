"""What an exported folder says of itself, read back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paribus.errors import ConfigError, DataError
from paribus.experiment import Experiment, load_experiment
from paribus.part import load
from paribus.store.files import read_json

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Told:
    """The experiment of a folder, its arm ("" where nothing tells) and the trainer's release."""

    experiment: Experiment
    arm: str
    version: str


def read_manifest(tool: str, folder: Path, experiment: Path | None, overrides: Sequence[str]) -> Told:
    """Return what the manifest says, or for a folder without one the experiment file. Raises ConfigError, DataError."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder")
    if not path.exists():
        if experiment is None:
            raise ConfigError(f"{folder}: no {MANIFEST}: say with --experiment which experiment was run there")
        return Told(load_experiment(experiment, overrides), "", "of unknown release")
    if experiment is not None or overrides:
        raise ConfigError(f"{path} holds the experiment: leave --experiment and --set out")
    data = read_json(path)
    missing = [key for key in ("tool", "version", "arm", "experiment") if key not in data]
    if missing:
        raise DataError(f"{path}: not the manifest of an export: no {', '.join(missing)}")
    if data["tool"] != tool:
        raise ConfigError(f"{path}: exported to {data['tool']}, not to {tool}")
    return Told(load(Experiment, data["experiment"], where=str(path)), data["arm"], data["version"])
