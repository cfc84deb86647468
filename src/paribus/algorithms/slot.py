"""What all Parts of an algorithm share: what they need from the pipeline, and their formula in plain text."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar, TypeVar

from paribus.part import Part

Memory = Mapping[str, float]  # what a method carries from step to step; plain numbers, so a checkpoint holds it exactly


class Need(StrEnum):
    """What the pipeline must provide beside rollout, score and mask."""

    OLD = "old"  # log-probs of the policy that starts the step
    REFERENCE = "reference"  # log-probs of the frozen reference
    VALUES = "values"  # the critic's value of the state before each token
    FINAL_VALUE = "final_value"  # its value of the state after a truncated row's last token
    GROUP = "group"  # at least two samples of each prompt
    STEPS = "steps"  # a score for each step of a response
    GREEDY = "greedy"  # the score of the greedy response to each prompt
    ENTROPY = "entropy"  # entropy of the old policy at each token
    START = "start"  # responses sampled by the policy that starts the run, whatever it has become


class Slot(Part):
    """Base of the Parts that fill a slot of an algorithm.

    Notation of `formula`: index t is a token, b a row, L its trained tokens, rw a token's shaped reward, lp the
    log-probability, r the ratio to the old policy, A the advantage, V a value; lower-case names are the Part's fields.
    """

    needs: ClassVar[frozenset[Need]] = frozenset()
    formula: ClassVar[str]


T = TypeVar("T")


def required(value: T | None, name: str) -> T:
    """Return what the algorithm's needs promised to be there."""
    if value is None:
        raise ValueError(f"the algorithm needs {name}, which the pipeline did not provide")
    return value
