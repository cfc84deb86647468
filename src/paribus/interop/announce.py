"""Making room for runs from elsewhere in an experiment's folder: the arm, its seeds, and that the engines differ."""

from __future__ import annotations

from collections.abc import Callable

from paribus.errors import ConfigError
from paribus.experiment import Arm, Experiment
from paribus.part import diff, dump, load
from paribus.store import DifferenceRow, ExperimentPaths, write_experiment
from paribus.store.reader import read_versioned
from paribus.store.schema import ExperimentInfo

ENGINE = "engine"  # the path of the row that names who trained each arm
HERE = "paribus"
NOTE = "trained by another program: what the mapping report of its export calls default or approximate differs too"


def announce(
    paths: ExperimentPaths,
    exp: Experiment,
    like: str,
    arm: str,
    engine: str,
    seeds: tuple[int, ...],
    describe: Callable[[Experiment], ExperimentInfo],
) -> None:
    """Add an arm to experiment.json, which is made where there is none. Raises ConfigError for another setting."""
    engines, arms, known = {arm: engine}, {arm: _as_arm(exp.arms[like])}, set(seeds)
    exp = exp.model_copy(update={"factors": {}, "tune": None})  # which speak of arms that are not here
    if paths.info.exists():
        stored = read_versioned(paths.info, ExperimentInfo)
        before = load(Experiment, {k: v for k, v in stored.resolved.items() if k != "controlled"})
        if before.factors:
            raise ConfigError(f"{paths.root}: holds an experiment with factors: ingest into a folder of its own")
        _same_setting(paths, before, exp)
        told = next((row.values for row in stored.differences if row.path == ENGINE), {})
        engines = {name: told.get(name, HERE) for name in before.arms} | engines
        arms, known = dict(before.arms) | arms, known | set(before.seeds)
        exp = before
    merged = load(Experiment, dump(exp) | {"arms": {n: dump(a) for n, a in arms.items()}, "seeds": sorted(known)})
    info = describe(merged)
    if len(set(engines.values())) > 1:
        row = DifferenceRow(path=ENGINE, values=engines, declared=False, note=NOTE)
        info = info.model_copy(update={"differences": (*info.differences, row)})
    write_experiment(paths, info)


def _as_arm(arm: Arm) -> Arm:
    """Return the arm outside of the factors that it may have been a cell of."""
    return arm.model_copy(update={"of": "", "levels": {}})


def _same_setting(paths: ExperimentPaths, stored: Experiment, exp: Experiment) -> None:
    changed = [
        d
        for d in diff(stored.setting, exp.setting)
        if d.path.split(".")[0] not in ("machine", "save", "limit") and not d.path.endswith(".path")
    ]
    if changed:
        rows = [f"  {d.path}: {d.left} in the folder, {d.right} in the export" for d in changed[:8]]
        raise ConfigError("\n".join([f"{paths.root}: holds an experiment of another setting:", *rows]))
