"""The clock: inner phases are not charged twice, and a peak belongs to the phase it happened in."""

from __future__ import annotations

import mmap
import time

import pytest

from paribus.pipeline.clock import Clock


def test_seconds_of_all_phases_add_up_to_the_wall_clock() -> None:
    clock = Clock()
    clock.take()
    began = time.perf_counter()
    with clock("eval"):
        time.sleep(0.05)
        with clock("grade"):
            time.sleep(0.03)
    row = clock.take()
    wall = time.perf_counter() - began
    clock.close()
    assert sum(row["seconds"].values()) == pytest.approx(wall, abs=0.005)
    assert row["seconds"]["eval"] >= 0.05 and 0.03 <= row["seconds"]["grade"] < 0.05


def test_a_memory_peak_is_charged_to_its_phase() -> None:
    clock = Clock()
    with clock("rollout"), mmap.mmap(-1, 50_000_000) as block:  # given back at once, unlike what malloc holds
        block.write(b"1" * 50_000_000)
        time.sleep(0.06)
    with clock("grade"):
        time.sleep(0.06)
    row = clock.take()
    clock.close()
    assert row["rss_peak"]["rollout"] - row["rss_peak"]["grade"] > 40_000_000
    assert clock.take()["seconds"].keys() == {"other"}
