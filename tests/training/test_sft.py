"""Supervised fine-tuning: which tokens are trained, the exact mean over an update, and resuming bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from paribus.errors import ConfigError
from paribus.models import tiny
from paribus.part import load, read_toml, replace
from paribus.store.files import read_json
from paribus.training import sft

RECIPES = Path(__file__).resolve().parents[2] / "experiments"
SMALL = """
name = "small"
steps = 6
rows = 6
save_every = 2
[model]
hidden = 32
layers = 2
heads = 2
mlp = 48
context = 160
init_std = 0.1
[task]
train = 40
test = 12
[mistakes]
skip = 0.2
[optim]
lr = 3e-3
warmup_steps = 2
schedule = "cosine"
[measure]
samples = 2
max_response = 24
[machine]
device = "cpu"
threads = 1
"""


def silent(text: str) -> None:
    pass


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def spec(recipe: Path) -> sft.SftSpec:
    return load(sft.SftSpec, read_toml(recipe))


def test_the_first_answer_token_is_trained_too() -> None:
    """Case c21: a prompt of 3 tokens and 6 in all leave targets 3, 4, 5, predicted from positions 2, 3, 4."""
    tokens, mask = sft.collate([sft.Example((7, 8, 9, 4, 5, 1), 3), sft.Example((7, 4, 1), 1)], pad_id=0)
    assert mask[0].nonzero().flatten().tolist() == [3, 4, 5]
    assert (mask[0].nonzero().flatten() - 1).tolist() == [2, 3, 4]
    assert tokens[1].tolist() == [7, 4, 1, 0, 0, 0]
    assert mask[1].tolist() == [False, True, True, False, False, False]


@pytest.mark.parametrize("answer", ["#### 7", "#### 7<|end|>"])
def test_exactly_one_end_marker(answer: str) -> None:
    """Case c22: the marker is added when the text does not bring it, and never a second time."""
    tokenizer = tiny.build_tokenizer(["#### 7", "What is 3 + 4?"], tiny.TinySpec())
    example = sft.make_example(tokenizer, [{"role": "user", "content": "What is 3 + 4?"}], answer)
    text = tokenizer.decode(example.ids)
    assert text == "<|user|>What is 3 + 4?<|end|><|assistant|>#### 7<|end|>"
    assert tokenizer.decode(example.ids[example.start :]) == "#### 7<|end|>"


def test_every_epoch_asks_every_problem_once() -> None:
    rows = [row for step in range(10) for row in sft.rows_of_step(8, 4, 0, step)]
    for epoch in range(5):
        assert sorted(i for e, i in rows if e == epoch) == list(range(8))
    assert [i for e, i in rows if e == 0] != [i for e, i in rows if e == 1]
    assert rows[4:8] == sft.rows_of_step(8, 4, 0, 1)


def gradients(spec: sft.SftSpec) -> tuple[float, dict[str, torch.Tensor]]:
    """The loss and the change of each parameter by one step of plain gradient size."""
    trainer = sft.Trainer(spec)
    trainer.model.double()
    trainer.optimizer = sft.Optimizer([(trainer.model.named_parameters(), spec.optim.lr)], spec.optim)
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    loss = trainer.step(3).loss
    return loss, {name: p.detach() - before[name] for name, p in trainer.model.named_parameters()}


def test_any_split_into_micro_batches_gives_the_same_update(spec: sft.SftSpec) -> None:
    """The mean is over the response tokens of the whole update, so rows of unequal length keep their weight."""
    # a large eps makes AdamW's first step proportional to the gradient
    spec = replace(spec, **{"optim.eps": 1e3})
    loss, whole = gradients(replace(spec, **{"machine.micro_tokens": 100_000}))
    for budget in (1, 130, 300):
        again, parts = gradients(replace(spec, **{"machine.micro_tokens": budget}))
        assert again == pytest.approx(loss, rel=1e-6)
        for name, change in whole.items():
            scale = float(change.abs().max())
            assert torch.allclose(parts[name], change, rtol=0, atol=1e-6 * scale), name


def test_the_loss_is_the_mean_over_response_tokens(spec: sft.SftSpec) -> None:
    """An oracle that goes row by row through the whole model, without padding or masks."""
    trainer = sft.Trainer(spec)
    losses: list[torch.Tensor] = []
    for example in trainer.examples(0):
        ids = torch.tensor(example.ids)
        logp = trainer.model(ids[None]).logits[0].log_softmax(-1)
        losses += [-logp[t - 1, ids[t]] for t in range(example.start, len(ids))]
    expected = torch.stack(losses).mean().item()
    assert trainer.step(0).loss == pytest.approx(expected, rel=1e-5)


class Stopped(Exception):
    """Stands for Ctrl-C."""


def test_a_stopped_run_goes_on_bit_for_bit(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sft.run(recipe, tmp_path / "whole", progress=silent)
    step = sft.Trainer.step

    def stop_at_three(self: sft.Trainer, number: int) -> Any:
        if number == 3:
            raise Stopped
        return step(self, number)

    with monkeypatch.context() as patch:
        patch.setattr(sft.Trainer, "step", stop_at_three)
        with pytest.raises(Stopped):
            sft.run(recipe, tmp_path / "parts", progress=silent)
    lines: list[str] = []
    parts = sft.run(recipe, tmp_path / "parts", progress=lines.append)
    assert "resuming after step 2" in lines[0]
    assert (parts / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert read_json(parts / "recipe.json")["measured"] == read_json(whole / "recipe.json")["measured"]


def test_the_result_is_a_plain_folder_with_its_recipe(recipe: Path, tmp_path: Path) -> None:
    out = sft.run(recipe, tmp_path / "out", progress=silent)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(out), AutoTokenizer.from_pretrained(out)
    ids = torch.tensor([tokenizer("Mia has 4").input_ids])
    assert tokenizer.decode(model.generate(ids, max_new_tokens=2, do_sample=False)[0]).startswith("Mia has 4")
    record = json.loads((out / "recipe.json").read_text())
    assert load(sft.SftSpec, record["recipe"]) == load(sft.SftSpec, read_toml(recipe))
    assert record["measured"]["problems"] == 12
    assert 0 <= record["measured"]["sampled"] <= record["measured"]["pass@2"] <= 1
    assert not (out / "checkpoints").exists()
    lines: list[str] = []
    sft.run(recipe, out, progress=lines.append)
    assert len(lines) == 1 and "already" in lines[0]


def test_other_work_is_never_overwritten(recipe: Path, tmp_path: Path) -> None:
    thesis = tmp_path / "out" / "thesis.txt"
    thesis.parent.mkdir()
    thesis.write_text("years of work")
    with pytest.raises(ConfigError, match="something else"):
        sft.run(recipe, tmp_path / "out", progress=silent)
    assert thesis.read_text() == "years of work"


def test_keys_that_mean_nothing_here_are_refused(recipe: Path) -> None:
    recipe.write_text(SMALL.replace("lr = 3e-3", "lr = 3e-3\nepochs = 2"))
    with pytest.raises(ConfigError, match="epochs"):
        sft.run(recipe, recipe.parent / "out", progress=silent)
    recipe.write_text(SMALL.replace("skip =", "skp ="))
    with pytest.raises(ConfigError, match=r"unknown key 'mistakes\.skp'; did you mean 'skip'"):
        sft.run(recipe, recipe.parent / "out", progress=silent)


def test_the_shipped_model_was_made_by_the_shipped_recipe() -> None:
    record = read_json(tiny.path() / "recipe.json")
    assert load(sft.SftSpec, record["recipe"]) == load(sft.SftSpec, read_toml(RECIPES / "base-tiny.toml"))
    assert record["measured"]["problems"] >= 1000
    assert 0.35 <= record["measured"]["greedy"] <= 0.55
    assert record["measured"]["pass@8"] >= 0.85
