"""A small Llama with random weights and a byte tokenizer: what speed is measured on without any download."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from paribus.models.hf import save_model
from paribus.models.tiny import TinySpec, build_model

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
    tokenizer = byte_tokenizer()
    save_model(build_model(TinySpec(), tokenizer, seed), tokenizer, folder)
    return folder
