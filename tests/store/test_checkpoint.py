"""A checkpoint is complete or it does not count; the last good one outlives every failure."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paribus.errors import CheckpointError, RunError
from paribus.store import checkpoint, files


def weights(step: int, size: int = 4000) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        (path / "policy").mkdir()
        (path / "policy" / "model.safetensors").write_bytes(random.Random(step).randbytes(size))
        (path / "optimizer.safetensors").write_bytes(random.Random(-step).randbytes(size))

    return write


def save(folder: Path, *steps: int, keep: int = 9) -> None:
    for step in steps:
        checkpoint.commit(folder, step, keep, weights(step), {"samples": step * 8, "kl_coef": 0.1})


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_the_state_comes_back_and_old_ones_are_pruned(tmp_path: Path) -> None:
    save(tmp_path, 5, 10, 15, keep=2)
    assert names(tmp_path) == ["step-10", "step-15"]
    found = checkpoint.latest_good(tmp_path)
    assert (found.path, found.step, found.warnings) == (tmp_path / "step-15", 15, ())
    assert found.state == {"samples": 120, "kl_coef": 0.1}


def test_no_checkpoint_at_all_means_from_the_beginning(tmp_path: Path) -> None:
    assert checkpoint.latest_good(tmp_path / "none") == (None, 0, {}, ())
    with pytest.raises(CheckpointError, match="no such checkpoint"):
        checkpoint.load(tmp_path / "step-3")


def test_case_d04_a_truncated_newest_checkpoint_is_passed_over(tmp_path: Path) -> None:
    rng = random.Random(4)
    for trial in range(20):
        folder = tmp_path / str(trial)
        save(folder, 10, 20)
        bad = folder / "step-20"
        every = sorted(p for p in bad.rglob("*") if p.is_file())
        victim = rng.choice(every)
        if victim.name == "state.json":
            victim.unlink()
        else:
            data = victim.read_bytes()
            victim.write_bytes(data[: rng.randrange(len(data))])
        found = checkpoint.latest_good(folder)
        assert found.step == 10 and found.state["samples"] == 80, victim
        assert len(found.warnings) == 1 and "step-20" in found.warnings[0]
        with pytest.raises(CheckpointError, match="step-20"):
            checkpoint.load(bad)


def test_a_changed_byte_is_found_though_the_size_is_right(tmp_path: Path) -> None:
    save(tmp_path, 10, 20)
    file = tmp_path / "step-20" / "policy" / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[1234] ^= 1
    file.write_bytes(data)
    assert checkpoint.latest_good(tmp_path).step == 10
    with pytest.raises(CheckpointError, match=r"altered \('policy/model\.safetensors'"):
        checkpoint.load(tmp_path / "step-20")


def test_every_checkpoint_broken_says_so_and_starts_from_nothing(tmp_path: Path) -> None:
    save(tmp_path, 10, 20)
    for step in (10, 20):
        (tmp_path / f"step-{step}" / "manifest.json").write_text("{")
    found = checkpoint.latest_good(tmp_path)
    assert found.path is None and len(found.warnings) == 2


def test_a_broken_one_is_made_again_and_does_not_count_as_kept(tmp_path: Path) -> None:
    save(tmp_path, 10, 20)
    (tmp_path / "step-20" / "optimizer.safetensors").unlink()
    save(tmp_path, 20, keep=2)
    assert checkpoint.latest_good(tmp_path)[1:] == (20, {"samples": 160, "kl_coef": 0.1}, ())
    (tmp_path / "step-10" / "optimizer.safetensors").unlink()
    save(tmp_path, 30, keep=2)
    assert names(tmp_path) == ["step-20", "step-30"]


@pytest.mark.parametrize("where", ["weights", "state", "manifest"])
def test_case_d05_a_full_disk_with_keep_one_leaves_the_earlier_one(
    tmp_path: Path, disk_full: Callable[[int | None], None], where: str
) -> None:
    save(tmp_path, 1, keep=1)

    def full(path: Path) -> None:
        weights(2)(path)
        if where == "weights":
            (path / "policy" / "model.safetensors").write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        disk_full(10 if where == "state" else 50)

    with pytest.raises(RunError, match=r"checkpoint not saved: .*No space left.*intact: step-1") as error:
        checkpoint.commit(tmp_path, 2, 1, full, {})
    assert error.value.code != 0
    disk_full(None)
    assert names(tmp_path) == ["step-1"]
    assert checkpoint.latest_good(tmp_path).step == 1


def test_a_fault_of_the_program_is_not_dressed_up_as_a_full_disk(tmp_path: Path) -> None:
    save(tmp_path, 1)

    def wrong(path: Path) -> None:
        raise ValueError("bad tensor")

    with pytest.raises(ValueError, match="bad tensor"):
        checkpoint.commit(tmp_path, 2, 1, wrong, {})
    assert names(tmp_path) == ["step-1"]


def test_leftovers_of_a_killed_save_are_removed(tmp_path: Path) -> None:
    save(tmp_path, 10)
    weights(20)(_made(tmp_path / ".tmp-step-20"))
    _made(tmp_path / ".tmp-old-step-5")
    assert checkpoint.latest_good(tmp_path).step == 10
    assert names(tmp_path) == ["step-10"]


def test_a_complete_one_of_the_same_step_is_kept(tmp_path: Path) -> None:
    save(tmp_path, 10)
    calls: list[Any] = []
    checkpoint.commit(tmp_path, 10, 1, calls.append, {"samples": -1})
    assert not calls and checkpoint.latest_good(tmp_path).state["samples"] == 80


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    save(tmp_path, 10)
    path = tmp_path / "step-10" / "manifest.json"
    files.write_json(path, files.read_json(path) | {"schema_version": 99})
    with pytest.raises(CheckpointError, match="schema version 99"):
        checkpoint.load(path.parent)


def _made(path: Path) -> Path:
    path.mkdir()
    return path
