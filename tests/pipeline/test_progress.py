"""What a person sees of several runs: a line each, and an estimate that knows how many work at a time."""

from __future__ import annotations

import io
import time

import pytest

from paribus.pipeline.progress import Watch


def test_the_estimate_fills_the_places_that_become_free(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    watch = Watch(["base", "a/seed-0", "b/seed-0", "b/seed-1", "a/seed-1"], io.StringIO())
    watch.at_once = 2
    watch.skip("base")
    watch.start("a/seed-0")
    watch.start("b/seed-0")
    now[0] = 10.0
    watch.advance("a/seed-0", "step", 1, 2, "", 0.5)  # 10 more seconds
    watch.advance("b/seed-0", "step", 1, 4, "", 0.25)  # 30 more
    # the two to come take 30 each (a known 20 and 40): 10 + 30 beside 30 + 30
    assert watch.left() == 60
    now[0] = 20.0
    watch.finish("a/seed-0", 20.0)
    watch.drop("a/seed-0")
    watch.start("b/seed-1")
    watch.finish("b/seed-0", 40.0)
    watch.drop("b/seed-0")
    # of b/seed-1, not yet heard of, and of a/seed-1 only the arms' earlier runs tell: 40 beside 20
    assert watch.left() == 40


def test_every_run_speaks_in_its_own_name() -> None:
    said = io.StringIO()
    with Watch(["a/seed-0", "b/seed-0"], said) as watch:
        for label in ("a/seed-0", "b/seed-0"):
            watch.start(label)
        for label in ("b/seed-0", "a/seed-0"):
            watch.advance(label, "step", 1, 9, "score 0.5", 1 / 9)
        watch.advance("a/seed-0", "step", 2, 9, "score 0.5", 2 / 9)  # within the heartbeat: silence
    lines = said.getvalue().splitlines()
    assert [line.split("  ")[:3] for line in lines] == [
        ["b/seed-0", "step 1/9", "score 0.5"],
        ["a/seed-0", "step 1/9", "score 0.5"],
    ]
