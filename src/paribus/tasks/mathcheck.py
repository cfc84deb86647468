"""The judgement of one mathematical answer by math-verify, between exact checks; runs inside a worker process."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any, Literal

from paribus.tasks.expressions import compare

RELATIVE = 1e-6  # of two irrational numbers; math-verify rounds absolutely, and so equates all that is tiny


class UngradableError(Exception):
    """The gold cannot be read."""


@lru_cache(maxsize=256)
def _parse(text: str) -> tuple[Any, ...]:
    """Return the sympy objects that `text` was read as, none where it could not be read."""
    from math_verify import LatexExtractionConfig, parse

    logging.getLogger("math_verify").setLevel(logging.CRITICAL)  # it warns at each call that the timeout is ours
    found = parse(f"${text}$", extraction_config=[LatexExtractionConfig()], parsing_timeout=None)
    return tuple(item for item in found if not isinstance(item, str))


def _differ(gold: Any, answer: Any) -> bool:
    """Say whether two sympy objects are numbers that differ by more than RELATIVE."""
    from sympy import Expr, N

    if not (isinstance(gold, Expr) and isinstance(answer, Expr) and gold.is_number and answer.is_number):
        return False
    distance, size = abs(N(gold - answer, 30)), max(abs(N(gold, 30)), abs(N(answer, 30)))
    return bool(distance > RELATIVE * size)


def _equal(gold: str, answer: str) -> bool:
    from math_verify import verify

    golds, answers = _parse(gold), _parse(answer)
    if not golds:
        raise UngradableError(gold)
    if not answers or not verify(list(golds), list(answers), timeout_seconds=None):
        return False
    return not _differ(golds[0], answers[0])


def judge(gold: str, answer: str) -> Literal["right", "wrong", "ungradable"]:
    """Judge two cleaned answers (`expressions.clean`). Without a time limit: call it through a `mathpool.Pool`."""
    try:
        return "right" if compare(gold, answer, _equal) else "wrong"
    except UngradableError:
        return "ungradable"
