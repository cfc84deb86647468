"""What every sampler promises, and what only a model can show: greedy is generate, log-probs are the learner's."""

from __future__ import annotations

import dataclasses
import functools
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
import torch

from paribus.batch import Rollout
from paribus.engines.learner import TorchLearner
from paribus.engines.local import LocalSampler, choose
from paribus.engines.protocols import Sampler, SamplingPlan
from paribus.engines.scripted import ScriptedSampler
from paribus.errors import ConfigError
from paribus.models import trunk
from paribus.models.decoder import Decoder
from paribus.pipeline.evaluate import evaluate
from paribus.settings import MachineSpec, OptimSpec, RolloutSpec
from paribus.suites import EvalSpec
from paribus.tasks.grading import Answer
from paribus.types import Key, Problem, Stop
from toymodels import BOS, EOS, FAMILIES, LETTERS, PAD, TURN, gpt2, llama, loaded, prompts

PROMPTS = prompts([3, 9, 1, 7, 7])
PLAN = SamplingPlan(samples=3, max_tokens=12)
KEY = Key(7, "sample", step=2)


def scripted() -> ScriptedSampler:
    answers = [((5, 6, EOS), "bc"), ((8, 9, 10, TURN), "efg"), (tuple(range(4, 30)), "all the letters")]
    return ScriptedSampler({p.problem_id: answers for p in PROMPTS}, (EOS, TURN))


SAMPLERS: dict[str, Callable[[], Sampler]] = {
    **{name: lambda make=make: LocalSampler(loaded(make())) for name, make in FAMILIES.items()},  # type: ignore[misc]
    "scripted": scripted,
}


@functools.cache
def vllm() -> Sampler:
    """One engine for all tests: starting another takes long. Its kernels want heads of 32 numbers or more."""
    from paribus.engines.vllm import VllmSampler
    from paribus.settings import VllmEngine

    model = llama(hidden_size=64, num_attention_heads=2, num_key_value_heads=1)
    folder = tempfile.mkdtemp()
    model.save_pretrained(folder)
    return VllmSampler(dataclasses.replace(loaded(model), path=folder), VllmEngine(eager=True), length=128)


@pytest.fixture(params=[*SAMPLERS, pytest.param("vllm", marks=pytest.mark.vllm)])
def sampler(request: pytest.FixtureRequest) -> Sampler:
    return vllm() if request.param == "vllm" else SAMPLERS[request.param]()


def same(a: Rollout, b: Rollout) -> bool:
    tensors = ("tokens", "mask", "length", "group", "sampled_logp", "sample")
    alike = all(torch.equal(getattr(a, name), getattr(b, name)) for name in tensors)
    return alike and (a.problem_id, a.stop, a.text) == (b.problem_id, b.stop, b.text)


def responses(rollout: Rollout) -> list[list[int]]:
    return [rollout.tokens[i][rollout.mask[i]].tolist() for i in range(rollout.rows)]


def test_rows_come_prompt_by_prompt(sampler: Sampler) -> None:
    rollout = sampler.sample(PROMPTS, PLAN, KEY)
    assert rollout.group.tolist() == [g for g in range(5) for _ in range(3)]
    assert rollout.sample.tolist() == [0, 1, 2] * 5
    assert rollout.problem_id == [PROMPTS[g].problem_id for g in rollout.group]


def test_prompt_ids_stand_unchanged_and_only_sampled_tokens_are_masked(sampler: Sampler) -> None:
    """Lengths are the truth: nothing is inferred from ids (c05, c11, b41)."""
    rollout = sampler.sample(PROMPTS, PLAN, KEY)
    for i in range(rollout.rows):
        ids, length = PROMPTS[int(rollout.group[i])].ids, int(rollout.length[i])
        assert tuple(rollout.tokens[i, : len(ids)].tolist()) == ids
        expected = torch.zeros_like(rollout.mask[i])
        expected[len(ids) : length] = True
        assert torch.equal(rollout.mask[i], expected)
        assert (rollout.sampled_logp[i][~expected] == 0).all()
        assert (rollout.sampled_logp[i][expected] < 0).all()
    assert rollout.tokens.shape[1] == rollout.length.max()


def test_stop_reasons(sampler: Sampler) -> None:
    """Any id of the stop set ends a row and belongs to it; everything else ends at the limit (b45)."""
    rollout = sampler.sample(PROMPTS, SamplingPlan(samples=8, max_tokens=12), KEY)
    seen = set()
    for ids, stop in zip(responses(rollout), rollout.stop, strict=True):
        seen.add(stop)
        assert not {EOS, TURN} & set(ids[:-1])
        if stop is Stop.EOS:
            assert ids[-1] in (EOS, TURN)
        else:
            assert stop is Stop.LENGTH and len(ids) == 12 and ids[-1] not in (EOS, TURN)
    assert seen == {Stop.EOS, Stop.LENGTH}


def test_the_same_key_gives_the_same_rollout_and_another_does_not(sampler: Sampler) -> None:
    first = sampler.sample(PROMPTS, PLAN, KEY)
    assert same(first, sampler.sample(PROMPTS, PLAN, KEY))
    for other in (Key(8, "sample", 2), Key(7, "eval", 2), Key(7, "sample", 3), Key(7, "sample", 2, round=1)):
        assert responses(first) != responses(sampler.sample(PROMPTS, PLAN, other))


def test_a_row_is_the_same_in_whatever_company(sampler: Sampler) -> None:
    whole = responses(sampler.sample(PROMPTS, PLAN, KEY))
    for i, prompt in enumerate(PROMPTS):
        assert responses(sampler.sample([prompt], PLAN, KEY)) == whole[3 * i : 3 * i + 3]
    more = responses(sampler.sample(PROMPTS[::-1], SamplingPlan(samples=5, max_tokens=12), KEY))
    assert [more[(4 - i) * 5 + s] for i in range(5) for s in range(3)] == whole


def test_a_problem_asked_twice_is_two_groups_with_their_own_draws(sampler: Sampler) -> None:
    rollout = sampler.sample([PROMPTS[1], PROMPTS[1]], SamplingPlan(samples=6, max_tokens=12), KEY)
    assert rollout.group.unique().tolist() == [0, 1]
    assert responses(rollout)[:6] != responses(rollout)[6:]


def test_version_is_that_of_the_last_load(sampler: Sampler) -> None:
    sampler.load(None, 41)
    assert sampler.sample(PROMPTS[:1], PLAN, KEY).version == 41


@pytest.fixture(params=FAMILIES)
def model(request: pytest.FixtureRequest) -> Any:
    return FAMILIES[request.param]()


def learner(model: Any, **changes: Any) -> TorchLearner:
    rollout = RolloutSpec(prompts_per_step=5, samples_per_prompt=3, max_response=12, **changes)
    parts = dict(optim=OptimSpec(lr=1e-3), rollout=rollout, machine=MachineSpec(micro_tokens=50))
    return TorchLearner(loaded(model), key=Key(0, "critic"), needs_reference=True, **parts)  # type: ignore[arg-type]


def greedy_by_generate(model: Any, ids: tuple[int, ...], limit: int) -> list[int]:
    tokens = torch.tensor([ids])
    out = model.generate(
        tokens, attention_mask=torch.ones_like(tokens), do_sample=False, max_new_tokens=limit,
        eos_token_id=[EOS, TURN], pad_token_id=PAD,
    )  # fmt: skip
    return out[0, len(ids) :].tolist()


def test_greedy_is_what_transformers_generates(model: Any) -> None:
    asked = prompts([4, 11, 1, 30, 6], seed=5)
    rollout = LocalSampler(loaded(model)).sample(asked, SamplingPlan(samples=1, max_tokens=25, temperature=0), KEY)
    assert responses(rollout) == [greedy_by_generate(model, p.ids, 25) for p in asked]


def test_a_greedy_probe_is_what_evaluation_would_say(model: Any) -> None:
    """The baseline of ReMax: under another key, in other company, and cut into other pieces."""
    probe = LocalSampler(loaded(model), decode_rows=2).sample(
        PROMPTS, SamplingPlan(samples=1, max_tokens=12, temperature=0), Key(7, "greedy", step=2)
    )
    problems = [Problem(id=p.problem_id, question="", gold="1") for p in PROMPTS]
    spec = EvalSpec(max_response=12, temperature=0, samples=1)
    sampler = LocalSampler(loaded(model))
    rows = evaluate(sampler, problems[::-1], PROMPTS[::-1], spec, Answer(), 5, rows_at_once=3)
    assert probe.text == [row.response for row in rows[::-1]]
    assert probe.response_length.tolist() == [row.tokens for row in rows[::-1]]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_recorded_log_probs_are_the_learners(model: Any, temperature: float) -> None:
    """The first ratio of a step is 1 (b27), with ragged prompts, whatever the micro-batches and the temperature."""
    plan = SamplingPlan(samples=3, max_tokens=12, temperature=temperature)
    rollout = LocalSampler(loaded(model), decode_rows=4).sample(PROMPTS, plan, KEY)
    found = learner(model, temperature=temperature).logp(rollout)
    assert torch.expm1(found - rollout.sampled_logp).abs().max() < 1e-4


def test_greedy_records_log_probs_at_temperature_one(model: Any) -> None:
    rollout = LocalSampler(loaded(model)).sample(PROMPTS, SamplingPlan(samples=1, max_tokens=9, temperature=0), KEY)
    assert (learner(model).logp(rollout) - rollout.sampled_logp).abs().max() < 1e-4


def test_reference_and_policy_agree_to_the_bit_at_first(model: Any) -> None:
    """KL to the reference is exactly 0 before the first update; two passes over one input are equal (b28)."""
    rollout = LocalSampler(loaded(model)).sample(PROMPTS, PLAN, KEY)
    one = learner(model)
    assert torch.equal(one.logp(rollout), one.logp(rollout, of="reference"))


def test_layout_changes_at_most_near_ties(model: Any, record_property: Callable[[str, object], None]) -> None:
    """Three rows at once or all: hardly a draw changes (embedded model, 37 against 512 rows: 0 of 60,197 tokens)."""
    asked = prompts([2 + i % 13 for i in range(24)], seed=9)
    plan = SamplingPlan(samples=4, max_tokens=12)
    few = LocalSampler(loaded(model), decode_rows=3).sample(asked, plan, KEY)
    many = LocalSampler(loaded(model), decode_rows=512).sample(asked, plan, KEY)
    changed = sum(a != b for a, b in zip(responses(few), responses(many), strict=True))
    record_property("rows_changed", changed)
    assert changed <= 1
    if not changed:
        assert (few.sampled_logp - many.sampled_logp).abs().max() < 1e-4


@pytest.mark.parametrize("name", ["llama", "qwen"])
def test_the_fast_decoder_computes_what_the_general_one_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = FAMILIES[name]()
    assert trunk.known(model.base_model)
    fast = LocalSampler(loaded(model)).sample(PROMPTS, PLAN, KEY)
    monkeypatch.setattr("paribus.engines.local.make_decoder", Decoder)
    general = LocalSampler(loaded(model)).sample(PROMPTS, PLAN, KEY)
    assert torch.equal(fast.tokens, general.tokens)
    assert (fast.sampled_logp - general.sampled_logp).abs().max() < 1e-5


@pytest.mark.parametrize(
    ("rope", "fast"),
    [
        ({"rope_type": "linear", "factor": 2.0}, True),
        ({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}, True),
        ({"rope_type": "dynamic", "factor": 2.0}, False),
    ],
)  # fmt: skip
def test_scaled_rotary_positions(rope: dict[str, Any], fast: bool) -> None:
    model = llama(rope_parameters=rope | {"rope_theta": 10000.0})
    assert trunk.known(model.base_model) is fast
    asked = prompts([5, 9], seed=3)
    rollout = LocalSampler(loaded(model)).sample(asked, SamplingPlan(samples=1, max_tokens=20, temperature=0), KEY)
    assert responses(rollout) == [greedy_by_generate(model, p.ids, 20) for p in asked]


def test_sampled_frequencies_follow_the_model() -> None:
    """First tokens of many samples are distributed as the softmax says, at temperature 0.7."""
    model, n = llama(), 4000
    rollout = LocalSampler(loaded(model)).sample(
        PROMPTS[:1], SamplingPlan(samples=n, max_tokens=1, temperature=0.7), KEY
    )
    counts = torch.tensor(responses(rollout)).flatten().bincount(minlength=61) / n
    with torch.no_grad():
        expected = (model(torch.tensor([PROMPTS[0].ids])).logits[0, -1] / 0.7).softmax(-1)
    assert ((counts - expected).abs() < 4.5 * (expected / n).sqrt() + 2 / n).all()


def test_log_probs_come_from_the_full_softmax() -> None:
    """b30 and b31: temperature acts before the softmax, and top-p does not renormalise what is recorded."""
    logits = torch.tensor([[2.0, 1.0, 0.0]])
    key = torch.tensor([Key(0, "sample").hash()])
    token, logp, _ = choose(logits, key, torch.zeros_like(key), SamplingPlan(samples=1, max_tokens=1, temperature=0.5))
    assert torch.allclose(logp, (logits / 0.5).log_softmax(-1)[:, token[0]])
    probabilities = torch.tensor([[0.5, 0.3, 0.15, 0.05]])
    token, logp, _ = choose(
        probabilities.log(), key, torch.zeros_like(key), SamplingPlan(samples=1, max_tokens=1, top_p=0.4)
    )
    assert token.tolist() == [0]
    assert float(logp) == pytest.approx(-0.693147, abs=1e-6)


def test_text_leaves_out_the_final_stop_token_only() -> None:
    """Text is the exact decoding of the ids, other special tokens kept (c06, c07)."""
    rollout = LocalSampler(loaded(llama(), stop_ids=(EOS,))).sample(
        prompts([3] * 40), SamplingPlan(samples=4, max_tokens=20), KEY
    )
    names = {0: "<pad>", 1: "<bos>", 2: "<eos>", 3: "<turn>"} | {i + 4: c for i, c in enumerate(LETTERS)}
    special = 0
    for ids, text, stop in zip(responses(rollout), rollout.text, rollout.stop, strict=True):
        body = ids[:-1] if stop is Stop.EOS else ids
        assert text == "".join(names.get(i, "") for i in body)
        special += bool({BOS, TURN, PAD} & set(body))
    assert special


def test_new_weights_reach_the_sampler() -> None:
    sampler, other = LocalSampler(loaded(llama(0))), llama(1)
    sampler.load(dict(other.named_parameters()), 1)
    assert same(
        sampler.sample(PROMPTS, PLAN, KEY),
        (lambda s: (s.load(None, 1), s.sample(PROMPTS, PLAN, KEY))[1])(LocalSampler(loaded(other))),
    )


def test_updates_of_a_shared_module_reach_the_fast_decoder() -> None:
    """The stacked weights are made anew for every call: no stale copy survives an update (b48)."""
    model = llama()
    sampler = LocalSampler(loaded(model))
    sampler.sample(PROMPTS, PLAN, KEY)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.1)
    rollout = sampler.sample(PROMPTS, PLAN, KEY)
    assert (learner(model).logp(rollout) - rollout.sampled_logp).abs().max() < 1e-4


def test_too_long_for_the_context_is_an_error() -> None:
    with pytest.raises(ConfigError, match="context of 128 tokens"):
        LocalSampler(loaded(gpt2())).sample(prompts([100]), SamplingPlan(samples=1, max_tokens=29), KEY)
