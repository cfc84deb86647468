"""The trunk by hand against the library's own forward pass and autograd."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from paribus.batch import Mix, Rollout, select
from paribus.engines import scoring
from paribus.engines.local import LocalSampler
from paribus.engines.protocols import SamplingPlan
from paribus.models import trunk
from paribus.types import Key
from toymodels import loaded, prompts

SIZES: dict[str, Any] = dict(
    vocab_size=60, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64, eos_token_id=2, pad_token_id=0, bos_token_id=1,
    initializer_range=0.2,
)  # fmt: skip
CASES = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=True)),
    "llama with biases": lambda: LlamaForCausalLM(
        LlamaConfig(**SIZES, tie_word_embeddings=False, attention_bias=True, mlp_bias=True)
    ),
    "llama with wide heads": lambda: LlamaForCausalLM(LlamaConfig(**SIZES | {"num_key_value_heads": 4}, head_dim=12)),
    "llama 3 angles": lambda: LlamaForCausalLM(
        LlamaConfig(
            **SIZES,
            rope_parameters={
                "rope_type": "llama3", "rope_theta": 10000.0, "factor": 4.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 16,
            },
        )
    ),
    "qwen": lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES, tie_word_embeddings=True)),
}  # fmt: skip


def make(case: str) -> Any:
    torch.manual_seed(0)
    model: Any = CASES[case]().eval()
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:  # norm weights away from 1, biases away from 0
            torch.nn.init.normal_(parameter, 1.0 if "norm" in name else 0.0, 0.3)
    return model


def roll(model: Any, samples: int) -> Rollout:
    asked = prompts([3, 9, 1, 7, 7])
    return LocalSampler(loaded(model)).sample(asked, SamplingPlan(samples=samples, max_tokens=12), Key(7, "sample"))


def scored(model: Any, rollout: Rollout, mask: torch.Tensor, again: bool = False) -> dict[str, torch.Tensor]:
    """States, log-probs, entropies and gradients of a loss of both."""
    model.zero_grad()
    hidden = scoring.before(model.base_model, rollout, mask, again=again)
    logp, entropy = scoring.token_scores(hidden, model.lm_head, rollout.tokens[mask], 0.7, "loss")
    weight = torch.linspace(-1, 1, len(logp))
    assert entropy is not None
    ((logp * weight).sum() + (entropy * weight.square()).sum()).backward()
    found = {"hidden": hidden.detach(), "logp": logp.detach(), "entropy": entropy.detach()}
    return found | {n: p.grad.clone() for n, p in model.named_parameters()}


def close(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor], tolerance: float) -> None:
    assert left.keys() == right.keys()
    for name, value in right.items():
        assert (left[name] - value).abs().max() <= tolerance * (1e-3 + value.abs().max()), name


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_states_and_all_gradients_are_the_librarys(case: str, samples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shared prompts and single rows, a row without a trained token, a tail and middle tokens left out."""
    model = make(case)
    rollout = roll(model, samples)
    mask = rollout.mask & (torch.arange(rollout.mask.shape[1]) % 5 != 0)
    mask[1], mask[0, 8:] = False, False
    assert trunk.fits(model.base_model)
    ours = scored(model, rollout, mask)
    again = scored(model, rollout, mask, again=True)
    assert all(bool((again[name] == value).all()) for name, value in ours.items()), "computed again, to the bit"
    monkeypatch.setattr(trunk, "fits", lambda base: False)
    close(ours, scored(model, rollout, mask), 2e-5)
    close(ours, scored(model, rollout, mask, again=True), 2e-5)


def test_gradients_add_up_over_backward_passes() -> None:
    """Rows apart give the gradient of rows together: nothing is overwritten, in float64 to rounding."""
    model = make("llama").double()
    rollout = roll(model, 3)
    whole = scored(model, rollout, rollout.mask)
    model.zero_grad()
    weight = torch.linspace(-1, 1, int(rollout.mask.sum()))
    start = 0
    for rows in torch.randperm(rollout.rows, generator=torch.Generator().manual_seed(1)).sort().values.split(4):
        part = select(rollout, rows)
        n = int(part.mask.sum())
        hidden = scoring.before(model.base_model, part, part.mask)
        logp, entropy = scoring.token_scores(hidden, model.lm_head, part.tokens[part.mask], 0.7, "loss")
        w = weight[start : start + n]
        assert entropy is not None
        ((logp * w).sum() + (entropy * w.square()).sum()).backward()
        start += n
    for name, parameter in model.named_parameters():
        assert (parameter.grad - whole[name]).abs().max() <= 1e-6 * whole[name].abs().max(), name


def test_mixed_embeddings_are_read_and_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make("llama")
    rollout = roll(model, 3)
    ids = torch.randint(3, 60, (*rollout.tokens.shape, 2), generator=torch.Generator().manual_seed(0))
    share = torch.tensor([0.7, 0.3]) * (rollout.mask & (torch.arange(rollout.tokens.shape[1]) % 3 == 0))[..., None]
    mixed = replace(rollout, mix=Mix(ids, share))
    ours, plain = scored(model, mixed, rollout.mask), scored(model, rollout, rollout.mask)
    monkeypatch.setattr(trunk, "fits", lambda base: False)
    close(ours, scored(model, mixed, rollout.mask), 2e-5)
    assert (ours["logp"] - plain["logp"]).abs().max() > 1e-2


@pytest.mark.parametrize("entropy", ["statistic", "loss"])
def test_logits_in_pieces_change_nothing(entropy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A head that computes its logits again in the backward pass gives the log-probs, entropies and gradients of one
    that kept them; several ids a position, a temperature."""
    torch.manual_seed(0)
    head = torch.nn.Linear(16, 50).double()
    start, ids = torch.randn(23, 16).double(), torch.randint(50, (23, 3))
    found = []
    for at_once, cached in ((1 << 20, 1 << 20), (1 << 20, 150), (350, 150)):
        monkeypatch.setattr(scoring, "LOGITS_AT_ONCE", at_once)
        monkeypatch.setattr(scoring, "CACHED", cached)
        head.zero_grad()
        hidden = start.clone().requires_grad_()
        logp, uncertain = scoring.token_scores(hidden, head, ids, 0.7, entropy)
        assert uncertain is not None and uncertain.requires_grad is (entropy == "loss")
        loss = (logp * torch.linspace(-1, 1, 69).view(23, 3)).sum()
        (loss + uncertain.square().sum() if entropy == "loss" else loss).backward()
        found.append((logp.detach(), uncertain.detach(), hidden.grad, head.weight.grad, head.bias.grad))
    # and autograd's own
    head.zero_grad()
    hidden = start.clone().requires_grad_()
    whole = (head(hidden) / 0.7).log_softmax(-1)
    uncertain = -(whole.exp() * whole).sum(-1)
    loss = (whole.gather(1, ids) * torch.linspace(-1, 1, 69).view(23, 3)).sum()
    (loss + uncertain.square().sum() if entropy == "loss" else loss).backward()
    found.append((whole.gather(1, ids).detach(), uncertain.detach(), hidden.grad, head.weight.grad, head.bias.grad))
    for other in found[:-1]:
        for left, right in zip(other, found[-1], strict=True):
            assert left is not None and right is not None and torch.allclose(left, right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_rows_that_come_and_go_are_decoded_as_if_alone(case: str) -> None:
    """Few places, many rows with ends of all kinds: greedy tokens are those of the library's `generate`."""
    model = make(case)
    asked = prompts([3, 9, 1, 7, 7, 12, 2, 5])
    plan = SamplingPlan(samples=2, max_tokens=14, temperature=0)
    rollout = LocalSampler(loaded(model), decode_rows=6).sample(asked, plan, Key(0, "eval"))
    for row in range(rollout.rows):
        prompt = asked[row // 2].ids
        out = model.generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt)), max_new_tokens=14, do_sample=False,
            eos_token_id=list(loaded(model).stop_ids), pad_token_id=0,
        )  # fmt: skip
        assert rollout.tokens[row, : rollout.length[row]].tolist() == out[0].tolist()


def test_rows_are_announced_once_when_they_end() -> None:
    model = make("llama")
    told: list[tuple[int, str, Any]] = []
    asked = prompts([3, 9, 1, 7])
    plan = SamplingPlan(samples=3, max_tokens=12)
    sampler = LocalSampler(loaded(model), decode_rows=5)
    rollout = sampler.sample(asked, plan, Key(3, "sample"), finished=told.extend)
    assert sorted(place for place, _, _ in told) == list(range(12))
    assert all(rollout.text[place] == text and rollout.stop[place] is stop for place, text, stop in told)
