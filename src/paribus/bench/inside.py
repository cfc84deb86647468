"""Seconds inside the model's passes, to tell what a step spends outside of them."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from paribus.engines import learner, local
from paribus.engines.optim import Optimizer
from paribus.models.decoder import Decoder
from paribus.models.value import ValueModel

PASSES = ("admit", "step")  # of a decoder
Point = tuple[Any, str, str]


def points() -> list[Point]:
    """Return the calls that are timed as (owner, name, what they are)."""
    decoders = [Decoder, *Decoder.__subclasses__()]
    found: list[Point] = [(c, name, "model") for c in decoders for name in PASSES if c is Decoder or name in vars(c)]
    found += [(learner, "before", "model"), (learner, "token_scores", "model"), (ValueModel, "forward", "model")]
    found += [(torch.Tensor, "backward", "model"), (Optimizer, "step", "model")]
    return [*found, (local, "choose", "draw"), (local, "make_decoder", "weights")]


@contextmanager
def watched() -> Iterator[dict[str, float]]:
    """Yield the seconds by kind, growing while inside: model passes, draws of tokens, weights made ready to decode.

    Of calls within each other, the outermost counts. Raises AttributeError when one of the calls has another name now.
    """
    seconds = {"model": 0.0, "draw": 0.0, "weights": 0.0}
    depth = 0

    def timed(call: Any, kind: str) -> Any:
        @functools.wraps(call)
        def run(*args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            depth += 1
            start = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                depth -= 1
                if depth == 0:
                    seconds[kind] += time.perf_counter() - start

        return run

    plain = [(owner, name, getattr(owner, name), kind) for owner, name, kind in points()]
    for owner, name, call, kind in plain:
        setattr(owner, name, timed(call, kind))
    try:
        yield seconds
    finally:
        for owner, name, call, _ in plain:
            setattr(owner, name, call)
