"""Reward models: a trunk with a scalar head on a row's last token; any sequence-classification folder is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase

from paribus.errors import ModelError
from paribus.models import chat, hf
from paribus.models.packing import pack
from paribus.settings import ModelSpec

PAD = "<|pad|>"  # added where a tokenizer has no padding token apart from those that end a row
HEAD = "score.weight"


@dataclass(frozen=True, slots=True)
class RewardModel:
    """A sequence-classification model with one label, its tokenizer, and the folder (or hub id) it was read from.

    A row's score is a function of the row alone: the float32 head reads the hidden state of its last token, found by
    the row's length and not by what padding looks like.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    path: str

    @property
    def head(self) -> nn.Linear:
        return self.model.get_submodule("score")  # type: ignore[return-value]  # checked when the model is made

    @property
    def context(self) -> int:
        """Return the most tokens that a row may have."""
        return int(self.model.config.max_position_embeddings)

    def encode(self, messages: chat.Messages, text: str) -> list[int]:
        """Return the row of a response to a prompt; training and scoring know no other way."""
        return encode_answer(self.tokenizer, messages, text)

    def scores(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return the scores `[B]` of rows of ids in one forward pass, with gradient. Raises ModelError."""
        length = [len(row) for row in rows]
        self._check(length)
        pad = self.tokenizer.pad_token_id or 0  # any id will do: no real token sees what stands behind it
        device = self.model.device
        tokens = torch.tensor([[*row, *[pad] * (max(length) - len(row))] for row in rows], device=device)
        hidden = hf.hidden_states(self.model.base_model, tokens)
        last = torch.tensor(length, device=device) - 1
        ends = hidden[torch.arange(len(rows), device=device), last]
        return self.head(ends.to(self.head.weight.dtype)).squeeze(-1)

    @torch.no_grad()
    def score(self, rows: Sequence[Sequence[int]], *, micro_tokens: int) -> list[float]:
        """Return the scores of any number of rows, in forwards of at most `micro_tokens` padded tokens."""
        found = [0.0] * len(rows)
        for places in pack([(1, len(row)) for row in rows], micro_tokens):
            for place, value in zip(places, self.scores([rows[i] for i in places]).tolist(), strict=True):
                found[place] = value
        return found

    def save(self, folder: str | Path) -> None:
        """Write a folder that plain transformers loads with `AutoModelForSequenceClassification`."""
        hf.save_model(self.model, self.tokenizer, folder)

    def _check(self, length: Sequence[int]) -> None:
        if max(length) > self.context:
            raise ModelError(
                f"{self.path}: a row of {max(length)} tokens exceeds this reward model's context of {self.context}: "
                "lower max_prompt or max_response"
            )
        if min(length) == 0:
            raise ModelError(f"{self.path}: a row without tokens has no score")


@dataclass(frozen=True, slots=True)
class RewardScorer:
    """Scores texts: called with (messages, response) rows, it returns a number for each, in order."""

    model: RewardModel
    micro_tokens: int

    def __call__(self, rows: Sequence[tuple[chat.Messages, str]]) -> list[float]:
        encoded = [self.model.encode(messages, text) for messages, text in rows]
        return self.model.score(encoded, micro_tokens=self.micro_tokens)


def encode_answer(tokenizer: PreTrainedTokenizerBase, messages: chat.Messages, text: str) -> list[int]:
    """Return prompt and response as ids, closed as the model's chat template closes a turn.

    Without a template the prompt is `chat.encode`'s, and one end-of-sequence token closes the row. An end marker that
    the text itself brings is not doubled.
    """
    end = tokenizer.eos_token
    if end is not None:
        text = text.removesuffix(str(end))
    if tokenizer.chat_template is not None:
        conversation = [*(dict(message) for message in messages), {"role": "assistant", "content": text}]
        return list(tokenizer.apply_chat_template(conversation, return_dict=False))
    response = list(tokenizer(text, add_special_tokens=False).input_ids)
    return [*chat.encode(tokenizer, messages), *response, *([] if end is None else [tokenizer.eos_token_id])]


def load_reward_model(
    path: str, *, device: str | torch.device = "cpu", dtype: Literal["float32", "bfloat16"] = "float32"
) -> RewardModel:
    """Load a folder or hub id that holds a sequence-classification model with one label, and its tokenizer.

    Raises ModelError, also for a model whose own forward pass does not read its score at the last token.
    """
    spec = ModelSpec(path=path, dtype=dtype)
    source = hf.resolve(spec, None)
    tokenizer = hf.load_tokenizer(source, spec)
    model, absent = hf.load_weights(source, spec, AutoModelForSequenceClassification)
    if absent == [HEAD]:
        raise ModelError(
            f"{source}: has no scalar head, so it is no reward model: train one with `paribus reward-model`"
        )
    hf.refuse_absent(source, absent)
    hf.check_vocabulary(model, tokenizer, source)
    _check_score(model, source)
    return _ready(model, tokenizer, source, device)


def make_reward_model(spec: ModelSpec, *, device: str | torch.device = "cpu", cache: Path | None = None) -> RewardModel:
    """Return a reward model on the trunk of a causal language model; its head is 0, so every first score is 0.

    Its padding token is one that ends no row, so that plain transformers, which looks for the last token that is no
    padding, reads the score where we do. Raises ModelError.
    """
    source = hf.resolve(spec, cache)
    tokenizer = hf.load_tokenizer(source, spec)
    model, absent = hf.load_weights(source, spec, AutoModelForSequenceClassification, num_labels=1)
    hf.refuse_absent(source, [name for name in absent if name != HEAD])
    hf.check_vocabulary(model, tokenizer, source)
    head = _head(model, source)
    nn.init.zeros_(head.weight)
    _own_padding(model, tokenizer)
    return _ready(model, tokenizer, source, device)


def _ready(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, source: str, device: str | torch.device
) -> RewardModel:
    model.to(torch.device(device))  # type: ignore[arg-type]  # wrapped without its types
    head = _head(model, source)
    head.to(torch.promote_types(head.weight.dtype, torch.float32))
    return RewardModel(model, tokenizer, source)


def _head(model: PreTrainedModel, source: str) -> nn.Linear:
    head = dict(model.named_children()).get("score")
    if not isinstance(head, nn.Linear) or head.out_features != 1:
        raise ModelError(
            f"{source}: {type(model).__name__} has no linear head `score` with one label: "
            "give a reward model of the Llama, Qwen2 or GPT-2 kind"
        )
    return head


@torch.no_grad()
def _check_score(model: PreTrainedModel, source: str) -> None:
    """Check by a forward pass that the model's score is its head's reading of a causal trunk's last real token."""
    head, pad = _head(model, source), model.config.pad_token_id
    embedding: Any = model.get_input_embeddings()
    row = [i for i in range(min(hf.PROBE_LENGTH + 1, embedding.num_embeddings)) if i != pad][: hf.PROBE_LENGTH]
    expected = model(input_ids=torch.tensor([row])).logits[0, 0].float()
    # tokens behind the end change nothing where attention is causal
    ours = head(hf.hidden_states(model.base_model, torch.tensor([row + row]))[0, len(row) - 1])[0].float()
    if not bool(expected.isfinite()):
        raise ModelError(f"{source}: the model's score is not finite: its weights are damaged or overflow this dtype")
    if bool((ours - expected).abs() > 1e-2 * expected.abs().clamp(min=1)):
        raise ModelError(f"{source}: {type(model).__name__} does not score a row at its last token, as needed here")


def _own_padding(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    end = encode_answer(tokenizer, [{"role": "user", "content": "?"}], "!")[-1]
    if tokenizer.pad_token_id in (None, tokenizer.eos_token_id, end):
        tokenizer.add_special_tokens({"pad_token": PAD})
        embedding: Any = model.get_input_embeddings()
        if len(tokenizer) > embedding.num_embeddings:
            model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
            nn.init.zeros_(model.get_input_embeddings().weight[-1])  # type: ignore[arg-type, index]
    model.config.pad_token_id = tokenizer.pad_token_id
