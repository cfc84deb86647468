"""Which problems a step asks: a pure function of seed and step, so a resume needs no loader state."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from paribus.errors import ConfigError
from paribus.types import Key


def problems_of_step(problems: int, per_step: int, seed: int, step: int, refill: int = 0) -> list[int]:
    """Return the indices of a step's problems, all different.

    Every epoch is a fresh permutation cut into whole steps; the remainder of an epoch is dropped, as verl does
    (7,473 problems by 128 are 58 steps an epoch). A step's refills draw from permutations of their own. Raises
    ConfigError when one step asks for more than there are.
    """
    steps = problems // per_step
    if steps == 0:
        raise ConfigError(
            f"rollout.prompts_per_step = {per_step}, but the training split has {problems} problems: "
            "lower it or add problems (within a step every problem is asked once)"
        )
    epoch, place = divmod(step, steps)
    order = _permutation(problems, Key(seed, "order", epoch, round=refill))
    return order[place * per_step : (place + 1) * per_step].tolist()


@functools.lru_cache(maxsize=8)
def _permutation(problems: int, key: Key) -> NDArray[np.int64]:
    """The order of an epoch, kept for all its steps: made anew in each, a step would cost what the data set is long."""
    return np.random.Generator(np.random.Philox(key.hash())).permutation(problems)
