"""All runs of an experiment: the base, then arms interleaved by seed, each in a process of its own."""

from __future__ import annotations

import importlib.util
import multiprocessing as mp
import os
import signal
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

from paribus.errors import ConfigError, Interrupted, ParibusError, RunError
from paribus.experiment import Experiment, base_config, controlled, differences, identity, run_config
from paribus.part import diff, dump, flatten
from paribus.pipeline.progress import Watch, clock_text
from paribus.store import (
    CellRow,
    DifferenceRow,
    ExperimentInfo,
    ExperimentPaths,
    FactorRow,
    RunPaths,
    status,
    write_experiment,
)
from paribus.store.files import read_json

PRELOAD = ["paribus.pipeline.worker"]


class Job(NamedTuple):
    """One run: an arm and a seed, or the base's evaluation (`arm` None)."""

    arm: str | None
    seed: int

    @property
    def label(self) -> str:
        return "base" if self.arm is None else f"{self.arm}/seed-{self.seed}"


def jobs(exp: Experiment, arms: Sequence[str] = (), seeds: Sequence[int] = ()) -> list[Job]:
    """Return the base and then, seed by seed, every arm; the order of arms turns with each seed, so that a drift of
    the machine's speed falls on all alike. Raises ConfigError for an unknown arm or seed."""
    for name in arms:
        if name not in exp.arms:
            raise ConfigError(f"no arm '{name}' in this experiment; arms: {', '.join(exp.arms)}")
    for seed in seeds:
        if seed not in exp.seeds:
            raise ConfigError(f"no seed {seed} in this experiment; seeds: {', '.join(map(str, exp.seeds))}")
    names = [a for a in exp.arms if not arms or a in arms]
    out = [Job(None, exp.seeds[0])]
    for i, seed in enumerate(s for s in exp.seeds if not seeds or s in seeds):
        turn = i % len(names)
        out += [Job(name, seed) for name in names[turn:] + names[:turn]]
    return out


def run_experiment(
    exp: Experiment,
    runs: Path | str = "runs",
    *,
    arms: Sequence[str] = (),
    seeds: Sequence[int] = (),
    folder: Path | None = None,
) -> ExperimentPaths:
    """Do every run that is not finished, one after another, and return where they lie: `folder`, or `runs/<name>`.

    A second call skips finished runs and resumes interrupted ones. Raises Interrupted when stopped, RunError when a
    run failed (after the others were done), ConfigError when the folder holds runs of another configuration.
    """
    if importlib.util.find_spec("torch") is None:
        raise ConfigError("running needs PyTorch and transformers: pip install 'paribus[train]'")
    paths = ExperimentPaths(folder or Path(runs) / exp.name)
    todo = jobs(exp, arms, seeds)
    _refuse_another_configuration(exp, paths, todo)
    write_experiment(paths, experiment_info(exp))
    failed: list[str] = []
    with Watch([job.label for job in todo]) as watch:
        for job in todo:
            if status(_paths(paths, job)) == "done":
                watch.note(f"{job.label}: finished earlier")
                continue
            watch.start(job.label)
            began = time.perf_counter()
            try:
                _in_own_process(exp, job, paths.root, watch)
            except RunError as error:
                failed.append(f"{job.label}: {error}")
                watch.note(f"{job.label}: FAILED: {error}")
                if job.arm is None:
                    break
                continue
            seconds = time.perf_counter() - began
            watch.finish(seconds)
            watch.note(f"{job.label}: done in {clock_text(seconds)}")
    if failed:
        raise RunError("\n".join(["some runs failed; the same command tries them again:", *failed]))
    return paths


def _refuse_another_configuration(exp: Experiment, paths: ExperimentPaths, todo: Sequence[Job]) -> None:
    """Raise ConfigError, with the keys, when a folder holds a run made under other settings than the file's now."""
    for job in todo:
        run = _paths(paths, job)
        if status(run) == "new":
            continue
        now = identity(base_config(exp) if job.arm is None else run_config(exp, job.arm))
        then = identity(read_json(run.config))
        changed = diff(then, now)
        if changed:
            rows = [f"  {d.path}: {d.left} in the folder, {d.right} now" for d in changed[:8]]
            more = [f"  and {len(changed) - 8} more"] if len(changed) > 8 else []
            raise ConfigError(
                "\n".join(
                    [
                        f"{run.root}: holds a run of another configuration:",
                        *rows,
                        *more,
                        "rename the experiment (`name`), choose another --runs folder, or remove this one",
                    ]
                )
            )


def _paths(paths: ExperimentPaths, job: Job) -> RunPaths:
    return paths.base if job.arm is None else paths.run(job.arm, job.seed)


def experiment_info(exp: Experiment) -> ExperimentInfo:
    """Return what `experiment.json` says: the question, the arms and their differences, everything resolved."""
    rows = [
        DifferenceRow(path=r.key, values=dict(zip(exp.arms, r.values, strict=True)), declared=r.declared)
        for r in differences(exp)
    ]
    factors = [
        FactorRow(name=name, levels=tuple(f.levels), changes={k: flatten(v) for k, v in f.levels.items()})
        for name, f in exp.factors.items()
    ]
    cells = [CellRow(arm=name, of=arm.of, levels=tuple(arm.levels.values())) for name, arm in exp.arms.items()]
    return ExperimentInfo(
        name=exp.name,
        question=exp.question,
        primary=exp.primary,
        seeds=exp.seeds,
        margin=exp.margin,
        arms=tuple(exp.arms),
        differences=tuple(rows),
        price_per_hour=exp.setting.machine.price_per_hour,
        resolved={**dump(exp), "controlled": controlled(exp)},
        factors=tuple(factors),
        cells=tuple(cells) if factors else (),
    )


def _in_own_process(exp: Experiment, job: Job, root: Path, watch: Watch) -> None:
    """Run a job in a fresh process, so that its memory is its own and a crash takes nothing along."""
    method = "forkserver" if "forkserver" in mp.get_all_start_methods() else "spawn"
    context: Any = mp.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(PRELOAD)  # the imports are done once, for all runs
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(dump(exp), job, str(root), theirs), daemon=False)
    process.start()
    theirs.close()
    with _Forwarder(process.pid) as forwarder:
        ended = _listen(ours, job, watch, forwarder)
        process.join()
    if ended is not None and ended[0] == "interrupted":
        raise Interrupted(ended[1])
    if ended is not None and ended[0] == "error":
        raise (RunError if ended[1] == RunError.code else ConfigError)(ended[2])
    if process.exitcode:
        code = process.exitcode
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}, see the traceback above"
        memory = " (killed for want of memory, probably: lower machine.micro_tokens or machine.decode_rows)"
        raise RunError(f"its process {how}{memory if code == -9 else ''}; the last checkpoint is intact")


def _listen(channel: Connection, job: Job, watch: Watch, forwarder: _Forwarder) -> tuple[Any, ...] | None:
    """Show what the run reports until its end; return how it ended where it says so."""
    ended, told = None, False
    while True:
        ready = channel.poll(0.1)
        if forwarder.asked and not told:
            watch.note("stopping after this step (once more: at once); the same command goes on from here")
            told = True
        if not ready:
            continue
        try:
            kind, fields = channel.recv()
        except EOFError:
            return ended
        if kind == "note":
            watch.note(fields["text"])
        elif kind == "step":
            total = fields["total"]
            watch.advance("step", fields["step"], total, fields["detail"], fields["step"] / total if total else 0.0)
        elif kind == "eval":
            share = fields["done"] / fields["total"] if job.arm is None else watch.done_share
            watch.advance(f"eval {fields['suite']}", fields["done"], fields["total"], "", share)
        elif kind == "evaluated":
            accuracy = 100 * fields["correct"] / max(1, fields["total"])
            at = "" if job.arm is None else f" after step {fields['step']}"
            counts = f"{fields['correct']:g}/{fields['total']}"
            watch.note(f"{job.label}: {fields['suite']} accuracy {accuracy:.2f} % ({counts}){at}")
        else:
            ended = (kind, *fields)


class _Forwarder:
    """Passes Ctrl-C and SIGTERM on to the process at work; the second one stops it at once.

    The handler prints nothing: it may interrupt a print half done, whose line would then come twice.
    """

    def __init__(self, pid: int) -> None:
        self.pid, self.asked = pid, False

    def __enter__(self) -> _Forwarder:
        self._old = {n: signal.signal(n, self._pass_on) for n in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *unused: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def _pass_on(self, number: int, frame: object) -> None:
        self.asked = True
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return  # it has just ended by itself


def _work(data: dict[str, Any], job: Job, root: str, channel: Connection) -> None:
    """The body of a run's process."""
    from paribus.part import load
    from paribus.pipeline.worker import run_arm, run_base

    if os.name == "posix":
        os.setpgid(0, 0)  # Ctrl-C reaches the parent alone, which passes it on once
    threading.Thread(target=_die_with_parent, daemon=True).start()

    def report(kind: str, **fields: Any) -> None:
        if kind == "step":
            stats = fields.pop("stats")
            shown = {"score": "score", "response_tokens": "tokens"}
            fields["detail"] = "  ".join(f"{text} {stats[k].value or 0:.3g}" for k, text in shown.items() if k in stats)
        channel.send((kind, fields))

    try:
        exp = load(Experiment, data)
        if job.arm is None:
            run_base(exp, Path(root), report)
        else:
            run_arm(exp, job.arm, job.seed, Path(root), report)
    except Interrupted as stop:
        channel.send(("interrupted", (stop.code - 128,)))
    except ParibusError as error:
        channel.send(("error", (error.code, str(error))))


def _die_with_parent() -> None:
    """End this process when the one that started it is gone: nobody is left to show or stop it."""
    parent = mp.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
