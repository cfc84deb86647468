"""A run on disk: what is written is read back, a kill loses at most the row being written, nothing is guessed."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from paribus.errors import ConfigError, DataError, RunError
from paribus.store import (
    DifferenceRow,
    EvalRow,
    ExperimentInfo,
    ExperimentPaths,
    ProblemRow,
    RunFacts,
    RunPaths,
    RunWriter,
    StepRow,
    StoredRun,
    TimingRow,
    read_experiment,
    stat_value,
    status,
    write_experiment,
    write_problems,
)

CONFIG = {"algorithm": {"name": "grpo"}, "setting": {"optim": {"lr": 1e-6}}}
MakeStep = Callable[[int], StepRow]
MakeEval = Callable[..., EvalRow]


def timing(step: int, seconds: float, suite: str | None = None) -> TimingRow:
    return TimingRow(step=step, suite=suite, seconds={"rollout": seconds, "other": 0.5})


def test_status_follows_the_marker_written_last(paths: RunPaths, facts: RunFacts) -> None:
    assert status(paths) == "new"
    run = RunWriter.create(paths, facts, CONFIG)
    assert status(paths) == "interrupted" and StoredRun(paths).info.status == "running"
    run.failed(ValueError("loss is not finite"))
    assert status(paths) == "failed" and StoredRun(paths).failure == "ValueError: loss is not finite"
    run = RunWriter.resume(paths, facts)
    assert status(paths) == "interrupted" and run.attempt == 2
    run.done({"steps": 3})
    stored = StoredRun(paths)
    assert status(paths) == stored.status == stored.info.status == "done"
    assert [a.number for a in stored.info.attempts] == [1, 2]
    assert all(a.ended is not None and a.packages["numpy"] and a.code for a in stored.info.attempts)
    assert stored.config == CONFIG


def test_identity_is_configuration_data_code_and_seed(tmp_path: Path, facts: RunFacts) -> None:
    exp = ExperimentPaths(tmp_path / "toy")
    ids = [RunWriter.create(exp.run(arm, seed), facts, CONFIG).info.id for arm, seed in [("a", 0), ("a", 1), ("b", 0)]]
    again = RunWriter.create(ExperimentPaths(tmp_path / "again" / "toy").run("a", 0), facts, CONFIG).info.id
    other = facts.model_copy(update={"config_hash": "beef"})
    ids.append(RunWriter.create(ExperimentPaths(tmp_path / "other" / "toy").run("a", 0), other, CONFIG).info.id)
    assert again == ids[0] and len(set(ids)) == 4


def test_resume_refuses_another_run_and_records_another_machine(paths: RunPaths, facts: RunFacts) -> None:
    RunWriter.create(paths, facts, CONFIG).close()
    with pytest.raises(RunError, match="already holds a run"):
        RunWriter.create(paths, facts, CONFIG)
    train = facts.data["train"].model_copy(update={"hash": "bb"})
    other = facts.model_copy(update={"config_hash": "beef", "data": {"train": train}})
    with pytest.raises(ConfigError, match="another configuration and data"):
        RunWriter.resume(paths, other)
    run = RunWriter.resume(paths, facts.model_copy(update={"threads": 1}))
    assert [a.threads for a in run.info.attempts] == [2, 1]


def test_rows_come_back_and_non_finite_sums_are_null(paths: RunPaths, facts: RunFacts, eval_row: MakeEval) -> None:
    run = RunWriter.create(paths, facts, CONFIG)
    stats = {
        "kl": {"sum": 3.0, "count": 4.0},
        "ratio": {"max": 1.5, "count": 4.0},
        "grad": {"sum": math.nan, "count": 2.0},
        "none": {"sum": 0.0, "count": 0.0},
        "length": {"sum": 6.0, "square": 20.0, "count": 2.0},
    }
    run.append_step(StepRow(step=1, samples=8, tokens=80, stats=stats))
    rows = [eval_row("p1"), eval_row("p2", math.nan)]
    run.write_eval("toy", 1, rows)
    stored = StoredRun(paths)
    assert {k: stat_value(v) for k, v in stored.steps[0].stats.items()} == {
        "kl": 0.75,
        "ratio": 1.5,
        "grad": None,
        "none": None,
        "length": 3.0,
    }
    assert [(r.problem_id, r.score) for r in stored.eval("toy")] == [("p1", 1.0), ("p2", None)]
    with pytest.raises(DataError, match="no evaluation at step 7; stored: 1"):
        stored.eval("toy", 7)


def test_truncation_forgets_later_rows_and_counts_lost_work(
    paths: RunPaths, facts: RunFacts, step_row: MakeStep, eval_row: MakeEval
) -> None:
    run = RunWriter.create(paths, facts, CONFIG)
    run.append_timing(timing(0, 1.0, "toy"))
    for n in range(1, 6):
        run.append_step(step_row(n))
        run.append_timing(timing(n, float(n)))
        run.write_eval("toy", n, [eval_row("p1")])
        run.write_rollouts(n, [])
    run.close()
    with open(paths.steps, "ab") as file:
        file.write(b'{"step":6,"sam')  # killed in the middle of a row
    run = RunWriter.resume(paths, facts)
    run.truncate_after(3)
    run.append_step(step_row(4))
    run.append_timing(timing(4, 40.0))
    stored = StoredRun(paths)
    assert [r.step for r in stored.steps] == [1, 2, 3, 4]
    assert stored.eval_steps("toy") == stored.rollout_steps() == [1, 2, 3]
    assert [(r.step, r.attempt, r.seconds["rollout"]) for r in stored.timing] == [
        (0, 1, 1.0),
        (1, 1, 1.0),
        (2, 1, 2.0),
        (3, 1, 3.0),
        (4, 2, 40.0),
    ]
    assert stored.lost_seconds == pytest.approx(4.5 + 5.5)
    assert sum(r.wall for r in stored.all_timing) == pytest.approx(1 + 15 + 40 + 7 * 0.5)


def test_a_full_disk_during_truncation_keeps_the_rows(
    paths: RunPaths, facts: RunFacts, step_row: MakeStep, disk_full: Callable[[int | None], None]
) -> None:
    run = RunWriter.create(paths, facts, CONFIG)
    for n in range(1, 4):
        run.append_step(step_row(n))
    before = paths.steps.read_bytes()
    disk_full(20)
    with pytest.raises(RunError, match="No space left"):
        run.truncate_after(1)
    assert paths.steps.read_bytes() == before


KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from paribus.store import *
facts = RunFacts.model_validate_json(sys.stdin.read())
paths = ExperimentPaths(Path(sys.argv[1])).run("grpo", 0)
run = RunWriter.create(paths, facts, {}) if status(paths) == "new" else RunWriter.resume(paths, facts)
found = checkpoint.latest_good(paths.checkpoints)
assert not found.warnings, found.warnings
run.truncate_after(found.step)
print("up", flush=True)
for n in range(found.step + 1, 10**6):
    run.append_step(StepRow(step=n, samples=n, tokens=n, stats={"score": {"sum": n / 7, "count": 1.0}}))
    if n % 3 == 0:
        write = lambda p: (p / "model").write_bytes(n.to_bytes(4, "little") * 5000)
        checkpoint.commit(paths.checkpoints, n, 1, write, {"n": n})
"""


def test_kill_nine_at_any_moment_leaves_whole_rows_and_a_good_checkpoint(paths: RunPaths, facts: RunFacts) -> None:
    root = paths.root.parents[1]
    source = Path(__file__).resolve().parents[2] / "src"
    reached = 0
    for trial in range(4):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(root), str(source)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin and process.stdout
        process.stdin.write(facts.model_dump_json())
        process.stdin.close()
        assert process.stdout.readline() == "up\n"
        if trial == 0:
            with pytest.raises(RunError, match="another process"):
                RunWriter.resume(paths, facts)
        time.sleep(0.15 + 0.037 * trial)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        stored = StoredRun(paths)
        assert stored.status == "interrupted"
        assert [r.step for r in stored.steps] == list(range(1, len(stored.steps) + 1))
        reached = max(reached, len(stored.steps))
    assert reached > 3 and len(StoredRun(paths).info.attempts) == 4


def test_an_experiment_is_read_in_the_order_of_its_arms(tmp_path: Path, facts: RunFacts, eval_row: MakeEval) -> None:
    exp = ExperimentPaths(tmp_path / "toy")
    info = ExperimentInfo(
        name="toy",
        question="?",
        primary="toy:accuracy",
        seeds=(0, 2, 10),
        arms=("ppo", "grpo"),
        differences=(DifferenceRow(path="critic.lr", values={"ppo": 1e-5, "grpo": None}, declared=True),),
        price_per_hour=1.5,
        resolved={},
    )
    created = write_experiment(exp, info).created
    assert created and write_experiment(exp, info).created == created
    write_problems(exp, "toy", [ProblemRow(problem_id="p1", question="2+2?", gold="4")])
    for arm, seed in [("grpo", 10), ("grpo", 2), ("ppo", 0)]:
        RunWriter.create(exp.run(arm, seed), facts, CONFIG).close()
    (exp.run("ppo", 2).root).mkdir()  # a run that never got as far as run.json
    base = RunWriter.create(exp.base, facts, CONFIG)
    base.write_eval("toy", 0, [eval_row("p1")])
    stored = read_experiment(exp.root)
    assert {arm: list(seeds) for arm, seeds in stored.runs.items()} == {"ppo": [0], "grpo": [2, 10]}
    assert list(stored.runs) == ["ppo", "grpo"]
    assert stored.base is not None and stored.base.eval("toy")[0].problem_id == "p1"
    assert stored.problems("toy")["p1"].gold == "4" and stored.problems("other") == {}


def test_what_we_do_not_know_is_refused(tmp_path: Path, paths: RunPaths, facts: RunFacts) -> None:
    with pytest.raises(DataError, match="not an experiment folder"):
        read_experiment(tmp_path)
    RunWriter.create(paths, facts, CONFIG).close()
    data = json.loads(paths.run.read_bytes())
    paths.run.write_text(json.dumps(data | {"schema_version": 2}))
    with pytest.raises(DataError, match=r"run\.json: schema version 2, but this version of Paribus reads 1"):
        StoredRun(paths).info  # noqa: B018
    paths.run.write_text(json.dumps(data | {"colour": "red"}))
    with pytest.raises(ConfigError, match="unknown key 'colour'"):
        StoredRun(paths).info  # noqa: B018
    for bad in ("..", "a/b", "_base", "", "a b"):
        with pytest.raises(ConfigError, match="cannot name a folder"):
            ExperimentPaths(tmp_path).run(bad, 0)
