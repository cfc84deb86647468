"""All runs of an experiment: the base, then arms interleaved by seed, as many at a time as the machine has room for."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

from paribus.engines.heap import ask_huge_pages
from paribus.errors import ConfigError, RunError
from paribus.experiment import Experiment, base_config, controlled, differences, identity, run_config
from paribus.part import diff, dump, flatten, replace
from paribus.pipeline.crew import Crew, Executor, Job
from paribus.pipeline.processes import Processes, run_paths
from paribus.pipeline.progress import Watch
from paribus.store import (
    BASE,
    CellRow,
    DifferenceRow,
    ExperimentInfo,
    ExperimentPaths,
    FactorRow,
    StoredRun,
    status,
    write_experiment,
)
from paribus.store.files import read_json


def jobs(exp: Experiment, arms: Sequence[str] = (), seeds: Sequence[int] = ()) -> list[Job]:
    """Return the base and then, seed by seed, every arm; the order of arms turns with each seed, so that a drift of
    the machine's speed falls on all alike. The arm "_base" alone means the base alone. Raises ConfigError for an
    unknown arm or seed."""
    for name in arms:
        if name not in exp.arms and name != BASE:
            raise ConfigError(f"no arm '{name}' in this experiment; arms: {', '.join(exp.arms)}")
    for seed in seeds:
        if seed not in exp.seeds:
            raise ConfigError(f"no seed {seed} in this experiment; seeds: {', '.join(map(str, exp.seeds))}")
    names = [a for a in exp.arms if not arms or a in arms]
    out = [Job(None, exp.seeds[0])]
    for i, seed in enumerate(s for s in exp.seeds if names and (not seeds or s in seeds)):
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
    on: Callable[[Path], Executor] = Processes,
) -> ExperimentPaths:
    """Do every run that is not finished and return where they lie: `folder`, or `runs/<name>`.

    The base comes first, then `machine.parallel` runs work at a time, begun in the order of `jobs`, where `on` lets
    them: in processes of this machine, or on a cluster. A second call skips finished runs and resumes interrupted
    ones. Raises Interrupted when stopped, RunError when a run failed (after the others were done), ConfigError when
    the folder holds runs of another configuration.
    """
    if importlib.util.find_spec("torch") is None:
        raise ConfigError("running needs PyTorch and transformers: pip install 'paribus[train]'")
    ask_huge_pages()
    paths = ExperimentPaths(folder or Path(runs) / exp.name)
    todo = jobs(exp, arms, seeds)
    _refuse_another_configuration(exp, paths, todo)
    write_experiment(paths, experiment_info(exp))
    with on(paths.root) as executor, Watch([job.label for job in todo]) as watch, Crew(watch, executor) as crew:
        at_once = 0
        for job in todo:
            if status(run_paths(paths.root, job)) == "done":
                watch.skip(job.label)
                continue
            if job.arm is None:  # alone: its end decides whether the others begin, and what memory they have
                crew.start(_shared(exp, 1), job)
                crew.wait_for_room(1)
                if crew.failed:
                    break
                continue
            at_once = watch.at_once = at_once or executor.room(exp, _base_bytes(paths))
            crew.wait_for_room(at_once)
            crew.start(_shared(exp, at_once), job)
        crew.wait_for_room(1)
    if crew.failed:
        raise RunError("\n".join(["some runs failed; the same command tries them again:", *crew.failed]))
    return paths


def _base_bytes(paths: ExperimentPaths) -> int:
    """Return the resident peak of the base's evaluation, 0 where there is none."""
    if not paths.base.run.exists():
        return 0
    return max((size for row in StoredRun(paths.base).all_timing for size in row.rss_peak.values()), default=0)


def _shared(exp: Experiment, at_once: int) -> Experiment:
    """Return the experiment with the number of runs at a time settled, as the runs record it."""
    return replace(exp, **{"setting.machine.parallel": at_once})


def _refuse_another_configuration(exp: Experiment, paths: ExperimentPaths, todo: Sequence[Job]) -> None:
    """Raise ConfigError, with the keys, when a folder holds a run made under other settings than the file's now."""
    for job in todo:
        run = run_paths(paths.root, job)
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
