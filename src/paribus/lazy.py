"""Slow imports at their time: `torch` at its first use, and what runs import in a server that they are forked from.

`list`, `show`, `diff`, `plan` and `report` start without any of it.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

RUNS = "paribus.pipeline.worker"  # what the process of a run imports


class LazyModule(ModuleType):
    """A stand-in that imports the module of its name when an attribute is first read."""

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self.__name__), attribute)


def run_processes() -> Any:
    """Return the multiprocessing context of runs, whose imports begin now, once for all, where processes are forked."""
    import multiprocessing as mp
    from multiprocessing import forkserver

    method = "forkserver" if "forkserver" in mp.get_all_start_methods() else "spawn"
    context: Any = mp.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload([RUNS])
        forkserver.ensure_running()
    return context


if TYPE_CHECKING:
    import torch as torch
else:
    torch = LazyModule("torch")
