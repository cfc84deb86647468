"""The embedded model: its tokenizer loses nothing, its prompts are plain, its folder is what transformers loads."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from paribus.models import chat, tiny
from paribus.tasks.stories import Stories

TASK = Stories(train=400, test=200)
TEXTS = [text for p in TASK.problems("train") for text in (p.question, p.solution)]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return tiny.build_tokenizer(TEXTS, tiny.TinySpec())


@pytest.fixture(scope="module")
def shipped() -> PreTrainedTokenizerFast:
    return AutoTokenizer.from_pretrained(tiny.path())


@settings(max_examples=300, deadline=None)
@given(text=st.text(max_size=60))
def test_any_text_comes_back(text: str, shipped: PreTrainedTokenizerFast) -> None:
    text = text.encode("utf-8", "ignore").decode()
    ids = shipped(text, add_special_tokens=False).input_ids
    assert shipped.decode(ids, clean_up_tokenization_spaces=False) == text


def test_digits_stand_apart_and_words_whole(shipped: PreTrainedTokenizerFast) -> None:
    ids = shipped("Mia has 40 apples.\n#### 123").input_ids
    assert [shipped.decode(i) for i in ids] == ["Mia", " has", " 4", "0", " apples", ".", "\n", "####", " 1", "2", "3"]


def test_no_word_of_the_task_falls_into_bytes(shipped: PreTrainedTokenizerFast) -> None:
    for problem in TASK.problems("test"):
        for text in (problem.question, problem.solution):
            pieces = [shipped.decode(i) for i in shipped(text).input_ids]
            assert all(len(p.strip()) != 1 or not p.strip().isalpha() or p.strip() in "Aa" for p in pieces), pieces


def test_a_prompt_is_the_template_and_nothing_else(shipped: PreTrainedTokenizerFast) -> None:
    ids = chat.encode(shipped, [{"role": "system", "content": "Add."}, {"role": "user", "content": "1 + 1"}])
    assert shipped.decode(ids) == "<|system|>Add.<|end|><|user|>1 + 1<|end|><|assistant|>"
    assert shipped.bos_token_id is None
    assert shipped.pad_token_id != shipped.eos_token_id == shipped.convert_tokens_to_ids(tiny.END)


def test_the_same_seed_draws_the_same_network(tokenizer: PreTrainedTokenizerFast) -> None:
    torch.manual_seed(5)
    before = torch.rand(1)
    torch.manual_seed(5)
    a, b = (tiny.build_model(tiny.TinySpec(layers=1), tokenizer, 3) for _ in range(2))
    assert torch.equal(torch.rand(1), before), "drawing a network must not disturb anybody's random numbers"
    c = tiny.build_model(tiny.TinySpec(layers=1), tokenizer, 4)
    assert torch.equal(a.lm_head.weight, b.lm_head.weight)
    assert not torch.equal(a.lm_head.weight, c.lm_head.weight)


def test_the_shipped_folder_is_a_plain_million_parameter_llama(shipped: PreTrainedTokenizerFast) -> None:
    model = AutoModelForCausalLM.from_pretrained(tiny.path())
    assert type(model).__name__ == "LlamaForCausalLM"
    assert 0.85e6 < sum(p.numel() for p in model.parameters()) < 1.05e6
    assert len(shipped) <= model.config.vocab_size <= 512
    assert model.generation_config.eos_token_id == shipped.eos_token_id
    assert sum(f.stat().st_size for f in Path(tiny.path()).iterdir()) < 5e6


def test_prompts_and_solutions_are_short(shipped: PreTrainedTokenizerFast) -> None:
    """The demo's cost depends on it: 60 tokens at most on average, and the response limit of 96 holds every answer."""
    problems = TASK.problems("test")
    prompts = [len(chat.encode(shipped, TASK.messages(p))) for p in problems]
    answers = [len(shipped(p.solution).input_ids) + 1 for p in problems]
    assert sum(prompts) / len(prompts) < 60
    assert sum(answers) / len(answers) < 60
    assert max(answers) <= 96
