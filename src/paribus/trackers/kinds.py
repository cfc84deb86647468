"""The four trackers; each imports its library when it is made. Their settings are the libraries' own variables."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from paribus.errors import ConfigError, nearest
from paribus.part import flatten
from paribus.store.layout import TRACK
from paribus.trackers.base import About, Ending, Point, TrackedRun, Tracker

PROJECT = "paribus"  # of W&B, where WANDB_PROJECT does not name another
BATCH = 1000  # metrics of one MLflow request
PARAMS = 100  # parameters of one MLflow request
STATUS: dict[Ending, str] = {"done": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}  # of MLflow
PARAM_LENGTH = 500  # characters of one MLflow parameter; old servers take no more


class Trackio:
    """Trackio: a project for an experiment, SQLite under TRACKIO_DIR."""

    def __init__(self) -> None:
        import trackio

        self._trackio = trackio
        self.where = os.environ.get("TRACKIO_DIR", "default")

    def start(self, about: About) -> TrackedRun:
        # a run is found again by its name: one that was begun anew is a second run of that name
        run = self._trackio.init(
            project=about.experiment, name=about.name, group=about.arm, config=dict(about.config),
            resume="allow" if about.resumed else "never", embed=False, auto_log_gpu=False, auto_log_cpu=False,
        )  # fmt: skip
        return TrackioRun(run)


class TrackioRun:
    def __init__(self, run: Any) -> None:
        self._run = run

    def log(self, points: Sequence[Point]) -> None:
        for point in points:
            self._run.log(dict(point.values), step=point.step)

    def finish(self, ending: Ending, final: Point, texts: Mapping[str, str]) -> None:
        if ending != "interrupted":
            self._run.log({**final.values, **texts}, step=final.step)
        self._run.finish()


class TensorBoard:
    """Event files in `_track/tensorboard/<arm>/seed-<k>` of the experiment; needs neither torch nor TensorFlow."""

    def __init__(self) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2
        from tensorboard.plugins.text import metadata
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self.where = "experiment"
        self.writer, self.event, self.summary = EventFileWriter, event_pb2.Event, summary_pb2.Summary
        self._tensor, self._shape, self._text = tensor_pb2.TensorProto, tensor_shape_pb2.TensorShapeProto, metadata

    def start(self, about: About) -> TrackedRun:
        folder = about.folder / TRACK / "tensorboard" / about.name
        if not about.resumed:  # what lies there is of a run that is no more, or was sent halfway
            shutil.rmtree(folder, ignore_errors=True)
        run = TensorBoardRun(self, folder)
        if not about.resumed:
            run.texts(Point(0, about.started, {}), {"config": _markdown(about.config)})
        return run

    def text(self, name: str, words: str) -> Any:
        """Return a summary's value that the text page shows."""
        shape = self._shape(dim=[self._shape.Dim(size=1)])
        tensor = self._tensor(dtype="DT_STRING", string_val=[words.encode()], tensor_shape=shape)
        kind = self._text.create_summary_metadata(display_name=name, description="")
        return self.summary.Value(tag=name, metadata=kind, tensor=tensor)


class TensorBoardRun:
    def __init__(self, kind: TensorBoard, folder: Path) -> None:
        self._kind, self._writer = kind, kind.writer(str(folder))

    def log(self, points: Sequence[Point]) -> None:
        for point in points:
            self._add(point, [self._kind.summary.Value(tag=k, simple_value=v) for k, v in point.values.items()])
        self._writer.flush()

    def texts(self, at: Point, texts: Mapping[str, str]) -> None:
        """Write texts at the step and time of a point."""
        self._add(at, [self._kind.text(name, words) for name, words in texts.items()])

    def finish(self, ending: Ending, final: Point, texts: Mapping[str, str]) -> None:
        if ending != "interrupted":
            self.log([final])
            self.texts(final, texts)
        self._writer.close()

    def _add(self, at: Point, values: Iterable[Any]) -> None:
        summary = self._kind.summary(value=list(values))
        self._writer.add_event(self._kind.event(wall_time=at.time, step=at.step, summary=summary))


class Wandb:
    """W&B: a group for an experiment; WANDB_PROJECT, WANDB_ENTITY, WANDB_MODE, WANDB_DIR and WANDB_BASE_URL hold."""

    def __init__(self) -> None:
        import wandb

        self._wandb = wandb
        names = ("WANDB_MODE", "WANDB_BASE_URL", "WANDB_ENTITY", "WANDB_PROJECT")
        self.where = " ".join(os.environ.get(name, "-") for name in names)

    def start(self, about: About) -> TrackedRun:
        run = self._wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT), group=about.experiment, job_type=about.arm,
            name=about.name, id=about.id, resume="allow", reinit="create_new", config=dict(about.config),
            tags=[tag[:64] for tag in about.tags], settings=self._wandb.Settings(console="off", silent=True),
        )  # fmt: skip
        # an evaluation comes after its step: W&B's own counter only goes forward, so that the step is a column
        run.define_metric("step", hidden=True)
        run.define_metric("*", step_metric="step")
        return WandbRun(run)


class WandbRun:
    def __init__(self, run: Any) -> None:
        self._run = run

    def log(self, points: Sequence[Point]) -> None:
        for point in points:
            self._run.log({"step": point.step, **point.values})

    def finish(self, ending: Ending, final: Point, texts: Mapping[str, str]) -> None:
        if ending != "interrupted":
            self._run.summary.update({**final.values, **texts})
        self._run.finish(exit_code=0 if ending == "done" else 1)


class Mlflow:
    """MLflow: an experiment for an experiment, in the store of MLFLOW_TRACKING_URI (a server, SQLite or a folder)."""

    def __init__(self) -> None:
        import mlflow

        self._mlflow, self._client = mlflow, mlflow.MlflowClient()
        self.where = mlflow.get_tracking_uri()

    def start(self, about: About) -> TrackedRun:
        found = self._client.get_experiment_by_name(about.experiment)
        experiment = found.experiment_id if found else self._client.create_experiment(about.experiment)
        known = self._client.search_runs([experiment], f"tags.`paribus.id` = '{about.id}'", max_results=1)
        if known:
            run = known[0].info.run_id
            self._client.update_run(run, status="RUNNING")
            return MlflowRun(self._mlflow, self._client, run)
        tags = {"paribus.id": about.id, "arm": about.arm, "seed": str(about.seed)}
        created = self._client.create_run(
            experiment, start_time=round(1000 * about.started), tags=tags, run_name=about.name
        )
        params = [
            self._mlflow.entities.Param(key, str(value)[:PARAM_LENGTH]) for key, value in flatten(about.config).items()
        ]
        for i in range(0, len(params), PARAMS):
            self._client.log_batch(created.info.run_id, params=params[i : i + PARAMS])
        return MlflowRun(self._mlflow, self._client, created.info.run_id)


class MlflowRun:
    def __init__(self, mlflow: Any, client: Any, run: str) -> None:
        self._mlflow, self._client, self._run = mlflow, client, run

    def log(self, points: Sequence[Point]) -> None:
        metric = self._mlflow.entities.Metric
        found = [metric(k, v, round(1000 * p.time), p.step) for p in points for k, v in p.values.items()]
        for i in range(0, len(found), BATCH):
            self._client.log_batch(self._run, metrics=found[i : i + BATCH])

    def finish(self, ending: Ending, final: Point, texts: Mapping[str, str]) -> None:
        if ending != "interrupted":
            self.log([final])
            for name, words in texts.items():
                self._client.set_tag(self._run, name, words)
        self._client.set_terminated(self._run, status=STATUS[ending], end_time=round(1000 * final.time))


KINDS: dict[str, type[Tracker]] = {"trackio": Trackio, "tensorboard": TensorBoard, "wandb": Wandb, "mlflow": Mlflow}


def require(names: Sequence[str]) -> None:
    """Raise ConfigError for a name that is no tracker, or whose library is not installed; nothing is imported."""
    for name in names:
        if name not in KINDS:
            raise ConfigError(f"no tracker '{name}'{nearest(name, KINDS)}")
        found = find_spec(name)
        if found is None or found.origin is None:  # a bare folder, such as the one that W&B leaves where it worked
            raise ConfigError(f"tracking with {name} needs its library: pip install 'paribus[{name}]'")


def make(name: str) -> Tracker:
    """Import a tracker's library and return the tracker."""
    return KINDS[name]()


def _markdown(config: Mapping[str, Any]) -> str:
    rows = [f"| {key} | {value!s} |" for key, value in flatten(config).items()]
    return "\n".join(["| key | value |", "|---|---|", *rows])
