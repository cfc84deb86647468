"""The Llama family's trunk by hand, for CPUs: packed tokens, prompts once, forward and backward pass.

Every projection runs over real tokens only; weight gradients are added to `.grad` by the matrix products themselves;
and between the passes each layer keeps what only matrix products could give back: its input, queries, keys, values,
attention and the two halves of the MLP. Norms and the activation are computed again. Where whole layers are to be
computed `again`, their inputs alone are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from transformers import LlamaModel, Qwen2Model

from paribus.models.packed import Block, Layout, whole

STATIC_ROPE = frozenset({"default", "linear", "llama3", "yarn"})  # kinds whose angles do not depend on the length
Tensor = torch.Tensor


def known(base: nn.Module) -> bool:
    """Say whether the trunk is of the family that these formulas compute exactly."""
    if type(base) not in (LlamaModel, Qwen2Model):
        return False
    config: Any = base.config
    return (
        config.hidden_act == "silu"
        and config.rope_parameters["rope_type"] in STATIC_ROPE
        and not getattr(config, "use_sliding_window", False)
    )


def fits(base: nn.Module) -> bool:
    """Say whether the passes of this file serve the trunk: a known one, on a CPU, in float32 or wider.

    On other devices, and in bfloat16, the library's own kernels do as well or better.
    """
    weight = next(base.parameters())
    return weight.device.type == "cpu" and weight.dtype != torch.bfloat16 and known(base)


def hidden_at(
    base: nn.Module, layout: Layout, tokens: Tensor, embedded: Tensor | None, *, again: bool = False
) -> Tensor:
    """Return the hidden states `[M, H]` (after the final norm) at `layout.predict` of the packed `tokens[N]`.

    Where `embedded[N, H]` is given, it is read in the tokens' place. Gradients of the weights are added to their
    `.grad` in the backward pass, which can be made once; it computes each layer `again` where memory matters more.
    """
    trunk: Any = base
    if not torch.is_grad_enabled() or not any(p.requires_grad for p in trunk.parameters()):
        x = trunk.embed_tokens.weight.index_select(0, tokens) if embedded is None else embedded
        return _Pass(trunk, layout, x.dtype).forward(x)[0]
    return _Trunk.apply(trunk.norm.weight, embedded, trunk, layout, tokens, again)  # type: ignore[no-any-return]


def prefill(base: nn.Module, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """Return the hidden states `[P, H]` of each prompt's last token, and by layer the keys and values `[P, K, L, D]`.

    What lies behind a prompt's own tokens is finite, and nobody's.
    """
    trunk: Any = base
    length = torch.tensor([len(prompt) for prompt in prompts])
    layout = whole(length)
    x = trunk.embed_tokens.weight.index_select(0, torch.tensor([t for prompt in prompts for t in prompt]))
    run = _Pass(trunk, layout, x.dtype)
    shape = (len(prompts), run.kv, int(length.max()), run.width)
    read = []
    for layer in trunk.layers:
        kept = run.layer(layer, x)
        read.append((kept.attended[0].key.view(shape), kept.attended[0].value.view(shape)))
        x = run.leave(layer, kept)
    return rms_norm(x.index_select(0, layout.predict), trunk.norm.weight, run.eps)[0], read


class _Trunk(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, embedded: Tensor | None, trunk: Any, layout: Layout, tokens: Tensor, again: bool
    ) -> Tensor:
        x = trunk.embed_tokens.weight.index_select(0, tokens) if embedded is None else embedded
        run = _Pass(trunk, layout, x.dtype)
        hidden, tape = run.forward(x, keep="inputs" if again else "all")
        ctx.run, ctx.tape, ctx.tokens = run, tape, tokens
        return hidden

    @staticmethod
    @torch.no_grad()
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        tape, ctx.tape = ctx.tape, None
        dx = ctx.run.backward(grad, tape)
        if ctx.needs_input_grad[1]:
            return None, dx, None, None, None, None
        embedding = ctx.run.trunk.embed_tokens
        weight = embedding.weight
        if weight.requires_grad:
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
            if embedding.padding_idx is not None:  # whose vector is not trained as an input
                dx.masked_fill_((ctx.tokens == embedding.padding_idx)[:, None], 0)
            weight.grad.index_add_(0, ctx.tokens, dx)
        return None, None, None, None, None, None


class _Attended(NamedTuple):
    """One block's attention as the kernel saw it."""

    query: Tensor  # [B * K, G, T, D]
    key: Tensor  # [B * K, 1, S, D]
    value: Tensor
    out: Tensor  # [B * K, G, T, D]
    logsumexp: Tensor


class _Kept(NamedTuple):
    """What a layer keeps for its backward pass."""

    x: Tensor  # [N, H], its input
    attended: list[_Attended]
    middle: Tensor  # [N, H], the input of its MLP
    gate: Tensor  # [N, I]
    up: Tensor


class _Places(NamedTuple):
    """A block's index tensors in rows of one head each, for gathering from packed `[N, heads, D]`."""

    block: Block
    query: Tensor  # flat [B, K, G, T] -> packed row * heads + head
    key: Tensor  # flat [B, K, S]
    out: Tensor  # flat [n, heads] -> place in [B, K, G, T]
    own_key: Tensor  # flat [n, K] -> place in [B, K, S], of the keys that are the block's own
    bias: Tensor | None  # [B * K, 1, T, S]
    groups: Tensor | None  # [P, B], which rows continue which prompt


class _Pass:
    """One pass over packed tokens: sizes, angles and places that all layers share."""

    def __init__(self, trunk: Any, layout: Layout, dtype: torch.dtype) -> None:
        config = trunk.config
        self.trunk, self.layout = trunk, layout
        self.heads, self.kv = config.num_attention_heads, config.num_key_value_heads
        self.scale, self.eps = trunk.layers[0].self_attn.scaling, config.rms_norm_eps
        self.width = trunk.layers[0].self_attn.head_dim
        reference = trunk.norm.weight
        steps = torch.arange(int(layout.column.max()) + 1)
        cos, sin = trunk.rotary_emb(reference, steps[None])
        half = self.width // 2
        self.cos = cos[0, :, :half].to(dtype).index_select(0, layout.column)[:, None]
        self.sin = sin[0, :, :half].to(dtype).index_select(0, layout.column)[:, None]
        self.places = [self._place(block, dtype) for block in layout.blocks]

    def _place(self, block: Block, dtype: torch.dtype) -> _Places:
        heads, kv, group = self.heads, self.kv, self.heads // self.kv
        size, span = block.query.shape[1], block.key.shape[1]
        head = torch.arange(heads).view(kv, group)
        query = (block.query - block.first).clamp(min=0)[:, None, None] * heads + head[None, :, :, None]
        key = block.key[:, None] * kv + torch.arange(kv)[None, :, None]
        row, column = block.slot // size, block.slot % size
        out = (row[:, None] * heads + torch.arange(heads)) * size + column[:, None]
        own = (row[:, None] * kv + torch.arange(kv)) * span + (column + span - size)[:, None]
        bias = groups = None
        if block.visible is not None:
            assert block.prompt is not None
            bias = torch.zeros(block.visible.shape, dtype=dtype).masked_fill_(~block.visible, -torch.inf)
            bias = bias.repeat_interleave(kv, 0)[:, None]
            count = len(self.layout.blocks[0].query)
            groups = F.one_hot(block.prompt, count).t().to(dtype)
        return _Places(block, query.flatten(), key.flatten(), out.flatten(), own.flatten(), bias, groups)

    def forward(
        self, x: Tensor, keep: Literal["nothing", "inputs", "all"] = "nothing"
    ) -> tuple[Tensor, tuple[list[_Kept | Tensor], Tensor]]:
        """Return the hidden states at `layout.predict`, and what `backward` needs."""
        tape: list[_Kept | Tensor] = []
        for layer in self.trunk.layers:
            kept = self.layer(layer, x)
            if keep != "nothing":
                tape.append(kept if keep == "all" else x)
            x = self.leave(layer, kept)
        asked = x.index_select(0, self.layout.predict)
        normed = rms_norm(asked, self.trunk.norm.weight, self.eps)[0]
        return normed, (tape, asked)

    def backward(self, grad: Tensor, tape: tuple[list[_Kept | Tensor], Tensor]) -> Tensor:
        """Add the gradients of all layers; return that of the packed embeddings."""
        kept, asked = tape
        dx = torch.zeros(len(self.layout.row), grad.shape[1], dtype=grad.dtype)
        at = _norm_backward(grad.clone(), asked, self.trunk.norm.weight, self.eps)
        dx.index_add_(0, self.layout.predict, at)
        for layer in reversed(self.trunk.layers):
            last = kept.pop()
            dx = self._layer_backward(layer, self.layer(layer, last) if isinstance(last, Tensor) else last, dx)
            del last
        return dx

    def layer(self, layer: Any, x: Tensor) -> _Kept:
        attention, mlp = layer.self_attn, layer.mlp
        h, _ = rms_norm(x, layer.input_layernorm.weight, self.eps)
        query, key, value = (_linear(h, p) for p in (attention.q_proj, attention.k_proj, attention.v_proj))
        del h
        self._turn(query, self.sin)
        self._turn(key, self.sin)
        attended = [self._attend(places, query, key, value) for places in self.places]
        middle = _add_linear(x, self._packed(attended), attention.o_proj)
        h, _ = rms_norm(middle, layer.post_attention_layernorm.weight, self.eps)
        return _Kept(x, attended, middle, _linear(h, mlp.gate_proj), _linear(h, mlp.up_proj))

    def leave(self, layer: Any, kept: _Kept) -> Tensor:
        return _add_linear(kept.middle, F.silu(kept.gate).mul_(kept.up), layer.mlp.down_proj)

    def _turn(self, x: Tensor, sin: Tensor) -> None:
        """Rotate every head of packed `x` in place (with -sin: back)."""
        a, b = x.view(len(x), -1, self.width).chunk(2, dim=-1)
        turned = (a * self.cos).addcmul_(b, sin, value=-1)
        b.mul_(self.cos).addcmul_(a, sin)
        a.copy_(turned)

    def _attend(self, places: _Places, query: Tensor, key: Tensor, value: Tensor) -> _Attended:
        block, kv, width = places.block, self.kv, self.width
        (rows, size), span = block.query.shape, block.key.shape[1]
        own = query[block.first : block.first + len(block.slot)]
        q = own.view(-1, width).index_select(0, places.query).view(rows * kv, -1, size, width)
        k, v = (x.view(-1, width).index_select(0, places.key).view(rows * kv, 1, span, width) for x in (key, value))
        out, logsumexp = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            q, *(x.expand(-1, q.shape[1], -1, -1) for x in (k, v)), 0.0, places.bias is None,
            attn_mask=places.bias, scale=self.scale,
        )  # fmt: skip
        return _Attended(q, k, v, out, logsumexp)

    def _packed(self, attended: list[_Attended]) -> Tensor:
        """Return the attention of all blocks, packed `[N, heads * D]`."""
        parts = [self._pack(a.out, p) for a, p in zip(attended, self.places, strict=True)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _pack(self, x: Tensor, places: _Places) -> Tensor:
        return x.reshape(-1, self.width).index_select(0, places.out).view(-1, self.heads * self.width)

    def _layer_backward(self, layer: Any, kept: _Kept, dx: Tensor) -> Tensor:
        attention, mlp = layer.self_attn, layer.mlp
        x, attended, middle, gate, up = kept
        act = F.silu(gate)
        d = dx @ mlp.down_proj.weight
        dup = d * act
        collect(mlp.down_proj, dx, act.mul_(up))
        dgate = torch.ops.aten.silu_backward(d.mul_(up), gate)
        del act, d, gate, up
        h, scale = rms_norm(middle, layer.post_attention_layernorm.weight, self.eps)
        collect(mlp.gate_proj, dgate, h)
        collect(mlp.up_proj, dup, h)
        dh = (dgate @ mlp.gate_proj.weight).addmm_(dup, mlp.up_proj.weight)
        del dgate, dup
        dx = dx + _norm_backward(dh, middle, layer.post_attention_layernorm.weight, self.eps, scale)
        collect(attention.o_proj, dx, self._packed(attended))
        dquery, dkey, dvalue = self._attend_backward(attended, dx @ attention.o_proj.weight)
        self._turn(dquery, -self.sin)
        self._turn(dkey, -self.sin)
        h, scale = rms_norm(x, layer.input_layernorm.weight, self.eps)
        dh = dquery @ attention.q_proj.weight
        for part, d in ((attention.q_proj, dquery), (attention.k_proj, dkey), (attention.v_proj, dvalue)):
            collect(part, d, h)
            if part is not attention.q_proj:
                dh.addmm_(d, part.weight)
        return dx.add_(_norm_backward(dh, x, layer.input_layernorm.weight, self.eps, scale))

    def _attend_backward(self, attended: list[_Attended], grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of packed queries, keys and values."""
        queries: list[Tensor] = []
        keys: list[tuple[Tensor, Tensor]] = []
        for places, a in zip(self.places, attended, strict=True):
            block, width = places.block, self.width
            (rows, size), span = block.query.shape, block.key.shape[1]
            own = grad[block.first : block.first + len(block.slot)]
            out = own.reshape(-1, width)
            if len(block.slot) == rows * size:
                out = out.index_select(0, places.query)
            else:  # nothing flows from padding
                out = out.new_zeros(rows * self.heads * size, width).index_copy_(0, places.out, out)
            dq, dk, dv = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
                out.view(a.query.shape), a.query, *(x.expand(-1, a.query.shape[1], -1, -1) for x in (a.key, a.value)),
                a.out, a.logsumexp, 0.0, places.bias is None, attn_mask=places.bias, scale=self.scale,
            )  # fmt: skip
            queries.append(self._pack(dq, places))
            both = []
            for i, d in enumerate((dk, dv)):
                d = d.sum(1)  # [B * K, S, D]
                both.append(d.view(-1, width).index_select(0, places.own_key).view(-1, self.kv * width))
                if places.groups is not None and span > size:
                    keys[0][i].add_(self._to_prompts(d.view(rows, self.kv, span, width)[:, :, : span - size], places))
            keys.append((both[0], both[1]))
        dkey, dvalue = (torch.cat(parts) if len(parts) > 1 else parts[0] for parts in zip(*keys, strict=True))
        return torch.cat(queries) if len(queries) > 1 else queries[0], dkey, dvalue

    def _to_prompts(self, d: Tensor, places: _Places) -> Tensor:
        """Sum gradients `[B, K, L, D]` of prompt keys over the rows that continue a prompt; packed `[n, K * D]`."""
        assert places.groups is not None
        summed = places.groups @ d.reshape(len(d), -1)
        return summed.view(-1, self.width).index_select(0, self.places[0].own_key).view(-1, self.kv * self.width)


def _linear(x: Tensor, layer: Any) -> Tensor:
    return F.linear(x, layer.weight, layer.bias)


def _add_linear(x: Tensor, y: Tensor, layer: Any) -> Tensor:
    out = torch.addmm(x, y, layer.weight.t())
    return out if layer.bias is None else out.add_(layer.bias)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return the RMS norm of `x[N, H]` and the scale `[N, 1]` of each row; statistics are in float32 at least."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    norm = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
    scale = (norm.square_().div_(x.shape[-1]).add_(eps)).rsqrt_()
    return (wide * scale).to(x.dtype).mul_(weight), scale


def _norm_backward(grad: Tensor, x: Tensor, weight: Any, eps: float, scale: Tensor | None = None) -> Tensor:
    """Add the gradient of `weight`; return that of `x`. Overwrites `grad`."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    if scale is None:
        scale = rms_norm(x, weight, eps)[1]
    unit, up = wide * scale, grad.to(wide.dtype)
    product = up * unit
    if weight.requires_grad:
        found = product.sum(0).to(weight.dtype)
        weight.grad = found if weight.grad is None else weight.grad.add_(found)
    along = (product @ weight.to(wide.dtype)).div_(x.shape[-1])[:, None]
    return up.mul_(weight).addcmul_(unit, along, value=-1).mul_(scale).to(x.dtype)


def collect(layer: Any, grad: Tensor, x: Tensor) -> None:
    """Add to `.grad` what a projection that read `x[N, I]` gets from `grad[N, O]` behind it."""
    weight, bias = layer.weight, layer.bias
    if weight.requires_grad:
        weight.grad = grad.t() @ x if weight.grad is None else weight.grad.addmm_(grad.t(), x)
    if bias is not None and bias.requires_grad:
        bias.grad = grad.sum(0) if bias.grad is None else bias.grad.add_(grad.sum(0))
