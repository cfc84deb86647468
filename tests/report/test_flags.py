"""Values that cannot be true as they stand are flagged, and only those."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paribus.report.flags import GB, GIB, memory_flags, rate_flags, unit_note
from paribus.report.message import say


def test_the_founding_memory_row() -> None:
    """50.71 "GB" allocated on a 48 GB card, of which nvidia-smi saw 47.36: in no unit can all three hold."""
    told = [say(text) for text in memory_flags(50.71 * GB, 47.36 * GB, 48 * GB)]
    assert len(told) == 2 and "50.71 GB is more than the device's 48.00 GB" in told[0]
    assert "50.71 GB is more than the peak of the whole device, 47.36 GB" in told[1]
    assert memory_flags(45.19 * GB, 47.31 * GB, 48 * GB) == []
    note = say(unit_note(50.71, 48))
    assert "54.45 GB, still more than the device" in note and "48 GiB (51.54 GB)" in note
    assert "No reading of the units makes it fit" in say(unit_note(60, 48))


@given(*(st.none() | st.integers(1, 10**12) for _ in range(3)))
def test_only_contradictions_are_flagged(allocated: int | None, peak: int | None, capacity: int | None) -> None:
    known = [x for x in (allocated, peak, capacity) if x is not None]
    assert bool(memory_flags(allocated, peak, capacity)) == (known != sorted(known))


def test_equal_sizes_are_possible() -> None:
    assert memory_flags(GIB, GIB, GIB) == [] and memory_flags(None, None, None) == []
    assert len(memory_flags(GIB + 1, None, GIB)) == 1


def test_a_rate_is_tokens_over_time_within_rounding() -> None:
    assert rate_flags(1319 * 158.7, 10.4, 20127) == [] and rate_flags(1319 * 296.8, 17.0, 23047) == []
    (flag,) = rate_flags(100.0, 10.0, 20.0)
    assert say(flag) == "Contradiction: 100 tokens in 10.0 s are 10 tokens/s, but 20 are stated."
    assert rate_flags(None, 1.0, 1.0) == rate_flags(1.0, None, 1.0) == rate_flags(1.0, 0.0, 1.0) == []
