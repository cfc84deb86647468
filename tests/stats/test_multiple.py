"""Holm's adjustment."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from paribus.stats import holm


def test_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02], abs=1e-12)
    assert list(holm([0.6, 0.9])) == [1.0, 1.0]
    assert list(holm([0.2])) == [0.2]
    assert holm([]).size == 0


@pytest.mark.parametrize("seed", range(20))
def test_against_statsmodels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = np.round(rng.random(1 + seed) ** 3, 2)  # rounded: ties too
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1], abs=1e-12)


def test_what_is_no_p_value_is_refused() -> None:
    for bad in ([0.1, 1.2], [-0.1], [float("nan")], [[0.1]]):
        with pytest.raises(ValueError, match="from 0 to 1"):
            holm(bad)
