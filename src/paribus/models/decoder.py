"""Decode rows token by token with a key-value cache, through any model or, for the Llama family, by hand."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel


def cache_argument(base: Any) -> str:
    """Return the name by which a model takes its cache: transformers renamed it within the versions that we support."""
    return "cache" if "cache" in inspect.signature(base.forward).parameters else "past_key_values"


class Decoder:
    """Continues rows of any causal language model through its own forward pass.

    Prompts stand left-padded, so that all rows write the same column of the cache; positions count real tokens.
    """

    grows = False  # whether `admit` may be called again while rows are being decoded

    def __init__(self, model: PreTrainedModel, limit: int) -> None:
        """Decode at most `limit` tokens a row; the model's weights must not change as long as this is in use."""
        self.model = model
        self.limit = limit
        self.base: Any = model.base_model
        self.head: Any = model.get_output_embeddings()
        self._cache_name = cache_argument(self.base)

    def admit(self, prompts: Sequence[Sequence[int]], rows: torch.Tensor) -> torch.Tensor:
        """Read `prompts` once each and open `rows[R]` (indices of prompts, in rising order).

        Returns the logits `[R, V]` of each row's first token.
        """
        length = torch.tensor([len(prompt) for prompt in prompts], device=rows.device)
        width = int(length.max())
        tokens = torch.tensor([[0] * (width - len(p)) + list(p) for p in prompts], device=rows.device)
        real = torch.arange(width, device=rows.device) >= (width - length)[:, None]
        position = (real.cumsum(1) - 1).clamp(min=0)
        self.cache = DynamicCache(config=self.model.config)
        hidden = self._forward({"input_ids": tokens}, real, position)[:, -1]
        self.column = width
        self.position = length[rows]
        self.visible = torch.ones(len(rows), width + self.limit, dtype=torch.bool, device=rows.device)
        self.visible[:, :width] = real[rows]
        self.cache.batch_select_indices(rows)
        return self.head(hidden)[rows]

    def step(self, tokens: torch.Tensor, embedded: torch.Tensor | None = None) -> torch.Tensor:
        """Append one token per row; return the logits `[R, V]` of the next.

        Where `embedded[R, H]` is given, the model reads that in place of the tokens' own embeddings.
        """
        read = {"input_ids": tokens[:, None]} if embedded is None else {"inputs_embeds": embedded[:, None]}
        hidden = self._forward(read, self.visible[:, : self.column + 1], self.position[:, None])[:, -1]
        self.column += 1
        self.position = self.position + 1
        return self.head(hidden)

    def keep(self, rows: torch.Tensor) -> None:
        """Go on with only `rows` of the present rows, in that (rising) order."""
        self.position = self.position[rows]
        self.visible = self.visible[rows]
        self.cache.batch_select_indices(rows)

    def _forward(self, read: dict[str, torch.Tensor], visible: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        state = {self._cache_name: self.cache}
        return self.base(
            **read, attention_mask=visible.long(), position_ids=position, use_cache=True, **state
        ).last_hidden_state
