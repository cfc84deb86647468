"""Assemble a rollout from prompts and sampled responses: shared by all samplers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch.nn.functional import pad

from paribus.batch import Mix, Rollout, TopK
from paribus.engines.protocols import SamplingPlan
from paribus.errors import ConfigError
from paribus.types import Key, Prompt, Stop


class Response(NamedTuple):
    """What was sampled for one row; `logp`, `topk`, `mix` (`[n, K]` each) and `entropy` speak of the n tokens `ids`."""

    ids: list[int]
    logp: list[float]
    stop: Stop
    text: str
    topk: TopK | None = None
    mix: Mix | None = None
    entropy: list[float] | None = None


def check_context(model: Any, prompts: Sequence[Prompt], plan: SamplingPlan) -> None:
    """Raise ConfigError where a prompt and its response do not fit into the model's context."""
    longest, context = max(len(prompt.ids) for prompt in prompts), model.config.max_position_embeddings
    if longest + plan.max_tokens > context:
        raise ConfigError(
            f"a prompt of {longest} tokens and max_response = {plan.max_tokens} exceed the model's context of "
            f"{context} tokens: lower max_prompt or max_response"
        )


def row_keys(prompts: Sequence[Prompt], samples: int, key: Key) -> list[int]:
    """Return the 63-bit key of every row, prompt by prompt.

    When one problem is asked several times in a call, its later occurrences count their samples on, so that they
    draw anew.
    """
    seen: dict[str, int] = {}
    keys = []
    for prompt in prompts:
        first = seen.get(prompt.problem_id, 0)
        seen[prompt.problem_id] = first + samples
        for sample in range(first, first + samples):
            keys.append(Key(key.seed, key.purpose, key.step, prompt.problem_id, sample, key.round).hash())
    return keys


def assemble(
    prompts: Sequence[Prompt], samples: int, responses: Sequence[Response], *, pad_id: int, version: int
) -> Rollout:
    """Return the rollout of `responses`, given prompt by prompt with `samples` rows each; tensors lie on the CPU.

    Either all responses have `topk` or none, and likewise `mix` and `entropy`.
    """
    rows = [(group, sample) for group in range(len(prompts)) for sample in range(samples)]
    begin = [len(prompts[group].ids) for group, _ in rows]
    length = [b + len(r.ids) for b, r in zip(begin, responses, strict=True)]
    size = max(length)
    told = all(r.entropy is not None for r in responses)
    ids = [(*prompts[group].ids, *r.ids) for (group, _), r in zip(rows, responses, strict=True)]
    tokens = torch.tensor([[*row, *[pad_id] * (size - len(row))] for row in ids])
    column = torch.arange(size)
    mask = (column >= torch.tensor(begin)[:, None]) & (column < torch.tensor(length)[:, None])

    def spread(numbers: Iterable[list[float]]) -> torch.Tensor:
        """Return the numbers of all sampled tokens, row by row, in their places, 0 elsewhere."""
        flat = torch.tensor([x for row in numbers for x in row])
        return torch.zeros(mask.shape).masked_scatter_(mask, flat)

    logp = spread(r.logp for r in responses)
    entropy = spread(r.entropy or [] for r in responses) if told else None
    topk = [r.topk for r in responses if r.topk is not None]
    mix = [r.mix for r in responses if r.mix is not None]
    return Rollout(
        tokens=tokens,
        mask=mask,
        length=torch.tensor(length),
        group=torch.tensor([group for group, _ in rows]),
        sampled_logp=logp,
        problem_id=[prompts[group].problem_id for group, _ in rows],
        sample=torch.tensor([sample for _, sample in rows]),
        stop=[response.stop for response in responses],
        text=[response.text for response in responses],
        version=version,
        topk=TopK(*(_placed(part, begin, size) for part in zip(*topk, strict=True))) if topk else None,
        mix=Mix(*(_placed(part, begin, size) for part in zip(*mix, strict=True))) if mix else None,
        entropy=entropy,
    )


def with_end(rollout: Rollout) -> Rollout:
    """Return the rows with one more token, in the mask: the state before it is the one after a row's last token.

    Which token that is does not matter: nothing follows it. Other fields of the tokens keep their width.
    """
    end = torch.arange(rollout.tokens.shape[1] + 1) == rollout.length[:, None]
    mix = rollout.mix
    return replace(
        rollout,
        tokens=pad(rollout.tokens, (0, 1)),
        mask=pad(rollout.mask, (0, 1)) | end,
        length=rollout.length + 1,
        topk=None,
        mix=None if mix is None else Mix(*(pad(x, (0, 0, 0, 1)) for x in mix)),
    )


def _placed(pieces: Sequence[torch.Tensor], begin: Sequence[int], width: int) -> torch.Tensor:
    """Return `pieces[n, K]` of the rows at their first positions in `[B, width, K]`, 0 elsewhere."""
    out = pieces[0].new_zeros(len(pieces), width, pieces[0].shape[1])
    for row, first, piece in zip(out, begin, pieces, strict=True):
        row[first : first + len(piece)] = piece
    return out
