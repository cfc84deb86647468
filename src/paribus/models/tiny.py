"""The embedded default: a small Llama of about a million parameters, its tokenizer, and the weights that ship."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import torch
from pydantic import Field
from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from paribus.errors import ModelError
from paribus.part import Part

PAD, END = "<|pad|>", "<|end|>"
SPECIAL = (PAD, END, "<|system|>", "<|user|>", "<|assistant|>")
WORD = r"\r?\n| ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+|\s"  # a word, one digit or a run of signs, with the space before it
DIGITS = tuple(space + digit for space in ("", " ") for digit in "0123456789")
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


class TinySpec(Part):
    """The shape of the network (Llama: RMSNorm, rotary positions, gated MLP, tied embeddings, no biases)."""

    hidden: int = Field(default=128, ge=8)
    layers: int = Field(default=4, ge=1)
    heads: int = Field(default=4, ge=1)
    mlp: int = Field(default=384, ge=8)
    context: int = Field(default=512, ge=16)  # tokens
    vocabulary: int = Field(default=512, ge=300)  # at most; special tokens and bytes take 261
    init_std: float = Field(default=0.02, gt=0)


def path() -> Path:
    """Return the folder with the shipped model (plain Hugging Face format, fp32 safetensors, `recipe.json`)."""
    return Path(__file__).parent / "assets" / "tiny"


def build_tokenizer(texts: Iterable[str], spec: TinySpec) -> PreTrainedTokenizerFast:
    """A word-level tokenizer for these texts that still round-trips any text.

    The most frequent words (with the space before them) are one token each, every digit is one token, and what is
    not among them falls back to bytes. Special tokens: pad, end (closes every turn: the EOS), one to open each role.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    split = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(WORD), "isolated"), to_bytes])
    counts = Counter(word for text in texts for word, _ in split.pre_tokenize_str(text))
    digits = [to_bytes.pre_tokenize_str(digit)[0][0] for digit in DIGITS]
    known = [*SPECIAL, *alphabet, *(d for d in digits if d not in alphabet)]
    room = spec.vocabulary - len(known)
    frequent = sorted(counts, key=lambda word: (-counts[word], word))
    known += sorted([word for word in frequent if word not in known][:room])
    # no merges at all: a word of the vocabulary is taken whole (`ignore_merges`), any other one falls into bytes
    core = Tokenizer(BPE(vocab={word: i for i, word in enumerate(known)}, merges=[], ignore_merges=True))
    core.pre_tokenizer = split
    core.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=list(SPECIAL[2:]),
        chat_template=TEMPLATE,
        padding_side="right",
        model_max_length=spec.context,
        clean_up_tokenization_spaces=False,
    )


def build_model(spec: TinySpec, tokenizer: PreTrainedTokenizerFast, seed: int) -> LlamaForCausalLM:
    """A freshly initialised network in eval mode; the same seed gives the same weights."""
    if spec.hidden % spec.heads:
        raise ModelError(f"tiny model: hidden = {spec.hidden} is not a multiple of heads = {spec.heads}")
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=spec.hidden,
        intermediate_size=spec.mlp,
        num_hidden_layers=spec.layers,
        num_attention_heads=spec.heads,
        num_key_value_heads=spec.heads,
        max_position_embeddings=spec.context,
        initializer_range=spec.init_std,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).eval()
