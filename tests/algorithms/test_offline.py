"""Methods on given answers as values, and their law: any micro-batches that keep pairs whole make the same update."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from paribus.algorithms import CATALOG, Dpo, Ipo, Need, Offline, OwnPairs, OwnRight, PairFile, SimPo
from paribus.algorithms.offline import PairColumns
from paribus.algorithms.pages import held_as
from paribus.batch import Role, Scores, Signal, Totals, merge_stats, select, trim
from paribus.errors import ConfigError
from paribus.part import dump, load, replace
from preferences import HORIZON, draw, loss_of, pair_of

OFFLINE = {name: entry for name, entry in CATALOG.items() if isinstance(entry, Offline) and held_as(entry) == name}
METHODS = {
    **OFFLINE,
    "dpop": replace(OFFLINE["dpo"], name="dpop", objective=Dpo(beta=0.3, anchor=5.0)),
    "ipo_mean": replace(OFFLINE["ipo"], name="ipo_mean", objective=Ipo(over="mean")),
    "simpo_nll": replace(OFFLINE["simpo"], name="simpo_nll", objective=SimPo(nll=1.0)),
}
JUNK = [3.0, float("nan"), float("inf"), -float("inf"), 1e30]
methods = pytest.mark.parametrize("algorithm", METHODS.values(), ids=METHODS)


def litter(batch, logp, junk):
    """The same rows with junk wherever no token was answered."""
    blank = ~batch.rollout.mask
    old, ref = (x.masked_fill(blank, junk) for x in (batch.old_logp, batch.ref_logp))
    return dataclasses.replace(batch, old_logp=old, ref_logp=ref), logp.masked_fill(~batch.mask, junk)


def parts_of(batch, seed, size):
    """Trained rows in pieces of `size` units, in any order; a pair's two rows stay together."""
    random = torch.Generator().manual_seed(seed)
    live = batch.mask.any(1)
    units = batch.unit[live].unique()
    units = units[torch.randperm(len(units), generator=random)]
    for piece in units.split(size):
        rows = (torch.isin(batch.unit, piece) & live).nonzero().squeeze(1)
        yield rows[torch.randperm(len(rows), generator=random)]


def update(algorithm, batch, logp, parts):
    """Loss, gradient and merged stats of an update in pieces, each cut to its longest row."""
    signal, _ = algorithm.signal(batch, {})
    total = Totals.of(batch.mask, HORIZON, batch.score)
    leaf = logp.clone().requires_grad_()
    shares, stats = [], []
    for rows in parts:
        width = int(batch.mask[rows].any(0).nonzero().max()) + 1
        found = algorithm.loss(*(trim(select(x, rows), width) for x in (Scores(leaf), batch, signal)), total)
        shares.append(found.value)
        stats.append(found.stats)
    value = torch.stack(shares).sum()
    value.backward()
    return value.detach(), leaf.grad, merge_stats(stats)


@methods
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**31), junk=st.sampled_from(JUNK), units=st.integers(1, 9))
def test_any_micro_batches_make_the_same_update(algorithm, seed, junk, units):
    batch, logp = draw(algorithm, seed, units)
    whole, gradient, stats = update(algorithm, batch, logp, [torch.arange(len(logp))])
    assert whole.isfinite() and gradient.isfinite().all() and not gradient[~batch.mask].any()
    dirty = litter(batch, logp, junk)
    for size in (1, 2, 3):
        value, found, merged = update(algorithm, *dirty, parts_of(batch, seed, size))
        torch.testing.assert_close(value, whole, rtol=0, atol=1e-10)
        torch.testing.assert_close(found, gradient, rtol=0, atol=1e-10)
        assert not found[~batch.mask].any()
        for name, stat in stats.items():
            assert merged[name].row() == pytest.approx(stat.row(), rel=1e-9, abs=1e-9), name


@methods
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_the_order_of_rows_and_the_place_of_an_answer_do_not_matter(algorithm, seed):
    batch, logp = draw(algorithm, seed)
    whole = loss_of(algorithm, batch, logp).value
    order = torch.randperm(len(logp), generator=torch.Generator().manual_seed(seed))
    moved = loss_of(algorithm, select(batch, order), logp[order]).value
    torch.testing.assert_close(moved, whole, rtol=0, atol=1e-10)

    def left_padded(x):
        return torch.stack([x[i].roll(i % 4) for i in range(len(x))]) if isinstance(x, torch.Tensor) else x

    rows = {f: left_padded(getattr(batch, f)) for f in ("mask", "ref_logp", "old_logp")}
    rollout = dataclasses.replace(batch.rollout, mask=left_padded(batch.rollout.mask))
    shifted = dataclasses.replace(batch, rollout=rollout, **rows)
    torch.testing.assert_close(loss_of(algorithm, shifted, left_padded(logp)).value, whole, rtol=0, atol=1e-10)


@methods
@pytest.mark.parametrize("seed", [0, 1])
def test_in_single_precision_the_gradient_survives_any_cut(algorithm, seed):
    batch, logp = draw(algorithm, seed, units=24, dtype=torch.float32)
    dirty = litter(batch, logp, float("nan"))
    _, whole, _ = update(algorithm, batch, logp, [torch.arange(len(logp))])
    assert whole.norm() > 0
    for size in (1, 5):
        _, found, _ = update(algorithm, *dirty, parts_of(batch, seed, size))
        assert (found - whole).norm() < 1e-5 * whole.norm()
    exact = update(algorithm, *(to_double(x) for x in (batch, logp)), [torch.arange(len(logp))])[1]
    assert (whole - exact).norm() < 1e-4 * exact.norm()


def to_double(value):
    if isinstance(value, torch.Tensor):
        return value.double()
    changes = {name: getattr(value, name).double() for name in ("score", "ref_logp", "old_logp")}
    return dataclasses.replace(value, **changes)


@methods
def test_an_update_with_nothing_to_train_is_zero(algorithm):
    batch, logp = draw(algorithm, 0)
    batch = dataclasses.replace(batch, mask=torch.zeros_like(batch.mask))
    logp.requires_grad_()
    found = loss_of(algorithm, batch, logp)
    found.value.backward()
    assert found.value == 0 and not logp.grad.any()
    assert all(stat.value is None for stat in found.stats.values())


@methods
def test_the_denominator_is_the_whole_updates_whatever_a_call_sees(algorithm):
    batch, logp = draw(algorithm, 1)
    total = Totals.of(batch.mask, HORIZON, batch.score)
    doubled = Totals(2 * total.tokens, 2 * total.sequences, HORIZON)
    value = loss_of(algorithm, batch, logp, total).value
    torch.testing.assert_close(2 * loss_of(algorithm, batch, logp, doubled).value, value)


def test_half_a_pair_is_refused():
    batch, logp = pair_of()
    for rows in (torch.tensor([0]), torch.tensor([1])):
        half, total = select(batch, rows), Totals.of(batch.mask, HORIZON)
        with pytest.raises(ValueError, match="must reach the loss together"):
            OFFLINE["dpo"].loss(Scores(logp[rows]), half, Signal(torch.zeros_like(logp[rows])), total)


def test_entropy_is_recorded_where_the_learner_gives_it():
    batch, logp = pair_of()
    signal, _ = OFFLINE["dpo"].signal(batch, {})
    found = OFFLINE["dpo"].loss(Scores(logp, torch.full_like(logp, 1.5)), batch, signal, Totals.of(batch.mask, HORIZON))
    assert found.stats["entropy"].row() == {"sum": 13.5, "count": 9.0}


def test_needs_are_those_of_loss_and_source():
    assert OFFLINE["dpo"].needs == {Need.REFERENCE, Need.GROUP, Need.START}
    assert OFFLINE["online_dpo"].needs == {Need.REFERENCE, Need.GROUP}
    assert OFFLINE["kto"].needs == {Need.REFERENCE, Need.OLD, Need.START}
    assert OFFLINE["simpo"].needs == {Need.GROUP, Need.START} and OFFLINE["sft"].needs == {Need.START}
    assert replace(OFFLINE["orpo"], source=PairFile(path="pairs.jsonl")).needs == frozenset()


def test_a_file_is_stored_as_it_was_before_the_hub_and_the_mapping_came() -> None:
    assert dump(PairFile(path="pairs.jsonl")) == {"path": "pairs.jsonl", "type": "pair_file"}
    hub = PairFile(path="team/pairs", revision="a" * 40, split="prefs", columns=PairColumns(chosen="better"))
    assert load(PairFile, dump(hub)) == hub
    with pytest.raises(ConfigError, match=r"revision: 'v1' is no commit"):
        load(PairFile, {"path": "team/pairs", "revision": "v1"})


def test_what_the_learner_asks_of_any_method():
    for algorithm in OFFLINE.values():
        assert (algorithm.critic, algorithm.entropy, algorithm.topk) == (None, 0.0, 0)
        assert algorithm.memory() == {} and algorithm.kind == "offline"


def test_a_loss_and_a_source_of_other_data_do_not_go_together():
    with pytest.raises(ConfigError, match="objective dpo trains on pairs, and source own_right gives demonstrations"):
        replace(OFFLINE["dpo"], source=OwnRight())
    with pytest.raises(ConfigError, match="take a source of labels"):
        replace(OFFLINE["kto"], source=OwnPairs())


def test_pairs_want_two_samples_of_a_prompt():
    OFFLINE["sft"].check(1, 4)
    with pytest.raises(ConfigError, match="samples_per_prompt = 1: set it to 2"):
        OFFLINE["dpo"].check(1, 1)


def test_roles_decide_the_sides_not_the_order_of_rows():
    batch, logp = pair_of()
    swap = torch.tensor([1, 0])
    assert select(batch, swap).role.tolist() == [Role.BAD, Role.GOOD]
    swapped = loss_of(OFFLINE["dpo"], select(batch, swap), logp[swap])
    assert swapped.value == loss_of(OFFLINE["dpo"], batch, logp).value
