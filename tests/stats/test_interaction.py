"""Differences of differences: hand numbers, laws, and how often they call nothing something."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paribus.stats import crossed, interaction, simple_effect
from paribus.stats.interaction import ONE_RUN
from paribus.stats.interval import t_quantile

A_HIGH = [[1, 1, 0, 1], [1, 0, 1, 1]]
B_HIGH = [[0, 1, 0, 0], [0, 0, 1, 0]]
A_LOW = [[1, 0, 0, 1], [0, 0, 1, 1]]
B_LOW = [[1, 0, 0, 1], [1, 0, 1, 0]]


def test_by_hand() -> None:
    """A - B is +1/2 at the high level in both seeds, 0 at the low one: rows of d are (1,0,0,1) and (2,0,0,0)."""
    got = interaction(A_HIGH, B_HIGH, A_LOW, B_LOW)
    assert got.estimate == 0.5
    assert got == crossed([[1, 0, 0, 1], [2, 0, 0, 0]])
    # seed means 1/2 and 1/2: MS_seed = 0; problem means 3/2, 0, 0, 1/2: MS_item = 2 (1 + 1/4 + 1/4) / 3 = 1;
    # residuals +-1/2 in the first and last column: MS_res = 4 (1/4) / 3 = 1/3; Var = max(0 + 1 - 1/3, 0, 1) / 8
    half = t_quantile(0.95, 1 / (1 / 3 + (1 / 3) ** 2 / 3)) * math.sqrt(1 / 8)
    assert (got.low, got.high) == pytest.approx((0.5 - half, 0.5 + half), abs=1e-12)


def test_simple_effects_add_up_to_the_interaction() -> None:
    rng = np.random.default_rng(0)
    a1, b1, a0, b0 = (rng.random((3, 40)) for _ in range(4))
    got = interaction(a1, b1, a0, b0)
    assert got.estimate == pytest.approx(simple_effect(a1, a0).estimate - simple_effect(b1, b0).estimate)
    assert got.estimate == pytest.approx(simple_effect(a1, b1).estimate - simple_effect(a0, b0).estimate)
    swapped, turned = interaction(b1, a1, b0, a0), interaction(a0, b0, a1, b1)
    for other in (swapped, turned):
        assert other[:3] == pytest.approx((-got.estimate, -got.high, -got.low))


def test_what_seeds_problems_arms_and_levels_do_alone_cancels() -> None:
    """Without an interaction every cell of d is 0, however far arms, levels, seeds and problems are apart."""
    rng = np.random.default_rng(1)
    ground = rng.normal(size=(3, 1)) + rng.normal(size=(1, 30))
    assert interaction(ground + 0.7, ground + 0.2, ground + 0.5, ground)[:3] == pytest.approx((0, 0, 0), abs=1e-12)


def test_one_seed_speaks_of_problems_only_and_says_so() -> None:
    got = interaction(A_HIGH[:1], B_HIGH[:1], A_LOW[:1], B_LOW[:1])
    d = np.array([1, 0, 0, 1])
    half = t_quantile(0.95, 3) * d.std(ddof=1) / 2
    assert got.method == ONE_RUN and got.n == 4
    assert got[:3] == pytest.approx((0.5, 0.5 - half, 0.5 + half))
    assert simple_effect([[1.0]], [[0.0]])[:3] == (1.0, -math.inf, math.inf)


def test_cells_that_do_not_match_are_refused() -> None:
    with pytest.raises(ValueError, match="same seeds and problems"):
        interaction(A_HIGH, B_HIGH[:1], A_LOW, B_LOW)
    with pytest.raises(ValueError, match="same seeds and problems"):
        simple_effect([0.0, 1.0], [1.0, 1.0])


def test_an_interaction_that_is_not_there_is_found_in_one_of_twenty() -> None:
    """Arms and levels have effects of their own, runs and answers are noisy; 3 seeds, 200 problems."""
    rng, false, naive, repeats = np.random.default_rng(2), 0, 0, 300
    for _ in range(repeats):
        item = rng.normal(0.4, 1.5, 200)
        cells = []
        for effect in (0.8, 0.3, 0.5, 0.0):
            logit = item + effect + rng.normal(0, 0.25, (3, 1)) + rng.normal(0, 0.6, (3, 200))
            cells.append((rng.random((3, 200)) < 1 / (1 + np.exp(-logit))).astype(float))
        got = interaction(*cells)
        false += not got.low <= 0 <= got.high
        d = (cells[0] - cells[1] - cells[2] + cells[3]).mean(0)
        naive += abs(d.mean()) > 1.96 * d.std() / math.sqrt(200)
    assert false / repeats <= 0.06
    assert naive > 2 * false
