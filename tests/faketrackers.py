"""Stand-ins for the trackers' libraries: they take the calls that ours makes and keep what was sent."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest

Told = Mapping[str, Sequence[tuple[int, str, float]]]  # by run: step, name, value


@dataclass
class Kept:
    """What a stand-in was told: `begun` are the calls that opened a run, `ended` how runs were closed."""

    begun: list[dict[str, Any]] = field(default_factory=list)
    rows: dict[str, list[tuple[int, str, float]]] = field(default_factory=dict)
    texts: dict[str, dict[str, str]] = field(default_factory=dict)
    ended: list[tuple[str, Any]] = field(default_factory=list)

    def take(self, run: str, step: int, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            if isinstance(value, str):
                self.texts.setdefault(run, {})[name] = value
            else:
                self.rows.setdefault(run, []).append((step, name, value))


def module(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    """Put a module in place of the installed one, if there is one."""
    made = ModuleType(name)
    made.__spec__ = ModuleSpec(name, None, origin="made up")
    vars(made).update(members)
    monkeypatch.setitem(sys.modules, name, made)


class Summary(dict[str, Any]):
    pass


class FakeWandbRun:
    def __init__(self, kept: Kept, name: str) -> None:
        self.kept, self.name, self.summary, self.metrics = kept, name, Summary(), dict[str, Any]()

    def define_metric(self, name: str, **options: Any) -> None:
        self.metrics[name] = options

    def log(self, row: dict[str, Any]) -> None:
        assert self.metrics["*"] == {"step_metric": "step"}
        self.kept.take(self.name, row["step"], {k: v for k, v in row.items() if k != "step"})

    def finish(self, exit_code: int) -> None:
        self.kept.take(self.name, -1, self.summary)
        self.kept.ended.append((self.name, exit_code))


def wandb(monkeypatch: pytest.MonkeyPatch) -> Kept:
    kept = Kept()

    def init(**options: Any) -> FakeWandbRun:
        kept.begun.append(options)
        return FakeWandbRun(kept, options["name"])

    module(monkeypatch, "wandb", init=init, Settings=lambda **options: options)
    return kept


class FakeTrackioRun:
    def __init__(self, kept: Kept, name: str) -> None:
        self.kept, self.name = kept, name

    def log(self, metrics: dict[str, Any], step: int) -> None:
        self.kept.take(self.name, step, metrics)

    def finish(self) -> None:
        self.kept.ended.append((self.name, None))


def trackio(monkeypatch: pytest.MonkeyPatch) -> Kept:
    kept = Kept()

    def init(**options: Any) -> FakeTrackioRun:
        kept.begun.append(options)
        return FakeTrackioRun(kept, options["name"])

    module(monkeypatch, "trackio", init=init)
    return kept


class FakeMetric(NamedTuple):
    key: str
    value: float
    timestamp: int
    step: int


class FakeParam(NamedTuple):
    key: str
    value: str


class FakeMlflowClient:
    """A store of one experiment that refuses what MLflow refuses."""

    def __init__(self, kept: Kept) -> None:
        self.kept, self.names, self.tags, self.params = kept, list[str](), dict[str, Any](), dict[str, dict[str, str]]()

    def get_experiment_by_name(self, name: str) -> Any:
        return SimpleNamespace(experiment_id="1") if name in self.names else None

    def create_experiment(self, name: str) -> str:
        self.names.append(name)
        return "1"

    def search_runs(self, experiments: list[str], filter_string: str, max_results: int) -> list[Any]:
        wanted = filter_string.split("'")[1]
        return [_run(name) for name, tags in self.tags.items() if tags["paribus.id"] == wanted]

    def create_run(self, experiment: str, *, start_time: int, tags: dict[str, str], run_name: str) -> Any:
        self.kept.begun.append({"name": run_name, "tags": tags, "start_time": start_time})
        self.tags[run_name], self.params[run_name] = tags, {}
        return _run(run_name)

    def update_run(self, run: str, status: str) -> None:
        self.kept.begun.append({"name": run, "status": status})

    def log_batch(self, run: str, metrics: Sequence[FakeMetric] = (), params: Sequence[FakeParam] = ()) -> None:
        assert len(metrics) <= 1000 and len(params) <= 100
        for key, value in params:
            assert self.params[run].setdefault(key, value) == value and len(value) <= 500
        for metric in metrics:
            self.kept.take(run, metric.step, {metric.key: metric.value})

    def set_tag(self, run: str, name: str, value: str) -> None:
        self.kept.take(run, -1, {name: value})

    def set_terminated(self, run: str, status: str, end_time: int) -> None:
        self.kept.ended.append((run, status))


def _run(name: str) -> Any:
    return SimpleNamespace(info=SimpleNamespace(run_id=name))


def mlflow(monkeypatch: pytest.MonkeyPatch) -> Kept:
    kept = Kept()
    client = FakeMlflowClient(kept)
    entities = SimpleNamespace(Metric=FakeMetric, Param=FakeParam)
    module(
        monkeypatch, "mlflow", MlflowClient=lambda: client, entities=entities, get_tracking_uri=lambda: "sqlite:///x"
    )
    return kept


class Message(SimpleNamespace):
    """A protocol buffer: what it was made of."""

    def __init__(self, value: Any = None, **fields: Any) -> None:
        super().__init__(**({} if value is None else {"value": value}), **fields)


Message.Value = Message.Dim = Message  # type: ignore[attr-defined]


def tensorboard(monkeypatch: pytest.MonkeyPatch) -> Kept:
    kept = Kept()

    class Writer:
        def __init__(self, folder: str) -> None:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.name = "/".join(Path(folder).parts[-2:]).removeprefix("tensorboard/")
            kept.begun.append({"name": self.name})

        def add_event(self, event: Any) -> None:
            for value in event.summary.value:
                told = value.tensor.string_val[0].decode() if hasattr(value, "tensor") else value.simple_value
                kept.take(self.name, event.step, {value.tag: told})

        def flush(self) -> None:
            pass

        def close(self) -> None:
            kept.ended.append((self.name, None))

    names = ("event_pb2", "summary_pb2", "tensor_pb2", "tensor_shape_pb2")
    kinds = ("Event", "Summary", "TensorProto", "TensorShapeProto")
    proto = {name: SimpleNamespace(**{kind: Message}) for name, kind in zip(names, kinds, strict=True)}
    metadata = SimpleNamespace(create_summary_metadata=lambda **fields: fields)
    module(monkeypatch, "tensorboard")
    module(monkeypatch, "tensorboard.compat")
    module(monkeypatch, "tensorboard.compat.proto", **proto)
    module(monkeypatch, "tensorboard.plugins")
    module(monkeypatch, "tensorboard.plugins.text", metadata=metadata)
    module(monkeypatch, "tensorboard.summary")
    module(monkeypatch, "tensorboard.summary.writer")
    module(monkeypatch, "tensorboard.summary.writer.event_file_writer", EventFileWriter=Writer)
    return kept


FAKES: dict[str, Callable[[pytest.MonkeyPatch], Kept]] = {
    "trackio": trackio,
    "tensorboard": tensorboard,
    "wandb": wandb,
    "mlflow": mlflow,
}
