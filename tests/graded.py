"""Graded rows, as rewards get them."""

from __future__ import annotations

from paribus.rewards import Response
from paribus.types import Key, Problem, Status, Verdict

SOLUTION = "Ben has 22 + 6 = 28 toys.\nNow Ben has 28 + 5 = 33 toys.\n#### 33"


def respond(
    text: str = "",
    score: float = 1.0,
    *,
    status: Status = "ok",
    sample: int = 0,
    step: int = 0,
    seed: int = 0,
    solution: str = SOLUTION,
    truncated: bool = False,
) -> Response:
    return Response(
        problem=Problem(id="story-0", question="How many?", gold="33", solution=solution, tags={"kind": "inverse"}),
        text=text,
        truncated=truncated,
        verdict=Verdict(score=score, answer=None, status=status),
        key=Key(seed, "noise", step, "story-0", sample),
    )
