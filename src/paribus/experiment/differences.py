"""In what the arms of an experiment differ, and what decides the numbers of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from paribus.experiment.spec import IDENTITY, NOT_IDENTITY, Arm, Experiment, Setting
from paribus.part import diff, dump, flatten
from paribus.rewards import TaskReward


class PlanRow(NamedTuple):
    """One key in which arms differ: its value in each arm, and whether the experiment says that it is meant to."""

    key: str
    values: tuple[Any, ...]
    declared: bool


def comparable(arm: Arm, shared: Setting) -> dict[str, Any]:
    """Return everything that decides an arm's numbers, by dotted key: its algorithm and its own setting."""
    algorithm = {k: v for k, v in dump(arm.algorithm).items() if k not in IDENTITY}
    return flatten({**algorithm, "setting": dump(arm.setting(shared))})


def differences(exp: Experiment) -> list[PlanRow]:
    """Return every key in which arms differ; what is not declared makes the comparison uncontrolled.

    A difference is declared when `differs` names its slot, when an arm's table states the key, when it is an
    exception under `[arm.x.differs]`, or when a factor makes it: arms at the same levels do not differ in it.
    """
    sides = [comparable(arm, exp.setting) for arm in exp.arms.values()]
    stated = {key for arm in exp.arms.values() for key in arm.stated}
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for arm, side in zip(exp.arms.values(), sides, strict=True):
        groups.setdefault(tuple(arm.levels.values()), []).append(side)
    between_arms = {key for group in groups.values() for key in _differing(group)}
    rows = []
    for key in _differing(sides):
        declared = key.startswith("setting.") or any(
            key == name or key.startswith(name + ".") for name in (*exp.differs, *stated)
        )
        rows.append(PlanRow(key, tuple(side.get(key) for side in sides), declared or key not in between_arms))
    return rows


def _differing(sides: list[dict[str, Any]]) -> list[str]:
    keys = list(dict.fromkeys(d.path for other in sides[1:] for d in diff(sides[0], other)))
    return [k for k in keys if not any(o.startswith(k + ".") for o in keys)]


def controlled(exp: Experiment) -> bool:
    """True when every difference between the arms is declared."""
    return all(row.declared for row in differences(exp))


def run_config(exp: Experiment, arm: str) -> dict[str, Any]:
    """Return the fully resolved configuration of an arm's runs, as stored in `config.json`.

    Raises ConfigError when what a reward is made of (a reward model's folder, a package) is not there.
    """
    algorithm, setting = exp.arms[arm].algorithm, exp.arms[arm].setting(exp.setting)
    versions = {"reward": setting.reward.version}
    if setting.steps is not None:
        versions["steps"] = setting.steps.version
    return {"algorithm": dump(algorithm), "setting": dump(setting), "versions": versions}


def identity(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a configuration that decides a run's numbers; machine and saving may change in between."""
    return {**config, "setting": {k: v for k, v in config["setting"].items() if k not in NOT_IDENTITY}}


def base_config(exp: Experiment) -> dict[str, Any]:
    """Return what decides the numbers of the base's evaluation."""
    setting = dump(exp.setting)
    versions = {} if isinstance(exp.setting.reward, TaskReward) else {"reward": exp.setting.reward.version}
    return {"setting": {k: setting[k] for k in ("model", "task", "eval", "reward")}, "versions": versions}
