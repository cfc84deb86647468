"""Shapes of models: counts as published, configs read without loading anything, errors that say what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import toymodels
from paribus.errors import ModelError
from paribus.planning.shapes import KNOWN, find_shape, from_config, from_folder
from paribus.settings import ModelSpec

PUBLISHED = {
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen2.5-3b": 3_085_938_688,
    "qwen2.5-7b": 7_615_616_512,
    "qwen3-0.6b": 596_049_920,
    "qwen3-8b": 8_190_735_360,
    "llama-2-7b": 6_738_415_616,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.2-1b": 1_235_814_400,
    "smollm2-135m": 134_515_008,
    "smollm2-360m": 361_821_120,
    "smollm2-1.7b": 1_711_376_384,
}


def test_known_shapes_have_the_published_numbers_of_parameters() -> None:
    assert {name: KNOWN[name].parameters for name in PUBLISHED} == PUBLISHED


@pytest.mark.parametrize("model", [toymodels.llama(), toymodels.qwen()])
def test_a_config_tells_what_the_weights_hold(model, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    found = from_folder(tmp_path)
    assert found.shape.parameters == sum(p.numel() for p in model.parameters())
    assert found.shape.trunk == sum(p.numel() for p in model.base_model.parameters())
    assert "parameters" not in found.source  # the weights' headers agree


def test_weights_that_do_not_fit_their_config_are_mentioned(tmp_path: Path) -> None:
    toymodels.llama().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    assert "its weights hold" in from_folder(tmp_path).source


def test_the_embedded_model() -> None:
    assert find_shape(ModelSpec()).shape.parameters == 910_208


def test_a_hub_id_without_config_uses_the_published_shape_and_says_so(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    found = find_shape(ModelSpec(path="Qwen/Qwen2.5-0.5B-Instruct"))
    assert found.shape == KNOWN["qwen2.5-0.5b"] and "published shape" in found.source
    with pytest.raises(ModelError, match=r"config\.json"):
        find_shape(ModelSpec(path="someone/model-that-nobody-knows"))


def test_a_hub_id_in_the_local_cache(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "models--someone--toy"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc\n")
    toymodels.qwen().config.save_pretrained(repository / "snapshots" / "abc")
    assert find_shape(ModelSpec(path="someone/toy")).shape.qkv_bias


def test_other_architectures_are_refused_by_name() -> None:
    with pytest.raises(ModelError, match="'gpt2'"):
        from_config({"model_type": "gpt2"}, "config.json")
