"""`paribus ingest`: what verl and TRL wrote, as runs that stand beside a local one in a report."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from exports import QUESTIONS, experiment, write_data
from paribus.errors import ConfigError, DataError
from paribus.experiment import Experiment
from paribus.interop.export import export_arms
from paribus.interop.export.manifest import read_manifest
from paribus.interop.ingest import Origin, ingest
from paribus.interop.responses import Answered, Asked
from paribus.pipeline.compare import experiment_info
from paribus.report import build
from paribus.report.cost import totals
from paribus.report.text import DASH
from paribus.store import ExperimentPaths, RunFacts, RunWriter, StepRow, TimingRow, read_experiment, write_experiment
from paribus.store.schema import DataInfo, EvalRow, GraderInfo, ProblemRow
from paribus.store.writer import write_problems
from paribus.tasks import content_hash
from paribus.types import Problem


def length(text: str) -> int:
    return len(text.split())


VERL, TRL = Origin("verl", "0.9.1", "grpo-verl", "grpo"), Origin("trl", "1.16.0", "grpo-trl", "grpo")


@pytest.fixture
def exp(tmp_path: Path) -> Experiment:
    return experiment(write_data(tmp_path / "data"))


def answer(gold: str, right: bool) -> str:
    return f"so \\boxed{{{gold if right else '-1'}}}"


def verl_dump(path: Path, exp: Experiment, right: Callable[[int], bool], step: int, **more: Any) -> None:
    """Write a validation as 0.9.1 does, with the columns of the exported scorer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for i, p in enumerate(exp.setting.task.problems("test")):
            text = exp.setting.task.messages(p)[0]["content"]
            row = {"input": f"user\n{text}\nassistant\n", "output": answer(p.gold, right(i)), "gts": p.gold}
            row |= {"score": float(right(i)), "step": step, "acc": float(right(i)), "problem_id": p.id, **more}
            file.write(json.dumps({k: v for k, v in row.items() if v is not None}) + "\n")


def trl_completions(path: Path, exp: Experiment, split: str, right: Callable[[int], bool], update: int) -> None:
    """Write completions as TRL 1.16 does, each problem `samples` times, with the columns of the exported scorer."""
    samples = 1 if split == "test" else 2
    problems = [p for p in exp.setting.task.problems(split) for _ in range(samples)]
    rewards = [float(right(i)) for i in range(len(problems))]
    columns = {
        "step": [update] * len(problems),
        "prompt": [exp.setting.task.messages(p) for p in problems],
        "completion": [[{"role": "assistant", "content": answer(p.gold, right(i))}] for i, p in enumerate(problems)],
        "reward": rewards,
        "accuracy": rewards,
        "problem_id": [p.id for p in problems],
        "advantage": [0.0] * len(problems),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.table(columns), path)


def local_run(exp: Experiment, out: Path) -> None:
    """Write a finished local run of arm grpo, half of its answers right."""
    paths = ExperimentPaths(out)
    only = exp.model_copy(update={"arms": {"grpo": exp.arms["grpo"]}, "seeds": (0,)})
    write_experiment(paths, experiment_info(only))
    problems = exp.setting.task.problems("test")
    write_problems(paths, "test", [ProblemRow(problem_id=p.id, question=p.question, gold=p.gold) for p in problems])
    grader = exp.setting.task.grader
    facts = RunFacts(
        config_hash="c",
        grader=GraderInfo(name=grader.type, policy=grader.name, version=grader.version),
        data={
            use: DataInfo(name="jsonl", split=split, n=QUESTIONS, hash=content_hash(exp.setting.task.problems(split)))
            for use, split in (("train", "train"), ("test", "test"))
        },
        device="cpu: made up",
        device_bytes=None,
        threads=1,
        determinism="bit-exact",
    )
    run = RunWriter.create(paths.run("grpo", 0), facts, {})
    run.append_timing(TimingRow(step=6, seconds={"rollout": 2.0}))
    run.append_step(StepRow(step=6, samples=96, tokens=960, stats={"reward": {"sum": 8.0, "square": 8.0, "count": 16}}))
    rows = [
        EvalRow(problem_id=p.id, response="r", answer=p.gold, score=float(i % 2), status="ok", format=True,
                truncated=False, tokens=2, prompt_tokens=9, grader=grader.version)
        for i, p in enumerate(problems)
    ]  # fmt: skip
    run.write_eval("test", 6, rows)
    run.done({})


def take(origin: Origin, exp: Experiment, folder: Path, out: Path, seed: int | None = None) -> list[str]:
    return ingest(exp, origin, folder, out, length=length, describe=experiment_info, seed=seed)


def test_verl_and_trl_stand_beside_a_local_run_in_one_report(exp: Experiment, tmp_path: Path) -> None:
    out = tmp_path / "runs" / "sums"
    local_run(exp, out)
    (folder,) = export_arms(exp, "verl", tmp_path / "export", arms=["grpo"], micro_batch=16)
    for seed in (0, 1):
        verl_dump(folder / f"runs/seed-{seed}/validation/test/6.jsonl", exp, lambda i: i != 3, 6)
    told = read_manifest("verl", folder, None, ())
    lines = take(Origin("verl", told.version, "grpo-verl", told.arm), told.experiment, folder, out)
    assert len(lines) == 2 and "test at step 6" in lines[0]
    trl_completions(tmp_path / "trl/completions/completions_00006.parquet", exp, "test", lambda i: i < 2, 6)
    trl_completions(tmp_path / "trl/completions/completions_00003.parquet", exp, "train", lambda i: i % 3 == 0, 3)
    take(TRL, exp, tmp_path / "trl", out, seed=0)

    stored = read_experiment(out)
    assert stored.info.arms == ("grpo", "grpo-verl", "grpo-trl") and stored.info.seeds == (0, 1)
    scores = {arm: sum(row.score or 0 for row in stored.runs[arm][0].eval("test")) for arm in stored.info.arms}
    assert scores == {"grpo": 3, "grpo-verl": 5, "grpo-trl": 2}
    (engine,) = [row for row in stored.info.differences if row.path == "engine"]
    assert engine.values == {"grpo": "paribus", "grpo-verl": "verl 0.9.1", "grpo-trl": "trl 1.16.0"}
    assert not engine.declared
    (step,) = stored.runs["grpo-trl"][0].steps
    assert (step.step, step.samples, step.stats["score"]["sum"]) == (3, 12, 4.0)
    page = build(out, tmp_path / "page").read_text()
    assert "grpo-verl" in page and "grpo-trl" in page and "verl 0.9.1" in page
    assert totals(stored, 1.5).rows[0][1:4] == ["2.0 s", DASH, DASH]  # not 0 s: nobody recorded it


def test_responses_are_graded_here_whatever_the_dump_says(exp: Experiment, tmp_path: Path) -> None:
    """verl's own scorer gives 0 to every boxed answer; ours counts."""
    verl_dump(tmp_path / "dump/validation/test/6.jsonl", exp, lambda i: True, 6, score=0.0, acc=0.0)
    take(VERL, exp, tmp_path / "dump", tmp_path / "out", seed=0)
    rows = read_experiment(tmp_path / "out").runs["grpo-verl"][0].eval("test")
    assert [row.score for row in rows] == [1.0] * QUESTIONS
    assert [row.problem_id for row in rows] == [p.id for p in exp.setting.task.problems("test")]


def test_rows_without_an_id_are_joined_by_the_question(exp: Experiment, tmp_path: Path) -> None:
    verl_dump(tmp_path / "dump/validation/test/6.jsonl", exp, lambda i: i < 4, 6, problem_id=None)
    take(VERL, exp, tmp_path / "dump", tmp_path / "out", seed=0)
    rows = read_experiment(tmp_path / "out").runs["grpo-verl"][0].eval("test")
    assert [row.score for row in rows] == [1.0] * 4 + [0.0] * 2


def test_a_question_inside_another_is_told_from_it_and_one_asked_twice_is_refused() -> None:
    short, long, again = (Problem(id=name, question=name, gold="1") for name in ("short", "long", "again"))
    asked = Asked([short, long], ["1 + 1?", "What is 1 + 1?"])
    row = Answered("file, line 1", None, "user\nWhat is 1 + 1?\n", "2", None)
    assert asked.find(row) is long and asked.holds(row)
    assert asked.find(dataclasses.replace(row, prompt="so 1 + 1?")) is short
    with pytest.raises(DataError, match=r"file, line 1: its prompt asks 2 problems"):
        Asked([long, again], ["What is 1 + 1?"] * 2).find(row)
    assert not asked.holds(dataclasses.replace(row, prompt="1 + 3?"))


def test_a_response_as_long_as_the_limit_counts_as_cut(exp: Experiment, tmp_path: Path) -> None:
    long = "word " * 41 + "\\boxed{1}"
    verl_dump(tmp_path / "dump/validation/test/6.jsonl", exp, lambda i: True, 6, output=long)
    take(VERL, exp, tmp_path / "dump", tmp_path / "out", seed=0)
    rows = read_experiment(tmp_path / "out").runs["grpo-verl"][0].eval("test")
    assert all(row.truncated and row.tokens == 40 for row in rows)


def test_a_part_of_a_suite_is_refused_and_leaves_nothing(exp: Experiment, tmp_path: Path) -> None:
    path = tmp_path / "dump/validation/test/6.jsonl"
    verl_dump(path, exp, lambda i: True, 6)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(DataError, match=r"1 of 6 problems do not have 1 responses"):
        take(VERL, exp, tmp_path / "dump", tmp_path / "out", seed=0)
    assert not (tmp_path / "out").exists()


def test_a_folder_of_another_setting_or_a_second_time_is_refused(exp: Experiment, tmp_path: Path) -> None:
    verl_dump(tmp_path / "dump/validation/test/6.jsonl", exp, lambda i: True, 6)
    take(VERL, exp, tmp_path / "dump", tmp_path / "out", seed=0)
    with pytest.raises(ConfigError, match="already holds a run"):
        take(VERL, exp, tmp_path / "dump", tmp_path / "out", seed=0)
    other = experiment(tmp_path / "data", optim={"lr": 3e-6})
    with pytest.raises(ConfigError, match=r"another setting:\n  optim.lr: 1e-06 in the folder, 3e-06 in the export"):
        take(VERL, other, tmp_path / "dump", tmp_path / "out", seed=1)


def test_an_empty_folder_and_another_format_are_refused(exp: Experiment, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="give the seed of the run"):
        take(VERL, exp, tmp_path / "empty", tmp_path / "out")
    with pytest.raises(DataError, match=r"no responses of verl in it: expected validation/SUITE/STEP.jsonl"):
        take(VERL, exp, tmp_path / "empty", tmp_path / "out", seed=0)
    path = tmp_path / "odd/validation/test/6.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text('{"text": "x"}\n')
    with pytest.raises(DataError, match="not a dump of verl"):
        take(VERL, exp, tmp_path / "odd", tmp_path / "out", seed=0)
    with pytest.raises(ConfigError, match="say with --experiment"):
        read_manifest("verl", tmp_path / "empty", None, ())
