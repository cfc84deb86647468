"""The law of every method: an update cut into any micro-batches, in any order, with any padding, is the same update."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from batches import ONLINE
from paribus import tensors
from paribus.algorithms import (
    CATALOG,
    Clip,
    Constant,
    Critic,
    Gae,
    Gmpo,
    Kl,
    OutcomeAtEnd,
    Reinforce,
    SequenceMeanTokenMean,
    SequenceMeanTokenSum,
    SequenceRatio,
    TokenMean,
    Whiten,
    signal_stats,
)
from paribus.algorithms.catalog import GRPO, PPO, VERL_05_PPO
from paribus.batch import Scores, Signal, TopK, Totals, merge_stats, select, trim
from paribus.part import replace
from paribus.types import Stop

F = torch.float64
HORIZON = 9
ACTS = {"clip_low", "clip_high", "clip_dual", "masked", "capped", "gated", "over_prefix"}
METHODS = {
    **ONLINE,
    "gspo_like": replace(
        GRPO, name="gspo_like", ratio=SequenceRatio(normalise=True), surrogate=Clip(low=3e-4, high=4e-4), kl=None
    ),
    "grpo_k2": replace(GRPO, name="grpo_k2", kl=Kl(coef=0.04, estimator="k2", ceiling=None)),
    "everything_on": replace(
        VERL_05_PPO,
        name="everything_on",
        entropy=0.01,
        aggregate=Constant(),
        whiten=Whiten(over="sequences", ddof=0),
        critic=Critic(lr=1e-5, coef=0.5, clip=0.1, shared=True),
        advantage=Gae(gamma=0.97, lam=0.9, critic_lam=1.0, truncation="bootstrap"),
        shaping=(OutcomeAtEnd(truncated="omitted"), *PPO.shaping[1:]),
    ),
}
JUNK = [3.0, float("nan"), float("inf"), -float("inf"), 1e30]
cases = given(seed=st.integers(0, 2**31), junk=st.sampled_from(JUNK))
quick = settings(max_examples=8, deadline=None)
methods = pytest.mark.parametrize("algorithm", METHODS.values(), ids=METHODS)


def draw(seed, make_batch, algorithm, dtype=F, prompts=3, samples=4):
    """A ragged batch: observation tokens inside rows, groups in any order, an unscored row, truncated rows."""
    random = torch.Generator().manual_seed(seed)
    rows, width = prompts * samples, HORIZON

    def normal(scale=1.0):
        return scale * torch.randn(rows, width, generator=random, dtype=dtype)

    length = torch.randint(1, width + 1, (rows,), generator=random)
    mask = torch.arange(width)[None] < length[:, None]
    mask &= torch.rand(rows, width, generator=random) > 0.15
    mask[:, 0] = True
    group = torch.arange(rows)[torch.randperm(rows, generator=random)] % prompts
    score = torch.randint(0, 2, (rows,), generator=random).to(dtype)
    score[int(torch.randint(0, rows, (1,), generator=random))] = float("nan")
    stop = [Stop.LENGTH if x else Stop.EOS for x in torch.rand(rows, generator=random) < 0.3]
    old = normal() - 2
    top = torch.randn(rows, width, 5, generator=random, dtype=dtype).log_softmax(2)[..., :3]
    moved_top = (top + 0.2 * torch.randn(rows, width, 3, generator=random, dtype=dtype)).clamp(max=-1.2)
    ids = torch.randint(0, 9, (rows, width, 3), generator=random)
    step_end = mask & ((torch.rand(rows, width, generator=random) < 0.3) | tensors.last(mask))
    batch = make_batch(
        algorithm, score, mask, group, old=old, ref=old + normal(0.5), values=normal(), horizon=HORIZON,
        final_value=normal()[:, 0], stop=stop, sampled_logp=old + normal(0.2), topk=TopK(ids, top),
        step_end=step_end, step_score=tensors.keep(torch.rand(rows, width, generator=random, dtype=dtype), step_end),
        greedy_score=tensors.group_mean(score.nan_to_num(), group, mask.any(1)).round(), old_entropy=normal().exp(),
    )  # fmt: skip
    return batch, Scores(old + normal(0.3), normal().exp(), normal(), moved_top)


def litter(value, mask, junk):
    """The same noun with junk wherever no token trains."""
    if isinstance(value, torch.Tensor):
        if not value.is_floating_point() or value.dim() == 1:
            return value
        return value.masked_fill(~(mask if value.dim() == 2 else mask[..., None]), junk)
    if isinstance(value, tuple):
        return type(value)(*(litter(x, mask, junk) for x in value))
    if dataclasses.is_dataclass(value):
        names = [f.name for f in dataclasses.fields(value) if f.name not in ("tokens", "mask", "parts")]
        return dataclasses.replace(value, **{n: litter(getattr(value, n), mask, junk) for n in names})
    return value


def update(algorithm, batch, scores, signal, total, parts):
    """Loss, gradients and merged stats of an update whose rows are cut into `parts`."""
    leaves = Scores(*(x.clone().requires_grad_() for x in scores[:3]), scores.topk_logp)
    shares, stats = [], []
    for rows in parts:
        width = int(batch.mask[rows].any(0).nonzero().max()) + 1 if batch.mask[rows].any() else 1
        given_scores = leaves if algorithm.critic else leaves._replace(values=None)
        cut = [trim(select(x, rows), width) for x in (given_scores, batch, signal)]
        found = algorithm.loss(*cut, total)
        shares.append(found.value)
        stats.append(found.stats)
    value = torch.stack(shares).sum()
    value.backward()
    zero = torch.zeros_like(leaves.logp)
    gradients = [zero if leaf.grad is None else leaf.grad for leaf in leaves[:3]]
    return value.detach(), gradients, merge_stats(stats)


def cut(rows, seed):
    """A random partition of the rows, in random order."""
    random = torch.Generator().manual_seed(seed + 1)
    order = torch.randperm(rows, generator=random)
    bounds = sorted({*torch.randint(1, rows, (3,), generator=random).tolist(), 0, rows})
    return [order[a:b] for a, b in itertools.pairwise(bounds)]


@methods
@quick
@cases
def test_any_micro_batches_make_the_same_update(algorithm, make_batch, seed, junk):
    batch, scores = draw(seed, make_batch, algorithm)
    signal, _ = algorithm.signal(batch, algorithm.memory())
    total = Totals.of(batch.mask, HORIZON, batch.score)
    rows = torch.arange(len(batch.mask))
    whole, gradients, stats = update(algorithm, batch, scores, signal, total, [rows])
    dirty = [litter(x, batch.mask, junk) for x in (batch, scores, signal)]
    for parts in (cut(len(rows), seed), [rows[i : i + 1] for i in rows]):
        value, found, merged = update(algorithm, dirty[0], dirty[1], dirty[2], total, parts)
        torch.testing.assert_close(value, whole, rtol=0, atol=1e-10)
        for a, b in zip(found, gradients, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-10)
            assert not a[~batch.mask].any()
        for name, stat in stats.items():
            assert merged[name].row() == pytest.approx(stat.row(), rel=1e-9, abs=1e-9), name


@methods
@quick
@cases
def test_credit_ignores_row_order_and_junk(algorithm, make_batch, seed, junk):
    batch, _ = draw(seed, make_batch, algorithm)
    signal, memory = algorithm.signal(batch, algorithm.memory())
    dirty = litter(batch, batch.mask, junk)
    order = torch.randperm(len(batch.mask), generator=torch.Generator().manual_seed(seed))
    moved, memory_too = algorithm.signal(select(dirty, order), algorithm.memory())
    for a, b in zip(moved, select(signal, order), strict=True):
        if b is not None:
            torch.testing.assert_close(a, b, rtol=0, atol=1e-10)
            assert not a[~batch.mask[order]].any()
    assert memory_too == pytest.approx(memory)
    rows, same = signal_stats(batch, signal), signal_stats(select(dirty, order), moved)
    for name, stat in rows.items():
        assert same[name].row() == pytest.approx(stat.row(), rel=1e-9, abs=1e-9), name


@methods
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_in_single_precision_the_gradient_norm_survives_any_cut(algorithm, make_batch, seed):
    batch, scores = draw(seed, make_batch, algorithm, torch.float32, prompts=8, samples=6)
    signal, _ = algorithm.signal(batch, algorithm.memory())
    total = Totals.of(batch.mask, HORIZON, batch.score)
    rows = torch.arange(len(batch.mask))
    random = torch.Generator().manual_seed(seed)
    features = torch.randn(len(rows), HORIZON, 32, generator=random)

    def gradient(parts):
        weights = torch.zeros(3, 32, requires_grad=True)
        for part in parts:
            heads = (features[part] @ weights.T).unbind(-1)
            dirty = litter(select(scores, part), batch.mask[part], float("nan"))
            moved = Scores(
                *(torch.where(batch.mask[part], x + h, x) for x, h in zip(dirty[:3], heads, strict=True)),
                dirty.topk_logp,
            )
            moved = moved if algorithm.critic else moved._replace(values=None)
            algorithm.loss(moved, select(batch, part), select(signal, part), total).value.backward()
        return weights.grad

    whole = gradient([rows])
    assert whole.norm() > 0
    for parts in (cut(len(rows), seed), list(rows.split(1)), list(rows.split(7))):
        found = gradient(parts)
        assert abs(found.norm() / whole.norm() - 1) < 1e-5
        assert (found - whole).norm() < 1e-5 * whole.norm()


@methods
def test_an_update_with_nothing_to_train_is_zero(algorithm, make_batch):
    batch, scores = draw(0, make_batch, algorithm)
    batch = dataclasses.replace(batch, mask=torch.zeros_like(batch.mask))
    signal, _ = algorithm.signal(batch, algorithm.memory())
    rows = torch.arange(len(batch.mask))
    value, gradients, stats = update(algorithm, batch, scores, signal, Totals.of(batch.mask, HORIZON), [rows])
    assert value == 0 and not any(g.any() for g in gradients)
    assert all(stat.value is None for stat in stats.values())


def product_of_ratios(algorithm):
    return isinstance(algorithm.ratio, SequenceRatio) and not algorithm.ratio.normalise


def aggregations(algorithm):
    """Those that the method may have: GMPO and a product of ratios are one number for a row, the others are refused."""
    if product_of_ratios(algorithm) or isinstance(algorithm.surrogate, Gmpo):
        return [SequenceMeanTokenMean()]
    return [TokenMean(), SequenceMeanTokenMean(), SequenceMeanTokenSum(), Constant()]


@pytest.mark.parametrize(
    ("algorithm", "aggregate"),
    [
        pytest.param(algorithm, aggregate, id=f"{name}-{aggregate.type}")
        for name, algorithm in METHODS.items()
        for aggregate in aggregations(algorithm)
    ],
)
def test_at_ratio_one_every_surrogate_has_the_plain_policy_gradient(algorithm, aggregate, make_batch):
    product = product_of_ratios(algorithm)
    algorithm = replace(algorithm, kl=None, entropy=0.0, aggregate=aggregate)
    batch, _ = draw(3, make_batch, algorithm)
    signal, _ = algorithm.signal(batch, algorithm.memory())
    total = Totals.of(batch.mask, HORIZON, batch.score)
    summed = {"aggregate": SequenceMeanTokenSum()} if product else {}  # each token moves the whole product
    plain = replace(algorithm, surrogate=Reinforce(), ratio={"type": "token_ratio"}, **summed)
    found = []
    for method in (algorithm, plain):
        logp = batch.old_logp.clone().requires_grad_()
        loss = method.loss(Scores(logp, topk_logp=batch.rollout.topk.logp), batch, signal, total)
        loss.value.backward()
        found.append(logp.grad)
        assert all(loss.stats[name].value == 0 for name in ACTS & set(loss.stats))
        assert loss.stats["ratio_deviation"].value == 0 and loss.stats["approx_kl"].value == 0
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-12)


BOUNDED = {name: method for name, method in METHODS.items() if not isinstance(method.surrogate, Reinforce)}


@pytest.mark.parametrize("algorithm", BOUNDED.values(), ids=BOUNDED)
def test_a_trust_region_that_acts_shows_in_the_stats(algorithm, make_batch):
    batch, scores = draw(5, make_batch, algorithm)
    far = scores._replace(logp=batch.old_logp + 8 * (scores.logp - batch.old_logp))
    if not algorithm.critic:
        far = far._replace(values=None)
    signal, _ = algorithm.signal(batch, algorithm.memory())
    stats = algorithm.loss(far, batch, signal, Totals.of(batch.mask, HORIZON, batch.score)).stats
    assert any(stats[name].value > 0 for name in ACTS & set(stats)), stats


def test_dr_grpo_times_g_over_g_minus_one_is_the_unbiased_estimator(make_batch):
    """Dr. GRPO differs from RLOO's estimator only by G/(G-1) and by the constant length it divides by."""
    dr, loo = CATALOG["dr_grpo"], replace(CATALOG["rloo"], shaping=(OutcomeAtEnd(),))
    score = torch.tensor([1, 0, 0, 1, 1, 1, 0, 1], dtype=F)
    group, mask = torch.arange(8) // 4, torch.arange(5)[None] < torch.tensor([1, 5, 3, 2, 4, 4, 1, 2])[:, None]
    old = torch.randn(8, 5, dtype=F, generator=torch.Generator().manual_seed(0))
    gradients = []
    for method in (dr, loo):
        batch = make_batch(method, score, mask, group, old=old)
        signal: Signal = method.signal(batch, {})[0]
        logp = old.clone().requires_grad_()
        method.loss(Scores(logp), batch, signal, Totals.of(mask, 5)).value.backward()
        gradients.append(logp.grad)
    torch.testing.assert_close(gradients[0] * 5 * 4 / 3, gradients[1])
