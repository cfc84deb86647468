"""Log-probs, entropies and hidden states of the sampled tokens of right-padded rows, within bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from paribus.batch import Mix, Rollout
from paribus.models.hf import hidden_states
from paribus.models.prefix import can_share, continue_prompts
from paribus.tensors import group_index

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
    from torch import Tensor

EntropyUse = Literal["none", "statistic", "loss"]
LOGITS_AT_ONCE = 1 << 25  # elements: with a vocabulary of 150k, 223 tokens at a time


def micro_batches(
    rollout: Rollout, rows: Sequence[int], budget: int, unit: Int[Tensor, "B"] | None = None
) -> Iterator[list[int]]:
    """Cut `rows` into forwards of at most `budget` padded tokens, longest responses first.

    Rows with one `unit` stay together (without it, each is its own); a unit beyond the budget goes alone.
    """
    prompt = rollout.mask.long().argmax(1).tolist()
    response = (rollout.length - rollout.mask.long().argmax(1)).tolist()
    group = rollout.group.tolist()
    together: dict[int, list[int]] = {}
    # longest first, so that a unit stands where its longest row does
    for row in sorted(rows, key=lambda i: (-response[i], -prompt[i], i)):
        together.setdefault(row if unit is None else int(unit[row]), []).append(row)
    piece: list[int] = []
    for added in together.values():
        longer = [*piece, *added]
        widths = max(prompt[i] for i in longer), response[longer[0]]
        groups = len({group[i] for i in longer})
        if piece and _cost(len(longer), groups, *widths) > budget:
            yield piece
            longer = added
        piece = longer
    if piece:
        yield piece


def _shared(rows: int, groups: int) -> bool:
    """Say whether it pays to run the prompts apart."""
    return 2 * groups <= rows


def _cost(rows: int, groups: int, prompt: int, response: int) -> int:
    """Padded tokens of one forward."""
    return groups * prompt + rows * response if _shared(rows, groups) else rows * (prompt + response)


def before(base: nn.Module, rollout: Rollout, mask: Bool[Tensor, "B T"]) -> Float[Tensor, "N H"]:
    """Return the hidden states that predict the masked tokens: token t is predicted from position t - 1.

    Where several rows continue one prompt, the prompt is run once for all of them.
    """
    index, groups = group_index(rollout.group)
    if not (_shared(rollout.rows, groups) and can_share(base)):
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
    read = tokens[:, :-1]
    if mix is not None:
        mix = Mix(*(x[:, : read.shape[1]] for x in mix))
    return _pick(hidden_states(base, read, mix), mask[:, 1:])


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

    The entropy is left out, detached ("statistic") or differentiable ("loss"). Logits exist for `LOGITS_AT_ONCE / V`
    tokens at a time; where gradients are wanted and there are several such chunks, the backward pass computes each
    of them again.
    """
    size = max(1, LOGITS_AT_ONCE // head.weight.shape[0])
    chunks = list(zip(hidden.split(size), ids.split(size), strict=True))
    if len(chunks) > 1 and torch.is_grad_enabled():
        scored = [
            checkpoint(_score, h, head, i, temperature, entropy, use_reentrant=False, preserve_rng_state=False)
            for h, i in chunks
        ]
    else:
        scored = [_score(h, head, i, temperature, entropy) for h, i in chunks]
    logp, found = zip(*scored, strict=True)
    return torch.cat(logp), None if entropy == "none" else torch.cat(found)


def _score(
    hidden: Float[Tensor, "N H"], head: nn.Linear, ids: Int[Tensor, "N ..."], temperature: float, entropy: EntropyUse
) -> tuple[Float[Tensor, "N ..."], Float[Tensor, "N"] | None]:
    logits = head(hidden)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if temperature != 1:
        logits = logits / temperature
    normaliser = logits.logsumexp(-1)
    logp = (logits.gather(-1, ids.reshape(len(ids), -1)) - normaliser[:, None]).reshape(ids.shape)
    if entropy == "none":
        return logp, None
    with torch.set_grad_enabled(entropy == "loss" and torch.is_grad_enabled()):
        probability = (logits - normaliser[:, None]).exp()
        # H = log Z - E[logit]
        return logp, normaliser - (probability * logits).sum(-1)
