"""Writing a run: created or resumed, one synced row at a time, so that a kill at any moment leaves it resumable."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from paribus.errors import ConfigError, RunError
from paribus.store import files, provenance
from paribus.store.layout import ExperimentPaths, RunPaths, step_files
from paribus.store.reader import read_run_info, read_versioned
from paribus.store.schema import (
    Attempt,
    DataInfo,
    EvalRow,
    ExperimentInfo,
    ProblemRow,
    RolloutRow,
    RunFacts,
    RunInfo,
    RunStatus,
    StepRow,
    TimingRow,
)


def status(paths: RunPaths) -> Literal["new", "interrupted", "done", "failed"]:
    """Say how far a run is; the marker file written last decides."""
    if paths.done.exists():
        return "done"
    if paths.failed.exists():
        return "failed"
    return "interrupted" if paths.run.exists() else "new"


def wait_for_lock(paths: RunPaths, seconds: float) -> None:
    """Wait at most so many seconds until no process holds the run: that of a lost machine may, for the server's lease.

    Whether it is free in the end is not said: the writer finds out.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(RunError):
            os.close(_lock(paths))
            return
        time.sleep(0.2)


def check_same(paths: RunPaths, facts: RunFacts) -> RunInfo:
    """Return what a stored run says of itself, if it is the run that `facts` describe. Raises ConfigError if not.

    Configuration, data and grader must be equal; code, threads and hardware may have changed and are recorded.
    """
    info = read_run_info(paths)
    equal = {
        "configuration": info.config_hash == facts.config_hash,
        "data": _same_data(info.data, facts.data),
        "grader": info.grader == facts.grader,
    }
    changed = [name for name, same in equal.items() if not same]
    if changed:
        raise ConfigError(
            f"{paths.root}: this run was made with another {' and '.join(changed)}; "
            "remove the folder, or give the experiment another name"
        )
    return info


def _same_data(then: Mapping[str, DataInfo], now: Mapping[str, DataInfo]) -> bool:
    """Say whether the same problems were asked in the same words, and the same answers given.

    Runs of earlier versions do not tell the words, nor given answers.
    """
    return then.keys() in (now.keys(), now.keys() - {"given"}) and all(
        old.hash == now[use].hash and old.prompts in (None, now[use].prompts) for use, old in then.items()
    )


def write_experiment(paths: ExperimentPaths, info: ExperimentInfo) -> ExperimentInfo:
    """Write experiment.json; a second writing keeps the date of the first."""
    created = read_versioned(paths.info, ExperimentInfo).created if paths.info.exists() else provenance.now()
    info = info.model_copy(update={"created": created})
    files.write_json(paths.info, info)
    return info


def write_problems(paths: ExperimentPaths, suite: str, rows: Iterable[ProblemRow]) -> None:
    """Store what an evaluation suite asks, once for all arms."""
    files.write_rows(paths.problems(suite), rows)


class RunWriter:
    """The only writer of one run folder; another process that opens the same run is refused.

    Made by `create` or `resume`. Ends with `done`, `failed` or `interrupted`; without any of them the run counts as
    interrupted. Full disks and the like raise RunError and leave what was there.
    """

    def __init__(self, paths: RunPaths, info: RunInfo, lock: int) -> None:
        self.paths = paths
        self.info = info
        self._lock = lock

    @classmethod
    def create(cls, paths: RunPaths, facts: RunFacts, config: Mapping[str, Any]) -> RunWriter:
        """Start a new run; `config` is the fully resolved configuration of this arm, stored as config.json."""
        if status(paths) != "new":
            raise RunError(f"{paths.root}: already holds a run; resume it, or remove the folder to start anew")
        lock = _lock(paths)
        data = {use: info.hash for use, info in facts.data.items()}
        identity = [facts.config_hash, data, provenance.code_version(), paths.arm, paths.seed]
        info = RunInfo(
            id=provenance.value_hash(identity),
            experiment=paths.experiment,
            arm=paths.arm,
            seed=paths.seed,
            status="running",
            config_hash=facts.config_hash,
            grader=facts.grader,
            data=facts.data,
            attempts=(_attempt(1, facts),),
        )
        files.write_json(paths.config, config)
        files.write_json(paths.run, info)  # last: a folder without it is still "new"
        return cls(paths, info, lock)

    @classmethod
    def resume(cls, paths: RunPaths, facts: RunFacts) -> RunWriter:
        """Take up an interrupted or failed run: rows torn by a crash are removed and a new attempt is counted.

        Raises ConfigError as `check_same` does.
        """
        info = check_same(paths, facts)
        lock = _lock(paths)
        files.remove_temporary(paths.root)
        paths.failed.unlink(missing_ok=True)
        info = info.model_copy(
            update={"status": "running", "attempts": (*info.attempts, _attempt(len(info.attempts) + 1, facts))}
        )
        files.write_json(paths.run, info)
        for path in (paths.steps, paths.timing):
            _rewrite(path, lambda line: True)
        return cls(paths, info, lock)

    @property
    def attempt(self) -> int:
        return self.info.attempts[-1].number

    def append_step(self, row: StepRow) -> None:
        files.append_line(self.paths.steps, row)

    def append_timing(self, row: TimingRow) -> None:
        """Append a timing row; the number of this attempt is put in."""
        files.append_line(self.paths.timing, row.model_copy(update={"attempt": self.attempt}))

    def write_eval(self, suite: str, step: int, rows: Iterable[EvalRow]) -> None:
        files.write_rows(self.paths.eval(suite, step), rows)

    def has_eval(self, suite: str, step: int) -> bool:
        return self.paths.eval(suite, step).exists()

    def write_rollouts(self, step: int, rows: Iterable[RolloutRow]) -> None:
        files.write_rows(self.paths.rollouts(step), rows)

    def write_final(self, write: Callable[[Path], None]) -> None:
        """Let `write` fill the folder of the final weights; it appears complete or not at all."""
        files.replace_folder(self.paths.final, write)

    def truncate_after(self, step: int) -> None:
        """Forget every step, rollout and evaluation later than `step`; timing rows stay, as the record of lost work."""
        _rewrite(self.paths.steps, lambda line: StepRow.model_validate_json(line).step <= step)
        suites = sorted(self.paths.evals.iterdir()) if self.paths.evals.is_dir() else []
        for folder in (*suites, self.paths.rollout_files):
            for at, path in step_files(folder).items():
                if at > step:
                    path.unlink()

    def done(self, summary: Mapping[str, Any]) -> None:
        """Mark the run finished; `summary` is free JSON for people."""
        self._end("done")
        files.write_json(self.paths.done, summary)
        self.close()

    def failed(self, error: BaseException) -> None:
        """Mark the run failed, with the reason; a later `resume` tries again from the last checkpoint."""
        self._end("failed")
        trace = traceback.format_exception(error)
        files.write_json(
            self.paths.failed, {"error": type(error).__name__, "message": str(error), "traceback": "".join(trace)}
        )
        self.close()

    def interrupted(self) -> None:
        """Record an orderly stop before the end (Ctrl-C, SIGTERM)."""
        self._end("interrupted")
        self.close()

    def close(self) -> None:
        """Let go of the folder without a word about how the run ended."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _end(self, ending: RunStatus) -> None:
        last = self.info.attempts[-1].model_copy(update={"ended": provenance.now()})
        self.info = self.info.model_copy(update={"status": ending, "attempts": (*self.info.attempts[:-1], last)})
        files.write_json(self.paths.run, self.info)


def _attempt(number: int, facts: RunFacts) -> Attempt:
    return Attempt(
        number=number,
        started=provenance.now(),
        device=facts.device,
        device_bytes=facts.device_bytes,
        threads=facts.threads,
        parallel=facts.parallel,
        determinism=facts.determinism,
        idle_rss=facts.idle_rss,
        **provenance.environment(),
    )


def _rewrite(path: Path, keep: Callable[[bytes], bool]) -> None:
    """Drop a torn last line and every row that `keep` refuses; a file that needs neither is not touched."""
    old = path.read_bytes() if path.exists() else b""
    new = b"".join(line + b"\n" for line in files.complete_lines(old) if keep(line))
    if new != old:
        files.replace_file(path, new)


def _lock(paths: RunPaths) -> int:
    """Hold the run against other processes until `close` or the end of this one, however it ends."""
    paths.root.mkdir(parents=True, exist_ok=True)
    fd = os.open(paths.lock, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise RunError(f"{paths.root}: another process is working on this run; wait for it or stop it") from None
    return fd
