"""Reward models: a score is a function of its row alone, here and through plain transformers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from paribus.errors import ModelError
from paribus.models.hf import save_model
from paribus.models.packing import pack
from paribus.models.reward import PAD, RewardScorer, encode_answer, load_reward_model, make_reward_model
from paribus.settings import ModelSpec
from toymodels import BOS, EOS, FAMILIES, gpt2, llama, tokenizer
from toyrewards import TEMPLATE, oracle, reward_model

ROWS = [[5, 6, 7, 8, EOS], [9, 10, 11, 12, 13, 14, 15, 16, EOS], [20, EOS]]
QUESTION = [{"role": "user", "content": "3+4?"}]


@pytest.mark.parametrize("family", FAMILIES)
def test_plain_transformers_gives_the_same_scores(tmp_path: Path, family: str) -> None:
    model = reward_model(tmp_path / "lm", family)
    model.save(tmp_path / "rm")
    expected = [oracle(model, row) for row in ROWS]
    again = load_reward_model(str(tmp_path / "rm"))
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path / "rm")
    batch = AutoTokenizer.from_pretrained(tmp_path / "rm").pad(
        {"input_ids": ROWS}, padding=True, padding_side="right", return_tensors="pt"
    )
    with torch.no_grad():
        assert plain(**batch).logits[:, 0].tolist() == pytest.approx(expected, abs=1e-5)
    for micro_tokens in (1, 12, 1000):
        assert again.score(ROWS, micro_tokens=micro_tokens) == pytest.approx(expected, abs=1e-5)
    assert not (tmp_path / "rm" / "pytorch_model.bin").exists()


@pytest.mark.parametrize("family", FAMILIES)
def test_an_end_token_that_is_also_the_padding_is_no_trap(tmp_path: Path, family: str) -> None:
    """Such a model gets a padding token of its own: otherwise transformers would read the token before the end."""
    shared = tokenizer(template=TEMPLATE)
    shared.pad_token = shared.eos_token
    save_model(FAMILIES[family](), shared, tmp_path / "lm")
    model = make_reward_model(ModelSpec(path=str(tmp_path / "lm")))
    torch.manual_seed(1)
    torch.nn.init.normal_(model.head.weight)
    assert model.tokenizer.pad_token == PAD and model.model.config.pad_token_id not in (None, EOS)
    model.save(tmp_path / "rm")
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path / "rm")
    padded = AutoTokenizer.from_pretrained(tmp_path / "rm").pad(
        {"input_ids": ROWS}, padding=True, padding_side="right", return_tensors="pt"
    )
    with torch.no_grad():
        found = plain(**padded).logits[:, 0].tolist()
    assert found == pytest.approx([oracle(model, row) for row in ROWS], abs=1e-5)
    assert load_reward_model(str(tmp_path / "rm")).score(ROWS, micro_tokens=99) == pytest.approx(found, abs=1e-5)


def test_a_new_model_scores_everything_with_0_and_has_the_trunk_of_its_base(tmp_path: Path) -> None:
    save_model(llama(), tokenizer(), tmp_path)
    model = make_reward_model(ModelSpec(path=str(tmp_path)))
    assert model.score(ROWS, micro_tokens=99) == [0, 0, 0]
    for name, value in llama().base_model.named_parameters():
        assert torch.equal(model.model.base_model.get_parameter(name), value)


def test_the_head_reads_bfloat16_states_in_float32(tmp_path: Path) -> None:
    """Scores near 256 would be 2 apart in bfloat16."""
    save_model(llama(), tokenizer(), tmp_path)
    model = make_reward_model(ModelSpec(path=str(tmp_path), dtype="bfloat16"))
    torch.nn.init.constant_(model.head.weight, 3.0001)
    scores = model.scores(ROWS)
    assert scores.dtype == torch.float32
    assert not torch.equal(scores, scores.bfloat16().float())


@given(shapes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 20)), max_size=12), budget=st.integers(1, 200))
def test_packing_takes_every_item_once_and_keeps_the_budget(shapes: list[tuple[int, int]], budget: int) -> None:
    pieces = list(pack(shapes, budget))
    assert sorted(i for piece in pieces for i in piece) == list(range(len(shapes)))
    for piece in pieces:
        padded = sum(shapes[i][0] for i in piece) * max(shapes[i][1] for i in piece)
        assert padded <= budget or len(piece) == 1


def test_a_scored_text_is_closed_as_a_turn_of_the_conversation() -> None:
    with_template, without = tokenizer(template=TEMPLATE), tokenizer()
    assert with_template.decode(encode_answer(with_template, QUESTION, "7")) == "<turn>u3+4?<eos><turn>a7<eos>"
    assert without.decode(encode_answer(without, QUESTION, "7")) == "3+4?7<eos>"
    for each in (with_template, without):
        assert encode_answer(each, QUESTION, "7<eos>") == encode_answer(each, QUESTION, "7")


def test_the_scorer_scores_texts_in_their_order(tmp_path: Path) -> None:
    model = reward_model(tmp_path)
    texts = ["7", "it is seven, or so it seems", ""]
    scorer = RewardScorer(model, micro_tokens=40)
    expected = [oracle(model, encode_answer(model.tokenizer, QUESTION, text)) for text in texts]
    assert scorer([(QUESTION, text) for text in texts]) == pytest.approx(expected, abs=1e-5)
    assert scorer([]) == []


def test_faults_name_the_folder(tmp_path: Path) -> None:
    save_model(gpt2(), tokenizer(), tmp_path / "lm")
    with pytest.raises(ModelError, match=r"lm: has no scalar head.*paribus reward-model"):
        load_reward_model(str(tmp_path / "lm"))
    with pytest.raises(ModelError, match="no such model folder"):
        load_reward_model(str(tmp_path / "absent"))
    model = reward_model(tmp_path / "toy")
    with pytest.raises(ModelError, match=r"toy: a row of 129 tokens exceeds .* context of 128"):
        model.score([[BOS] * 129], micro_tokens=1000)
    model.save(tmp_path / "rm")
    config = tmp_path / "rm" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"id2label": {"0": "a", "1": "b"}}))
    with pytest.raises(ModelError, match="rm: "):
        load_reward_model(str(tmp_path / "rm"))
