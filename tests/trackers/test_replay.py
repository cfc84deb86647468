"""What trackers are told of stored runs: each point once, through resumes, crashes and failures of the tracker."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from paribus.errors import ConfigError, DataError, RunError
from paribus.store import ExperimentPaths, RunWriter, TimingRow
from paribus.trackers import kinds, replay
from paribus.trackers.base import About, Ending, Point
from paribus.trackers.replay import Replay, track, until_over
from storedruns import FACTS, begin, eval_rows, step_row, write_experiment_of


@dataclass
class Memory:
    """A tracker that keeps what it is told."""

    where: str = "here"
    points: dict[str, list[Point]] = field(default_factory=dict)
    begun: list[About] = field(default_factory=list)
    ended: list[tuple[str, Ending, Point, Mapping[str, str]]] = field(default_factory=list)
    fails_at: int | None = None

    def start(self, about: About) -> MemoryRun:
        self.begun.append(about)
        return MemoryRun(self, about)

    def steps(self, name: str) -> list[int]:
        return [p.step for p in self.points[name] if "train/reward" in p.values]


@dataclass
class MemoryRun:
    tracker: Memory
    about: About

    def log(self, points: Sequence[Point]) -> None:
        if self.tracker.fails_at is not None and any(p.step >= self.tracker.fails_at for p in points):
            raise ConnectionError("no\nroute to host")
        self.tracker.points.setdefault(self.about.name, []).extend(points)

    def finish(self, ending: Ending, final: Point, texts: Mapping[str, str]) -> None:
        self.tracker.ended.append((self.about.name, ending, final, texts))


def look(root: Path, tracker: Memory) -> bool:
    """One pass of a process of its own."""
    pass_ = Replay(root, "memory", tracker)
    over = pass_.look()
    pass_.close()
    return over


def add(run: RunWriter, *steps: int) -> None:
    for step in steps:
        run.append_step(step_row(step))
        run.append_timing(TimingRow(step=step, seconds={"rollout": 2.0}, tokens=480, rss_peak={"rollout": 10**9}))


def test_a_finished_experiment_is_told_whole(tmp_path: Path) -> None:
    root, told = write_experiment_of(tmp_path / "toy", {"ppo": {0: "1101"}, "grpo": {0: "1000"}}, base="1000"), Memory()
    assert look(root, told)
    assert [a.name for a in told.begun] == ["base", "ppo/seed-0", "grpo/seed-0"]
    assert {a.experiment for a in told.begun} == {"toy"} and told.begun[1].tags == ["ppo", "seed-0"]
    assert told.begun[1].config == {
        "setting": {"budget": {"steps": 4}, "rollout": {"prompts_per_step": 4, "samples_per_prompt": 4}}
    }
    *steps, evaluation = told.points["ppo/seed-0"]
    assert [p.step for p in steps] == [1, 2, 3, 4]
    assert steps[0].values["train/reward"] == 5 / 16 and steps[0].values["train/samples"] == 16
    assert steps[0].values["seconds/rollout"] == 2.0 and steps[0].values["memory/rss_peak"] == 10**9
    assert evaluation.step == 4 and evaluation.values["eval/test/accuracy"] == 0.75
    assert told.points["base"][0].values["eval/test/accuracy"] == 0.25
    name, ending, final, texts = told.ended[1]
    assert (name, ending) == ("ppo/seed-0", "done")
    assert final.step == 4 and final.time == pytest.approx(steps[-1].time)
    assert final.values["final/test/accuracy"] == 0.75 and final.values["final/seconds"] == 8.0
    assert texts["report"] == str((root / "report" / "report.html").resolve())


def test_a_second_pass_tells_nothing_twice_and_another_store_gets_all(tmp_path: Path) -> None:
    root, told = write_experiment_of(tmp_path / "toy", {"ppo": {0: "1101"}}), Memory()
    look(root, told)
    before = len(told.points["ppo/seed-0"])
    assert look(root, told) and len(told.points["ppo/seed-0"]) == before and len(told.begun) == len(told.ended) == 1
    other = Memory(where="elsewhere")
    look(root, other)
    assert other.points == told.points
    look(root, told)
    assert len(told.begun) == 1  # the first store is still known


def test_a_run_that_was_killed_goes_on_under_the_same_id_without_repeated_steps(tmp_path: Path) -> None:
    root, told = write_experiment_of(tmp_path / "toy", {"ppo": {0: "11"}, "grpo": {}}, seeds=(0,)), Memory()
    paths = ExperimentPaths(root).run("grpo", 0)
    begin(paths, steps=3).close()
    assert not look(root, told)
    assert told.steps("grpo/seed-0") == [1, 2, 3] and told.ended[-1][:2] == ("grpo/seed-0", "interrupted")
    run = RunWriter.resume(paths, FACTS)
    run.truncate_after(1)  # its last checkpoint: 2 and 3 are done again
    add(run, 2)
    look(root, told)
    assert told.steps("grpo/seed-0") == [1, 2, 3]
    add(run, 3, 4)
    run.write_eval("test", 4, eval_rows("10"))
    run.done({})
    assert look(root, told)
    assert told.steps("grpo/seed-0") == [1, 2, 3, 4] and told.ended[-1][:2] == ("grpo/seed-0", "done")
    mine = [a for a in told.begun if a.name == "grpo/seed-0"]
    assert len({a.id for a in mine}) == 1 and [a.resumed for a in mine] == [False, True]
    times = [p.time for p in told.points["grpo/seed-0"]]
    assert times == sorted(times) and times[1] - times[0] == pytest.approx(2.0, abs=1e-3)


def test_a_folder_begun_anew_is_another_run(tmp_path: Path) -> None:
    root, told = write_experiment_of(tmp_path / "toy", {"ppo": {0: "11"}}), Memory()
    look(root, told)
    paths = ExperimentPaths(root).run("ppo", 0)
    shutil.rmtree(paths.root)
    begin(paths, steps=2).close()
    look(root, told)
    assert told.begun[0].id != told.begun[1].id and not told.begun[1].resumed
    assert told.steps("ppo/seed-0") == [1, 2, 3, 4, 1, 2]


def test_a_failed_run_ends_with_its_reason_and_may_be_tried_again(tmp_path: Path) -> None:
    root, told = write_experiment_of(tmp_path / "toy", {"ppo": {0: "11", 1: ""}}, unfinished={("ppo", 1)}), Memory()
    assert look(root, told)
    assert told.ended[-1][1] == "failed" and "loss is not finite" in told.ended[-1][3]["failure"]
    assert "report" not in told.ended[-1][3]
    run = RunWriter.resume(ExperimentPaths(root).run("ppo", 1), FACTS)
    run.done({})
    look(root, told)
    assert told.ended[-1][:2] == ("ppo/seed-1", "done") and told.steps("ppo/seed-1") == [1, 2, 3, 4]


def test_a_step_waits_for_its_seconds_unless_there_are_none(tmp_path: Path) -> None:
    root, told = write_experiment_of(tmp_path / "toy", {"ppo": {}}, base="10", seeds=(0,)), Memory()
    run = RunWriter.create(ExperimentPaths(root).run("ppo", 0), FACTS, {})
    run.append_step(step_row(1))
    look(root, told)
    assert [a.name for a in told.begun] == ["base"]
    run.done({})  # rows read from another tool have no timing
    look(root, told)
    assert told.steps("ppo/seed-0") == [1] and "seconds/step" not in told.points["ppo/seed-0"][0].values


def test_numbers_that_are_not_finite_are_left_out(tmp_path: Path) -> None:
    root, told = write_experiment_of(tmp_path / "toy", {"ppo": {}}, base="10", seeds=(0,)), Memory()
    begin(ExperimentPaths(root).run("ppo", 0), rows=[step_row(1, policy_loss={"sum": None, "count": 1.0})])
    look(root, told)
    assert "train/policy_loss" not in told.points["ppo/seed-0"][0].values


def test_the_primary_metric_has_a_name_that_every_tracker_takes(tmp_path: Path) -> None:
    root, told = write_experiment_of(tmp_path / "toy", {"ppo": {0: "1001"}}), Memory()
    info = ExperimentPaths(root).info
    info.write_text(info.read_text().replace("test:accuracy", "test:pass@1"))
    look(root, told)
    assert told.points["ppo/seed-0"][-1].values["eval/test/pass_at_1"] == 0.5


def listing(root: Path) -> list[tuple[str, int]]:
    return [(str(p), p.stat().st_mtime_ns) for p in sorted(root.rglob("*")) if p.is_file() and "_track" not in p.parts]


def test_a_tracker_that_breaks_touches_no_run_and_the_rest_comes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_experiment_of(tmp_path / "toy", {"ppo": {0: "11"}, "grpo": {}}, seeds=(0,))
    begin(ExperimentPaths(root).run("grpo", 0), rows=[step_row(step) for step in range(1, 9)]).close()
    told, before = Memory(fails_at=8), listing(root)
    monkeypatch.setattr(replay, "make", lambda name: told)
    monkeypatch.setattr(replay, "require", lambda names: None)
    with pytest.raises(RunError, match=r"tracking with wandb ended: ConnectionError: no route to host; .*--to wandb"):
        track(root, "wandb")
    assert listing(root) == before and told.steps("ppo/seed-0") == [1, 2, 3, 4]
    told.fails_at = None
    track(root, "wandb")
    assert told.steps("ppo/seed-0") == [1, 2, 3, 4] and told.steps("grpo/seed-0") == list(range(1, 9))


def test_following_ends_with_the_last_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_experiment_of(tmp_path / "toy", {"ppo": {}}, base="10", seeds=(0,))
    run, told, naps = begin(ExperimentPaths(root).run("ppo", 0), steps=1), Memory(), list[float]()

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 2:
            add(run, 2)
            run.done({})

    monkeypatch.setattr(replay, "make", lambda name: told)
    monkeypatch.setattr(replay, "require", lambda names: None)
    monkeypatch.setattr(replay.time, "sleep", nap)
    track(root, "wandb", until_over(5.0))
    assert naps == [5.0, 5.0] and told.steps("ppo/seed-0") == [1, 2]
    assert [a.name for a in told.begun] == ["base", "ppo/seed-0"]  # each opened once
    assert [e[1] for e in told.ended] == ["done", "done"]


def test_a_missing_library_and_a_wrong_folder_are_clear_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'paribus\[mlflow\]'"):
        track(tmp_path, "mlflow")
    monkeypatch.setattr(kinds, "find_spec", lambda name: ModuleSpec(name, None))  # a folder of that name
    with pytest.raises(ConfigError, match=r"pip install 'paribus\[wandb\]'"):
        track(tmp_path, "wandb")
    with pytest.raises(ConfigError, match="did you mean 'wandb'"):
        track(tmp_path, "wanb")
    monkeypatch.setattr(replay, "require", lambda names: None)
    monkeypatch.setattr(replay, "make", lambda name: Memory())
    with pytest.raises(DataError, match="not an experiment folder"):
        track(tmp_path, "mlflow")


def test_what_was_sent_is_a_file_of_its_own(tmp_path: Path) -> None:
    root = write_experiment_of(tmp_path / "toy", {"ppo": {0: "11"}})
    look(root, told := Memory())
    stored: dict[str, Any] = json.loads((root / "_track" / "memory.json").read_text())
    assert stored == {"here": {told.begun[0].id: {"step": 4, "evals": {"test": 4}, "ended": "done"}}}
