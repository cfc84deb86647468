"""A small Llama with random weights and a byte tokenizer: what speed is measured on without any download."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from paribus.models.hf import save_model
from paribus.models.tiny import TinySpec

VOCABULARY = 512


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """One token per byte, three special tokens, and unused ones up to the vocabulary."""
    vocab = {
        token: i for i, token in enumerate(["<pad>", "<bos>", "<eos>", *sorted(pre_tokenizers.ByteLevel.alphabet())])
    }
    vocab |= {f"<unused{i}>": i for i in range(len(vocab), VOCABULARY)}
    core = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>")


def write(folder: Path, seed: int = 0) -> Path:
    """Write the model where it is not there yet: 918,656 parameters, the shape of the embedded one. Return `folder`."""
    if (folder / "config.json").is_file():
        return folder
    spec, tokenizer = TinySpec(), byte_tokenizer()
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=spec.hidden,
        intermediate_size=spec.mlp,
        num_hidden_layers=spec.layers,
        num_attention_heads=spec.heads,
        num_key_value_heads=spec.heads,
        max_position_embeddings=spec.context,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        save_model(LlamaForCausalLM(config), tokenizer, folder)
    return folder
