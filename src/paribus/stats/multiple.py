"""Several tests at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def holm(p: ArrayLike) -> np.ndarray:
    """Return Holm's adjusted p values (1979), in the order given: all that are below alpha may be claimed together.

    The chance of even one false claim is then at most alpha, however the tests depend on each other.
    """
    raw = np.asarray(p, float)
    if raw.ndim != 1 or not ((raw >= 0) & (raw <= 1)).all():
        raise ValueError(f"p values are one row of numbers from 0 to 1, got {p!r}")
    order = np.argsort(raw, kind="stable")
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(raw[order] * np.arange(raw.size, 0, -1)))
    return adjusted
