"""Hidden states of many continuations of few prompts: each prompt goes through the model once, gradients included."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import DynamicCache, GPT2Model, LlamaModel, Qwen2Model

from paribus.batch import Mix
from paribus.models.decoder import cache_argument
from paribus.models.mix import inputs


def can_share(base: nn.Module) -> bool:
    """Say whether every layer of the trunk attends to everything before it, so that a plain cache is all it needs."""
    return type(base) in (GPT2Model, LlamaModel) or (type(base) is Qwen2Model and not base.config.use_sliding_window)


def continue_prompts(
    base: Any,
    prompts: torch.Tensor,
    length: torch.Tensor,
    rows: torch.Tensor,
    responses: torch.Tensor,
    mix: Mix | None = None,
) -> torch.Tensor:
    """Return the hidden states `[B, 1 + S, H]` of each prompt's last token and of the response tokens after it.

    `prompts[P, L]` stand left-padded (`length[P]` real tokens), `responses[B, S]` right-padded; `rows[B]` says which
    prompt each response continues; `mix` speaks of the response tokens.
    """
    width, size = prompts.shape[1], responses.shape[1]
    real = torch.arange(width, device=prompts.device) >= (width - length)[:, None]
    cache = DynamicCache()
    state = {cache_argument(base): cache}
    before = base(
        input_ids=prompts,
        attention_mask=real.long(),
        position_ids=(real.cumsum(1) - 1).clamp(min=0),
        use_cache=True,
        **state,
    ).last_hidden_state[:, -1:]
    last = before.index_select(0, rows)
    if size == 0:
        return last
    layers: Any = cache.layers
    for layer in layers:
        # index_select, whose backward pass adds in a fixed order; that of plain indexing does not
        layer.keys, layer.values = layer.keys.index_select(0, rows), layer.values.index_select(0, rows)
    visible = torch.cat((real[rows], torch.ones_like(responses, dtype=torch.bool)), dim=1)
    position = length[rows][:, None] + torch.arange(size, device=rows.device)
    after = base(
        **inputs(base, responses, mix),
        attention_mask=visible.long(),
        position_ids=position,
        use_cache=True,
        **state,
    ).last_hidden_state
    return torch.cat((last, after), dim=1)
