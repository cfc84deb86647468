"""Paribus: controlled comparisons of RL post-training algorithms for language models (the public face)."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    **dict.fromkeys(["Part", "diff", "dump", "load", "replace", "to_toml"], "paribus.part"),
    **dict.fromkeys(["CATALOG", "PolicyGradient", "find"], "paribus.algorithms"),
    **dict.fromkeys(["Experiment", "Setting", "load_experiment"], "paribus.experiment"),
    **dict.fromkeys(["run_experiment"], "paribus.pipeline"),
}
__all__ = ["CATALOG", "Experiment", "Part", "PolicyGradient", "Setting", "__version__", "diff", "dump", "find", "load"]
__all__ += ["load_experiment", "replace", "run_experiment", "to_toml"]


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, so that `import paribus` costs nothing."""
    if name not in _HOME:
        raise AttributeError(f"module 'paribus' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)
