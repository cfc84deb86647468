"""Problems that come in families (one template, one passage): the family is the unit, not the problem."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike


def clustered_se(d: ArrayLike, clusters: Sequence[Hashable]) -> float:
    """Return the standard error of the mean of d [N] (scores or paired differences) with correlated clusters.

    SE^2 = C/(C - 1) sum over the C clusters of (sum of d - mean)^2, over N^2 (Miller 2024, arXiv:2411.00640, with the
    usual correction for few clusters); infinite with one cluster, from which nothing can be learnt of others.
    """
    x = np.asarray(d, float)
    if x.ndim != 1 or len(clusters) != x.size or not x.size:
        raise ValueError(f"each value needs its cluster, got shapes {x.shape} and ({len(clusters)},)")
    place = {name: i for i, name in enumerate(dict.fromkeys(clusters))}
    count = len(place)
    if count == 1:
        return math.inf
    sums = np.bincount([place[name] for name in clusters], x - x.mean())
    return math.sqrt(count / (count - 1) * float((sums**2).sum())) / x.size
