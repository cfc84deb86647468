"""Tensor files on a disk that refuses: the system's word arrives as OSError, which the store makes a clear error."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from paribus.engines.checkpoint import write_tensors
from paribus.errors import RunError
from paribus.models.hf import save_model
from paribus.store import checkpoint
from toymodels import llama, tokenizer


@pytest.fixture
def small_files() -> Iterator[None]:
    """The system refuses files over 20 kB, as it does when the disk is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_refused_tensor_file_is_an_os_error(small_files: None, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="File too large"):
        write_tensors(tmp_path / "x.safetensors", {"x": torch.zeros(100_000)})
    with pytest.raises(OSError, match="File too large"):
        save_model(llama(), tokenizer(), tmp_path / "model")


def test_the_earlier_checkpoint_stays(small_files: None, tmp_path: Path) -> None:
    def small(path: Path) -> None:
        write_tensors(path / "x.safetensors", {"x": torch.zeros(10)})

    def large(path: Path) -> None:
        write_tensors(path / "x.safetensors", {"x": torch.zeros(100_000)})

    checkpoint.commit(tmp_path, 1, 1, small, {})
    with pytest.raises(RunError, match=r"File too large.*intact: step-1"):
        checkpoint.commit(tmp_path, 2, 1, large, {})
    assert checkpoint.latest_good(tmp_path).step == 1
