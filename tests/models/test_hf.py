"""Loading and saving: what is accepted, what is refused and how, and that a saved folder is a plain one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, Gemma2Config, Gemma2ForCausalLM

from paribus.errors import ModelError
from paribus.models import gguf
from paribus.models.hf import check_head, load_model, save_model
from paribus.settings import ModelSpec
from toymodels import BOS, EOS, TURN, gpt2, llama, tokenizer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_model(llama(), tokenizer(), tmp_path / "model")
    return tmp_path / "model"


def load(path: Path | str) -> object:
    return load_model(ModelSpec(path=str(path)))


def edit(file: Path, **changes: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_a_folder_loads_and_saves_as_a_plain_one(folder: Path, tmp_path: Path) -> None:
    """Saved again and loaded by transformers alone: the same bits, no pickle."""
    loaded = load_model(ModelSpec(path=str(folder)))
    assert not loaded.model.training and all(p.requires_grad for p in loaded.model.parameters())
    save_model(loaded.model, loaded.tokenizer, tmp_path / "again")
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "again")
    tokens = torch.tensor([[5, 6, 7]])
    assert torch.equal(plain(tokens).logits, llama()(tokens).logits)
    assert AutoTokenizer.from_pretrained(tmp_path / "again")("ab c").input_ids == tokenizer()("ab c").input_ids
    assert not [f for f in (tmp_path / "again").iterdir() if f.suffix in (".bin", ".pt", ".pkl")]


def test_every_declared_stop_token_counts(folder: Path) -> None:
    assert load_model(ModelSpec(path=str(folder))).stop_ids == (EOS,)
    edit(folder / "generation_config.json", eos_token_id=[TURN, BOS])
    assert load_model(ModelSpec(path=str(folder))).stop_ids == (BOS, EOS, TURN)


def test_dropout_is_off_whatever_the_config_says(tmp_path: Path) -> None:
    """b28: two passes give the same log-probs, to the bit, in training mode too."""
    save_model(gpt2(), tokenizer(), tmp_path)
    edit(tmp_path / "config.json", resid_pdrop=0.1, embd_pdrop=0.1, attn_pdrop=0.1)
    model = load_model(ModelSpec(path=str(tmp_path))).model.train()
    tokens = torch.arange(4, 40)[None]
    assert torch.equal(model(tokens).logits, model(tokens).logits)


def test_dtype_is_as_declared(folder: Path) -> None:
    model = load_model(ModelSpec(path=str(folder), dtype="bfloat16")).model
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}


def test_a_folder_without_tokenizer_is_refused(folder: Path) -> None:
    for file in folder.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(ModelError, match=r"no tokenizer .*copy the tokenizer files"):
        load(folder)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no config\.json"):
        load(tmp_path)
    with pytest.raises(ModelError, match="no such model folder"):
        load(tmp_path / "absent")
    with pytest.raises(ModelError, match="no such file"):
        load(tmp_path / "absent.gguf")


def test_a_hub_id_without_network_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match=r"nobody/nothing: not a local folder.*\n.*hf download nobody/nothing"):
        load("nobody/nothing")


def test_pickled_weights_are_not_read(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="never pickle"):
        load(folder)


def test_code_of_the_folder_is_not_run(folder: Path) -> None:
    (folder / "evil.py").write_text("raise SystemExit('ran')\n")
    edit(folder / "config.json", model_type="evil", auto_map={"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M"})
    with pytest.raises(ModelError):
        load(folder)


def test_damaged_weights_are_refused(folder: Path) -> None:
    """A missing tensor is not filled with noise, a truncated file is not read, NaN is not trained."""
    file = folder / "model.safetensors"
    whole = file.read_bytes()
    tensors = {name: tensor.clone() for name, tensor in load_file(file).items()}  # load_file maps the file
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError, match="cannot load the model"):
        load(folder)
    save_file({n: t for n, t in tensors.items() if n != "model.norm.weight"}, file, {"format": "pt"})
    with pytest.raises(ModelError, match=r"missing.*model.norm.weight"):
        load(folder)
    save_file(tensors | {"model.norm.weight": torch.full((32,), torch.nan)}, file, {"format": "pt"})
    with pytest.raises(ModelError, match="not finite"):
        load(folder)


def test_a_tokenizer_of_another_model_is_refused(folder: Path) -> None:
    made = tokenizer()
    made.add_tokens([f"word{i}" for i in range(20)])
    made.save_pretrained(folder)
    with pytest.raises(ModelError, match="do not belong together"):
        load(folder)


def test_a_model_that_caps_its_logits_is_refused() -> None:
    config = Gemma2Config(
        vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, final_logit_softcapping=0.5, initializer_range=0.5,
    )  # fmt: skip
    with pytest.raises(ModelError, match="Gemma2ForCausalLM changes its logits"):
        check_head(Gemma2ForCausalLM(config).eval(), "here")
    check_head(llama(), "here")
    check_head(gpt2(), "here")


def test_a_broken_gguf_file_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ModelError, match=r"x.gguf: cannot convert"):
        gguf.convert(tmp_path / "x.gguf", tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_the_single_digit_split_goes_in_front(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    file.write_text(json.dumps({"pre_tokenizer": byte_level}))
    for _ in range(2):  # doing it again changes nothing
        gguf.split_digits(file)
        found = json.loads(file.read_text())["pre_tokenizer"]
        assert found["type"] == "Sequence"
        assert found["pretokenizers"] == [{"type": "Digits", "individual_digits": True}, byte_level]
