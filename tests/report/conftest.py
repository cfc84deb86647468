"""Small experiments on disk, written through the store as a pipeline would, with numbers that a hand can check."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from paribus.store import (
    DataInfo,
    DifferenceRow,
    EvalRow,
    ExperimentInfo,
    ExperimentPaths,
    GraderInfo,
    ProblemRow,
    RunFacts,
    RunWriter,
    StepRow,
    TimingRow,
    write_experiment,
    write_problems,
)

GRADER = GraderInfo(name="answer", policy="boxed", version="3f2a")
Write = Callable[..., Path]


def facts(threads: int = 2) -> RunFacts:
    return RunFacts(
        config_hash="c0ffee",
        grader=GRADER,
        data={
            "train": DataInfo(name="stories", split="train", n=4000, hash="aa11"),
            "test": DataInfo(name="stories", split="test", n=8, hash="bb22"),
        },
        device="cpu: made up",
        device_bytes=8 << 30,
        threads=threads,
        determinism="bit-exact at equal layout and threads",
    )


def eval_rows(pattern: str, text: str, tokens: int) -> list[EvalRow]:
    """One row per character: 1 right, 0 wrong, t wrong and cut, u no answer found, x not counted."""
    return [
        EvalRow(
            problem_id=f"test-{i}",
            response=f"{text} \\boxed{{{i}}}",
            answer=None if c == "u" else str(i),
            score=None if c == "x" else float(c == "1"),
            status={"u": "unparsable", "x": "timeout"}.get(c, "ok"),  # type: ignore[arg-type]
            format=c not in "tu",
            truncated=c == "t",
            tokens=tokens,
            prompt_tokens=20,
            grader=GRADER.version,
        )
        for i, c in enumerate(pattern)
    ]


def timing(step: int, seconds: Mapping[str, float], tokens: int, suite: str | None = None) -> TimingRow:
    peak = {phase: (500 + 10 * step + 100 * (phase == "critic_update")) * 10**6 for phase in seconds}
    return TimingRow(step=step, suite=suite, seconds=seconds, tokens=tokens, rss=10**9, rss_peak=peak)  # type: ignore[arg-type]


def step_row(step: int, lift: float) -> StepRow:
    stats = {
        "score": {"sum": 16 * (0.4 + lift * step), "square": 8.0, "count": 16.0},
        "response_tokens": {"sum": 16 * (60.0 - step), "count": 16.0},
        "kl_k3": {"sum": 0.001 * step, "count": 1.0},
        "entropy": {"sum": 0.5 - 0.01 * step, "count": 1.0},
        "clip_low": {"sum": 1.0, "count": 100.0},
        "clip_high": {"sum": 2.0, "count": 100.0},
        "grad_norm": {"sum": math.nan if step == 2 else 1.0 + lift, "count": 1.0},
    }
    return StepRow(step=step, samples=16 * step, tokens=900 * step, stats=stats)


def write_run(
    exp: ExperimentPaths,
    arm: str,
    seed: int,
    pattern: str,
    seconds: Mapping[str, float],
    *,
    text: str = "so",
    steps: int = 4,
    end: bool = True,
) -> RunWriter:
    """Write one run: `seconds` a step by phase, a final evaluation that takes 2 s, unless it does not `end`."""
    run = RunWriter.create(exp.run(arm, seed), facts(), {"arm": arm})
    for step in range(1, steps + 1):
        run.append_step(step_row(step, 0.01 * (seed + 1)))
        run.append_timing(timing(step, seconds, 900))
    if end:
        rows = eval_rows(pattern, text, 50)
        run.write_eval("test", steps, rows)
        run.append_timing(timing(steps, {"eval": 2.0}, sum(r.tokens for r in rows), "test"))
        run.done({"steps": steps})
    else:
        run.failed(ValueError("loss is <b>not</b> finite"))
    return run


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes an experiment: `runs[arm][seed]` is the pattern of its final evaluation."""

    def make(
        runs: Mapping[str, Mapping[int, str]],
        base: str | None = "10010000",
        *,
        seeds: Sequence[int] = (0, 1, 2),
        text: str = "so",
        question: str = "How many?",
        seconds: Mapping[str, Mapping[str, float]] | None = None,
        differences: Sequence[DifferenceRow] = (),
        failing: Collection[tuple[str, int]] = (),
        name: str = "toy",
        **info: Any,
    ) -> Path:
        exp = ExperimentPaths(tmp_path / name)
        fields = {
            "name": name,
            "question": "Does a learned critic beat the group mean?",
            "primary": "test:accuracy",
            "seeds": tuple(seeds),
            "arms": tuple(runs),
            "differences": tuple(differences)
            or (DifferenceRow(path="advantage.type", values={"ppo": "gae", "grpo": "group_zscore"}, declared=True),),
            "price_per_hour": 1.5,
            "resolved": {"setting": {"optim": {"lr": 3e-5}, "task": {"type": "stories"}}},
        }
        write_experiment(exp, ExperimentInfo.model_validate({**fields, **info}))
        if base is not None:
            questions = [ProblemRow(problem_id=f"test-{i}", question=question, gold=str(i)) for i in range(len(base))]
            write_problems(exp, "test", questions)
            run = RunWriter.create(exp.base, facts(), {})
            run.write_eval("test", 0, eval_rows(base, text, 100))
            run.append_timing(timing(0, {"eval": 4.0}, 100 * len(base), "test"))
            run.done({})
        split = seconds or {"ppo": {"rollout": 6.0, "critic_update": 3.0, "other": 1.0}, "grpo": {"rollout": 5.0}}
        for seed in seeds:
            for arm, patterns in runs.items():
                if seed in patterns:
                    write_run(
                        exp,
                        arm,
                        seed,
                        patterns[seed],
                        split.get(arm, {"rollout": 5.0}),
                        text=text,
                        end=(arm, seed) not in failing,
                    )
        return exp.root

    return make
