"""Log-probs, entropies and hidden states of the sampled tokens of right-padded rows, within bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

from paribus.batch import Mix, Rollout
from paribus.models import trunk
from paribus.models.hf import hidden_states, layers_again
from paribus.models.mix import embed
from paribus.models.packed import Layout, plain, shared
from paribus.models.prefix import can_share, continue_prompts
from paribus.tensors import group_index

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
    from torch import Tensor

EntropyUse = Literal["none", "statistic", "loss"]
LOGITS_AT_ONCE = 1 << 26  # elements: with a vocabulary of 150k, 447 tokens at a time
CACHED = 1 << 22  # elements, of the pieces in which they are made


def micro_batches(
    rollout: Rollout,
    rows: Sequence[int],
    budget: int,
    unit: Int[Tensor, "B"] | None = None,
    *,
    packed: bool = False,
) -> Iterator[list[int]]:
    """Cut `rows` into forwards of at most `budget` tokens, padding included unless they are `packed`.

    Padded rows go longest responses first; packed ones group by group, so that each prompt is read as seldom as can
    be. Rows with one `unit` stay together (without it, each is its own); a unit beyond the budget goes alone.
    """
    prompt = rollout.mask.long().argmax(1).tolist()
    response = (rollout.length - rollout.mask.long().argmax(1)).tolist()
    group = rollout.group.tolist()
    longest: dict[int, int] = {}
    if packed:
        for row in rows:
            longest[group[row]] = max(longest.get(group[row], 0), response[row])

    def order(row: int) -> tuple[int, ...]:
        before = (-longest[group[row]], group[row]) if packed else ()
        return (*before, -response[row], -prompt[row], row)

    together: dict[int, list[int]] = {}
    # longest first, so that a unit stands where its longest row does
    for row in sorted(rows, key=order):
        together.setdefault(row if unit is None else int(unit[row]), []).append(row)
    piece: list[int] = []
    size = _Size(packed)
    for added in together.values():
        size.add([(group[i], prompt[i], response[i]) for i in added])
        if piece and size.tokens > budget:
            yield piece
            piece, size = [], _Size(packed)
            size.add([(group[i], prompt[i], response[i]) for i in added])
        piece += added
    if piece:
        yield piece


class _Size:
    """Counts the tokens of one forward over rows of (group, prompt, response)."""

    def __init__(self, packed: bool) -> None:
        self.packed, self.rows, self.prompt, self.response, self.sum = packed, 0, 0, 0, 0
        self.groups: set[int] = set()

    def add(self, rows: Sequence[tuple[int, int, int]]) -> None:
        for group, prompt, response in rows:
            self.sum += response + (0 if group in self.groups else prompt)  # each prompt once
            self.groups.add(group)
            self.prompt, self.response = max(self.prompt, prompt), max(self.response, response)
        self.rows += len(rows)

    @property
    def tokens(self) -> int:
        if self.packed:
            return self.sum
        if _shared(self.rows, len(self.groups)):
            return len(self.groups) * self.prompt + self.rows * self.response
        return self.rows * (self.prompt + self.response)


def _shared(rows: int, groups: int) -> bool:
    """Say whether it pays to run the prompts apart."""
    return 2 * groups <= rows


def before(
    base: nn.Module, rollout: Rollout, mask: Bool[Tensor, "B T"], *, again: bool = False
) -> Float[Tensor, "N H"]:
    """Return the hidden states that predict the masked tokens: token t is predicted from position t - 1.

    Where several rows continue one prompt, the prompt is run once for all of them. With `again` only the layers'
    inputs are kept between the passes (which a cache of prompts does not go with: each row is then by itself).
    """
    index, groups = group_index(rollout.group)
    share = _shared(rollout.rows, groups) and can_share(base)
    if trunk.fits(base):
        return _by_hand(base, shared(rollout, mask) if share else plain(mask), rollout.tokens, rollout.mix, again)
    if again and torch.is_grad_enabled():
        with layers_again(base):
            return plainly_before(base, rollout.tokens, mask, rollout.mix)
    if not share:
        return plainly_before(base, rollout.tokens, mask, rollout.mix)
    device = mask.device
    begin = rollout.mask.long().argmax(1)  # the first sampled token: all before it is the group's prompt
    size = int((rollout.length - begin).max())
    member = torch.zeros(groups, dtype=torch.long, device=device).scatter(
        0, index, torch.arange(rollout.rows, device=device)
    )
    length = begin[member]
    width = int(length.max())
    column = torch.arange(width, device=device) - (width - length)[:, None]  # left-padded: negative is padding
    prompts = rollout.tokens[member].gather(1, column.clamp(min=0))
    place = begin[:, None] + torch.arange(size, device=device)
    inside = place < rollout.length[:, None]
    place = place.clamp(max=mask.shape[1] - 1)
    read = place[:, :-1]  # nothing is asked of the state after the last token
    mix = rollout.mix
    if mix is not None:
        mix = Mix(*(x.gather(1, read[..., None].expand(-1, -1, x.shape[2])) for x in mix))
    hidden = continue_prompts(base, prompts, length, index, rollout.tokens.gather(1, read), mix)
    return _pick(hidden, mask.gather(1, place) & inside)


def plainly_before(
    base: nn.Module, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"], mix: Mix | None = None
) -> Float[Tensor, "N H"]:
    """As `before`, each row by itself."""
    if trunk.fits(base):
        return _by_hand(base, plain(mask), tokens, mix, again=False)
    read = tokens[:, :-1]
    if mix is not None:
        mix = Mix(*(x[:, : read.shape[1]] for x in mix))
    return _pick(hidden_states(base, read, mix), mask[:, 1:])


def _by_hand(
    base: nn.Module, layout: Layout, tokens: Int[Tensor, "B T"], mix: Mix | None, again: bool
) -> Float[Tensor, "N H"]:
    ids = tokens[layout.row, layout.column]
    embedded = None
    if mix is not None:
        embedding: Any = base.get_submodule("embed_tokens")
        embedded = embed(embedding, ids, Mix(*(x[layout.row, layout.column] for x in mix)))
    return trunk.hidden_at(base, layout, ids, embedded, again=again)


def _pick(x: Float[Tensor, "B T H"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "N H"]:
    return x.flatten(0, 1).index_select(0, mask.flatten().nonzero().squeeze(1))


def spread(x: Float[Tensor, "N ..."], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T ..."]:
    """Put the number (or the K numbers) of each masked token back in their place, 0 elsewhere."""
    places = mask.reshape(*mask.shape, *[1] * (x.dim() - 1))
    return torch.zeros(*mask.shape, *x.shape[1:], dtype=x.dtype, device=x.device).masked_scatter(places, x)


def token_scores(
    hidden: Float[Tensor, "N H"], head: nn.Linear, ids: Int[Tensor, "N ..."], temperature: float, entropy: EntropyUse
) -> tuple[Float[Tensor, "N ..."], Float[Tensor, "N"] | None]:
    """Return the log-probs of `ids` (one per position, or several) and the entropy of each position's distribution:
    the temperature-scaled full softmax, in float32.

    The entropy is left out, detached ("statistic") or differentiable ("loss"). Never more than `LOGITS_AT_ONCE` logits
    are kept (and a piece of `CACHED` is at work); where there are more, the backward pass computes the others again.
    The head's weight gradient is added to its `.grad`, and the backward pass can be made once.
    """
    flat = ids.reshape(len(ids), -1)
    if torch.is_grad_enabled() and (hidden.requires_grad or head.weight.requires_grad):
        anchor = hidden if hidden.requires_grad else head.weight
        logp, found = _Head.apply(hidden, anchor, head, flat, temperature, entropy)
    else:
        logp, found, _ = _read(hidden, head, flat, temperature, entropy != "none", keep=False)
    return logp.reshape(ids.shape), None if entropy == "none" else found


class _Head(torch.autograd.Function):
    """Log-softmax of the head's logits at a few ids, by one buffer of logits in both passes."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, anchor: Tensor, head: Any, ids: Tensor, temperature: float, entropy: EntropyUse
    ) -> tuple[Tensor, Tensor]:
        logp, found, kept = _read(hidden, head, ids, temperature, entropy != "none", keep=True)
        ctx.save_for_backward(hidden, ids, found)
        ctx.head, ctx.kept, ctx.temperature, ctx.entropy = head, kept, temperature, entropy
        if entropy != "loss":
            ctx.mark_non_differentiable(found)
        return logp, found

    @staticmethod
    @torch.no_grad()
    def backward(ctx: Any, grad: Tensor, entropy_grad: Tensor | None) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        hidden, ids, entropy = ctx.saved_tensors
        head, kept, ctx.kept = ctx.head, ctx.kept, None
        out = torch.empty_like(hidden)
        start = 0
        for h, i, g, e in zip(*(x.split(_rows(head)) for x in (hidden, ids, grad, entropy)), strict=True):
            part = slice(start, start + len(h))
            logp = kept if kept is not None else _log_softmax(h, head, ctx.temperature)
            kept = None  # only the first piece was
            d = logp.exp() if ctx.entropy == "loss" else logp.exp_()
            if ctx.entropy == "loss":
                # dH / dlogit = -p (log p + H)
                slope = logp.clamp_(min=torch.finfo(logp.dtype).min).add_(e[:, None]).mul_(d)
                slope.mul_(-entropy_grad[part, None])  # type: ignore[index]
                d.mul_(-g.sum(1, keepdim=True)).add_(slope)
            else:
                d.mul_(-g.sum(1, keepdim=True))
            d.scatter_add_(1, i, g)
            if ctx.temperature != 1:
                d.div_(ctx.temperature)
            d = d.to(h.dtype)
            torch.mm(d, head.weight, out=out[part])
            trunk.collect(head, d, h)
            start += len(h)
        return out if hidden.requires_grad else None, None, None, None, None, None


def _rows(head: nn.Linear) -> int:
    """Return how many tokens have their logits at once."""
    return max(1, LOGITS_AT_ONCE // head.weight.shape[0])


def _read(
    hidden: Tensor, head: nn.Linear, ids: Tensor, temperature: float, entropy: bool, *, keep: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return log-probs `[N, K]` of `ids[N, K]`, entropies `[N]` (zeros unless asked for), and where it is to be kept
    the whole log-softmax of as many positions as have their logits at once."""
    wide = torch.promote_types(hidden.dtype, torch.float32)
    logp = torch.empty(ids.shape, dtype=wide, device=hidden.device)
    found = torch.zeros(len(ids), dtype=wide, device=hidden.device)
    size = min(_rows(head), len(ids))
    kept = torch.empty(size, head.weight.shape[0], dtype=wide, device=hidden.device) if keep else None
    # pieces that a processor's cache holds: the passes over logits are cheap there
    step = max(1, min(size, CACHED // head.weight.shape[0]))
    for start in (*range(0, size, step), *range(size, len(ids), step)):
        end = min(start + step, size if start < size else len(ids))
        part = slice(start, end)
        out = kept[part] if kept is not None and start < size else None
        whole = _log_softmax(hidden[part], head, temperature, out)
        logp[part] = whole.gather(1, ids[part])
        if entropy:
            found[part] = -torch.linalg.vecdot(whole.exp(), whole.clamp(min=torch.finfo(wide).min))
    return logp, found, kept


def _log_softmax(hidden: Tensor, head: nn.Linear, temperature: float, out: Tensor | None = None) -> Tensor:
    logits = head(hidden)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if temperature != 1:
        logits = logits.div_(temperature)
    if out is None:
        return logits.log_softmax(-1)
    return torch.ops.aten._log_softmax.out(logits, -1, False, out=out)  # type: ignore[no-any-return]
