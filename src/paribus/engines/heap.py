"""Memory of the C library and of PyTorch on Linux: freed pages are kept for the next tensor, and are large."""

from __future__ import annotations

import ctypes
import functools
import os
import platform

TRIM_THRESHOLD, MMAP_MAX, ARENA_MAX = -1, -4, -8  # parameters of glibc's mallopt
HUGE = "THP_MEM_ALLOC_ENABLE"  # of PyTorch, which reads it when it makes its first tensor


def ask_huge_pages() -> None:
    """Let PyTorch ask for huge pages, unless the environment says otherwise; before it is imported.

    Matrix products that stream all weights of a model are some 5 % faster with them.
    """
    os.environ.setdefault(HUGE, "1")


def keep_freed_pages() -> None:
    """Let the process keep what tensors free, so that the system need not hand out (and clear) each page anew.

    A training step frees and asks for the same sizes again and again; giving pages back in between costs a tenth of
    its time and more. Nothing happens where the C library is not glibc.
    """
    glibc = _glibc()
    if glibc is not None:
        for parameter, value in ((TRIM_THRESHOLD, -1), (MMAP_MAX, 0), (ARENA_MAX, 1)):
            glibc.mallopt(parameter, value)


def give_back_freed_pages() -> None:
    """Let the system have back what is free now: once a step, so that every phase's resident memory is its own."""
    glibc = _glibc()
    if glibc is not None:
        glibc.malloc_trim(0)


@functools.cache
def _glibc() -> ctypes.CDLL | None:
    """Return the C library where it is glibc; to find out, Python's own binary has to be read."""
    return ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None
