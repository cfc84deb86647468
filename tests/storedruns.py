"""Small experiments on disk for what reads them: the pattern of an evaluation says which answers are right."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from paribus.store import (
    DataInfo,
    EvalRow,
    ExperimentInfo,
    ExperimentPaths,
    GraderInfo,
    ProblemRow,
    RunFacts,
    RunPaths,
    RunWriter,
    StepRow,
    TimingRow,
    write_experiment,
    write_problems,
)

SETTING = {"budget": {"steps": 4}, "rollout": {"prompts_per_step": 4, "samples_per_prompt": 4}}
FACTS = RunFacts(
    config_hash="c0ffee",
    grader=GraderInfo(name="answer", policy="boxed", version="3f2a"),
    data={"train": DataInfo(name="toy", split="train", n=9, hash="aa")},
    device="cpu: made up",
    device_bytes=8 << 30,
    threads=2,
    determinism="bit-exact",
)


def eval_rows(pattern: str, response: str = "so 1") -> list[EvalRow]:
    """One row per character: 1 right, 0 wrong, t wrong and cut, x not counted."""
    return [
        EvalRow(
            problem_id=f"test-{i}",
            response=response,
            answer=str(i),
            score=None if c == "x" else float(c == "1"),
            status="timeout" if c == "x" else "ok",
            format=True,
            truncated=c == "t",
            tokens=50 + i,
            prompt_tokens=20,
            grader=FACTS.grader.version,
        )
        for i, c in enumerate(pattern)
    ]


def step_row(step: int, **stats: dict[str, float | None]) -> StepRow:
    usual: dict[str, Any] = {
        "reward": {"sum": 4.0 + step, "square": 8.0, "count": 16.0},
        "entropy": {"sum": 100.0, "count": 200.0},
        "response_tokens": {"sum": 480.0, "count": 16.0},
        "truncated": {"sum": 1.0, "count": 16.0},
        "uniform_groups": {"sum": 1.0, "count": 4.0},
        "nonfinite": {"sum": 0.0, "count": 1.0},
    }
    return StepRow(step=step, samples=16 * step, tokens=480 * step, stats={**usual, **stats})


def begin(paths: RunPaths, steps: int = 4, seconds: float = 2.0, rows: Sequence[StepRow] = ()) -> RunWriter:
    """Write a run that is at work: `steps` rows of `seconds` each, or the given rows."""
    run = RunWriter.create(paths, FACTS, {"setting": SETTING})
    for row in rows or [step_row(step) for step in range(1, steps + 1)]:
        run.append_step(row)
        run.append_timing(
            TimingRow(step=row.step, seconds={"rollout": seconds}, tokens=480, rss_peak={"rollout": 10**9})
        )
    return run


def write_experiment_of(
    root: Path,
    patterns: Mapping[str, Mapping[int, str]],
    *,
    base: str | None = None,
    suites: Sequence[str] = ("test",),
    seeds: Sequence[int] | None = None,
    unfinished: Collection[tuple[str, int]] = (),
    question: str = "How many?",
    response: str = "so 1",
) -> Path:
    """Write an experiment: `patterns[arm][seed]` is a run's final evaluation, on every suite; the first is primary."""
    exp = ExperimentPaths(root)
    known = sorted({seed for runs in patterns.values() for seed in runs})
    info = ExperimentInfo(
        name=root.name,
        question="Which?",
        primary=f"{suites[0]}:accuracy",
        seeds=tuple(known if seeds is None else seeds),
        arms=tuple(patterns),
        differences=(),
        price_per_hour=1.5,
        resolved={"setting": SETTING},
    )
    write_experiment(exp, info)
    for suite in suites:
        size = len(base or next(iter(next(iter(patterns.values())).values())))
        asked = [ProblemRow(problem_id=f"test-{i}", question=question, gold=str(i)) for i in range(size)]
        write_problems(exp, suite, asked)
    if base is not None:
        run = RunWriter.create(exp.base, FACTS, {})
        for suite in suites:
            run.write_eval(suite, 0, eval_rows(base, response))
        run.done({})
    for arm, runs in patterns.items():
        for seed, pattern in runs.items():
            run = begin(exp.run(arm, seed))
            if (arm, seed) in unfinished:
                run.failed(ValueError("loss is not finite"))
                continue
            for suite in suites:
                run.write_eval(suite, 4, eval_rows(pattern, response))
            run.done({"steps": 4})
    return root
