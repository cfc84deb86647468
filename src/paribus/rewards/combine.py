"""Rewards made of rewards: a weighted sum, and noise; and `judge`, which applies a reward to graded rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Field, model_validator

from paribus.errors import RunError
from paribus.part import Part
from paribus.rewards.base import Judged, Learned, ModelScorer, Response, Reward, Scorer, Tally, Values
from paribus.rewards.function import Function
from paribus.rewards.kinds import ModelReward, Sentiment, TaskReward
from paribus.tasks.mathpool import Outcome
from paribus.types import Key


class Term(Part):
    """One reward of a composite and what it counts for; with weight 0 it is recorded only."""

    weight: float = 1.0
    reward: RewardSpec


class Composite(Reward):
    """The weighted sum of named terms; a row has no value when a term that counts has none."""

    type: Literal["composite"] = "composite"
    terms: dict[str, Term]

    @model_validator(mode="after")
    def _sum_of_something(self) -> Composite:
        for name in self.terms:
            if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
                raise ValueError(f"term name '{name}': use letters, digits, '_' and '-'")
        if not any(term.weight for term in self.terms.values()):
            raise ValueError("terms: at least one needs a weight other than 0")
        return self

    def materials(self) -> list[str]:
        return [item for term in self.terms.values() for item in term.reward.materials()]

    def score(self, rows: Sequence[Response], name: str, tally: Tally) -> Values:
        prefix = f"{name}." if name else ""
        values = {n: term.reward.record(rows, prefix + n, tally) for n, term in self.terms.items()}
        counting = [(term.weight, values[n]) for n, term in self.terms.items() if term.weight]
        return [_sum([(weight, column[i]) for weight, column in counting]) for i in range(len(rows))]


def _sum(terms: Sequence[tuple[float, float | None]]) -> float | None:
    known = [weight * value for weight, value in terms if value is not None]
    return sum(known) if len(known) == len(terms) else None


class Noisy(Reward):
    """Another reward with noise: with chance `flip` a score of 0 or 1 becomes the other; then N(0, sigma) is added.

    Noise is a pure function of the row's key and the component's name: arms share it, and the rows that flip at one
    rate also flip at every higher rate. The inner value is recorded as component `<name>.clean`.
    """

    type: Literal["noisy"] = "noisy"
    inner: RewardSpec
    flip: float = Field(default=0.0, ge=0, le=1)
    sigma: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _flips_what_is_binary(self) -> Noisy:
        if self.flip and isinstance(self.inner, (ModelReward, Sentiment)):
            raise ValueError(f"flip is for scores of 0 or 1, which '{self.inner.type}' does not give; use sigma")
        return self

    def materials(self) -> list[str]:
        return self.inner.materials()

    def score(self, rows: Sequence[Response], name: str, tally: Tally) -> Values:
        clean = self.inner.record(rows, f"{name}.clean", tally)
        return [None if c is None else self._disturb(c, name, row.key) for c, row in zip(clean, rows, strict=True)]

    def _disturb(self, value: float, name: str, key: Key) -> float:
        if self.flip:
            if value not in (0, 1):
                raise RunError(f"reward '{name}': flip is for scores of 0 or 1, this one is {value}; use sigma")
            if _uniform(key, name, "flip") < self.flip:
                value = 1.0 - value
        return value + NormalDist(0, self.sigma).inv_cdf(_uniform(key, name, "sigma")) if self.sigma else value


def _uniform(key: Key, name: str, use: str) -> float:
    """Return a number in the open interval (0, 1), a pure function of its arguments on every platform."""
    draw = replace(key, purpose=f"{key.purpose}/{name}/{use}").hash()
    return ((draw >> 11) + 0.5) / 2**52


RewardSpec = Annotated[TaskReward | Composite | Function | ModelReward | Noisy | Sentiment, Field(discriminator="type")]

for _part in (Term, Composite, Noisy):
    _part.model_rebuild()


def judge(
    reward: RewardSpec,
    rows: Sequence[Response],
    models: Mapping[str, ModelScorer],
    outcomes: Mapping[Part, Sequence[Outcome]] = MappingProxyType({}),
) -> Judged:
    """Return the rewards of graded rows; `outcomes` holds those of `row_functions` that were called already.

    Components are named after the kind of a single reward (`task`, `noisy`, `noisy.clean`), and after the terms of a
    composite (`correct`, `style`, `style.clean`, `style.words` for a term `words` of the composite `style`).
    Raises ConfigError for a user function that cannot be loaded or lacks an argument.
    """
    tally = Tally(models, outcomes)
    whole = isinstance(reward, Composite)  # its terms are the components, the sum is the total
    total = reward.score(rows, "", tally) if whole else reward.record(rows, reward.type, tally)
    return Judged(total, tally.components, tally.failed, tally.reason)


def models_of(scorer: Scorer) -> list[Learned]:
    """Return what a reward or step scorer needs reward models for, one per `path`."""
    by_path: dict[str, Learned] = {}
    for model in _leaves(scorer):
        if isinstance(model, Learned):
            by_path.setdefault(model.path, model)
    return list(by_path.values())


def row_functions(reward: Scorer) -> list[Function]:
    """Return the user functions in a reward that are called response by response, so that none has to wait for all."""
    return list(dict.fromkeys(f for f in _leaves(reward) if isinstance(f, Function) and f.signature == "verl"))


def _leaves(scorer: Scorer) -> list[Scorer]:
    """Return the scorers that a scorer is made of."""
    if isinstance(scorer, Composite):
        return [leaf for term in scorer.terms.values() for leaf in _leaves(term.reward)]
    return _leaves(scorer.inner) if isinstance(scorer, Noisy) else [scorer]
