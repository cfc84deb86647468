"""Nouns with tensors: Rollout, Batch, Signal, Scores, Totals, Loss, Stats.

Axes: `P` prompts, `G` samples per prompt, `B` sequences (rows), `T` positions.
One alignment rule: index `t` speaks about token `t`: its log-probability given the tokens before it, the value of the
state before it was emitted, the reward for emitting it. Everything is 0 outside `mask`. There is no prompt/response
split: a row is prompt and response in one, and `mask` is True where the policy sampled the token (its EOS included).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from paribus.lazy import torch
from paribus.types import Stop

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
    from torch import Tensor


class TopK(NamedTuple):
    """The sampler's K likeliest tokens at each position, and their log-probs under it; 0 outside the mask."""

    ids: Int[Tensor, "B T K"]
    logp: Float[Tensor, "B T K"]


class Mix(NamedTuple):
    """What the model reads in place of token t's embedding: the sum of `weight` E[ids]; weights all 0: the token's."""

    ids: Int[Tensor, "B T K"]
    weight: Float[Tensor, "B T K"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """What a sampler returns; nothing later may change it."""

    tokens: Int[Tensor, "B T"]  # prompt and response, right-padded; padding is any id: never infer anything from it
    mask: Bool[Tensor, "B T"]  # True where the policy sampled the token
    length: Int[Tensor, "B"]  # real tokens (prompt + response)
    group: Int[Tensor, "B"]  # which prompt instance: equal ids form a group, in any order
    sampled_logp: Float[Tensor, "B T"]  # as the sampling engine saw it (temperature-scaled full softmax)
    problem_id: list[str]
    sample: Int[Tensor, "B"]  # index of the row inside its group
    stop: list[Stop]
    text: list[str]  # decoded response, for the grader and for people
    version: int  # policy version that sampled it
    topk: TopK | None = None  # where the sampling plan asks for it
    mix: Mix | None = None  # where the sampling plan mixes embeddings
    entropy: Float[Tensor, "B T"] | None = None  # of the distribution that each token was drawn from; None: not told

    @property
    def rows(self) -> int:
        return int(self.tokens.shape[0])

    @property
    def response_length(self) -> Int[Tensor, "B"]:
        return self.mask.sum(1)

    @property
    def mixed(self) -> Bool[Tensor, "B T"]:
        """True where the model read a mix of embeddings in place of the token's own."""
        return torch.zeros_like(self.mask) if self.mix is None else (self.mix.weight > 0).any(2)

    @property
    def truncated(self) -> Bool[Tensor, "B"]:
        """True for rows that were cut at the length limit instead of ending by themselves."""
        return torch.tensor([stop is not Stop.EOS for stop in self.stop], device=self.mask.device)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A rollout and everything the algorithm said it needs, and no more."""

    rollout: Rollout
    score: Float[Tensor, "B"]  # the task's outcome, never overwritten; NaN where the grader could not tell
    reward: Float[Tensor, "B T"]  # after shaping
    mask: Bool[Tensor, "B T"]  # rollout.mask less the rows that may not train (unscored ones)
    parts: Mapping[str, Float[Tensor, "B"]] = field(default_factory=dict)  # named reward terms, for the record
    old_logp: Float[Tensor, "B T"] | None = None  # None: of the policy as the first update of the step finds it
    ref_logp: Float[Tensor, "B T"] | None = None
    values: Float[Tensor, "B T"] | None = None
    final_value: Float[Tensor, "B"] | None = None  # of the state after a row's last token; only where GAE bootstraps
    old_entropy: Float[Tensor, "B T"] | None = None  # of the old policy's distribution at each token
    step_end: Bool[Tensor, "B T"] | None = None  # last token of each step of a response; a step worth 0 is still one
    step_score: Float[Tensor, "B T"] | None = None  # the step's score, at its end
    greedy_score: Float[Tensor, "B"] | None = None  # of the greedy response to the row's prompt
    role: Int[Tensor, "B"] | None = None  # a `Role`, where rows are no samples of one policy but data
    unit: Int[Tensor, "B"] | None = None  # rows with one unit go through a loss together (the two of a pair)

    @property
    def group(self) -> Int[Tensor, "B"]:
        return self.rollout.group


class Role(IntEnum):
    """What a row is to a preference loss."""

    GOOD = 1  # chosen, or desirable
    BAD = 2  # rejected, or undesirable
    MISMATCHED = 3  # another prompt's response: measured (KTO's z0), never trained


class Signal(NamedTuple):
    """Credit of each token, detached; `target` is what the critic regresses on."""

    advantage: Float[Tensor, "B T"]
    target: Float[Tensor, "B T"] | None = None


class Scores(NamedTuple):
    """What the learner's forward pass gives a loss, with gradient; a part that is not trained now is None."""

    logp: Float[Tensor, "B T"] | None = None
    entropy: Float[Tensor, "B T"] | None = None
    values: Float[Tensor, "B T"] | None = None
    topk_logp: Float[Tensor, "B T K"] | None = None  # of `rollout.topk.ids`, detached


class Totals(NamedTuple):
    """The only denominators a loss may use beside a row's own length: those of the WHOLE update, all ranks.

    `tokens` counts trained tokens, `sequences` the rows with at least one trained token (a row masked as a whole is
    no sequence), `horizon` is the response limit of the run (a constant, not the padded width), `right_tokens` the
    trained tokens of rows whose score is above 0. `skipped` counts those of the sequences that the policy's part is not
    asked of, since it has no gradient there: it divides statistics, never a loss.
    """

    tokens: float
    sequences: float
    horizon: int
    right_tokens: float = 0.0
    skipped: float = 0.0

    @staticmethod
    def of(mask: Bool[Tensor, "B T"], horizon: int, score: Float[Tensor, "B"] | None = None) -> Totals:
        right = 0.0 if score is None else float(mask[score > 0].sum())
        return Totals(float(mask.sum()), float(mask.any(1).sum()), horizon, right)


@dataclass(slots=True)
class Mean:
    """A mean kept as sum and count, so that merging micro-batches, ranks or steps is exact. No count: null, not 0."""

    sum: Any
    count: Any

    def merge(self, other: Mean) -> Mean:
        return Mean(self.sum + other.sum, self.count + other.count)

    def row(self) -> dict[str, float | None]:
        return {"sum": float(self.sum), "count": float(self.count)}

    @property
    def value(self) -> float | None:
        return float(self.sum) / float(self.count) if float(self.count) else None


@dataclass(slots=True)
class Max:
    """A maximum; `count` 0 means that nothing was seen."""

    max: Any
    count: Any = 1

    def merge(self, other: Max) -> Max:
        if not float(self.count):
            return other
        if not float(other.count):
            return self
        return Max(max(float(self.max), float(other.max)), self.count + other.count)

    def row(self) -> dict[str, float | None]:
        return {"max": float(self.max), "count": float(self.count)}

    @property
    def value(self) -> float | None:
        return float(self.max) if float(self.count) else None


@dataclass(slots=True)
class Moments:
    """Count, sum and sum of squares: mean and variance of any union of parts."""

    sum: Any
    square: Any
    count: Any

    def merge(self, other: Moments) -> Moments:
        return Moments(self.sum + other.sum, self.square + other.square, self.count + other.count)

    def row(self) -> dict[str, float | None]:
        return {"sum": float(self.sum), "square": float(self.square), "count": float(self.count)}

    @property
    def value(self) -> float | None:
        return float(self.sum) / float(self.count) if float(self.count) else None

    @property
    def variance(self) -> float | None:
        n = float(self.count)
        return float(self.square) / n - (float(self.sum) / n) ** 2 if n else None


Stat = Mean | Max | Moments
Stats = dict[str, Stat]


def merge_stats(parts: Sequence[Stats]) -> Stats:
    """Merge the stats of micro-batches, updates or ranks; a name absent from a part counts nothing there."""
    out: Stats = {}
    for part in parts:
        for name, stat in part.items():
            out[name] = out[name].merge(stat) if name in out else stat  # type: ignore[arg-type]
    return out


class Loss(NamedTuple):
    """A part's share of the update's loss (shares add up to the whole), and what was counted on the way."""

    value: Float[Tensor, ""]
    stats: Stats


def select(value: Any, rows: Any) -> Any:
    """Return the noun (Rollout, Batch, Signal) with only `rows` of it, in that order; None stays None.

    `rows` is a LongTensor of row indices. Every row-aligned field is cut alike, so nothing can get out of step.
    """
    if value is None or isinstance(value, (int, float, str)):
        return value
    if isinstance(value, torch.Tensor):
        return value[rows]
    if isinstance(value, list):
        return [value[int(i)] for i in rows]
    if isinstance(value, Mapping):
        return {k: select(v, rows) for k, v in value.items()}
    if isinstance(value, tuple):
        return type(value)(*(select(v, rows) for v in value))  # NamedTuple
    changes = {f.name: select(getattr(value, f.name), rows) for f in dataclasses.fields(value)}
    return dataclasses.replace(value, **changes)


def trim(value: Any, width: int) -> Any:
    """Return the noun with its `[B, T]` and `[B, T, K]` tensors cut to the first `width` positions: all but padding."""
    if isinstance(value, torch.Tensor):
        return value[:, :width] if value.dim() >= 2 else value
    if isinstance(value, Mapping):
        return {k: trim(v, width) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(trim(v, width) for v in value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changes = {f.name: trim(getattr(value, f.name), width) for f in dataclasses.fields(value)}
        return dataclasses.replace(value, **changes)
    return value


def move(value: Any, device: Any) -> Any:
    """Return the noun with its tensors on `device`."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        return {k: move(v, device) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(move(v, device) for v in value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changes = {f.name: move(getattr(value, f.name), device) for f in dataclasses.fields(value)}
        return dataclasses.replace(value, **changes)
    return value


def concat(parts: Sequence[Rollout]) -> Rollout:
    """Return the rows of several rollouts as one, padded alike; groups are numbered on, so none are merged.

    What one of them does not tell (entropies, top-k log-probs) the whole does not.
    """
    width = max(int(part.tokens.shape[1]) for part in parts)
    shift, first = [], 0
    for part in parts:
        shift.append(first - int(part.group.min()))
        first += int(part.group.max()) - int(part.group.min()) + 1

    def wide(x: Tensor) -> Tensor:
        out = x.new_zeros((x.shape[0], width, *x.shape[2:]))
        out[:, : x.shape[1]] = x
        return out

    def joined(values: Sequence[Any]) -> Any:
        if any(value is None for value in values):
            return None
        if isinstance(values[0], tuple):
            return type(values[0])(*(joined(column) for column in zip(*values, strict=True)))
        if isinstance(values[0], list):
            return [x for value in values for x in value]
        return torch.cat([wide(x) if x.dim() >= 2 else x for x in values])

    names = [f.name for f in dataclasses.fields(Rollout) if f.name not in ("version", "group")]
    fields = {name: joined([getattr(part, name) for part in parts]) for name in names}
    group = torch.cat([part.group + by for part, by in zip(parts, shift, strict=True)])
    return Rollout(**fields, group=group, version=parts[0].version)
