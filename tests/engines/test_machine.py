"""How many threads and runs a machine is given: a rule of the machine and the model, never of each other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paribus.engines import machine
from paribus.engines.machine import fitting, runs_at_once, small, threads_of
from paribus.settings import MachineSpec, ModelSpec

TINY = ModelSpec(path="tiny")
CPU = MachineSpec(device="cpu")


def folder(path: Path, size: int) -> ModelSpec:
    """A model folder whose weights have this size."""
    path.mkdir()
    for part in ("a", "b"):
        with open(path / f"{part}.safetensors", "wb") as file:
            file.truncate(size // 2)
    return ModelSpec(path=str(path))


def test_a_model_is_small_by_the_bytes_of_its_weights(tmp_path: Path) -> None:
    assert small(TINY) and small(folder(tmp_path / "edge", machine.SMALL))
    assert not small(folder(tmp_path / "more", machine.SMALL + 2))
    assert not small(ModelSpec(path="owner/name"))  # a hub id: unknown before it is loaded


def test_the_threads_of_a_run_do_not_depend_on_how_many_run(tmp_path: Path) -> None:
    large = folder(tmp_path / "large", 2 * machine.SMALL)
    for parallel in (1, 2, "auto"):
        spec = MachineSpec(parallel=parallel)
        assert threads_of(spec, TINY) == 1 and threads_of(spec, large) is None
        assert threads_of(spec.model_copy(update={"threads": 3}), TINY) == 3


def test_auto_gives_every_run_of_small_models_its_cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    large = folder(tmp_path / "large", 2 * machine.SMALL)
    assert runs_at_once(CPU, [TINY, TINY]) == 8
    assert runs_at_once(CPU.model_copy(update={"threads": 3}), [TINY]) == 2
    assert runs_at_once(CPU.model_copy(update={"threads": 9}), [TINY]) == 1
    assert runs_at_once(CPU, [TINY, large]) == 1  # one of the arms fills the machine
    assert runs_at_once(MachineSpec(device="cuda:1"), [TINY]) == 1
    assert runs_at_once(MachineSpec(device="cuda:1", parallel=4), [large]) == 4  # what is asked is done


def test_never_more_runs_than_memory_holds() -> None:
    base, available = 100, 1000
    assert machine.TRAINING == 3
    assert fitting(8, base, available) == 3  # 3 x 300 fit 1000, 4 do not
    assert fitting(2, base, available) == 2
    assert fitting(8, 2 * available, available) == 1  # one runs whatever is left
