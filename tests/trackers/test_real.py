"""The real libraries, without a network: what was sent is read back by their own readers (make test-trackers)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from paribus.store import ExperimentPaths, RunWriter
from paribus.trackers.replay import track
from storedruns import FACTS, begin, step_row, write_experiment_of

pytestmark = pytest.mark.trackers
REWARDS = [(step, (4 + step) / 16) for step in (1, 2, 3, 4)]


def sent(tmp_path: Path, name: str) -> Path:
    """ppo/0 is sent whole; grpo/0 was stopped after step 2, sent, resumed, and sent again, each time twice."""
    root = write_experiment_of(tmp_path / "toy", {"ppo": {0: "1101"}, "grpo": {}}, base="1000", seeds=(0,))
    begin(ExperimentPaths(root).run("grpo", 0), steps=2).close()
    track(root, name)
    track(root, name)
    run = RunWriter.resume(ExperimentPaths(root).run("grpo", 0), FACTS)
    run.append_step(step_row(3))
    run.done({})
    track(root, name)
    track(root, name)
    return root


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = sent(tmp_path, "tensorboard") / "_track" / "tensorboard"
    for run, rewards in (("ppo/seed-0", REWARDS), ("grpo/seed-0", REWARDS[:3])):
        read = EventAccumulator(str(folder / run))
        read.Reload()
        assert [(e.step, e.value) for e in read.Scalars("train/reward")] == rewards
    read = EventAccumulator(str(folder / "ppo" / "seed-0"))
    read.Reload()
    assert [(e.step, e.value) for e in read.Scalars("eval/test/accuracy")] == [(4, 0.75)]
    assert b"setting.budget.steps" in read.Tensors("config")[0].tensor_proto.string_val[0]
    assert read.Tensors("report")[0].tensor_proto.string_val[0].endswith(b"report.html")
    first, second = read.Scalars("train/reward")[:2]
    assert second.wall_time - first.wall_time == pytest.approx(2.0, abs=0.01)


@pytest.mark.parametrize("store", ["sqlite", "folder"])
def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str) -> None:
    mlflow = pytest.importorskip("mlflow")
    uri = f"sqlite:///{tmp_path}/mlflow.db" if store == "sqlite" else (tmp_path / "mlruns").as_uri()
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(uri)
    root = sent(tmp_path, "mlflow")
    client = mlflow.MlflowClient()
    runs = client.search_runs([client.get_experiment_by_name("toy").experiment_id])
    assert {r.info.run_name: r.info.status for r in runs} == dict.fromkeys(
        ["base", "ppo/seed-0", "grpo/seed-0"], "FINISHED"
    )
    ppo, grpo = (next(r for r in runs if r.info.run_name == f"{arm}/seed-0") for arm in ("ppo", "grpo"))
    for run, rewards in ((ppo, REWARDS), (grpo, REWARDS[:3])):
        history = client.get_metric_history(run.info.run_id, "train/reward")
        assert sorted((m.step, m.value) for m in history) == rewards
    assert ppo.data.metrics["final/test/accuracy"] == 0.75 and ppo.data.params["setting.budget.steps"] == "4"
    assert ppo.data.tags["arm"] == "ppo" and ppo.data.tags["report"] == str((root / "report/report.html").resolve())
    mlflow.set_tracking_uri(None)


def test_trackio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    pytest.importorskip("trackio")
    sent(tmp_path, "trackio")
    from trackio.sqlite_storage import SQLiteStorage

    assert sorted(SQLiteStorage.get_runs("toy")) == ["base", "grpo/seed-0", "ppo/seed-0"]
    for run, rewards in (("ppo/seed-0", REWARDS), ("grpo/seed-0", REWARDS[:3])):
        rows = SQLiteStorage.get_logs("toy", run)
        assert [(row["step"], row["train/reward"]) for row in rows if "train/reward" in row] == rewards
    assert list((tmp_path / "trackio").glob("*.db"))
    last = SQLiteStorage.get_logs("toy", "ppo/seed-0")[-1]
    assert last["final/test/accuracy"] == 0.75 and last["report"].endswith("report.html")


def test_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    sent(tmp_path, "wandb")
    files = sorted((tmp_path / "wandb").glob("offline-run-*/run-*.wandb"))
    assert len(files) == 4  # base, ppo, and two attempts of grpo
    assert len({file.stem for file in files}) == 3  # the attempts have one id
    rewards = [row for file in files for row in history(file)]
    assert sorted(rewards) == sorted(REWARDS + REWARDS[:3])


def history(file: Path) -> list[tuple[int, float]]:
    """Return step and reward of every row in an offline run's file."""
    from wandb.proto import wandb_internal_pb2

    found = []
    for data in records(file.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            row = {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            if "train/reward" in row:
                found.append((row["step"], row["train/reward"]))
    return found


def records(data: bytes) -> Iterator[bytes]:
    """Read LevelDB's log format: blocks of 32 KiB, records in pieces (1 whole, 2 first, 3 middle, 4 last)."""
    at, record = 7, b""  # after the file's own header
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield record
            record = b""
