"""The four trackers against stand-ins of their libraries: one contract, and what each library is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from faketrackers import FAKES
from paribus.store import ExperimentPaths, RunWriter
from paribus.trackers.kinds import KINDS, make
from paribus.trackers.replay import Replay
from storedruns import FACTS, begin, eval_rows, step_row, write_experiment_of


def send(root: Path, name: str) -> None:
    replay = Replay(root, name, make(name))
    replay.look()
    replay.close()


def experiment(tmp_path: Path) -> Path:
    """ppo/0 is done; grpo/0 was stopped after step 2."""
    root = write_experiment_of(tmp_path / "toy", {"ppo": {0: "1101"}, "grpo": {}}, seeds=(0,))
    begin(ExperimentPaths(root).run("grpo", 0), steps=2).close()
    return root


def test_every_kind_has_a_stand_in() -> None:
    assert FAKES.keys() == KINDS.keys()


@pytest.mark.parametrize("name", KINDS)
def test_each_number_arrives_once_at_its_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    kept, root = FAKES[name](monkeypatch), experiment(tmp_path)
    send(root, name)
    run = RunWriter.resume(ExperimentPaths(root).run("grpo", 0), FACTS)
    run.append_step(step_row(3))
    run.done({})
    send(root, name)
    send(root, name)
    rewards = {r: [(s, v) for s, k, v in rows if k == "train/reward"] for r, rows in kept.rows.items()}
    expected = [(step, (4 + step) / 16) for step in (1, 2, 3, 4)]
    assert rewards == {"ppo/seed-0": expected, "grpo/seed-0": expected[:3]}
    assert [r for r in kept.rows["ppo/seed-0"] if r[1] == "eval/test/accuracy"] == [(4, "eval/test/accuracy", 0.75)]
    assert [v for _, k, v in kept.rows["ppo/seed-0"] if k == "final/test/accuracy"] == [0.75]
    assert kept.texts["ppo/seed-0"]["report"] == str((root / "report" / "report.html").resolve())
    assert [n for n, _ in kept.ended] == ["ppo/seed-0", "grpo/seed-0", "grpo/seed-0"]


def test_wandb_is_asked_for_a_group_and_a_run_that_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    kept = FAKES["wandb"](monkeypatch)
    send(experiment(tmp_path), "wandb")
    ppo, grpo = kept.begun
    assert (ppo["project"], ppo["group"], ppo["job_type"], ppo["name"]) == ("paribus", "toy", "ppo", "ppo/seed-0")
    assert ppo["resume"] == "allow" and ppo["id"] != grpo["id"] and ppo["tags"] == ["ppo", "seed-0"]
    assert kept.ended == [("ppo/seed-0", 0), ("grpo/seed-0", 1)]
    monkeypatch.setenv("WANDB_PROJECT", "ours")
    send(experiment(tmp_path / "again"), "wandb")
    assert kept.begun[-1]["project"] == "ours"


def test_trackio_resumes_only_what_it_was_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, root = FAKES["trackio"](monkeypatch), experiment(tmp_path)
    send(root, "trackio")
    RunWriter.resume(ExperimentPaths(root).run("grpo", 0), FACTS).done({})
    send(root, "trackio")
    assert [(o["name"], o["resume"]) for o in kept.begun] == [
        ("ppo/seed-0", "never"), ("grpo/seed-0", "never"), ("grpo/seed-0", "allow"),
    ]  # fmt: skip
    assert {(o["project"], o["embed"]) for o in kept.begun} == {("toy", False)}


def test_mlflow_finds_its_run_again_and_ends_it_by_how_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, root = FAKES["mlflow"](monkeypatch), experiment(tmp_path)
    send(root, "mlflow")
    RunWriter.resume(ExperimentPaths(root).run("grpo", 0), FACTS).done({})
    send(root, "mlflow")
    assert kept.begun[-1] == {"name": "grpo/seed-0", "status": "RUNNING"} and len(kept.begun) == 3
    assert [status for _, status in kept.ended] == ["FINISHED", "KILLED", "FINISHED"]


def test_tensorboard_files_lie_with_the_experiment_and_start_anew_with_a_new_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, root = FAKES["tensorboard"](monkeypatch), experiment(tmp_path)
    old = root / "_track" / "tensorboard" / "ppo" / "seed-0" / "events.old"
    old.parent.mkdir(parents=True)
    old.write_bytes(b"of a run that is no more")
    send(root, "tensorboard")
    assert not old.exists() and old.parent.is_dir()
    assert "| setting.budget.steps | 4 |" in kept.texts["ppo/seed-0"]["config"]


def test_an_evaluation_of_several_suites_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = FAKES["trackio"](monkeypatch)
    root = write_experiment_of(tmp_path / "toy", {"ppo": {0: "1101"}}, suites=("test", "hard"))
    from paribus.store import StoredRun

    run = ExperimentPaths(root).run("ppo", 0)
    assert StoredRun(run).suites == ["hard", "test"]
    send(root, "trackio")
    names = {k for _, k, _ in kept.rows["ppo/seed-0"]}
    assert {"eval/test/accuracy", "eval/hard/accuracy", "final/hard/tokens"} <= names
    assert eval_rows("1")[0].tokens == 50
