"""The simulation: its truth is the truth, its judgement is that of `verdicts`, and the interval holds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paribus.stats import difference, mcnemar, planned_se, spread, verdicts
from paribus.stats.simulate import FORMS, Design, draw, fit, operating, sample, solve, squares, truth

HETEROGENEOUS = Design(4, 250, spread=0.03, effect=0.05, own=1.0)


@pytest.mark.parametrize(
    "design", [Design(3, 200, spread=0.02), HETEROGENEOUS, Design(3, 200, spread=0.0, others=0.05, effect=0.1)]
)
def test_the_true_difference_and_spread_are_what_many_draws_show(design: Design) -> None:
    repeats = 1500
    right = draw(design, np.random.default_rng(0), repeats)
    estimates = right[:, 0].mean((1, 2)) - right[:, 1].mean((1, 2))
    true = truth(design)
    se = planned_se(true, design.seeds, design.problems)[0]
    assert estimates.mean() == pytest.approx(design.effect, abs=4 * se / math.sqrt(repeats))
    assert estimates.std() == pytest.approx(se, rel=0.08)
    found = np.square([spread({"a": x[0], "b": x[1]}) for x in right[:500].astype(float)]).mean(0)
    assert math.sqrt(found[2]) == pytest.approx(true.residual, rel=0.01)
    assert math.sqrt(found[0]) == pytest.approx(true.seed, abs=0.004)
    if design.own:
        assert math.sqrt(found[1]) == pytest.approx(true.item, rel=0.06)


def test_the_calibration_of_the_reference() -> None:
    """A logit spread of .1 between runs is 1.3 points, and with the answers' noise 1.61 on 1,319 problems."""
    design = Design(3, 1319, spread=0.0128)
    assert solve(design).first == pytest.approx(0.1, abs=0.015)
    own, within = truth(design).seed, truth(design).residual / math.sqrt(1319)
    assert math.hypot(own, within) == pytest.approx(0.0161, abs=0.0008)
    assert within == pytest.approx(0.0098, abs=0.0012)


def test_a_stored_experiment_is_imitated() -> None:
    target = truth(Design(3, 400, spread=0.02, item=3.0, own=1.2, mean=0.9))
    got = fit(target, 0.6, Design(3, 400))
    assert truth(got) == pytest.approx(target, abs=1e-4)
    right = draw(got, np.random.default_rng(1), 200)
    assert right.mean() == pytest.approx(0.6, abs=0.01)


def test_reduced_answers_are_those_of_the_tables() -> None:
    right = draw(HETEROGENEOUS, np.random.default_rng(2), 5)
    found = squares(right, HETEROGENEOUS.pairs)
    for k, tables in enumerate(right.astype(float)):
        want = difference(*tables)
        judged = FORMS["welch"](found.seed[:, 0], found.seed[:, 1], found.item[0, 1], found.residual.sum(1), 4, 250)
        assert found.mean[k, 0] - found.mean[k, 1] == pytest.approx(want.estimate)
        assert (math.sqrt(judged[0][k]), judged[1][k]) == pytest.approx((want.se, want.df))
        one = difference(tables[0][:1], tables[1][:1])
        assert (found.wins[k], found.losses[k]) == (one.wins, one.losses)


def test_the_counts_are_those_of_the_verdicts() -> None:
    """Three arms, so that Holm has work to do; the margin is wide enough to be met at times."""
    design, margin = Design(4, 120, spread=0.01, effect=0.05, arms=3), 0.14
    right = draw(design, np.random.default_rng(3), 30)
    counted = operating(design, squares(right, design.pairs), margin=margin)
    names = "abc"
    pairs = [(names[i], names[j]) for i, j in design.pairs]
    said = [verdicts(dict(zip(names, x.astype(float), strict=True)), pairs, margin=margin) for x in right]
    better, close = ("better", "better_within"), ("equivalent", "better_within")
    assert 0 < counted.better < 1 and 0 < counted.close < 1
    assert counted.better == np.mean([v[0].better == "a" for v in said])
    assert counted.close == np.mean([v[0].kind in close for v in said])
    assert counted.covered == np.mean([v[0].interval.low <= 0.05 <= v[0].interval.high for v in said])
    false = [any(v.kind in better and (v.a, v.better) not in [("a", "a")] for v in vs) for vs in said]
    assert counted.wrong == np.mean(false)
    single = [mcnemar(int((x[0, 0] & ~x[1, 0]).sum()), int((x[1, 0] & ~x[0, 0]).sum())) < 0.05 for x in right]
    assert counted.single == np.mean(single)


def test_only_arms_of_a_group_are_compared() -> None:
    assert Design(3, 10, arms=4, groups=2).pairs == [(0, 1), (2, 3)]
    assert len(Design(3, 10, arms=4).pairs) == 6


def test_the_same_generator_gives_the_same_numbers() -> None:
    one, other = (operating(HETEROGENEOUS, sample(HETEROGENEOUS, np.random.default_rng(7), 50)) for _ in "ab")
    assert one[:3] == other[:3] and one.width == other.width
    assert one[:3] != operating(HETEROGENEOUS, sample(HETEROGENEOUS, np.random.default_rng(8), 50))[:3]


@pytest.mark.parametrize("own", [0.0, 1.0])
@pytest.mark.parametrize(("seeds", "spread"), [(3, 0.0), (3, 0.03), (5, 0.015)])
def test_a_slice_of_the_calibration(own: float, seeds: int, spread: float) -> None:
    """500 repeats: coverage within three Monte-Carlo errors of 94.5 %, where one checkpoint each fails."""
    design, repeats = Design(seeds, 500, spread, own=own), 500
    got = operating(design, sample(design, np.random.default_rng([seeds, round(1000 * spread)]), repeats))
    error = math.sqrt(0.05 * 0.95 / repeats)
    assert got.covered >= 0.945 - 3 * error
    assert got.wrong <= 0.05 + 3 * error
    if seeds == 5:
        assert got.width <= 1.16 * got.known
    if spread == 0.03:
        assert got.single > 0.2
