"""Decode rows token by token with a key-value cache, through any model or, for the Llama family, by hand."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from transformers import DynamicCache, LlamaForCausalLM, PreTrainedModel, Qwen2ForCausalLM

STATIC_ROPE = frozenset({"default", "linear", "llama3", "yarn"})  # kinds whose angles do not depend on the length


def cache_argument(base: Any) -> str:
    """Return the name by which a model takes its cache: transformers renamed it within the versions that we support."""
    return "cache" if "cache" in inspect.signature(base.forward).parameters else "past_key_values"


class Decoder:
    """Continues rows of any causal language model through its own forward pass.

    Prompts stand left-padded, so that all rows write the same column of the cache; positions count real tokens.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.base: Any = model.base_model
        self.head: Any = model.get_output_embeddings()
        self._cache_name = cache_argument(self.base)

    def start(self, tokens: torch.Tensor, length: torch.Tensor, rows: torch.Tensor, limit: int) -> torch.Tensor:
        """Read left-padded prompts `[P, L]` once each, and open `rows[R]` (indices of prompts) for `limit` new tokens.

        Returns the logits `[R, V]` of each row's first token.
        """
        width = tokens.shape[1]
        real = torch.arange(width, device=tokens.device) >= (width - length)[:, None]
        position = (real.cumsum(1) - 1).clamp(min=0)
        self.cache = DynamicCache(config=self.model.config)
        hidden = self._forward({"input_ids": tokens}, real, position)[:, -1]
        self.column = width
        self.position = length[rows]
        self.visible = torch.ones(len(rows), width + limit, dtype=torch.bool, device=tokens.device)
        self.visible[:, :width] = real[rows]
        self._open(rows, limit)
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
        """Go on with only `rows` of the present rows, in that order."""
        self.position = self.position[rows]
        self.visible = self.visible[rows]
        self._select(rows)

    def _open(self, rows: torch.Tensor, limit: int) -> None:
        self.cache.batch_select_indices(rows)

    def _select(self, rows: torch.Tensor) -> None:
        self.cache.batch_select_indices(rows)

    def _forward(self, read: dict[str, torch.Tensor], visible: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        state = {self._cache_name: self.cache}
        return self.base(
            **read, attention_mask=visible.long(), position_ids=position, use_cache=True, **state
        ).last_hidden_state


SKINNY_FROM = 1 << 18  # elements of a weight from which the order of a skinny product matters on CPUs


class _Layer(NamedTuple):
    """Weights of one decoder layer, with projections that read the same input stacked into one matrix."""

    norm_1: torch.Tensor
    qkv: torch.Tensor
    qkv_bias: torch.Tensor | None
    out: torch.Tensor
    out_bias: torch.Tensor | None
    norm_2: torch.Tensor
    gate_up: torch.Tensor
    gate_up_bias: torch.Tensor | None
    down: torch.Tensor
    down_bias: torch.Tensor | None


class LlamaDecoder(Decoder):
    """The Llama family (Llama, SmolLM2, Qwen2): one hand-written pass per token over the model's own weights.

    At one token a row, the model's general forward pass is mostly overhead. The prompt still goes through it. The
    stacked weights are copies: make a decoder anew whenever the model has changed.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__(model)
        config = model.config
        self.heads = config.num_attention_heads
        self.kv_heads = config.num_key_value_heads
        self.layers = [_stack(layer) for layer in self.base.layers]
        self.norm: torch.Tensor = self.base.norm.weight
        self.eps: float = config.rms_norm_eps
        self.scale: float = self.base.layers[0].self_attn.scaling

    @staticmethod
    def fits(model: PreTrainedModel) -> bool:
        """Say whether the model is one that this decoder computes exactly."""
        config = model.config
        return (
            type(model) in (LlamaForCausalLM, Qwen2ForCausalLM)
            and config.hidden_act == "silu"
            and config.rope_parameters["rope_type"] in STATIC_ROPE
            and (type(model) is LlamaForCausalLM or not config.use_sliding_window)
        )

    def _open(self, rows: torch.Tensor, limit: int) -> None:
        width = self.column
        self.keys: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []
        layers: Any = self.cache.layers
        for layer in layers:
            for store, prompt in ((self.keys, layer.keys), (self.values, layer.values)):
                room = prompt.new_empty(len(rows), self.kv_heads, width + limit, prompt.shape[-1])
                room[:, :, :width] = prompt[rows]
                store.append(room)
        del self.cache
        dtype = self.norm.dtype
        first = int(self.position.min())
        steps = torch.arange(first, int(self.position.max()) + limit, device=rows.device)
        cos, sin = self.base.rotary_emb(self.norm, steps[None])
        half = cos.shape[-1] // 2
        # rotate_half(x) * sin == roll(x, half) * (-sin on the first half)
        self.cos, self.sin = cos[0], torch.cat((-sin[0, :, :half], sin[0, :, half:]), dim=-1)
        self.half, self.first = half, first
        self.mask = None
        if not bool(self.visible.all()):
            self.mask = torch.zeros(self.visible.shape, dtype=dtype, device=rows.device)
            self.mask = self.mask.masked_fill(~self.visible, -torch.inf)[:, None, None]

    def _select(self, rows: torch.Tensor) -> None:
        used = self.column
        for stores in (self.keys, self.values):
            for i, old in enumerate(stores):
                stores[i] = old.new_empty(len(rows), *old.shape[1:])
                stores[i][:, :, :used] = old[rows, :, :used]
        self.mask = None if self.mask is None else self.mask[rows]

    def step(self, tokens: torch.Tensor, embedded: torch.Tensor | None = None) -> torch.Tensor:
        rows, end = len(tokens), self.column + 1
        angle = self.position - self.first
        cos, sin = self.cos[angle][:, None], self.sin[angle][:, None]
        mask = None if self.mask is None else self.mask[..., :end]
        x = self.base.embed_tokens(tokens) if embedded is None else embedded
        for layer, keys, values in zip(self.layers, self.keys, self.values, strict=True):
            h = F.rms_norm(x, x.shape[-1:], layer.norm_1, self.eps)
            heads = _linear(h, layer.qkv, layer.qkv_bias).view(rows, self.heads + 2 * self.kv_heads, -1)
            turned, value = heads[:, : self.heads + self.kv_heads], heads[:, self.heads + self.kv_heads :]
            turned = torch.addcmul(turned * cos, turned.roll(self.half, -1), sin)
            keys[:, :, self.column] = turned[:, self.heads :]
            values[:, :, self.column] = value
            # the query heads that share a key-value head stand as that head's queries
            query = turned[:, : self.heads].unflatten(1, (self.kv_heads, -1))
            attended = F.scaled_dot_product_attention(
                query, keys[:, :, :end], values[:, :, :end], attn_mask=mask, scale=self.scale
            )
            x = x + _linear(attended.reshape(rows, -1), layer.out, layer.out_bias)
            h = F.rms_norm(x, x.shape[-1:], layer.norm_2, self.eps)
            gate, up = _linear(h, layer.gate_up, layer.gate_up_bias).chunk(2, dim=-1)
            x = x + _linear(F.silu(gate) * up, layer.down, layer.down_bias)
        self.column = end
        self.position = self.position + 1
        return _linear(F.rms_norm(x, x.shape[-1:], self.norm, self.eps), self.head.weight, self.head.bias)


def make_decoder(model: PreTrainedModel) -> Decoder:
    """Return the fastest decoder that computes the model exactly; it serves until the weights change."""
    return LlamaDecoder(model) if LlamaDecoder.fits(model) else Decoder(model)


def _stack(layer: Any) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp

    def joined(*parts: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
        biases = [part.bias for part in parts if part.bias is not None]
        return torch.cat([part.weight for part in parts]), torch.cat(biases) if biases else None

    qkv, qkv_bias = joined(attention.q_proj, attention.k_proj, attention.v_proj)
    gate_up, gate_up_bias = joined(mlp.gate_proj, mlp.up_proj)
    return _Layer(
        layer.input_layernorm.weight, qkv, qkv_bias, attention.o_proj.weight, attention.o_proj.bias,
        layer.post_attention_layernorm.weight, gate_up, gate_up_bias, mlp.down_proj.weight, mlp.down_proj.bias,
    )  # fmt: skip


def _linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    if x.is_cuda or weight.numel() < SKINNY_FROM:
        return F.linear(x, weight, bias)
    # a few rows by a large matrix: CPU libraries are a quarter to a half faster on the transposed product
    product = (weight @ x.t()).t()
    return product if bias is None else product + bias
