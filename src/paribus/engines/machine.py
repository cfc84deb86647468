"""The machine that a run asked for: its device and its number of threads."""

from __future__ import annotations

import torch

from paribus.errors import ConfigError
from paribus.settings import MachineSpec


def prepare_machine(machine: MachineSpec) -> torch.device:
    """Choose the device and the thread count. Raises ConfigError for a device that is not there."""
    if machine.threads is not None:
        torch.set_num_threads(machine.threads)
    name = machine.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            f'machine.device = \'{machine.device}\', but PyTorch sees no CUDA device: use "auto" or "cpu"'
        )
    return device
