"""Facts and rows of a made-up run."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paribus.store import DataInfo, EvalRow, ExperimentPaths, GraderInfo, RunFacts, RunPaths, StepRow


@pytest.fixture
def facts() -> RunFacts:
    return RunFacts(
        config_hash="c0ffee",
        grader=GraderInfo(name="exact", policy="boxed", version="1:abc"),
        data={"train": DataInfo(name="toy", split="train", n=64, hash="aa")},
        device="cpu: test",
        device_bytes=8 << 30,
        threads=2,
        determinism="bit-exact at equal layout and threads",
    )


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    return ExperimentPaths(tmp_path / "toy").run("grpo", 0)


@pytest.fixture
def step_row() -> Callable[[int], StepRow]:
    return lambda n: StepRow(step=n, samples=8 * n, tokens=80 * n, stats={"score": {"sum": n / 3, "count": 8.0}})


@pytest.fixture
def eval_row() -> Callable[..., EvalRow]:
    def make(problem: str, score: float | None = 1.0, response: str = "so \\boxed{4}") -> EvalRow:
        return EvalRow(
            problem_id=problem,
            response=response,
            answer="4",
            score=score,
            status="ok",
            format=True,
            truncated=False,
            tokens=7,
            prompt_tokens=11,
            grader="1:abc",
        )

    return make


@pytest.fixture
def disk_full(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], None]:
    """Call it with the bytes that still fit on the disk; None frees the disk again."""
    write = os.write

    def fill(budget: int | None) -> None:
        left = budget

        def limited(fd: int, data: Any) -> int:
            nonlocal left
            if left is None:
                return write(fd, data)
            if left == 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            done = write(fd, bytes(data[:left]))
            left -= done
            return done

        monkeypatch.setattr(os, "write", limited)

    return fill
