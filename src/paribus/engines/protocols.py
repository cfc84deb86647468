"""Sampler, Learner and Objective: all that the loop knows of engines, and all that engines know of algorithms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from paribus.batch import Batch, Loss, Rollout, Scores, Signal, Stats, Totals
from paribus.types import Key, Prompt, Stop

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingPlan:
    """How to continue prompts. Log-probs recorded are those of the temperature-scaled full softmax.

    `temperature` 0 is greedy (log-probs are then those at temperature 1). `top_p` < 1 truncates, which training
    refuses: the learner's log-probs would be those of another distribution. `topk` asks for the log-probs of the
    likeliest tokens at each position. With probability `mix_rate` a step draws no token: it records the likeliest,
    and reads a mix of the embeddings of that token and its `mix_neighbours` - 1 nearest ones (`Rollout.mix`).
    """

    samples: int  # per prompt
    max_tokens: int  # response limit
    temperature: float = 1.0
    top_p: float = 1.0
    topk: int = 0
    mix_rate: float = 0.0
    mix_neighbours: int = 0


Finished = Callable[[Sequence[tuple[int, str, Stop]]], None]  # told of rows: place in the rollout, text, why it ended


class Sampler(Protocol):
    """Continues prompts; the same weights, prompts, plan and key give the same rollout."""

    def sample(
        self, prompts: Sequence[Prompt], plan: SamplingPlan, key: Key, finished: Finished | None = None
    ) -> Rollout:
        """Return `len(prompts) * plan.samples` rows, prompt by prompt; group i is prompts[i] (one prompt given twice
        is two groups). `key` holds seed, purpose, step and round; the sampler adds problem id and sample index.
        `finished` is called with rows that have just ended: with every row once, before `sample` returns."""
        ...

    def load(self, weights: Mapping[str, Any] | None, version: int) -> None:
        """Take the policy's new weights; None where the module is shared with the learner."""
        ...


class CriticSpec(Protocol):
    """What the learner reads of an algorithm's critic."""

    @property
    def lr(self) -> float: ...
    @property
    def shared(self) -> bool: ...
    @property
    def warmup(self) -> int: ...
    @property
    def head_std(self) -> float | None: ...


class Objective(Protocol):
    """What a learner may ask of an algorithm."""

    @property
    def critic(self) -> Any | None: ...
    @property
    def entropy(self) -> float: ...
    @property
    def topk(self) -> int: ...  # 0, or of how many tokens `Scores.topk_logp` is wanted
    @property
    def only_advantage(self) -> bool: ...  # rows whose advantage is 0 throughout have no gradient in the policy's part
    def loss(self, scores: Scores, batch: Batch, signal: Signal, total: Totals) -> Loss: ...


class Learner(Protocol):
    """Holds the policy (and critic, reference, optimizers) and turns batches into updates."""

    def logp(self, rollout: Rollout, *, of: Literal["policy", "reference"] = "policy") -> Float[Tensor, "B T"]: ...
    def logp_and_entropy(self, rollout: Rollout) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B T"]]: ...  # policy's
    def values(self, rollout: Rollout) -> Float[Tensor, "B T"]: ...
    # values, and of the state after each row's last token
    def values_and_final(self, rollout: Rollout) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B"]]: ...
    def update(self, batch: Batch, signal: Signal, objective: Objective, key: Key) -> Stats: ...
    def weights(self) -> Mapping[str, Any] | None: ...
    def save(self, path: Path) -> None: ...
    def restore(self, path: Path) -> None: ...
