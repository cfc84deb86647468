"""The worker's side of a user function: load the file whose hash is known, call it, check what it returns."""

from __future__ import annotations

import hashlib
import importlib.util
import math
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any


def invoke(path: str, name: str, sha256: str, count: int | None, arguments: Mapping[str, Any] | None) -> Any:
    """Call function `name` of the file with keyword arguments; without arguments, only load it.

    Returns `count` numbers, or one number where `count` is None; a number that could not be told is None.
    """
    function = _load(path, name, sha256)
    if arguments is None:
        return None
    value = function(**arguments)
    if count is None:
        return _number(value["score"] if isinstance(value, dict) else value)
    numbers = [_number(each) for each in value]
    if len(numbers) != count:
        raise ValueError(f"{name} returned {len(numbers)} values, not {count}")
    return numbers


@cache
def _load(path: str, name: str, sha256: str) -> Callable[..., Any]:
    if hashlib.sha256(Path(path).read_bytes()).hexdigest() != sha256:
        raise ValueError("the file has changed since the experiment was loaded")
    spec = importlib.util.spec_from_file_location(f"_reward_{Path(path).stem}", path)
    assert spec is not None and spec.loader is not None
    sys.path.insert(0, str(Path(path).resolve().parent))  # the file may import its neighbours
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return getattr(module, name)  # type: ignore[no-any-return]


def _number(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, str):
        raise TypeError(f"{value!r} is no number")
    number = float(value)
    if math.isinf(number):
        raise ValueError("a reward must be finite")
    return None if math.isnan(number) else number
