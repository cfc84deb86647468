"""Micro-batches from the memory at hand: the largest whose planned peak fits, and the same for every arm."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from paribus.errors import ConfigError, ModelError
from paribus.experiment import Experiment
from paribus.part import replace
from paribus.planning.memory import Memory
from paribus.planning.plan import Asked, arm_memory, asked_of, planned_device, prompt_lengths
from paribus.settings import MachineSpec

GB = 10**9
PROCESS = 410_000_000  # bytes of a run's process before any model (CPU): 0.31 and 0.41 GB measured
SHARE = 0.92  # of a machine's memory that the plan may fill where none is declared: plans are off by a few per cent


class Limit(NamedTuple):
    """Bytes that a run may hold, and where the number comes from."""

    bytes: int
    source: str


def limit_of(machine: MachineSpec, device: str) -> Limit | None:
    """Return the declared budget, else what the machine has for each run; None where it does not tell.

    Under `machine.parallel = "auto"` a run may have all of it: so many run at once as then fit.
    """
    if machine.memory is not None:
        return Limit(round(machine.memory * GB), "machine.memory")
    found = _cuda_total(machine.device) if device == "cuda" else _available()
    what = "the GPU's memory" if device == "cuda" else "the memory that is free"
    runs = 1 if machine.parallel == "auto" else machine.parallel
    source = f"{100 * SHARE:.0f} % of {what}" + (f", for {runs} runs at once" if runs > 1 else "")
    return None if found is None else Limit(round(SHARE * found / runs), source)


def fitted(exp: Experiment, limit: Limit | None = None) -> tuple[Experiment, str]:
    """Return the experiment with micro-batches that fit the memory at hand, and what to tell of it, or nothing.

    `machine.micro_tokens` is halved until the planned peak of every arm fits `limit` (None: as `limit_of` says); where
    one row is too much, layers are computed again, with micro-batches as large as then fit. Raises ConfigError, with
    the components, when an arm does not fit with one row at a time.
    """
    machine, device = exp.setting.machine, planned_device(exp.setting)
    limit = limit or limit_of(machine, device)
    if limit is None:
        return exp, ""
    room = limit.bytes - (PROCESS if device == "cpu" else 0)
    try:
        # no shorter than what is known of prompts and problems: if this fits, nothing need be read to know it
        if machine.memory is None and _fullest(exp, {}, device, {}, {})[1].peak <= room:
            return exp, ""
        asked = asked_of(exp.setting)
        lengths = prompt_lengths(exp, asked)
        declared = _fullest(exp, {}, device, asked, lengths)[1]
        for change in _changes(machine):
            arm, held = _fullest(exp, change, device, asked, lengths)
            if held.peak <= room:
                break
    except ModelError as error:
        return exp, "" if machine.memory is None else f"memory: not planned, machine.micro_tokens stays: {error}"
    extra = limit.bytes - room
    within = f"{(held.peak + extra) / GB:.2f} GB of {limit.bytes / GB:.2f} GB ({limit.source})"
    if held.peak > room:
        raise ConfigError(_too_much(arm, held, within))
    if not change:
        return exp, f"memory: machine.micro_tokens = {machine.micro_tokens} fits: {arm} is planned to peak at {within}"
    size = change.get("machine.micro_tokens", machine.micro_tokens)
    again = ", and layers computed again in the backward pass" if "machine.recompute" in change else ""
    return _changed(exp, change), (
        f"memory: machine.micro_tokens = {size} instead of {machine.micro_tokens}{again}, for every arm: {arm} is "
        f"planned to peak at {within}, in {held.peak_phase}; it would be {(declared.peak + extra) / GB:.2f} GB"
    )


def _changes(machine: MachineSpec) -> Iterator[dict[str, Any]]:
    """Yield what may be changed for memory's sake, the cheapest first: micro-batches, then layers computed again."""
    sizes = [machine.micro_tokens >> i for i in range(machine.micro_tokens.bit_length())]
    for again in (False,) if machine.recompute else (False, True):
        for size in sizes:
            change: dict[str, Any] = {"machine.recompute": True} if again else {}
            yield change if size == machine.micro_tokens else change | {"machine.micro_tokens": size}


def _changed(exp: Experiment, change: Mapping[str, Any]) -> Experiment:
    return exp.model_copy(update={"setting": replace(exp.setting, **change)})


def _fullest(
    exp: Experiment, change: Mapping[str, Any], device: str, asked: Asked, lengths: Mapping[str, int]
) -> tuple[str, Memory]:
    """Return the arm that holds most with a change of the setting, and its memory. Raises ModelError."""
    sized = _changed(exp, change)
    held = {name: arm_memory(sized, arm, asked, lengths, device)[0] for name, arm in sized.arms.items()}
    name = max(held, key=lambda arm: held[arm].peak)
    return name, held[name]


def _too_much(arm: str, held: Memory, within: str) -> str:
    parts = sorted(held.live[held.peak_phase].items(), key=lambda item: -item[1])
    listed = ", ".join(f"{name} {size / GB:.2f}" for name, size in parts if size >= GB / 200)
    fix = "machine.decode_rows" if held.peak_phase in ("rollout", "eval") else "rollout.max_response"
    return (
        f"memory: with one row at a time, its layers computed again, {arm} is still planned to peak at {within}, in "
        f"{held.peak_phase}: {listed} GB; lower {fix}, take a smaller model or bfloat16, or declare another "
        "machine.memory"
    )


def _available() -> int | None:
    try:
        import psutil
    except ImportError:
        return None
    return int(psutil.virtual_memory().available)


def _cuda_total(device: str) -> int | None:
    """Ask the driver's tool, not PyTorch, which would hold memory of the device for as long as this process lives."""
    index = int(device.partition(":")[2] or 0)
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    name = visible[index] if index < len(visible) else str(index)
    command = ["nvidia-smi", f"--id={name}", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
        return int(told) * 2**20
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
