"""Graders: the one judgement of a response, in training and in evaluation."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from paribus.part import Part


class Answer(Part):
    """Exact comparison of one number."""

    type: Literal["answer"] = "answer"
    policy: Literal["strict", "flexible", "boxed", "official-gsm8k"] = "strict"
    marker: str = "####"
    stop: tuple[str, ...] = ()


class Math(Part):
    """Mathematical equality."""

    type: Literal["math"] = "math"
    seconds: float = Field(5.0, gt=0)
    workers: int = Field(1, ge=1)


Grader = Annotated[Answer | Math, Field(discriminator="type")]
