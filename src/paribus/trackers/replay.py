"""Sending stored runs to a tracker: what it does not have yet, once or for as long as the runs go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from paribus.errors import ParibusError, RunError
from paribus.store import StoredRun, read_experiment
from paribus.store.files import read_json, write_json
from paribus.store.layout import ExperimentPaths
from paribus.trackers.base import Ending, Point, TrackedRun, Tracker
from paribus.trackers.kinds import make, require
from paribus.trackers.points import Sent, about, count, final_point, new_points

REPORT = Path("report") / "report.html"  # where `paribus run` leaves it


@dataclass
class Replay:
    """Sends an experiment's runs to a tracker, and remembers in `_track/<name>.json` what it has sent.

    Nothing else in the folder is written, and no run is touched: it may work beside the runs or on another machine
    that sees the files. One of a kind at a time.
    """

    folder: Path
    name: str
    tracker: Tracker
    _open: dict[str, TrackedRun] = field(default_factory=dict)
    _last: dict[str, Point] = field(default_factory=dict)  # of the open ones
    _seen: dict[Path, object] = field(default_factory=dict)
    _sent: dict[str, Sent] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._file = ExperimentPaths(self.folder).tracked(self.name)
        stored = read_json(self._file) if self._file.exists() else {}
        self._others = {where: runs for where, runs in stored.items() if where != self.tracker.where}
        self._sent = {run: Sent(**sent) for run, sent in stored.get(self.tracker.where, {}).items()}

    def look(self) -> bool:
        """Send what is new, and say whether all runs of the experiment are over. Raises DataError."""
        exp = read_experiment(self.folder)
        runs = [*([exp.base] if exp.base else []), *(run for found in exp.runs.values() for run in found.values())]
        for run in runs:
            stamp = _stamp(run)
            if self._seen.get(run.paths.root) != stamp:
                self._send(run, exp.info.primary)
                self._seen[run.paths.root] = stamp
        planned = len(exp.info.arms) * len(exp.info.seeds) + (exp.base is not None)
        return len(runs) == planned and all(run.status != "interrupted" for run in runs)

    def close(self) -> None:
        """Close the runs that have no end yet; they can be gone on with."""
        while self._open:
            run, tracked = self._open.popitem()
            last = self._last[run]
            tracked.finish("interrupted", Point(last.step, last.time, {}), {})

    def _send(self, run: StoredRun, primary: str) -> None:
        """Send a run's new points, and its end once; what was sent is on disk before the next run's turn."""
        status = run.status  # before the rows: a run that is over has all of them
        which = about(run, self.folder, resumed=False)
        sent = self._sent.setdefault(which.id, Sent())
        points = new_points(run, sent, primary)
        ended = status != "interrupted" and status != sent.ended
        if not points and not ended:
            return
        if which.id not in self._open:
            self._open[which.id] = self.tracker.start(about(run, self.folder, resumed=not sent.nothing))
        tracked = self._open[which.id]
        if points:
            self._last[which.id] = points[-1]
            tracked.log(points)
            count(points, sent)
            sent.ended = None
            self._keep()
        if status != "interrupted":
            self._end(run, self._open.pop(which.id), status, primary)
            sent.ended = status
            self._keep()

    def _keep(self) -> None:
        kept = {run: asdict(found) for run, found in self._sent.items() if not found.nothing or found.ended}
        write_json(self._file, {**self._others, self.tracker.where: kept})

    def _end(self, run: StoredRun, tracked: TrackedRun, status: Ending, primary: str) -> None:
        texts = {"status": status, "folder": str(run.paths.root.resolve())}
        texts |= {"report": str((self.folder / REPORT).resolve())} if status == "done" else {}
        texts |= {"failure": run.failure} if run.failure else {}
        tracked.finish(status, final_point(run, primary), texts)


def _stamp(run: StoredRun) -> object:
    paths = run.paths
    files = [paths.run, paths.steps, paths.timing, paths.done, paths.failed]
    files += [paths.evals / suite for suite in run.suites]
    return tuple((str(file), s.st_mtime_ns, s.st_size) for file in files if file.exists() for s in [file.stat()])


def track(folder: Path, name: str, enough: Callable[[bool], bool] = lambda over: True) -> None:
    """Send what a tracker lacks of an experiment, again and again until `enough`, told whether all runs are over.

    Raises ConfigError where the library is missing, DataError for a folder that is no experiment, and RunError for
    whatever the library raises: what was sent is remembered, and a second call sends the rest.
    """
    require([name])
    try:
        replay = Replay(folder, name, make(name))
        try:
            while not enough(replay.look()):
                pass
        finally:
            replay.close()
    except ParibusError:
        raise
    except Exception as error:  # a library's own, of any kind: no network, no login, a full disk
        reason = " ".join(str(error).split()) or "no reason given"
        raise RunError(
            f"tracking with {name} ended: {type(error).__name__}: {reason[:300]}; the runs are not touched, and "
            f"`paribus track {folder} --to {name}` sends the rest"
        ) from error


def until_over(every: float) -> Callable[[bool], bool]:
    """Return an `enough` that looks every so many seconds until all runs are over."""

    def enough(over: bool) -> bool:
        if not over:
            time.sleep(every)
        return over

    return enough
