"""Exploration in the rollout itself: what the sampler does beside drawing tokens."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from paribus.algorithms.slot import Slot


class NeighbourMix(Slot):
    """Neighbour-mixed embeddings (N-GRPO, 2606.10768, section 3).

    With probability `rate` a step draws no token: the likeliest one (the anchor) is recorded, and the model reads a
    mix of the embeddings of the anchor and its `neighbours` - 1 nearest tokens by cosine, weighted by the softmax of
    their logits. The learner reads the same mix. `train` says whether the policy loss acts on those positions, whose
    token was not drawn: the official code lets it, which biases the gradient at rate `rate`.
    """

    type: Literal["neighbour_mix"] = "neighbour_mix"
    rate: float = Field(default=0.1, ge=0, le=1)
    neighbours: int = Field(default=3, ge=2)
    train: bool = True

    formula: ClassVar[str] = (
        "with probability rate: token = argmax, next input = sum_c softmax(logits over C)_c E[c], "
        "C = the token and its nearest neighbours - 1 by cosine in E"
    )
