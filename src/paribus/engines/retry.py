"""Out of memory: what counts as it, and the same work once more in smaller micro-batches."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

import torch

from paribus.errors import RunError

T = TypeVar("T")
# PyTorch's words where there is no class of error: its CPU allocator's on Linux and on Windows, cuBLAS's
WORDS = ("can't allocate memory", "not enough memory", "CUBLAS_STATUS_ALLOC_FAILED")


class InMicroBatches(Protocol):
    """Whoever works in micro-batches of `micro_tokens` padded tokens, whose layers are computed again in the backward
    pass under `recompute`; `note` tells a person watching."""

    micro_tokens: int
    recompute: bool
    note: Callable[[str], None]


def out_of_memory(error: BaseException) -> bool:
    """Say whether an error means that memory ran out: Python's, CUDA's, or that of PyTorch's CPU allocator."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in WORDS)


def smaller(size: int, pieces: Callable[[int], int]) -> int | None:
    """Return the first half, quarter, ... of `size` that gives more pieces; None where not even 1 does."""
    now = pieces(size)
    while size > 1:
        size //= 2
        if pieces(size) > now:
            return size
    return None


def within_memory(
    worker: InMicroBatches, work: Callable[[], T], pieces: Callable[[], int],
    undo: Callable[[], None] = lambda: None, backward: bool = False,
) -> T:  # fmt: skip
    """Return `work()`, begun again after `undo()` with smaller micro-batches for as long as memory runs out.

    `pieces` counts the micro-batches at the worker's present size, which stays as small as it had to become. Where
    single rows (or units of rows) are too much, and the work has a `backward` pass, its layers are computed again.
    Raises RunError when memory runs out all the same.
    """
    declared, recompute = worker.micro_tokens, worker.recompute
    while True:
        try:
            found = work()
            break
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            reason = str(error).strip().split("\n")[0]
        # only here is the error gone, and with its traceback what the failed pass held
        undo()
        gc.collect()
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()
        _shrink(worker, pieces, reason, backward)
    if worker.micro_tokens < declared or worker.recompute != recompute:
        worker.note(
            f"out of memory with machine.micro_tokens = {declared}: the same work was done again with "
            f"{worker.micro_tokens}{' and recompute = true' * worker.recompute}, which is kept; set it in the file"
        )
    return found


def _shrink(worker: InMicroBatches, pieces: Callable[[], int], reason: str, backward: bool) -> None:
    def at(size: int) -> int:
        worker.micro_tokens = size
        return pieces()

    size = smaller(worker.micro_tokens, at)
    if size is None and backward and not worker.recompute:
        worker.recompute = True
    elif size is None:
        raise RunError(
            "out of memory with a micro-batch of one row, or of one unit of rows: lower rollout.max_response or "
            f"rollout.max_prompt, or take a smaller model, bfloat16 or another device ({reason})"
        )


@contextmanager
def explained(what: str, fix: str) -> Iterator[None]:
    """Turn out of memory inside into a RunError that says in `what` it happened, and the `fix`."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        raise RunError(f"out of memory in {what}: {fix} ({error})") from error
