"""Cost grows as the work does: nothing is quadratic in problems, steps or runs.

Every case is timed at n and 4n. Linear work takes 4 times as long, quadratic work 16 times; the bound in between leaves
room for a busy machine, and the best of several tries counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakeruns import questions, sampler, session, setting
from paribus.pipeline.evaluate import evaluate
from paribus.pipeline.order import problems_of_step
from paribus.pipeline.train import train
from paribus.report.browser import kinds
from paribus.report.examples import first_samples
from paribus.report.results import primary, schedule
from paribus.store import ExperimentPaths, RunWriter, StoredRun, read_experiment
from paribus.suites import EvalSpec
from paribus.tasks import Answer
from storedruns import FACTS, begin, eval_rows, write_experiment_of

BOUND = 9.0
TRIES = 3

Case = Callable[[int, Path], Callable[[], object]]  # what is timed, at a size, in an empty folder


def evaluation(n: int, folder: Path) -> Callable[[], object]:
    asked, samples, spec = questions(n), sampler(n), EvalSpec(max_response=4)
    return lambda: evaluate(samples, asked.problems, asked.prompts, spec, Answer(), 0, rows_at_once=64)


def steps(n: int, folder: Path) -> Callable[[], object]:
    run = session(folder, setting(budget={"steps": n}, save={"every": 50, "rollouts_every": 50}))
    return lambda: train(run)


def problems(n: int, folder: Path) -> Callable[[], object]:
    """As many steps as make one epoch."""
    spec = setting(budget={"steps": n // 3}, save={"every": n, "rollouts_every": 10})
    run = session(folder, spec, asked=questions(n), samples=sampler(n))
    return lambda: train(run)


def order(n: int, folder: Path) -> Callable[[], object]:
    return lambda: [problems_of_step(40 * n, 20, 0, step) for step in range(2 * n)]


def resume(n: int, folder: Path) -> Callable[[], object]:
    paths = ExperimentPaths(folder).run("arm", 0)
    begin(paths, n).close()

    def again() -> None:
        writer = RunWriter.resume(paths, FACTS)
        writer.truncate_after(n - 1)
        writer.close()

    return again


def reading(n: int, folder: Path) -> Callable[[], object]:
    paths = ExperimentPaths(folder).run("arm", 0)
    begin(paths, n).close()
    return lambda: (len(StoredRun(paths).timing), StoredRun(paths).lost_seconds)


def joining(n: int, folder: Path) -> Callable[[], object]:
    """Scores of problems of which every second one is not counted."""
    patterns = {"a": {0: "1x" * (n // 2)}, "b": {0: "01" * (n // 2)}}
    exp = read_experiment(write_experiment_of(folder / "exp", patterns, base="1" * n))
    return lambda: primary(exp)


def sorting(n: int, folder: Path) -> Callable[[], object]:
    """Problems into the kinds of the report's browser, where all answers are right and half of them longer."""
    rows = eval_rows("1" * n)
    longer = [row.model_copy(update={"tokens": 9 * row.tokens}) if i % 2 else row for i, row in enumerate(rows)]
    arms = {"a": first_samples(rows), "b": first_samples(longer)}
    return lambda: kinds(arms, None, "test")


def scheduling(n: int, folder: Path) -> Callable[[], object]:
    runs = read_experiment(write_experiment_of(folder / "exp", {"a": {seed: "1" for seed in range(n)}})).runs
    for run in runs["a"].values():
        assert run.info
    return lambda: schedule(runs)


CASES: list[tuple[Case, int]] = [
    (evaluation, 500), (steps, 40), (problems, 150), (order, 300), (resume, 200), (reading, 200), (joining, 1500),
    (sorting, 4000), (scheduling, 25),
]  # fmt: skip


def seconds(case: Case, n: int, folders: Iterator[Path]) -> float:
    """Return the best of several tries, each in a folder of its own."""
    taken = []
    for _ in range(TRIES):
        work = case(n, next(folders))
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return min(taken)


@pytest.mark.parametrize(("case", "n"), CASES, ids=[case.__name__ for case, _ in CASES])
def test_four_times_the_work_takes_about_four_times_as_long(case: Case, n: int, tmp_path: Path) -> None:
    folders = (tmp_path / str(i) for i in range(99))
    small, large = (seconds(case, size, folders) for size in (n, 4 * n))
    assert large < BOUND * max(small, 1e-3), f"{1000 * small:.1f} ms became {1000 * large:.1f} ms"
