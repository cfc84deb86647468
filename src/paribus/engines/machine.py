"""The machine that a run asked for: its device, its number of threads, and how many runs share it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from paribus import models
from paribus.engines.heap import keep_freed_pages
from paribus.errors import ConfigError
from paribus.lazy import torch
from paribus.settings import MachineSpec, ModelSpec

SMALL = 16 * 2**20  # bytes of weights up to which a second thread is worth less than a second run beside the first
TRAINING = 3  # a run that trains is taken to need this many times the resident memory of the base's evaluation


def prepare_machine(machine: MachineSpec, model: ModelSpec | None = None) -> torch.device:
    """Choose the device and the thread count. Raises ConfigError for a device that is not there."""
    name = machine.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            f'machine.device = \'{machine.device}\', but PyTorch sees no CUDA device: use "auto" or "cpu"'
        )
    if device.type == "cpu":
        keep_freed_pages()
    threads = threads_of(machine, model)
    if threads is not None:
        torch.set_num_threads(threads)
    return device


def threads_of(machine: MachineSpec, model: ModelSpec | None) -> int | None:
    """Return the threads of a run; None leaves them to PyTorch.

    They decide its last bits, so that they depend on machine and model alone, never on how many runs are at work.
    """
    return machine.threads or (1 if model is not None and small(model) else None)


def small(model: ModelSpec) -> bool:
    """Say whether a model is so small that a second run gains more than a second thread; a hub id is never small."""
    folder = Path(models.__file__).parent / "assets" / "tiny" if model.path == "tiny" else Path(model.path)
    sizes = [file.stat().st_size for file in folder.expanduser().glob("*.safetensors")]
    return bool(sizes) and sum(sizes) <= SMALL


def runs_at_once(machine: MachineSpec, used: Sequence[ModelSpec]) -> int:
    """Return how many runs, of these models, work at a time: what is asked, or under "auto" as many as have cores.

    One where a model is not small or an accelerator is there: such a run keeps the machine busy by itself.
    """
    if machine.parallel != "auto":
        return machine.parallel
    accelerated = machine.device.startswith("cuda") or (machine.device == "auto" and Path("/dev/nvidiactl").exists())
    if accelerated or not all(small(model) for model in used):
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // max(threads_of(machine, model) or 1 for model in used))


def fitting(at_once: int, base_bytes: int, available: int) -> int:
    """Return how many of `at_once` runs fit the `available` memory, at least one.

    `base_bytes` is the resident peak of the base's evaluation: a run that trains is taken to need `TRAINING` times
    that.
    """
    return max(1, min(at_once, available // max(1, TRAINING * base_bytes)))
