"""Checkpoints that are complete or absent: written aside, hashed, renamed, verified; old ones go last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from paribus.errors import CheckpointError, DataError, RunError
from paribus.store import files
from paribus.store.layout import checkpoint_path, checkpoint_steps
from paribus.store.provenance import file_sha256
from paribus.store.schema import SCHEMA_VERSION

STATE = "state.json"
MANIFEST = "manifest.json"


class Found(NamedTuple):
    """The newest usable checkpoint, and a warning for each newer one that is not; without any, `path` is None."""

    path: Path | None
    step: int
    state: dict[str, Any]
    warnings: tuple[str, ...]


def commit(folder: Path, step: int, keep: int, write: Callable[[Path], None], state: Mapping[str, Any]) -> Path:
    """Store a checkpoint as `folder/step-<step>` and prune all but the newest `keep` complete ones.

    `write(path)` puts the files (weights, optimizer) into an empty folder; `state` is JSON (counters, memory). On a
    full disk RunError is raised and the earlier checkpoints are untouched. A complete checkpoint of the same step is
    left as it is: a step has one content.
    """
    target = checkpoint_path(folder, step)
    if target.exists() and not fault(target):
        return target

    def fill(path: Path) -> None:
        write(path)
        files.write_json(path / STATE, {"step": step, "state": state})
        names = sorted(p for p in path.rglob("*") if p.is_file())
        entries = {p.relative_to(path).as_posix(): {"bytes": p.stat().st_size, "sha256": file_sha256(p)} for p in names}
        files.write_json(path / MANIFEST, {"schema_version": SCHEMA_VERSION, "step": step, "files": entries})

    try:
        files.replace_folder(target, fill)
    except RunError as error:
        older = [f"step-{n}" for n in checkpoint_steps(folder)]
        raise RunError(f"checkpoint not saved: {error}; intact: {', '.join(older) or 'none'}") from error
    broken = fault(target)
    if broken:
        raise RunError(f"checkpoint not saved: {target}: {broken} right after writing; the disk is not reliable")
    _prune(folder, step, keep)
    return target


def load(path: Path) -> dict[str, Any]:
    """Return the state of exactly this checkpoint. Raises CheckpointError if it is missing, incomplete or altered."""
    broken = fault(path)
    if broken:
        raise CheckpointError(f"{path}: {broken}; choose another checkpoint, or resume without naming one")
    return files.read_json(path / STATE)["state"]


def latest_good(folder: Path) -> Found:
    """Return the newest checkpoint whose every file has the recorded size and hash; leftovers are removed."""
    if folder.is_dir():
        files.remove_temporary(folder)
    warnings: list[str] = []
    for step, path in checkpoint_steps(folder).items():
        broken = fault(path)
        if not broken:
            return Found(path, step, load(path), tuple(warnings))
        warnings.append(f"{path}: {broken}; falling back to the checkpoint before it")
    return Found(None, 0, {}, tuple(warnings))


def fault(path: Path) -> str | None:
    """Say what is wrong with a checkpoint; None if it is complete and unaltered."""
    if not path.is_dir():
        return "no such checkpoint"
    try:
        manifest = files.read_json(path / MANIFEST)
        version, entries = manifest["schema_version"], manifest["files"]
        recorded = {name: (entry["bytes"], entry["sha256"]) for name, entry in entries.items()}
    except (DataError, KeyError, TypeError, AttributeError):
        return f"incomplete ({MANIFEST} is missing or unreadable)"
    if version != SCHEMA_VERSION:
        return f"schema version {version!r}, but this version of Paribus reads {SCHEMA_VERSION}"
    if STATE not in recorded:
        return f"incomplete ({STATE} is not in {MANIFEST})"
    for name, (size, digest) in recorded.items():
        file = path / name
        if not file.is_file():
            return f"incomplete ('{name}' is missing)"
        if file.stat().st_size != size:
            return f"truncated ('{name}' has {file.stat().st_size} bytes of {size})"
        if file_sha256(file) != digest:
            return f"altered ('{name}' does not match its recorded sha256)"
    return None


def _prune(folder: Path, newest: int, keep: int) -> None:
    """Remove what is older than the newest `keep`, and broken ones; the new one has just been verified."""
    kept = 0
    for step, path in checkpoint_steps(folder).items():
        if kept < keep and (step == newest or not fault(path)):
            kept += 1
        elif step <= newest:
            files.remove_folder(path)
