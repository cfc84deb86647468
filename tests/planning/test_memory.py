"""The memory plan against the reference's hand numbers, and the laws that any such plan obeys."""

from __future__ import annotations

import pytest
import torch

from batches import rollout_of
from paribus.algorithms import CATALOG, Need, Offline
from paribus.engines import scoring
from paribus.experiment import Setting
from paribus.part import load, replace
from paribus.planning import passes, theory
from paribus.planning.memory import Memory, memory
from paribus.planning.shapes import KNOWN, ModelShape

QWEN = KNOWN["qwen2.5-0.5b"]
PASSING = ("activations", "logits", "KV cache", "rollout copy of weights", "batch")


def setting(**changes: object) -> Setting:
    tables = {
        "task": {"type": "stories"},
        "rollout": {"prompts_per_step": 16, "samples_per_prompt": 4, "max_prompt": 64, "max_response": 96},
        "optim": {"lr": 1e-6, "minibatch_prompts": 8},
        "budget": {"steps": 2},
        "eval": {"test": {"max_response": 96, "limit": 64}},
        "machine": {"micro_tokens": 4096},
        "steps": {"type": "stories"},
    }
    return replace(load(Setting, tables), **changes)


def planned(method: str, **changes: object) -> Memory:
    return memory(QWEN, setting(**changes), CATALOG[method])


@pytest.mark.parametrize(
    ("name", "per_token"),
    [
        ("qwen2.5-0.5b", 12_288),
        ("qwen2.5-1.5b", 28_672),
        ("qwen2.5-3b", 36_864),
        ("qwen2.5-7b", 57_344),
        ("llama-2-7b", 524_288),
    ],
)
def test_a_token_of_cache_takes_what_the_reference_says(name: str, per_token: int) -> None:
    assert KNOWN[name].kv_per_token * 2 == per_token


def test_whole_caches_of_the_reference() -> None:
    assert passes.cache(QWEN, 2, 512, 1024) / 1e9 == pytest.approx(6.44, abs=0.005)
    assert passes.cache(KNOWN["qwen2.5-7b"], 2, 512, 4096) / 1e9 == pytest.approx(120.3, abs=0.05)


def test_all_logits_of_sixteen_thousand_tokens() -> None:
    numbers = 16 * 1024 * QWEN.vocabulary
    assert numbers * 2 / 1e9 == pytest.approx(4.98, abs=0.005)
    assert numbers * 4 / 1e9 == pytest.approx(9.96, abs=0.005)
    # which is why they never exist at once here
    assert passes.chunk(QWEN, 16 * 1024) <= scoring.LOGITS_AT_ONCE


def test_the_plan_cuts_as_the_engines_do() -> None:
    assert passes.LOGITS_AT_ONCE == scoring.LOGITS_AT_ONCE
    assert passes.CACHED == scoring.CACHED


def test_half_a_billion_parameters_trained_take_eight_gigabytes() -> None:
    held = planned("ppo").components
    for model in ("policy", "critic"):
        state = sum(held[f"{model} {part}"] for part in ("weights", "gradients", "optimizer"))
        assert state / 1e9 == pytest.approx(7.90, abs=0.01)
    # with a master copy in float32, gradients summed there: two bytes more than mixed-precision Adam's sixteen
    half = planned("grpo", **{"model.dtype": "bfloat16"}).components
    assert half["reference weights"] / 1e9 == pytest.approx(0.99, abs=0.005)
    assert half["policy master weights"] == 4 * QWEN.parameters


def test_the_table_of_seven_billion_parameters() -> None:
    table = {s.name: (s.weights(7e9) / 1e9, s.training(7e9) / 1e9) for s in theory.SETUPS}
    assert table == {
        "PPO with a reward model": (56, 252),
        "PPO, verifiable reward": (42, 238),
        "GRPO with a reward model": (42, 140),
        "GRPO, verifiable reward, KL": (28, 126),
        "GRPO, verifiable reward, no KL": (14, 112),
    }
    assert [round(100 * s.share) for s in theory.savings(7e9)] == [33, 25, 47, 44]


@pytest.mark.parametrize("method", sorted(CATALOG))
def test_every_method_plans_what_it_needs_and_nothing_else(method: str) -> None:
    algorithm, found = CATALOG[method], planned(method)
    assert ("critic weights" in found.components) == (algorithm.critic is not None)
    assert ("critic_update" in found.phases) == (Need.VALUES in algorithm.needs)
    frozen = bool(algorithm.needs & {Need.REFERENCE, Need.START})
    assert ("reference weights" in found.components) == frozen
    assert ("ref_logp" in found.phases) == (Need.REFERENCE in algorithm.needs)
    if isinstance(algorithm, Offline):
        assert not any("critic" in name for name in found.components)
    for phase, held in found.live.items():
        assert sum(held.values()) == found.phases[phase]
        assert all(size > 0 for size in held.values())
    assert found.peak == max(found.phases.values())
    assert max(found.components.values()) <= found.peak


def test_a_pass_that_is_not_made_is_not_planned() -> None:
    """Old log-probs of the only update of a step are its own, unless the reward or a selection asks for them before."""
    one = {"optim.minibatch_prompts": None}
    assert "old_logp" in planned("grpo").phases and "old_logp" not in planned("grpo", **one).phases
    assert "old_logp" in planned("grpo", **one, **{"machine.old_gap": None}).phases
    assert "old_logp" in planned("ppo", **one).phases  # its KL is part of the reward
    assert "old_logp" not in planned("dppo_tv").phases and "old_logp" not in planned("reinforce", **one).phases


@pytest.mark.parametrize("method", ["ppo", "grpo", "dpo"])
@pytest.mark.parametrize("heap", [False, True])
def test_more_of_anything_never_takes_less(method: str, heap: bool) -> None:
    def peak(**changes: object) -> int:
        return memory(QWEN, setting(**changes), CATALOG[method], heap=heap).peak

    for key, values in {
        "machine.micro_tokens": [512, 1024, 2048, 4096, 8192, 16384],
        "machine.decode_rows": [8, 32, 64],
        "rollout.prompts_per_step": [8, 16, 32],
    }.items():
        found = [peak(**{key: value}) for value in values]
        assert found == sorted(found), key


def test_a_critic_costs_its_weights_and_optimizer_and_no_second_gradients() -> None:
    ppo, grpo = planned("ppo"), planned("grpo")
    assert ppo.phases["policy_update"] - grpo.phases["policy_update"] == pytest.approx(12 * QWEN.trunk, rel=1e-4)


def test_a_micro_batch_keeps_to_its_budget_and_a_group_shares_its_prompt() -> None:
    pieces = passes.cut(32, 4, 100, 50, 1000, "llama")
    # 12 rows of 3 prompts: 3 x 100 + 12 x 50 = 900; the 13th would bring a fourth prompt
    assert pieces.largest == passes.Piece(12, 3, 100, 50, True) and pieces.number == 3
    assert passes.cut(32, 4, 100, 50, 1000, "qwen3").largest.rows == 6  # whole rows of 150
    assert passes.cut(32, 1, 100, 50, 10, "llama").largest.rows == 1  # one row at least


def test_activations_of_one_layer_by_hand() -> None:
    shape = ModelShape("llama", 256, 1, 4, 4, 64, 1024, 600, True)
    piece = passes.Piece(16, 4, 40, 95, True)
    # what autograd saved of this very pass, counted by its hooks; the embedding's output and final norm left out there
    by_hooks = 46_900_160
    ends = piece.tokens * 3 * 256 * 4 + piece.scored * 256 * 4
    assert passes.saved(shape, 4, piece) - ends == pytest.approx(by_hooks, rel=2e-3)


def test_before_the_first_update_there_is_no_optimizer_state() -> None:
    first, later = (memory(QWEN, setting(), CATALOG["ppo"], started=s, heap=True) for s in (False, True))
    assert not any("optimizer" in name for name in first.components)
    assert all(first.phases[phase] < later.phases[phase] for phase in later.phases)


def test_only_a_heap_keeps_what_was_freed() -> None:
    assert not any("kept" in name for name in planned("ppo").components)
    heap = memory(QWEN, setting(), CATALOG["ppo"], heap=True)
    # rollout's copy of weights and cache are free when grading begins; the step's end gives everything back
    passing = ("rollout copy of weights", "KV cache", "logits")
    assert heap.live["grade"]["freed, kept by the heap"] == sum(heap.live["rollout"][name] for name in passing)
    assert "freed, kept by the heap" not in heap.live["save"]


@pytest.mark.parametrize("shared", [True, False])
def test_what_the_trunk_by_hand_keeps_is_counted_to_the_byte(shared: bool) -> None:
    """Its tape, of rows that all have the planned length; the last sampled token of a row is not read."""
    from transformers import LlamaConfig, LlamaModel

    from paribus.models.packed import plain
    from paribus.models.packed import shared as sharing
    from paribus.models.trunk import _Pass

    rows, prompt, response = 8, 6, 9
    model = LlamaModel(
        LlamaConfig(vocab_size=50, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
                    num_key_value_heads=2)
    )  # fmt: skip
    mask = torch.arange(prompt + response + 1).expand(rows, -1) >= prompt
    rollout = rollout_of(mask, torch.arange(rows) // (4 if shared else 1))
    layout = sharing(rollout, rollout.mask) if shared else plain(rollout.mask)
    run = _Pass(model, layout, torch.float32)
    with torch.no_grad():
        embedded = model.embed_tokens(rollout.tokens[layout.row, layout.column])
        _, (tape, asked) = run.forward(embedded, keep="all")
        _, (inputs, _) = run.forward(embedded, keep="inputs")
    found = asked.numel()
    for kept in tape:
        found += sum(x.numel() for x in (kept.x, kept.middle, kept.gate, kept.up))
        found += sum(x.numel() for a in kept.attended for x in a)
    found += sum(p.bias.numel() for p in run.places if p.bias is not None)
    shape = ModelShape("llama", 32, 3, 4, 2, 8, 48, 50, True)
    piece = passes.Piece(rows, rows // 4 if shared else rows, prompt, response, shared)
    hidden = 2 * rows * response * 32  # what is asked for and its norm: one more position a row is predicted than read
    whole = passes.saved_by_hand(shape, 4, piece)
    assert whole - 4 * hidden == 4 * (found - asked.numel())
    assert passes.recomputed(shape, 4, piece, whole) - whole // 3 == 4 * sum(x.numel() for x in inputs)
