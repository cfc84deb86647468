"""Evaluation suites: which problems are asked how, and how the answers are judged."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from paribus.part import Part

KS = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # numbers of samples at which pass@k and maj@k are told


class EvalSpec(Part):
    """One evaluation suite: the same harness for the base and for every arm."""

    split: Literal["train", "validation", "test"] = "test"
    limit: int | None = Field(default=None, ge=1)  # first n problems; None: all
    samples: int = Field(default=1, ge=1)
    temperature: float = Field(default=0.0, ge=0)  # 0: greedy
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_response: int = Field(ge=1)
    every: int | None = Field(default=None, ge=1)  # steps between evaluations of an arm; None: after the last step only
    kl: bool = False  # measure each response's KL to the starting policy; needs the rollout's temperature

    @property
    def metrics(self) -> list[str]:
        """What can be a headline: accuracy (the mean over samples), and pass@k and maj@k for k up to `samples`."""
        ks = [k for k in KS if k <= self.samples] if self.samples > 1 else []
        return ["accuracy", *(f"pass@{k}" for k in ks), *(f"maj@{k}" for k in ks)]
