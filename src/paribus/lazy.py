"""`torch`, loaded at its first use: `list`, `show`, `diff`, `plan` and `report` start without it."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any


class LazyModule(ModuleType):
    """A stand-in that imports the module of its name when an attribute is first read."""

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self.__name__), attribute)


if TYPE_CHECKING:
    import torch as torch
else:
    torch = LazyModule("torch")
