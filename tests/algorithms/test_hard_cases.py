"""Faults that other projects had to fix, as stored in the shared collection: one test per case, named by its id."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

from batches import batch_of, move_of, plain_batch
from paribus import tensors
from paribus.algorithms import (
    Clip,
    Constant,
    Critic,
    Gae,
    GroupMean,
    GroupZScore,
    Kl,
    LeaveOneOut,
    MissingEos,
    SequenceMeanTokenMean,
    TokenMean,
    TopEntropy,
    signal_stats,
)
from paribus.algorithms.catalog import GRPO, REINFORCE
from paribus.batch import Scores, Signal, Totals, merge_stats, select
from paribus.part import replace
from paribus.types import Stop

F = torch.float64


@pytest.fixture(scope="module")
def case(shared) -> Callable[[str], tuple[Any, Any]]:
    with open(shared / "cases" / "open.jsonl", encoding="utf-8") as file:
        cases = {row["id"]: row for row in map(json.loads, file)}
    return lambda name: (cases[name]["input"], cases[name]["expected"])


def flat(groups):
    return [value for group in groups for value in group]


def credit(estimator, total, group, dtype=F):
    """Credit of one-token rows."""
    total = torch.tensor(total, dtype=dtype)
    mask = total.isfinite()[:, None]
    signal, _ = estimator(plain_batch(total[:, None], mask, torch.as_tensor(group)), {})
    return signal.advantage[:, 0]


@pytest.mark.parametrize("group_size", [2, 4, 8, 16])
def test_b02_share_of_uniform_groups(case, make_batch, group_size):
    given, expected = case("b02")
    groups = 5_000
    score = (torch.rand(groups * group_size, generator=torch.Generator().manual_seed(0)) < given["p_correct"]).to(F)
    mask, group = torch.ones(len(score), 1, dtype=torch.bool), torch.arange(len(score)) // group_size
    batch = make_batch(REINFORCE, score, mask, group)
    share = signal_stats(batch, Signal(batch.reward))["uniform_groups"].value
    assert share == pytest.approx(expected["p_homogeneous"][given["group_sizes"].index(group_size)], abs=0.02)


def test_b05_normalised_inside_each_group(case, close):
    given, expected = case("b05")
    for dtype, tolerance in ((torch.float32, 1e-5), (F, 1e-6)):
        found = credit(GroupZScore(eps=0), flat(given["rewards"]), [0, 0, 1, 1], dtype)
        close(found, flat(expected["groupwise_ddof1"]), tolerance)


def test_b06_interleaved_groups(case, close):
    given, expected = case("b06")
    group = torch.tensor([int(name[1:]) for name in given["prompt_ids"]])
    found = credit(GroupZScore(), given["rewards"], group)
    close(found, expected["advantages"], 0)
    rewards = torch.tensor([1, 0, 1, 0, 0, 0, 1, 1], dtype=F)
    base = credit(GroupZScore(), rewards.tolist(), group)
    for seed in range(5):
        order = torch.randperm(8, generator=torch.Generator().manual_seed(seed))
        close(credit(GroupZScore(), rewards[order].tolist(), group[order]), base[order], 1e-12)


def test_b08_baseline_after_the_kl(case, close):
    given, expected = case("b08")
    total = [s - given["beta"] * k for s, k in zip(given["scores"], given["kl_sum"], strict=True)]
    found = credit(LeaveOneOut(), total, [0, 0])
    close(found, expected["rloo_after_kl"], 1e-9)
    assert abs(float(found.sum())) < 1e-12


def test_b09_scaling_by_the_group_or_not_at_all(case, close):
    given, expected = case("b09")
    total, group = flat(given["rewards"]), [0] * 4 + [1] * 4
    close(credit(GroupZScore(eps=0), total, group), flat(expected["group"]), 1e-9)
    close(credit(GroupMean(), total, group), flat(expected["none"]), 1e-9)


def test_b12_nan_under_the_mask(case):
    given, expected = case("b12")
    x = torch.tensor([float(v) for v in given["values"]], requires_grad=True)
    mask = torch.tensor(given["mask"]).bool()
    assert tensors.masked_mean(x, mask) == expected["masked_mean"]
    tensors.masked_sum(tensors.keep(x, mask).exp(), mask).backward()
    assert torch.equal(x.grad[~mask], torch.full((2,), float(expected["grad_masked_positions"])))
    assert tensors.masked_sum(x, mask) == expected["masked_sum"]


def _token_mean(parts):
    """Each part's share of the token mean of all of them."""
    total = Totals(sum(map(len, parts)), len(parts), 16)
    rows = [torch.tensor([part]) for part in parts]
    return [TokenMean()(row, torch.ones_like(row, dtype=torch.bool), total).item() for row in rows]


def test_b16_token_mean_over_micro_batches(case):
    given, expected = case("b16")
    shares = _token_mean([m["token_losses"] for m in given["microbatches"]])
    assert sum(shares) == pytest.approx(expected["token_mean"])


def test_b17_token_mean_over_ranks(case):
    given, expected = case("b17")
    shares = _token_mean([r["token_losses"] for r in given["ranks"]])
    assert sum(shares) == pytest.approx(expected["token_mean"])
    assert [share * len(given["ranks"]) for share in shares] == pytest.approx([2.0, 1.8])


def test_b18_the_normaliser_is_the_updates_not_the_steps(case):
    given, expected = case("b18")
    n = given["gradient_accumulation_steps"]
    update = [[given["per_token_loss"]] * tokens for tokens in given["tokens_per_microstep"][:n]]
    assert sum(_token_mean(update)) == pytest.approx(expected["accumulated_loss_per_update"])


def test_b20_what_a_token_weighs(case, make_mask, close):
    given, expected = case("b20")
    mask = make_mask(given["lengths"])
    total = Totals.of(mask, given["max_len"])
    for name, part in (
        ("loss_seq_mean_token_mean", SequenceMeanTokenMean()),
        ("loss_token_mean", TokenMean()),
        ("loss_drgrpo_constant", Constant()),
    ):
        loss = -torch.tensor(given["advantages"], dtype=F)[:, None].expand(mask.shape)
        close(part(loss, mask, total), expected[name], 1e-9)
    for name, part in (
        ("per_token_weight_grpo", SequenceMeanTokenMean()),
        ("per_token_weight_drgrpo", Constant()),
    ):
        x = torch.zeros(mask.shape, dtype=F, requires_grad=True)
        (weight,) = torch.autograd.grad(part(x, mask, total), x)
        close(weight[:, 0] * torch.tensor(given["advantages"]), expected[name], 1e-9)
    wide = torch.nn.functional.pad(mask, (0, 5))
    x = torch.ones(wide.shape, dtype=F)
    assert Constant()(x, wide, total) == Constant()(x[:, :8], mask, total)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_b23_k3_of_huge_differences(case, dtype):
    given, expected = case("b23")
    d = torch.tensor(given["d_ref_minus_cur"])
    current = torch.zeros(len(d), dtype=dtype, requires_grad=True)
    logp = current.float()  # log-probs are float32 whatever the weights are
    value = Kl(coef=1.0).estimate(logp, d)
    assert value[:5].tolist() == pytest.approx(expected["k3"], rel=1e-5, abs=1e-6)
    assert value.isfinite().all() and value[7].item() == expected["for_minus_200"]
    value.sum().backward()
    assert current.grad.isfinite().all()
    if dtype is torch.float32:
        assert current.grad[:5].tolist() == pytest.approx(expected["gradient_wrt_cur"], rel=1e-5, abs=1e-6)
    torch.optim.AdamW([current], lr=1e-3).step()
    assert current.isfinite().all()


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_b26_a_kl_is_weighted_by_tokens(case, make_batch, size):
    given, expected = case("b26")
    # 4 rows of 10 tokens: the first at the first micro-batch's KL, the others at the second's
    kl = torch.tensor([given["kl_per_microbatch"][0]] + [given["kl_per_microbatch"][1]] * 3, dtype=F)
    mask = torch.ones(4, 10, dtype=torch.bool)
    batch = make_batch(REINFORCE, torch.ones(4, dtype=F), mask, torch.zeros(4).long(), ref=torch.zeros(4, 10).to(F))
    signal, _ = REINFORCE.signal(batch, {})
    total = Totals.of(mask, 10)
    parts = [
        REINFORCE.loss(Scores(kl[rows, None].expand(-1, 10)), select(batch, rows), select(signal, rows), total).stats
        for rows in torch.arange(4).split(size)
    ]
    assert merge_stats(parts)["kl_k1"].value == pytest.approx(expected["kl"])


def test_b33_the_whole_table_of_the_clip(case):
    given, expected = case("b33")
    for row in expected["table"]:
        for dual, loss_key, slope_key in ((None, "loss", "dloss_dratio"), (3.0, "dual_clip_c3", "ddual_dratio")):
            part = Clip(low=given["eps_low"], high=given["eps_high"], dual=dual)
            ratio = torch.tensor([[row["ratio"]]], dtype=F, requires_grad=True)
            advantage = torch.tensor([[row["A"]]], dtype=F)
            loss, _ = part(move_of(ratio.log(), torch.zeros(1, 1), torch.ones(1, 1, dtype=torch.bool)), advantage)
            (slope,) = torch.autograd.grad(loss.sum(), ratio)
            assert loss.item() == pytest.approx(row[loss_key], abs=1e-9), row
            assert slope.item() == pytest.approx(row[slope_key], abs=1e-9), row


def test_b34_the_dual_clip_leaves_positive_advantages_alone(case):
    given, expected = case("b34")
    log_ratio = torch.tensor([[given["ratio"]]], dtype=F).log()
    mask = torch.ones(1, 1, dtype=torch.bool)
    loss, _ = Clip(dual=given["c"])(
        move_of(log_ratio, torch.zeros(1, 1), mask), torch.full((1, 1), given["A"], dtype=F)
    )
    assert loss.item() == pytest.approx(expected["loss"], abs=1e-9)


def test_b36_the_value_is_clipped_and_the_half_is_in(case):
    given, expected = case("b36")
    new, old, target = (torch.tensor([[given[k]]], dtype=F) for k in ("v_new", "v_old", "ret"))
    mask = torch.ones(1, 1, dtype=torch.bool)
    loss, _ = Critic(lr=1e-5, clip=given["clip"]).value_loss(new, old, target, mask, Totals.of(mask, 1))
    assert loss.item() == pytest.approx(expected["loss"], abs=1e-9)


def _gae(given, lam):
    reward, values = (torch.tensor([given[k]], dtype=F) for k in ("rewards", "values"))
    mask = torch.tensor([given["mask"]]).bool()
    signal, _ = Gae(gamma=given["gamma"], lam=lam)(plain_batch(reward, mask, torch.zeros(1).long(), values=values), {})
    return signal.advantage[0], signal.target[0]


def test_b37_values_beyond_the_end_stay_out(case, close):
    given, expected = case("b37")
    advantage, target = _gae(given, given["lambda"])
    close(advantage, expected["advantages_raw"], 1e-9)
    close(target, expected["returns"], 1e-9)
    close(_gae(given, 1.0)[0][:3], expected["lambda1"], 1e-9)
    close(_gae(given, 0.0)[0][:3], expected["lambda0"], 1e-9)
    for junk in (float("nan"), -50.0):
        changed = {
            **given,
            "values": [*given["values"][:3], junk, junk],
            "rewards": [*given["rewards"][:3], junk, junk],
        }
        close(_gae(changed, given["lambda"])[0], expected["advantages_raw"], 1e-9)


def test_b38_observation_tokens_are_skipped(case, close):
    given, expected = case("b38")
    close(_gae(given, given["lambda"])[0], expected["advantages"], 1e-9)
    # a scalar reward of a row that ends in a masked position lands on its last trained token
    mask = torch.tensor([given["mask"]]).bool()
    reward = batch_of(GRPO, torch.ones(1, dtype=F), mask, torch.zeros(1).long(), horizon=5).reward
    close(reward[0], given["rewards"], 0)


def test_b40_any_stop_token_ends_a_row(case):
    """The penalty looks at why the sampler stopped, never at the tokens: whatever ended the row there, ended it."""
    given, expected = case("b40")
    stop = [Stop.EOS if row[-1] in given["stop_ids"] else Stop.LENGTH for row in given["responses"]]
    mask = torch.ones(len(stop), 2, dtype=torch.bool)
    part = MissingEos(penalty=given["penalty"])
    cost = part(plain_batch(torch.zeros(mask.shape), mask, torch.zeros(len(stop)).long(), stop=stop), 2, {})
    assert (cost[:, 1] == -given["penalty"]).tolist() == expected["penalised"] and not cost[:, 0].any()


@pytest.mark.parametrize("dtype", [torch.float32, F])
def test_b54_one_threshold_for_the_whole_step(case, dtype):
    given, expected = case("b54")
    entropy = torch.tensor(given["rank_entropies"], dtype=dtype)
    part = TopEntropy(share=1 - given["quantile"])
    assert float(part.threshold(entropy.flatten())) == pytest.approx(expected["threshold_global"], abs=1e-9)
    chosen = part(entropy, torch.ones(entropy.shape, dtype=torch.bool))
    assert chosen.long().tolist() == expected["selected_global"]


def test_a43_an_ungradable_gold_gives_no_credit(case, make_batch, close):
    given, expected = case("a43")
    rows = len(given["responses"])
    score, mask = torch.full((rows,), float("nan"), dtype=F), torch.ones(rows, 2, dtype=torch.bool)
    old = torch.zeros(rows, 2, dtype=F)
    batch = make_batch(GRPO, score, mask, torch.zeros(rows).long(), old=old, ref=old)
    signal, _ = GRPO.signal(batch, {})
    close(signal.advantage[:, 0], expected["advantages"], 0)
    assert signal_stats(batch, signal)["score"].value is None


def test_d11_an_unscored_row_leaves_its_group_intact(case, make_batch, close):
    given, expected = case("d11")
    score = torch.tensor([float("nan") if r is None else r for r in given["rewards"]], dtype=F)
    mask, old = torch.ones(4, 2, dtype=torch.bool), torch.zeros(4, 2, dtype=F)
    algorithm = replace(GRPO, kl=None, **{"advantage.eps": 0.0})
    batch = make_batch(algorithm, score, mask, torch.zeros(4).long(), old=old)
    signal, _ = algorithm.signal(batch, {})
    close(signal.advantage[:, 0], expected["advantages_valid_ddof1"], 1e-5)
    logp = old.clone().requires_grad_()
    algorithm.loss(Scores(logp), batch, signal, Totals.of(batch.mask, 2)).value.backward()
    assert logp.grad.isfinite().all() and not logp.grad[1].any()


def test_d12_a_nan_is_left_out_of_the_mean_and_counted(case, make_batch):
    given, expected = case("d12")
    score = torch.tensor([float(v) for v in given["values"]], dtype=F)
    batch = make_batch(REINFORCE, score, torch.ones(6, 1, dtype=torch.bool), torch.zeros(6).long())
    stat = signal_stats(batch, REINFORCE.signal(batch, {})[0])["score"]
    assert stat.value == pytest.approx(expected["mean"], abs=1e-5) and float(stat.count) == expected["n"]
