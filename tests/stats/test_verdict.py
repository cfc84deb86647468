"""Verdicts: each of the five by construction, Holm over the pairs, and what would settle an open one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import ttest_rel

from paribus.stats import (
    difference,
    equivalence_power,
    holm,
    mcnemar,
    paired,
    seeds_for_equivalence,
    spread,
    superiority_power,
    verdicts,
)
from paribus.stats.counts import checkpoint_problems, checkpoint_problems_for_equivalence
from paribus.stats.verdict import Settle, Verdict


def runs(rng: np.random.Generator, rate: float, seeds: int, problems: int, seed_sd: float = 0.0) -> np.ndarray:
    """Right-or-wrong scores of runs whose accuracy varies by `seed_sd`."""
    return (rng.random((seeds, problems)) < rate + rng.normal(0, seed_sd, (seeds, 1))).astype(float)


def one(a: np.ndarray, b: np.ndarray, margin: float | None = 0.05) -> Verdict:
    (got,) = verdicts({"a": a, "b": b}, [("a", "b")], margin=margin)
    return got


@pytest.mark.parametrize(
    ("lift", "kind", "better"),
    [(0.2, "better", "a"), (-0.2, "better", "b"), (0.03, "better_within", "a"), (0.0, "equivalent", None)],
)
def test_the_kinds_by_construction(lift: float, kind: str, better: str | None) -> None:
    """Every run gains `lift` over the other's on so many problems; the runs themselves hardly vary."""
    a, b = np.zeros((3, 1000)), np.zeros((3, 1000))
    b[:, :500] = 1
    a[:, : 500 + round(1000 * lift)] = 1
    for table in (a, b):
        for seed in range(3):
            table[seed, 900 + seed] = 1
    a[0, 950] = 1
    got = one(a, b)
    assert (got.kind, got.better) == (kind, better)
    assert got.difference == difference(a, b) and got.interval == got.difference.interval()
    assert got.settle == Settle() and got.margin == 0.05


def test_few_noisy_runs_are_inconclusive() -> None:
    rng = np.random.default_rng(0)
    got = one(runs(rng, 0.6, 3, 200, 0.03), runs(rng, 0.58, 3, 200, 0.03), 0.01)
    assert got.kind == "inconclusive" and got.better is None
    assert got.p > 0.05 and got.p_equivalent is not None and got.p_equivalent > 0.05


def test_without_a_margin_nothing_is_equivalent() -> None:
    rng = np.random.default_rng(1)
    a, b = runs(rng, 0.6, 5, 1000), runs(rng, 0.6, 5, 1000)
    assert one(a, b, 0.2).kind == "equivalent"
    got = one(a, b, None)
    assert got.kind == "inconclusive" and got.p_equivalent is None and got.margin is None
    assert got.settle.equivalent_seeds is None and got.settle.equivalent_problems is None


def test_identical_runs_are_called_identical_and_nothing_is_tested() -> None:
    rng = np.random.default_rng(2)
    a = runs(rng, 0.5, 3, 50)
    got = one(a, a.copy())
    assert (got.kind, got.better, got.p, got.p_equivalent, got.settle) == ("identical", None, 1.0, None, Settle())
    alike = np.repeat(a[:1], 3, 0)
    assert one(alike, alike[:2]).kind == "identical"
    assert one(a[:1], a[:1]).kind == "identical"
    other = a.copy()
    other[1, 7] = 1 - other[1, 7]
    assert one(a, other).kind != "identical"


def test_holm_goes_over_the_pairs_in_two_families() -> None:
    rng = np.random.default_rng(3)
    tables = {name: runs(rng, rate, 4, 800, 0.005) for name, rate in (("a", 0.6), ("b", 0.57), ("c", 0.5))}
    pairs = [("b", "a"), ("c", "a"), ("c", "b")]
    got = verdicts(tables, pairs, margin=0.06)
    found = [difference(tables[a], tables[b]) for a, b in pairs]
    assert [(v.a, v.b) for v in got] == pairs
    assert [v.p for v in got] == pytest.approx(holm([d.p() for d in found]), abs=1e-15)
    assert [v.p_equivalent for v in got] == pytest.approx(holm([d.p_equivalent(0.06) for d in found]), abs=1e-15)
    assert all(v.p >= d.p() for v, d in zip(got, found, strict=True))


def test_a_claim_that_holds_alone_may_fall_among_many() -> None:
    """p = .04 for one pair is p = .08 beside another like it."""
    d = np.zeros((1, 400))
    d[0, :9] = 1
    tables = {"a": np.roll(d, 5, 1), "b": np.zeros((1, 400))}
    tables["a"][0, 300:] = 1
    tables["b"][0, 300:] = 1
    tables["b"][0, 200:202] = 1
    alone = verdicts(tables, [("a", "b")], margin=None)[0]
    assert alone.p == pytest.approx(mcnemar(9, 2)) and 0.025 < alone.p < 0.05 and alone.kind == "better"
    tables |= {"c": tables["a"], "d": tables["b"]}
    both = verdicts(tables, [("a", "b"), ("c", "d")], margin=None)
    assert [v.kind for v in both] == ["inconclusive"] * 2 and both[0].p == pytest.approx(2 * alone.p)
    assert both[0].interval == alone.interval


def test_swapping_a_pair_turns_it_round() -> None:
    rng = np.random.default_rng(4)
    tables = {"a": runs(rng, 0.7, 3, 300, 0.01), "b": runs(rng, 0.5, 4, 300, 0.01)}
    (got,), (back,) = (verdicts(tables, [pair], margin=0.02) for pair in (("a", "b"), ("b", "a")))
    assert got.better == back.better == "a" and got.kind == back.kind
    assert back.interval[:3] == pytest.approx((-got.interval.estimate, -got.interval.high, -got.interval.low))
    assert (back.p, back.p_equivalent) == pytest.approx((got.p, got.p_equivalent))


def test_one_run_a_side_speaks_of_checkpoints_by_mid_p_and_newcombe() -> None:
    rng = np.random.default_rng(5)
    a, b = runs(rng, 0.6, 1, 500), runs(rng, 0.55, 1, 500)
    got, oracle = one(a, b), paired(a[0], b[0])
    assert got.difference.scope == "checkpoints"
    assert got.p == pytest.approx(mcnemar(oracle.wins, oracle.losses))
    assert got.interval[:3] == pytest.approx(oracle[:3])
    assert got.settle.seeds is None and got.settle.equivalent_seeds is None


def test_one_run_against_three_is_a_paired_t_over_problems() -> None:
    rng = np.random.default_rng(6)
    a, b = runs(rng, 0.6, 1, 200), runs(rng, 0.55, 3, 200)
    got, oracle = one(a, b), ttest_rel(a.mean(0), b.mean(0))
    assert got.difference.scope == "checkpoints" and got.p == pytest.approx(oracle.pvalue, abs=1e-12)
    assert got.interval[1:3] == pytest.approx(tuple(oracle.confidence_interval()), abs=1e-12)


def test_paired_seeds_are_used_as_such() -> None:
    rng = np.random.default_rng(7)
    common = rng.normal(0, 0.1, (4, 1))
    a, b = (0.5 + lift + common + rng.normal(0, 0.02, (4, 60)) for lift in (0.02, 0))
    loose, tight = (verdicts({"a": a, "b": b}, [("a", "b")], margin=None, paired=p)[0] for p in (False, True))
    assert (loose.kind, tight.kind) == ("inconclusive", "better")


def test_what_settles_is_the_fewest_that_do() -> None:
    rng = np.random.default_rng(8)
    a, b = runs(rng, 0.6, 3, 400, 0.02), runs(rng, 0.59, 3, 400, 0.02)
    got = one(a, b, 0.02)
    assert got.kind == "inconclusive"
    parts, effect, settle = spread({"a": a, "b": b}), abs(got.difference.estimate), got.settle
    assert settle.seeds is not None and settle.seeds > 3
    assert (
        superiority_power(parts, effect, settle.seeds, 400)
        >= 0.8
        > superiority_power(parts, effect, settle.seeds - 1, 400)
    )
    assert settle.equivalent_seeds == seeds_for_equivalence(parts, 0.02, 400)
    if settle.equivalent_problems is not None:
        assert equivalence_power(parts, 0.02, 3, settle.equivalent_problems) >= 0.8


def test_problems_alone_do_not_settle_what_the_seeds_leave_open() -> None:
    """Run accuracies .4, .6 against .35, .62: with two runs each no number of problems shows a point and a half."""
    level = np.repeat([[0.4], [0.6]], 200, 1), np.repeat([[0.35], [0.62]], 200, 1)
    got = one(*level, margin=0.01)
    assert got.kind == "inconclusive"
    assert got.settle.problems is None and got.settle.equivalent_problems is None
    assert got.settle.seeds is None or got.settle.seeds > 50


def test_problems_for_two_checkpoints_by_hand_and_by_drawing() -> None:
    """Connor: (1.959964 sqrt(.15) + .841621 sqrt(.15 - .03^2))^2 / .03^2 = 1306.02...; power .8 when drawn."""
    n = checkpoint_problems(0.03, 0.15)
    reach = 1.9599639845 * math.sqrt(0.15) + 0.8416212336 * math.sqrt(0.15 - 0.0009)
    assert n == math.ceil(reach**2 / 0.0009)
    assert checkpoint_problems(0.0, 0.15) is None
    drawn = np.random.default_rng(9).multinomial(n, [0.09, 0.06, 0.85], 1500)
    power = np.mean([mcnemar(int(b), int(c)) < 0.05 for b, c, _ in drawn])
    assert 0.77 < power < 0.83


def test_problems_for_two_equivalent_checkpoints_by_drawing() -> None:
    n, rng = checkpoint_problems_for_equivalence(0.05, 0.2), np.random.default_rng(10)
    hits = 0
    for _ in range(150):
        right = rng.choice(4, n, p=[0.5, 0.1, 0.1, 0.3])
        a, b = np.isin(right, (0, 1)).astype(float), np.isin(right, (0, 2)).astype(float)
        found = paired(a, b, 0.9)
        hits += found.low > -0.05 and found.high < 0.05
    assert 0.7 < hits / 150 < 0.9


def test_same_input_same_bytes() -> None:
    rng = np.random.default_rng(11)
    tables = {name: runs(rng, 0.5, 3, 100, 0.02) for name in "abc"}
    pairs = [("a", "b"), ("a", "c")]
    once = verdicts(tables, pairs, margin=0.03)
    assert repr(once) == repr(verdicts({k: v.copy() for k, v in tables.items()}, pairs, margin=0.03))
