"""Decode the Llama family by hand: prompts kept once for all their rows, rows that come and go."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from transformers import DynamicCache, PreTrainedModel

from paribus.models import trunk
from paribus.models.decoder import Decoder

ONEDNN = torch.backends.mkldnn.is_available()
# elements of a weight from which oneDNN's own layout pays at some 32 rows; with AVX-512 only of weights that widen
PACKED_FROM = 1 << 18
WIDE = torch.backends.cpu.get_cpu_capability() != "AVX512"
Tensor = torch.Tensor


class _Layer(NamedTuple):
    """Copies of one layer's projections, those of queries, keys and values side by side.

    Attention's scale is multiplied in, and each head's numbers stand in an order in which those that turn together are
    neighbours.
    """

    norm_1: Tensor
    qkv: _Weight
    out: _Weight
    norm_2: Tensor
    gate: _Weight
    up: _Weight
    down: _Weight


class _Weight:
    """A projection ready for a few rows at a time."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """Take `weight[out, in]`; large ones are laid out as oneDNN likes them, where PyTorch has it."""
        pays = weight.numel() >= PACKED_FROM and (WIDE or weight.shape[0] > weight.shape[1])
        served = ONEDNN and weight.device.type == "cpu" and weight.dtype == torch.float32
        self.bias = bias
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight, None) if pays and served else None
        self.weight = weight.t().contiguous() if self.packed is None else None

    def __call__(self, x: Tensor, then: Literal["none", "swish"] = "none") -> Tensor:
        """Return the projection of `x[R, in]`, or the swish (SiLU) of it."""
        if self.packed is not None:
            return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, then, [], "")  # type: ignore[no-any-return]
        assert self.weight is not None
        out = x @ self.weight if self.bias is None else torch.addmm(self.bias, x, self.weight)
        return F.silu(out) if then == "swish" else out

    def onto(self, y: Tensor, x: Tensor, how: Literal["add", "mul"]) -> Tensor:
        """Return the projection of `x[R, in]` added to, or multiplied with, `y[R, out]`."""
        if self.packed is not None:
            return torch.ops.mkldnn._linear_pointwise.binary(x, y, self.packed, self.bias, how)  # type: ignore[no-any-return]
        if how == "mul":
            return self(x).mul_(y)
        assert self.weight is not None
        out = torch.addmm(y, x, self.weight)
        return out if self.bias is None else out.add_(self.bias)


class LlamaDecoder(Decoder):
    """Continues rows of a Llama or Qwen2 model; its weights are copies, made once for every version of the model's.

    Keys and values of a prompt stand once, `[P, K, L, D]`; those of the `n` rows' own tokens stand in the first `n`
    of `[R, K, limit, D]`, a ring of columns that all rows write at the same place. A row may therefore come at any
    time: which columns are its own is a matter of its age.
    """

    grows = True

    def __init__(self, model: PreTrainedModel, limit: int) -> None:
        super().__init__(model, limit)
        config = model.config
        self.heads, self.kv = config.num_attention_heads, config.num_key_value_heads
        self.width: int = self.base.layers[0].self_attn.head_dim
        # numbers i and i + D / 2 of a head turn together
        self.device = model.device
        self.order = torch.arange(self.width, device=self.device).view(2, -1).t().flatten()
        size = config.hidden_size
        # x / sqrt(mean(x^2) + eps) = sqrt(H) x / hypot(|x|, sqrt(H eps))
        self.root, self.least = math.sqrt(size), self._number(math.sqrt(size * config.rms_norm_eps))
        self.layers = [self._copied(layer) for layer in self.base.layers]
        self.norm: Tensor = self.base.norm.weight * self.root
        self.scores = _Weight(self.head.weight, self.head.bias)
        self.clock = 0  # tokens decoded so far; column of the ring: clock % limit
        none = torch.zeros(0, dtype=torch.long, device=self.device)
        self.position = self.age = self.prompt = none  # of each row
        self.length = none  # of each prompt
        self.read: list[tuple[Tensor, Tensor]] = []  # keys and values of prompts, by layer
        # of the rows' own tokens
        ring = self.norm.new_empty(0, self.kv, limit, self.width)
        self.own = [(ring, ring) for _ in self.layers]
        cos, sin = self.base.rotary_emb(
            self.norm, torch.arange(config.max_position_embeddings, device=self.device)[None]
        )
        half = self.width // 2
        self.wide = torch.promote_types(self.norm.dtype, torch.float32)
        self.turns = torch.complex(*(x[0, :, :half].to(self.wide) for x in (cos, sin)))

    def _number(self, x: float) -> Tensor:
        return torch.tensor(x, dtype=self.head.weight.dtype, device=self.device)

    def _copied(self, layer: Any) -> _Layer:
        attention, mlp = layer.self_attn, layer.mlp

        def ordered(x: Tensor | None, scale: float) -> Tensor | None:
            """Reorder the numbers of every head."""
            return None if x is None else x.unflatten(0, (-1, self.width))[:, self.order].flatten(0, 1) * scale

        parts = (attention.q_proj, attention.scaling), (attention.k_proj, 1.0)
        weights = [*(ordered(part.weight, scale) for part, scale in parts), attention.v_proj.weight]
        biases = [*(ordered(part.bias, scale) for part, scale in parts), attention.v_proj.bias]
        bias = None if biases[0] is None else torch.cat(biases)
        return _Layer(
            layer.input_layernorm.weight * self.root, _Weight(torch.cat(weights), bias),
            _Weight(attention.o_proj.weight, attention.o_proj.bias),
            layer.post_attention_layernorm.weight * self.root,
            _Weight(mlp.gate_proj.weight, mlp.gate_proj.bias), _Weight(mlp.up_proj.weight, mlp.up_proj.bias),
            _Weight(mlp.down_proj.weight, mlp.down_proj.bias),
        )  # fmt: skip

    def admit(self, prompts: Sequence[Sequence[int]], rows: Tensor) -> Tensor:
        hidden, read = (trunk.prefill if trunk.fits(self.base) else self._prefill)(self.base, prompts)
        read = [(keys[..., self.order], values) for keys, values in read]
        length = torch.tensor([len(prompt) for prompt in prompts], device=self.device)
        before = len(self.length)
        if before:
            self.read = [(_stacked(a, c), _stacked(b, d)) for (a, b), (c, d) in zip(self.read, read, strict=True)]
        else:
            self.read = read
        self.length = torch.cat((self.length, length))
        self.prompt = torch.cat((self.prompt, rows + before))
        self.position = torch.cat((self.position, length[rows]))
        self.age = torch.cat((self.age, torch.zeros(len(rows), dtype=torch.long, device=self.device)))
        count = len(self.prompt)
        if count > len(self.own[0][0]):
            self.own = [(_grown(keys, count), _grown(values, count)) for keys, values in self.own]
        self._arrange()
        return self.scores(hidden).index_select(0, rows)

    def _prefill(self, base: Any, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """As `trunk.prefill`, by the model's own forward pass; behind a prompt, causal attention needs no mask."""
        width = max(map(len, prompts))
        cache = DynamicCache(config=self.model.config)
        tokens = torch.tensor([[*p, *[0] * (width - len(p))] for p in prompts], device=self.device)
        hidden = base(input_ids=tokens, use_cache=True, **{self._cache_name: cache}).last_hidden_state
        last = torch.tensor([len(prompt) - 1 for prompt in prompts], device=self.device)
        layers: Any = cache.layers
        return hidden[torch.arange(len(prompts), device=self.device), last], [(x.keys, x.values) for x in layers]

    def keep(self, rows: Tensor) -> None:
        self.position, self.age = self.position[rows], self.age[rows]
        used = min(self.clock, self.limit)
        for pair in self.own:
            for store in pair:
                store[: len(rows), :, :used] = store[rows, :, :used]
        left, self.prompt = self.prompt[rows].unique(return_inverse=True)
        if len(left) < len(self.length):
            self.length = self.length[left]
            width = int(self.length.max()) if len(rows) else 0
            self.read = [(k[left, :, :width], v[left, :, :width]) for k, v in self.read]
        if len(rows):
            self._arrange()

    def _arrange(self) -> None:
        """Give every row a place among the rows of its prompt: `[P, S]`, all prompts with as many places."""
        count, self.rows = len(self.length), len(self.prompt)
        per_prompt = self.prompt.bincount(minlength=count)
        self.places = int(per_prompt.max())
        first = per_prompt.cumsum(0) - per_prompt
        place = torch.arange(self.rows, device=self.device) - first[self.prompt]
        flat = self.prompt * self.places + place
        self.flat = None if self.rows == count * self.places else flat
        self.gaps = None
        if bool((self.length != self.length.max()).any()):
            behind = torch.arange(int(self.length.max()), device=self.device) >= self.length[:, None]
            self.gaps = self._barred(behind)[self.prompt]

    def _columns(self) -> tuple[int, int, Tensor | None]:
        """Return the span of the ring in use, this step's column included, and what of it is not a row's own."""
        oldest = int(self.age.max())
        column = self.clock % self.limit
        if oldest > column:  # it goes around the end
            low, high = 0, self.limit
        else:
            low, high = column - oldest, column + 1
        if bool((self.age == oldest).all()) and high - low == oldest + 1:
            return low, high, None
        behind = (column - torch.arange(low, high, device=self.device)) % self.limit
        return low, high, self._barred(behind > self.age[:, None])

    def _barred(self, where: Tensor) -> Tensor:
        return self.norm.new_zeros(where.shape).masked_fill_(where, -torch.inf)

    def step(self, tokens: Tensor, embedded: Tensor | None = None) -> Tensor:
        low, high, foreign = self._columns()
        column, rows = self.clock % self.limit, self.rows
        mask = self._mask(foreign, high - low)
        turns = self.turns.index_select(0, self.position)[:, None]
        x = self.base.embed_tokens.weight.index_select(0, tokens) if embedded is None else embedded
        both = self.heads + self.kv
        for layer, read, own in zip(self.layers, self.read, self.own, strict=True):
            heads = layer.qkv(self._normed(x, layer.norm_1)).view(rows, both + self.kv, -1)
            pairs = torch.view_as_complex(heads[:, :both].to(self.wide).unflatten(2, (-1, 2)))
            turned = torch.view_as_real(pairs * turns).flatten(2).to(heads.dtype)
            own[0][:rows, :, column] = turned[:, self.heads :]
            own[1][:rows, :, column] = heads[:, both:]
            attended = self._attend(turned[:, : self.heads], read, own, (low, high), mask)
            x = layer.out.onto(x, attended, "add")
            h = self._normed(x, layer.norm_2)
            x = layer.down.onto(x, layer.up.onto(layer.gate(h, "swish"), h, "mul"), "add")
        self.clock += 1
        self.position = self.position + 1
        self.age = self.age + 1
        return self.scores(self._normed(x, self.norm))

    def _normed(self, x: Tensor, weight: Tensor) -> Tensor:
        """Return the RMS norm of `x[R, H]`; `weight` has sqrt(H) in it."""
        return (x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).hypot_(self.least)).mul_(weight)

    def _mask(self, foreign: Tensor | None, span: int) -> Tensor | None:
        """Return what is added to the scores `[R, 1, 1, L + span]`."""
        if self.gaps is None and foreign is None:
            return None
        width = self.read[0][0].shape[2]
        gaps = self.gaps if self.gaps is not None else self.norm.new_zeros(self.rows, width)
        foreign = foreign if foreign is not None else self.norm.new_zeros(self.rows, span)
        return torch.cat((gaps, foreign), dim=1)[:, None, None]

    def _attend(
        self, query: Tensor, read: tuple[Tensor, Tensor], own: tuple[Tensor, Tensor], span: tuple[int, int],
        mask: Tensor | None,
    ) -> Tensor:  # fmt: skip
        """Return the attention `[R, heads * D]` of `query[R, heads, D]` over its prompt and its row's own tokens."""
        rows, kv, group = self.rows, self.kv, self.heads // self.kv
        q = query.reshape(rows * kv, group, -1)
        keys, values = (x[:rows, :, span[0] : span[1]].flatten(0, 1) for x in own)
        width = read[0].shape[2]
        prompt_keys, prompt_values = (x.flatten(0, 1) for x in read)
        first = self._by_rows(torch.bmm(self._by_prompts(q), prompt_keys.transpose(1, 2)))
        scores = torch.cat((first, torch.bmm(q, keys.transpose(1, 2)).view(rows, kv, group, -1)), dim=-1)
        if mask is not None:
            scores.add_(mask)
        share = scores.softmax(-1).view(rows * kv, group, -1)
        out = torch.bmm(share[..., width:], values).view(rows, kv, group, -1)
        out.add_(self._by_rows(torch.bmm(self._by_prompts(share[..., :width]), prompt_values)))
        return out.view(rows, -1)

    def _by_prompts(self, x: Tensor) -> Tensor:
        """Lay `[R * K, G, D]` out as `[P * K, S * G, D]`: the rows of a prompt side by side."""
        count, kv, group = len(self.length), self.kv, x.shape[1]
        x = x.view(self.rows, kv, group, -1)
        if self.flat is not None:
            x = x.new_zeros(count * self.places, *x.shape[1:]).index_copy_(0, self.flat, x)
        if self.places == 1:
            return x.reshape(count * kv, group, -1)
        return x.reshape(count, self.places, kv, group, -1).transpose(1, 2).reshape(count * kv, self.places * group, -1)

    def _by_rows(self, x: Tensor) -> Tensor:
        """Undo `_by_prompts`: return `[R, K, G, D]`."""
        count, kv = len(self.length), self.kv
        x = x.view(count, kv, self.places, self.heads // kv, -1).transpose(1, 2).flatten(0, 1)
        return x if self.flat is None else x.index_select(0, self.flat)


def make_decoder(model: PreTrainedModel, limit: int) -> Decoder:
    """Return the fastest decoder that computes the model exactly; it serves until the weights change."""
    return LlamaDecoder(model, limit) if trunk.known(model.base_model) else Decoder(model, limit)


def _stacked(old: Tensor, new: Tensor) -> Tensor:
    """Return keys or values of more prompts, `[P, K, L, D]` with the larger L; what lies behind a prompt is masked."""
    width = max(old.shape[2], new.shape[2])
    out = old.new_zeros(len(old) + len(new), old.shape[1], width, old.shape[3])
    out[: len(old), :, : old.shape[2]] = old
    out[len(old) :, :, : new.shape[2]] = new
    return out


def _grown(old: Tensor, rows: int) -> Tensor:
    """Return the same store with room for more rows; zeros, since masked entries are still multiplied by 0."""
    out = old.new_zeros(rows, *old.shape[1:])
    out[: len(old)] = old
    return out
