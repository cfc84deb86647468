"""The search before the runs: the same number of trials for every arm, each an ordinary run; the best setting wins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from paribus.experiment import Arm, Experiment
from paribus.part import replace
from paribus.pipeline.compare import run_experiment
from paribus.pipeline.crew import Executor
from paribus.pipeline.processes import Processes
from paribus.store import TUNE, ExperimentPaths, TrialRow, TuningInfo, read_experiment, write_tuning


def tuned(exp: Experiment, runs: Path | str = "runs", *, on: Callable[[Path], Executor] = Processes) -> Experiment:
    """Run what is left of the trials, where `on` lets them, and return the experiment with every arm at its best.

    Trials lie under `runs/<name>/_tune/`, their result in `_tune/tuning.json`. Without [tune] nothing happens.
    """
    if exp.tune is None:
        return exp
    folder = Path(runs) / exp.name / TUNE
    trial_arms = _trials(exp)
    suite = exp.tune.by.partition(":")[0]
    trials = exp.model_copy(
        update={
            "arms": {label: arm for label, (_, _, arm) in trial_arms.items()},
            "seeds": exp.tune.seeds,
            "primary": exp.tune.by,
            "setting": replace(
                exp.setting,
                eval={suite: replace(exp.setting.eval[suite], every=None)},
                budget=exp.tune.budget or exp.setting.budget,
            ),
            "factors": {},
            "tune": None,
        }
    )
    run_experiment(trials, folder=folder, on=on)
    info = _choose(exp, folder, {label: (name, values) for label, (name, values, _) in trial_arms.items()})
    write_tuning(ExperimentPaths(folder), info)
    best = {row.arm: row.values for row in info.trials if row.chosen}
    return exp.model_copy(update={"arms": {name: arm.changed(best[name]) for name, arm in exp.arms.items()}})


def _trials(exp: Experiment) -> dict[str, tuple[str, Mapping[str, Any], Arm]]:
    """Return every trial by its label: whose it is, what it changes, and the arm it runs."""
    assert exp.tune is not None
    out: dict[str, tuple[str, Mapping[str, Any], Arm]] = {}
    for name, arm in exp.arms.items():
        for i, values in enumerate(exp.tune.values(arm.of or name)):
            alone = arm.model_copy(update={"of": "", "levels": {}})
            out[f"{name}.trial-{i}"] = (name, values, alone.changed(values))
    return out


def _choose(exp: Experiment, folder: Path, labels: Mapping[str, tuple[str, Mapping[str, Any]]]) -> TuningInfo:
    from paribus.report.results import scores

    assert exp.tune is not None
    stored = read_experiment(folder)
    suite, _, metric = exp.tune.by.partition(":")
    table = scores(stored, suite, metric).table
    mean = {label: float(table[label].mean()) for label in labels}
    best: dict[str, str] = {}
    for label, (name, _) in labels.items():
        if name not in best or mean[label] > mean[best[name]]:
            best[name] = label
    rows = [
        TrialRow(arm=name, trial=label, values=values, score=mean[label], chosen=best[name] == label)
        for label, (name, values) in labels.items()
    ]
    return TuningInfo(by=exp.tune.by, seeds=exp.tune.seeds, trials=tuple(rows))
