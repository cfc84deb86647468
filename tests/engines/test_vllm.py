"""What is asked of vLLM and what becomes of its answers, with a stand-in for the library."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from paribus.engines.protocols import SamplingPlan
from paribus.engines.rollouts import row_keys
from paribus.engines.vllm import VllmSampler
from paribus.errors import ConfigError
from paribus.experiment import Experiment, load_experiment
from paribus.settings import VllmEngine
from paribus.types import Key, Stop
from toymodels import EOS, PAD, TURN, llama, loaded, prompts

KEY = Key(7, "sample", step=2)
QUICKSTART = Path(__file__).parents[2] / "experiments" / "quickstart.toml"


class Library(ModuleType):
    """Answers request i with its token ids below, and remembers every call in order."""

    ANSWERS = ([5, 6, EOS], [7, TURN], [8, 9, 10])

    def __init__(self) -> None:
        super().__init__("vllm")
        self.calls: list[Any] = []
        self.weights: list[dict[str, torch.Tensor]] = []
        self.SamplingParams = SimpleNamespace

    def LLM(self, **arguments: Any) -> Any:
        self.calls.append(("start", arguments))
        return self

    def generate(self, asked: list[Any], params: list[Any], use_tqdm: bool) -> list[Any]:
        self.calls.append("generate")
        self.asked, self.params = asked, params
        return [SimpleNamespace(outputs=[self._answer(i, p)]) for i, p in enumerate(params)]

    def _answer(self, i: int, params: Any) -> Any:
        ids = self.ANSWERS[i % len(self.ANSWERS)]
        told = lambda rank, logp: SimpleNamespace(rank=rank, logprob=logp)  # noqa: E731
        # the sampled token is the third likeliest: it comes beside the K likeliest
        steps = [{t: told(3, -2.0 - t), 41: told(2, -1.5), 40: told(1, -0.5)} for t in ids]
        return SimpleNamespace(token_ids=ids, logprobs=steps)

    def collective_rpc(self, method: str, kwargs: dict[str, Any]) -> None:
        self.calls.append(method)
        self.weights.append({name: value.clone() for name, value in kwargs["weights_iterator"]})

    def apply_model(self, work: Any) -> None:
        self.calls.append("head")

    def reset_prefix_cache(self) -> None:
        self.calls.append("reset")

    def wake_up(self, tags: list[str]) -> None:
        self.calls.append(("wake", *tags))

    def sleep(self, level: int) -> None:
        self.calls.append(("sleep", level))


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setitem(sys.modules, "vllm", made)
    return made


def make(model: Any = None) -> VllmSampler:
    return VllmSampler(loaded(model or llama()), VllmEngine(memory=0.3), length=64)


def test_every_row_is_a_request_with_the_seed_of_its_own_key(library: Library) -> None:
    asked = prompts([3, 9, 1])
    make().sample(asked, SamplingPlan(samples=2, max_tokens=12, temperature=0.7), KEY)
    assert [tuple(one["prompt_token_ids"]) for one in library.asked] == [asked[i].ids for i in (0, 0, 1, 1, 2, 2)]
    seeds = [one.seed for one in library.params]
    assert seeds == row_keys(asked, 2, KEY) and len(set(seeds)) == 6
    for one in library.params:
        assert (one.temperature, one.top_p, one.max_tokens, one.logprobs) == (0.7, 1.0, 12, 0)
        assert one.stop_token_ids == [EOS, TURN] and one.ignore_eos and not one.detokenize
    (_, started), *_ = library.calls
    assert started["logprobs_mode"] == "processed_logprobs" and started["max_model_len"] == 64
    assert started["seed"] == 0 and started["dtype"] == "float32" and not started["trust_remote_code"]


def test_answers_become_rows(library: Library) -> None:
    told: list[Any] = []
    asked = prompts([2])
    rollout = make().sample(asked, SamplingPlan(samples=3, max_tokens=3, topk=2), KEY, finished=told.extend)
    for row, ids in enumerate(Library.ANSWERS):
        assert rollout.tokens[row][rollout.mask[row]].tolist() == ids
        assert rollout.sampled_logp[row][rollout.mask[row]].tolist() == [-2.0 - t for t in ids]
        assert rollout.topk is not None
        assert rollout.topk.ids[row][rollout.mask[row]].tolist() == [[40, 41]] * len(ids)
        assert rollout.topk.logp[row][rollout.mask[row]].tolist() == [[-0.5, -1.5]] * len(ids)
    assert rollout.stop == [Stop.EOS, Stop.EOS, Stop.LENGTH] and rollout.entropy is None
    assert [place for place, _, _ in told] == [0, 1, 2] and [text for _, text, _ in told] == rollout.text
    assert (rollout.tokens[~rollout.mask][rollout.tokens[~rollout.mask] >= 4] >= 4).all() and PAD not in told


def test_weights_go_over_when_they_have_changed_and_only_then(library: Library) -> None:
    model = llama()
    sampler, plan = make(model), SamplingPlan(samples=1, max_tokens=4)
    sampler.sample(prompts([3]), plan, KEY)
    sampler.sample(prompts([3]), plan, KEY)
    assert library.calls[1:] == ["reload_weights", "head", "reset", "generate", "generate"]
    with torch.no_grad():
        model.model.norm.weight.fill_(3)
    sampler.load(None, 5)
    assert sampler.sample(prompts([3]), plan, KEY).version == 5
    assert library.calls[6:] == ["reload_weights", "head", "reset", "generate"]
    assert (library.weights[-1]["model.norm.weight"] == 3).all() and (
        library.weights[0]["model.norm.weight"] == 1
    ).all()
    assert library.weights[-1].keys() == dict(model.named_parameters()).keys()
    sampler.load({"model.norm.weight": torch.full((32,), 4.0)}, 6)
    sampler.sample(prompts([3]), plan, KEY)
    assert (library.weights[-1]["model.norm.weight"] == 4).all(), "weights from elsewhere"


def test_on_a_gpu_the_engine_sleeps_between_calls(library: Library) -> None:
    """Weights are there before the cache is: at no time stand a copy of old weights and the cache beside new ones."""
    sampler, plan = make(), SamplingPlan(samples=1, max_tokens=4)
    sampler._cuda = True
    sampler.sample(prompts([3]), plan, KEY)
    sampler.sample(prompts([3]), plan, KEY)
    (_, started), *calls = library.calls
    assert started["gpu_memory_utilization"] == 0.3 and started["enable_sleep_mode"]
    first = ["reload_weights", "reset", "generate", ("sleep", 2)]
    again = [("wake", "weights"), "reload_weights", "reset", ("wake", "kv_cache"), "generate", ("sleep", 2)]
    assert calls == [*first, *again]


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ConfigError, match=r"needs vLLM .*pip install 'paribus\[vllm\]'"):
        make().sample(prompts([3]), SamplingPlan(samples=1, max_tokens=4), KEY)


def test_what_it_cannot_do_is_refused(library: Library) -> None:
    with pytest.raises(ConfigError, match="mixes embeddings"):
        make().sample(prompts([3]), SamplingPlan(samples=1, max_tokens=4, mix_rate=0.5, mix_neighbours=3), KEY)
    with pytest.raises(ConfigError, match="exceed the model's context of 128"):
        make().sample(prompts([3]), SamplingPlan(samples=1, max_tokens=126), KEY)
    assert not library.calls, "before the engine starts"


def test_an_experiment_with_an_arm_that_mixes_is_refused_when_it_is_read() -> None:
    with pytest.raises(ConfigError, match=r"arm 'grpo': .*mixes embeddings.*rollout.engine.type"):
        load_experiment(QUICKSTART, ['rollout.engine.type="vllm"', 'arm.grpo.base="ngrpo"'])
    read = load_experiment(QUICKSTART, ['rollout.engine.type="vllm"'])
    assert isinstance(read, Experiment) and read.setting.rollout.engine == VllmEngine()
