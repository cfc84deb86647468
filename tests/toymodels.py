"""Random little models and a tokenizer for tests: made in memory, alike on every machine."""

from __future__ import annotations

from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from paribus.models.hf import LoadedModel
from paribus.settings import ModelSpec
from paribus.types import Prompt

VOCABULARY, PAD, BOS, EOS, TURN = 61, 0, 1, 2, 3
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789 .,?!+-*/=()<>"


def tokenizer(*, bos: bool = True, template: str | None = None) -> PreTrainedTokenizerFast:
    """One token per character; `bos` says whether there is a BOS at all."""
    vocab = {token: i for i, token in enumerate(["<pad>", "<bos>", "<eos>", "<turn>", *LETTERS])}
    inner = Tokenizer(models.WordLevel(vocab=vocab, unk_token="<pad>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    inner.decoder = decoders.Fuse()
    special: dict[str, Any] = {"pad_token": "<pad>", "eos_token": "<eos>"} | ({"bos_token": "<bos>"} if bos else {})
    made = PreTrainedTokenizerFast(tokenizer_object=inner, additional_special_tokens=["<turn>"], **special)
    made.chat_template = template
    return made


def llama(seed: int = 0, **changes: Any) -> LlamaForCausalLM:
    """Two layers, grouped heads, tied embeddings; weights large enough for decided opinions."""
    torch.manual_seed(seed)
    base = dict(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=True, initializer_range=0.3,
        pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS,
    )  # fmt: skip
    return LlamaForCausalLM(LlamaConfig(**(base | changes))).eval()


def qwen(seed: int = 0) -> Qwen2ForCausalLM:
    """Biases on queries, keys and values, and an untied head."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=False, initializer_range=0.3,
        pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS,
    )  # fmt: skip
    model = Qwen2ForCausalLM(config).eval()
    for layer in model.model.layers:
        for part in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj):
            torch.nn.init.normal_(part.bias, std=0.3)
    return model


def gpt2(seed: int = 0) -> GPT2LMHeadModel:
    """Learned absolute positions, which no wrong position id survives."""
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=128, initializer_range=0.3,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=BOS, eos_token_id=EOS, pad_token_id=PAD,
    )  # fmt: skip
    return GPT2LMHeadModel(config).eval()


FAMILIES = {"llama": llama, "qwen": qwen, "gpt2": gpt2}


def loaded(model: Any, *, stop_ids: tuple[int, ...] = (EOS, TURN)) -> LoadedModel:
    return LoadedModel(model, tokenizer(), ModelSpec(), "in memory", stop_ids, PAD)


def prompts(lengths: list[int], seed: int = 0) -> list[Prompt]:
    """Prompts of random letters, with these lengths in tokens."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for i, n in enumerate(lengths):
        ids = torch.randint(4, 4 + len(LETTERS), (n,), generator=generator).tolist()
        made.append(Prompt(problem_id=f"p{i}", ids=tuple(ids), text=""))
    return made
