"""The learning-rate schedule by hand numbers."""

from __future__ import annotations

import pytest

from paribus.engines.optim import lr_scale
from paribus.settings import OptimSpec


def shape(total: int, **changes: object) -> list[float]:
    spec = OptimSpec(lr=1.0, **changes)  # type: ignore[arg-type]
    return [lr_scale(spec, step, total) for step in range(total + 1)]


def test_warm_up_rises_in_equal_steps_and_never_starts_at_zero() -> None:
    assert shape(5, warmup_steps=4) == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1])


def test_linear_and_cosine_fall_to_their_end() -> None:
    assert shape(6, warmup_steps=2, schedule="linear") == pytest.approx([0.5, 1, 1, 0.75, 0.5, 0.25, 0])
    assert shape(4, schedule="linear", decay_to=0.5) == pytest.approx([1, 0.875, 0.75, 0.625, 0.5])
    assert shape(4, schedule="cosine", decay_to=0.1) == pytest.approx([1, 0.868198, 0.55, 0.231802, 0.1], abs=1e-6)


def test_a_schedule_stays_at_its_end() -> None:
    spec = OptimSpec(lr=1.0, schedule="linear", decay_to=0.2)
    assert lr_scale(spec, 100, 10) == pytest.approx(0.2)
