"""Mixed rollouts: what the sampler reads is recorded, and the learner reads exactly that."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from paribus.batch import Batch, Loss, Rollout, Scores, Signal, Totals, select
from paribus.engines.learner import TorchLearner
from paribus.engines.local import LocalSampler, mixes
from paribus.engines.protocols import SamplingPlan
from paribus.engines.scoring import before, plainly_before
from paribus.errors import ConfigError
from paribus.models import trunk
from paribus.models.decoder import Decoder
from paribus.settings import MachineSpec, OptimSpec, RolloutSpec
from paribus.tensors import keep
from paribus.types import Key, Stop
from toymodels import EOS, FAMILIES, TURN, VOCABULARY, llama, loaded, prompts

PROMPTS = prompts([3, 9, 1, 7, 7])
KEY = Key(7, "sample", step=2)
CRITIC = SimpleNamespace(lr=1e-3, shared=False, warmup=0, head_std=0.1)
PLAN = SamplingPlan(samples=3, max_tokens=12, temperature=0.7, mix_rate=0.5, mix_neighbours=3)


def plan(rate: float, **changes: Any) -> SamplingPlan:
    return replace(PLAN, mix_rate=rate, **changes)


def roll(model: Any, how: SamplingPlan = PLAN, rows: int = 512) -> Rollout:
    return LocalSampler(loaded(model), decode_rows=rows).sample(PROMPTS, how, KEY)


def learner(model: Any, micro: int = 10_000, temperature: float = 0.7, **changes: Any) -> TorchLearner:
    rollout = RolloutSpec(prompts_per_step=5, samples_per_prompt=3, max_response=12, temperature=temperature)
    parts = dict(optim=OptimSpec(lr=1e-2, clip_norm=None), rollout=rollout, machine=MachineSpec(micro_tokens=micro))
    return TorchLearner(loaded(model), key=Key(0, "critic"), **(parts | changes))  # type: ignore[arg-type]


def plain_embeddings(model: Any, rollout: Rollout) -> torch.Tensor:
    """What the model reads, by a loop over positions."""
    assert rollout.mix is not None
    table = model.get_input_embeddings().weight
    rows = []
    for tokens, ids, weight in zip(rollout.tokens, *rollout.mix, strict=True):
        read = [
            sum(w * table[i] for i, w in zip(ids[t], weight[t], strict=True)) if weight[t].any() else table[tokens[t]]
            for t in range(len(tokens))
        ]
        rows.append(torch.stack(read))  # type: ignore[arg-type]
    return torch.stack(rows)


@pytest.fixture(params=FAMILIES)
def model(request: pytest.FixtureRequest) -> Any:
    return FAMILIES[request.param]()


@pytest.mark.parametrize("micro", [1, 10_000], ids=["row by row", "shared prompts"])
def test_the_learner_reads_what_the_sampler_read(model: Any, micro: int) -> None:
    """Log-probs agree to 1e-5 in float32, after any number of mixed positions; without the mix they do not at all."""
    rollout, one = roll(model, plan(0.5, temperature=1.0)), learner(model, micro, temperature=1.0)
    assert rollout.mixed.any(1).float().mean() > 0.9
    assert (one.logp(rollout) - rollout.sampled_logp).abs().max() < 1e-5
    assert (one.logp(replace(rollout, mix=None)) - rollout.sampled_logp).abs().max() > 0.1


def test_a_mixed_step_records_the_anchor_and_the_weights_of_its_neighbours(model: Any) -> None:
    """Weights are the softmax over C of the recorded log-probs; C begins with the token, which is the likeliest."""
    rollout = roll(model, plan(0.5, topk=VOCABULARY))
    assert rollout.mix is not None and rollout.topk is not None
    at = rollout.mixed
    assert torch.equal(rollout.mix.ids[at][:, 0], rollout.tokens[at])
    assert torch.equal(rollout.topk.ids[at][:, 0], rollout.tokens[at])
    table = torch.nn.functional.normalize(model.get_input_embeddings().weight, dim=1).detach()
    expected = (table[rollout.tokens[at]] @ table.T).topk(3).indices
    assert torch.equal(rollout.mix.ids[at], expected)
    logp = torch.zeros_like(rollout.topk.logp).scatter(2, rollout.topk.ids, rollout.topk.logp)[at]
    assert torch.allclose(rollout.mix.weight[at], logp.gather(1, expected).softmax(1), atol=1e-6)
    assert (rollout.mix.ids[~at] == 0).all() and (rollout.mix.weight[~at] == 0).all()
    assert not at[~rollout.mask].any()


def test_steps_are_mixed_at_the_rate_and_by_their_own_stream() -> None:
    """Every step that the row's key says, but for stop tokens; up to the first of them nothing else changes."""
    model, asked = llama(), prompts([2 + i % 9 for i in range(40)], seed=3)
    sampler = LocalSampler(loaded(model))
    drawn = sampler.sample(asked, plan(0.0), KEY)
    mixed = sampler.sample(asked, plan(0.3), KEY)
    assert drawn.mix is None and not drawn.mixed.any()
    stops = torch.isin(mixed.tokens, torch.tensor([EOS, TURN])) & mixed.mask
    assert stops.any() and not (mixed.mixed & stops).any()
    candidates = int((mixed.mask & ~stops).sum())
    assert abs(int(mixed.mixed.sum()) / candidates - 0.3) < 4 * (0.3 * 0.7 / candidates) ** 0.5
    compared = 0
    for i in range(mixed.rows):
        begin = int(mixed.mask[i].long().argmax())
        ends = (mixed.mixed[i] | stops[i]).nonzero().flatten().tolist()
        first = ends[0] if ends else int(mixed.length[i])
        assert torch.equal(mixed.tokens[i, begin:first], drawn.tokens[i, begin:first])
        compared += first - begin
    assert compared > 100


def test_the_coin_of_a_step_is_fair_and_no_draw_hangs_on_it() -> None:
    keys = torch.tensor([Key(1, "sample", 0, f"p{i}").hash() for i in range(20_000)])
    always, seldom, never = (mixes(keys, torch.full_like(keys, 5), plan(rate)) for rate in (1.0, 0.1, 0.0))
    assert always.all() and not never.any()
    assert abs(float(seldom.float().mean()) - 0.1) < 4 * (0.09 / 20_000) ** 0.5
    both = (seldom & mixes(keys, torch.full_like(keys, 6), plan(0.1))).float().mean()
    assert abs(float(both) - 0.01) < 4 * (0.01 / 20_000) ** 0.5


def test_a_row_is_mixed_alike_in_whatever_company(model: Any) -> None:
    few, many = roll(model, rows=2), roll(model, rows=512)
    assert few.mix is not None and many.mix is not None
    assert torch.equal(few.tokens, many.tokens) and torch.equal(few.mix.ids, many.mix.ids)
    assert (few.mix.weight - many.mix.weight).abs().max() < 1e-4
    alone = LocalSampler(loaded(model)).sample(PROMPTS[1:2], PLAN, KEY)
    row = int(alone.length.max())
    assert torch.equal(alone.tokens[:, :row], many.tokens[3:6, :row])


@pytest.mark.parametrize("name", ["llama", "qwen"])
def test_both_decoders_read_mixes_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = FAMILIES[name]()
    assert trunk.known(model.base_model)
    fast = roll(model)
    monkeypatch.setattr("paribus.engines.local.make_decoder", Decoder)
    general = roll(model)
    assert torch.equal(fast.tokens, general.tokens)
    assert (fast.sampled_logp - general.sampled_logp).abs().max() < 1e-4


def test_neighbours_follow_the_weights() -> None:
    """The next rollout after an update mixes by the new embeddings (b48)."""
    model = llama()
    sampler = LocalSampler(loaded(model))
    sampler.sample(PROMPTS, PLAN, KEY)
    with torch.no_grad():
        model.get_input_embeddings().weight.copy_(llama(seed=5).get_input_embeddings().weight)
    again, fresh = sampler.sample(PROMPTS, PLAN, KEY), roll(model)
    assert again.mix is not None and fresh.mix is not None
    assert torch.equal(again.mix.ids, fresh.mix.ids) and torch.equal(again.mix.weight, fresh.mix.weight)


def test_states_and_gradients_are_those_of_embeddings_made_by_hand(model: Any) -> None:
    """Through the plain and the shared path, to every parameter: E included, whose mixes are constants' sums."""
    rollout = roll(model)
    rollout = select(rollout, torch.randperm(rollout.rows, generator=torch.Generator().manual_seed(0)))
    base, mask = model.base_model, rollout.mask
    weight = torch.randn(int(mask.sum()), 32, generator=torch.Generator().manual_seed(1))
    found = []
    for path in ("hand", "plain", "shared"):
        model.zero_grad()
        if path == "hand":
            states = base(inputs_embeds=plain_embeddings(model, rollout), use_cache=False).last_hidden_state
            hidden = states[:, :-1][mask[:, 1:]]
        elif path == "plain":
            hidden = plainly_before(base, rollout.tokens, mask, rollout.mix)
        else:
            hidden = before(base, rollout, mask)
        (hidden * weight).sum().backward()
        found.append((hidden.detach(), {n: p.grad.clone() for n, p in base.named_parameters()}))
    for hidden, gradients in found[1:]:
        assert (hidden - found[0][0]).abs().max() < 1e-5
        for name, gradient in found[0][1].items():
            assert (gradients[name] - gradient).abs().max() < 1e-5 * gradient.abs().max().clamp(min=1)


class PolicyGradient:
    """The plain policy gradient, a mean over the update's tokens."""

    critic, entropy, topk, only_advantage = CRITIC, 0.0, 0, True

    def loss(self, scores: Scores, batch: Batch, signal: Signal, total: Totals) -> Loss:
        x = scores.logp if scores.logp is not None else scores.values
        assert x is not None
        return Loss(-keep(x * signal.advantage, batch.mask).sum() / total.tokens, {})


def test_any_micro_batches_give_the_same_update_of_mixed_rows(model: Any) -> None:
    rollout = roll(model)
    torch.manual_seed(5)
    advantage = torch.randn(rollout.mask.shape)
    batch = Batch(rollout=rollout, score=advantage[:, 0], reward=advantage, mask=rollout.mask)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    norms = []
    for micro in (1, 40, 10_000):
        model.load_state_dict(state)
        one = learner(model, micro, critic=CRITIC)
        stats = one.update(batch, Signal(advantage), PolicyGradient(), Key(3, "update"))
        norms.append([stats[name].value for name in ("grad_norm", "critic_grad_norm")])
        assert stats["first_ratio_deviation"].value < 1e-4
    assert norms[1] == pytest.approx(norms[0], rel=1e-5) and norms[2] == pytest.approx(norms[0], rel=1e-5)


def test_the_critic_values_the_states_that_the_policy_was_in(model: Any) -> None:
    """Its trunk is a copy of the policy's; what stands after a cut row's last token may be a mix, too."""
    rollout, one = roll(model), learner(model, 40, critic=CRITIC)
    assert one.critic is not None
    with torch.no_grad():
        read = plain_embeddings(model, rollout)
        states = one.critic(one.critic.trunk(inputs_embeds=read, use_cache=False).last_hidden_state.flatten(0, 1))
    states = states.view(rollout.mask.shape)
    values, final = one.values_and_final(rollout)
    assert (values[:, 1:] - states[:, :-1])[rollout.mask[:, 1:]].abs().max() < 1e-5
    last = rollout.length - 1
    assert (final - states.gather(1, last[:, None]).squeeze(1)).abs().max() < 1e-5
    cut = [i for i, stop in enumerate(rollout.stop) if stop is Stop.LENGTH and rollout.mixed[i, last[i]]]
    assert cut


def test_what_cannot_be_mixed_is_refused() -> None:
    sampler = LocalSampler(loaded(llama()))
    with pytest.raises(ConfigError, match="mix of neighbours of 62 tokens exceeds the model's vocabulary of 61"):
        sampler.sample(PROMPTS, plan(0.5, mix_neighbours=62), KEY)
    with pytest.raises(ConfigError, match="greedy decoding mixes no embeddings"):
        sampler.sample(PROMPTS, plan(0.5, temperature=0.0), KEY)
