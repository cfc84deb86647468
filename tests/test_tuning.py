"""Equal tuning: as many trials for every arm, drawn from its ranges, chosen where the verdict does not look."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from paribus.errors import ConfigError
from paribus.experiment import Experiment, comparable
from paribus.part import dump, load
from paribus.pipeline.tune import tuned
from paribus.store import TUNE, ExperimentPaths, StoredExperiment, read_experiment, read_tuning
from paribus.store.files import write_rows
from paribus.tuning import Range, Tune
from tinyruns import experiment, write_materials


def search(**fields: Any) -> Tune:
    return load(Tune, {"by": "dev:accuracy", "trials": 4, "seeds": [9], **fields})


def test_a_grid_with_as_many_points_as_trials_is_tried_whole() -> None:
    tune = search(ranges={"optim": {"lr": [1e-4, 1e-3]}, "kl.coef": [0.0, 0.1]})
    points = {(v["optim.lr"], v["kl.coef"]) for v in tune.values("any")}
    assert points == {(lr, kl) for lr in (1e-4, 1e-3) for kl in (0.0, 0.1)}


def test_a_larger_grid_gives_distinct_points_and_a_smaller_one_is_refused() -> None:
    values = search(ranges={"optim.lr": [1e-5, 1e-4, 1e-3], "optim.epochs": [1, 2, 3]}).values("a")
    assert len({tuple(v.items()) for v in values}) == 4
    with pytest.raises(ValueError, match="3 points to try, fewer than trials = 4"):
        search(ranges={"optim.lr": [1, 2, 3]}).values("a")


def test_a_range_is_stratified_on_its_scale() -> None:
    """Latin hypercube: each quarter of the logarithmic range holds one of four trials, whatever the key's list does."""
    values = search(ranges={"optim.lr": {"low": 1e-6, "high": 1e-2}, "optim.epochs": [1, 2]}).values("a")
    quarter = sorted(math.floor(math.log10(v["optim.lr"]) + 6) for v in values)
    assert quarter == [0, 1, 2, 3]
    assert sorted(v["optim.epochs"] for v in values) == [1, 1, 2, 2]


def test_trials_are_the_same_each_time_and_for_arms_with_the_same_ranges() -> None:
    tune = search(ranges={"optim.lr": {"low": 1e-6, "high": 1e-2}})
    assert tune.values("ppo") == tune.values("grpo") == load(Tune, dump(tune)).values("ppo")


def test_a_linear_range_may_cross_zero_and_a_logarithmic_one_may_not() -> None:
    assert Range(low=-1, high=1, scale="linear").at(0.75) == 0.5
    assert Range(low=1e-4, high=1e-2).at(0.5) == pytest.approx(1e-3)
    with pytest.raises(ValueError, match="no logarithm"):
        Range(low=0, high=1)


ARMS = {"rloo": {"base": "rloo", "shaping": [{"type": "outcome_at_end"}]}, "dr": {"base": "dr_grpo"}}
TUNE_TABLE = {"by": "dev:accuracy", "trials": 2, "seeds": [7], "ranges": {"optim.lr": [1e-2, 1e-1]}}
DEV = {"test": {"max_response": 8, "limit": 2}, "dev": {"split": "train", "max_response": 8}}


def tuned_experiment(folder: Path, **changes: Any) -> Experiment:
    write_materials(folder)
    table = TUNE_TABLE | {"budget": {"steps": 1}} | changes
    return experiment(folder, ARMS, tune=table, eval=DEV, differs=["advantage", "shaping", "aggregate", "surrogate"])


def test_trials_run_and_the_best_one_is_laid_over_its_arm(tmp_path: Path) -> None:
    exp = tuned_experiment(tmp_path)
    after = tuned(exp, tmp_path / "runs")
    stored = read_tuning(ExperimentPaths(tmp_path / "runs" / "tiny"))
    assert stored is not None and stored.seeds == (7,)
    assert [(t.arm, t.trial) for t in stored.trials] == [(a, f"{a}.trial-{i}") for a in ("rloo", "dr") for i in (0, 1)]
    for name in exp.arms:
        own = [t for t in stored.trials if t.arm == name]
        (chosen,) = [t for t in own if t.chosen]
        assert chosen is max(own, key=lambda t: t.score)  # max keeps the first of equals
        keys = comparable(after.arms[name], after.setting)
        assert keys == comparable(exp.arms[name], exp.setting) | {"setting.optim.lr": chosen.values["optim.lr"]}
    runs = read_experiment(tmp_path / "runs" / "tiny" / TUNE)
    assert all(run.info.seed == 7 and run.steps[-1].step == 1 for found in runs.runs.values() for run in found.values())
    assert load(Experiment, dump(after)) == after  # what a run's own process is given
    _answer_right(runs, "rloo.trial-1")
    again = tuned(exp, tmp_path / "runs")  # nothing is left to run: the trials are held against each other anew
    assert again.arms["rloo"].differs == {"optim.lr": stored.trials[1].values["optim.lr"]}
    assert again.arms["dr"].differs == {"optim.lr": stored.trials[2].values["optim.lr"]}


def _answer_right(runs: StoredExperiment, trial: str) -> None:
    """Let every stored answer of a trial be right."""
    for run in runs.runs[trial].values():
        (step,) = run.eval_steps("dev")
        rows = [row.model_copy(update={"score": 1.0, "status": "ok"}) for row in run.eval("dev")]
        write_rows(run.paths.eval("dev", step), rows)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"by": "test:accuracy"}, "would choose on problems that the verdict is about"),
        ({"by": "dev:pass@8"}, "is not measured here"),
        ({"seeds": [0]}, "must not hold a seed of the comparison"),
        ({"arm": {"rlo": {"optim.lr": [1, 2]}}}, "no arm 'rlo'.*rloo"),
        ({"ranges": {"optim.lrr": [1, 2]}}, "tune: arm 'rloo': .*lrr"),
        ({"ranges": {"task.path": ["a", "b"]}}, "tune: arm 'rloo': .*task"),
        ({"ranges": {"optim.lr": [1.0]}}, "1 points to try"),
    ],
)
def test_a_search_that_cannot_be_fair_is_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        tuned_experiment(tmp_path, **changes)
