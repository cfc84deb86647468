"""The order of problems: complete epochs, a pure function of seed and step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paribus.errors import ConfigError
from paribus.pipeline.order import problems_of_step


@given(st.integers(1, 200), st.integers(1, 40), st.integers(0, 5))
def test_an_epoch_asks_every_problem_at_most_once(problems: int, per_step: int, seed: int) -> None:
    if per_step > problems:
        with pytest.raises(ConfigError, match="prompts_per_step"):
            problems_of_step(problems, per_step, seed, 0)
        return
    steps = problems // per_step
    for epoch in (0, 1):
        seen = [i for s in range(steps) for i in problems_of_step(problems, per_step, seed, epoch * steps + s)]
        assert len(seen) == steps * per_step == len(set(seen)) and set(seen) <= set(range(problems))


def test_gsm8k_has_58_steps_an_epoch_and_each_epoch_its_own_order() -> None:
    first = [problems_of_step(7473, 128, 0, s) for s in range(58)]
    second = [problems_of_step(7473, 128, 0, s) for s in range(58, 116)]
    assert first != second and first[0] != problems_of_step(7473, 128, 1, 0)
    assert second[17] == problems_of_step(7473, 128, 0, 75)  # in the second epoch: no state, no replay
