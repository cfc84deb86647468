"""Rewards that need nothing of the user's own: the task's verdict, a learned model, a sentiment lexicon."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

from pydantic import model_validator

from paribus.rewards.base import Learned, Response, Reward, Tally, Values, counted, release


class TaskReward(Reward):
    """The grader's score of the response: what evaluation measures is what training optimises."""

    type: Literal["task"] = "task"

    def score(self, rows: Sequence[Response], name: str, tally: Tally) -> Values:
        return [counted(row.verdict) for row in rows]


class ModelReward(Learned, Reward):
    """The score that a learned reward model gives to prompt and response."""

    type: Literal["model"] = "model"

    def score(self, rows: Sequence[Response], name: str, tally: Tally) -> Values:
        return [self.scale(raw) for raw in tally.models[self.path](rows)]


class Sentiment(Reward):
    """How positive the response's words are: VADER's compound score in -1..1, mapped linearly onto `low`..`high`.

    Hutto and Gilbert, "VADER: A Parsimonious Rule-based Model for Sentiment Analysis of Social Media Text" (2014).
    """

    type: Literal["sentiment"] = "sentiment"
    low: float = -1.0
    high: float = 1.0

    @model_validator(mode="after")
    def _ordered(self) -> Sentiment:
        if self.low >= self.high:
            raise ValueError(f"low = {self.low} must be less than high = {self.high}")
        return self

    def materials(self) -> list[str]:
        return [release("vaderSentiment", "sentiment")]

    def score(self, rows: Sequence[Response], name: str, tally: Tally) -> Values:
        analyzer = _analyzer()
        compound = [analyzer.polarity_scores(row.text)["compound"] for row in rows]
        return [self.low + (c + 1) / 2 * (self.high - self.low) for c in compound]


@cache
def _analyzer() -> Any:
    release("vaderSentiment", "sentiment")  # says how to install it
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    return SentimentIntensityAnalyzer()
