"""Tensors of a checkpoint: safetensors in, safetensors out, every mismatch an error that names file and key."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from paribus.errors import CheckpointError


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write a safetensors file. Raises OSError when the disk is full or the like."""
    try:
        save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:  # the library wraps what the system said
        raise OSError(errno.EIO, str(error)) from error


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Read a safetensors file onto the CPU. Raises CheckpointError when it is missing, truncated or no such file."""
    try:
        # copies: what load_file returns is mapped from the file, and would change or crash with it
        return {name: tensor.clone() for name, tensor in load_file(path).items()}
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from None


def check_tensors(path: Path, found: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]) -> None:
    """Raise CheckpointError unless `found` has exactly the expected names, shapes and dtypes."""
    for name in sorted(found.keys() ^ expected.keys()):
        what = "holds '{}', which this run does not have" if name in found else "lacks '{}'"
        raise CheckpointError(f"{path}: {what.format(name)}")
    for name, tensor in found.items():
        want = expected[name]
        if tensor.shape != want.shape or tensor.dtype != want.dtype:
            raise CheckpointError(
                f"{path}: '{name}' is {tuple(tensor.shape)} {tensor.dtype}, this run needs "
                f"{tuple(want.shape)} {want.dtype}"
            )


@torch.no_grad()
def restore_tensors(path: Path, targets: Mapping[str, torch.Tensor]) -> None:
    """Fill `targets` in place from a file that holds exactly them. Raises CheckpointError."""
    found = read_tensors(path)
    check_tensors(path, found, targets)
    for name, target in targets.items():
        target.copy_(found[name])
