"""Experiment: one shared setting, named arms, seeds and a budget; load, resolve, validate, plan."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, model_validator

from paribus.algorithms import CATALOG, Algorithm, Need, Offline, PolicyGradient, find
from paribus.errors import ConfigError, nearest
from paribus.factors import Cell, Factor, cells, changed_keys, overlap, read_factors
from paribus.part import Part, diff, dump, flatten, load, merge, override, read_toml, replace
from paribus.rewards import RewardSpec, StepSpec, StoriesSteps, TaskReward
from paribus.settings import Budget, LimitSpec, MachineSpec, ModelSpec, OptimSpec, RolloutSpec, SaveSpec
from paribus.suites import EvalSpec
from paribus.tasks import TaskSpec

IDENTITY = ("kind", "name", "paper")  # fields of an algorithm that name it and change no number
EXCEPTIONS = ("rollout", "optim", "model")  # tables of the setting that an arm may declare an exception in
NOT_IDENTITY = ("machine", "save")  # tables that may change between attempts of one run


class Setting(Part):
    """Everything the arms share; whatever is not in an arm is shared by construction."""

    model: ModelSpec = ModelSpec()
    task: TaskSpec
    reward: RewardSpec = TaskReward()  # what training optimises; evaluation is by the task's grader
    steps: StepSpec | None = None  # what single steps of a response are worth, for methods that ask
    rollout: RolloutSpec
    optim: OptimSpec
    budget: Budget
    eval: dict[str, EvalSpec] = Field(min_length=1)
    save: SaveSpec = SaveSpec()
    limit: LimitSpec = LimitSpec()
    machine: MachineSpec = MachineSpec()

    @property
    def updates_per_rollout(self) -> int:
        """Optimizer updates of one step: epochs times minibatches."""
        per = self.optim.minibatch_prompts or self.rollout.prompts_per_step
        return self.optim.epochs * -(-self.rollout.prompts_per_step // per)

    @property
    def total_steps(self) -> int | None:
        """Steps of the budget where it fixes them (steps, samples); None for tokens and seconds."""
        if self.budget.samples is not None:
            per_step = self.rollout.prompts_per_step * self.rollout.samples_per_prompt
            return -(-self.budget.samples // per_step)
        return self.budget.steps

    @model_validator(mode="after")
    def _consistent(self) -> Setting:
        per = self.optim.minibatch_prompts
        if per is not None and per > self.rollout.prompts_per_step:
            raise ValueError(
                f"optim.minibatch_prompts = {per} is more than rollout.prompts_per_step = "
                f"{self.rollout.prompts_per_step}: lower it, or leave it out for one update per epoch"
            )
        if self.optim.schedule != "constant" and self.total_steps is None:
            raise ValueError(
                f"optim.schedule = '{self.optim.schedule}' needs a budget of steps or samples, to know where it ends"
            )
        for name, suite in self.eval.items():
            if suite.kl and (suite.temperature, suite.top_p) != (self.rollout.temperature, 1):
                raise ValueError(
                    f"eval.{name}.kl = true estimates the KL from samples of the policy as it is trained: set "
                    f"eval.{name}.temperature = {self.rollout.temperature} and top_p = 1"
                )
        if isinstance(self.steps, StoriesSteps) and self.task.type != "stories":
            raise ValueError(
                f"steps.type = 'stories' compares with worked solutions, which task '{self.task.type}' does not have: "
                'take "function" or "model"'
            )
        return self


class Arm(Part):
    """One algorithm under comparison, with the exceptions it declares from the shared setting."""

    algorithm: Algorithm
    differs: dict[str, Any] = Field(default_factory=dict)  # dotted setting key -> value
    stated: tuple[str, ...] = ()  # algorithm fields that the file writes out for this arm
    of: str = ""  # the arm of the file that this one is, at its levels; empty without factors
    levels: dict[str, str] = Field(default_factory=dict)  # factor -> level

    def setting(self, shared: Setting) -> Setting:
        """Return the shared setting with this arm's declared exceptions."""
        return replace(shared, **self.differs) if self.differs else shared


class Experiment(Part):
    """A comparison: the same question asked of every arm, all else equal.

    With factors, `arms` holds every arm of the file at every combination of levels.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    question: str
    primary: str  # "<suite>:<metric>" with accuracy, pass@k or maj@k: the headline, declared before running
    margin: float | None = Field(default=None, gt=0)  # points within which arms count as equivalent
    seeds: tuple[int, ...] = Field(min_length=1)
    differs: tuple[str, ...] = ()  # algorithm slots that are meant to differ between arms
    setting: Setting
    factors: dict[str, Factor] = Field(default_factory=dict)
    arms: dict[str, Arm] = Field(min_length=1)

    @model_validator(mode="after")
    def _checked(self) -> Experiment:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds {list(self.seeds)} repeat: every seed is one independent run")
        known = [f"{name}:{metric}" for name, suite in self.setting.eval.items() for metric in suite.metrics]
        if self.primary not in known:
            raise ValueError(f"primary = '{self.primary}' is not measured here; known: {', '.join(known)}")
        for name in self.arms:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
                raise ValueError(f"arm name '{name}': use letters, digits, '.', '_' and '-'")
        for name, arm in self.arms.items():
            setting = arm.setting(self.setting)
            try:
                arm.algorithm.check(setting.rollout.samples_per_prompt, setting.updates_per_rollout)
            except ConfigError as error:
                raise ValueError(f"arm '{name}': {error}") from None
            counted = self.setting.budget.samples is not None or self.setting.budget.tokens is not None
            if counted and isinstance(arm.algorithm, Offline) and not arm.algorithm.source.samples:
                raise ValueError(f"arm '{name}' trains on a file and samples nothing: give the budget in steps")
            if Need.STEPS in arm.algorithm.needs and setting.steps is None:
                raise ValueError(f"arm '{name}': {arm.algorithm.name} needs rewards of steps: add a table [steps]")
        return self


class PlanRow(NamedTuple):
    """One key in which arms differ: its value in each arm, and whether the experiment says that it is meant to."""

    key: str
    values: tuple[Any, ...]
    declared: bool


def load_experiment(path: str | Path, overrides: Iterable[str] = ()) -> Experiment:
    """Read an experiment file; precedence is catalogue, then file, then `a.b=c` overrides. Raises ConfigError."""
    where = str(path)
    data = read_toml(path)
    for text in overrides:
        override(data, text)
    return resolve(data, where=where)


def resolve(data: Mapping[str, Any], *, where: str = "") -> Experiment:
    """Build the experiment from the tables of a file: `[arm.x]` becomes catalogue entry plus overrides."""
    data = dict(data)
    head = {k: data.pop(k) for k in ("name", "question", "primary", "margin", "seeds", "differs") if k in data}
    arms = data.pop("arm", None)
    if not isinstance(arms, Mapping) or not arms:
        raise ConfigError(f'{where}: no arms: write a table `[arm.NAME]` with `base = "..."` for each method')
    crossed = data.pop("factor", {})
    unknown = [k for k in data if k not in Setting.model_fields]
    if unknown:
        known = [*Setting.model_fields, *("name", "question", "primary", "margin", "seeds", "differs", "arm", "factor")]
        raise ConfigError("\n".join(f"{where}: unknown key '{k}'{nearest(k, known)}" for k in unknown))
    fields = [*PolicyGradient.model_fields, *Offline.model_fields]
    slots = [f for f in dict.fromkeys(fields) if f not in IDENTITY]
    for slot in head.get("differs", ()):
        if slot.split(".")[0] not in slots:
            raise ConfigError(f"{where}: differs: unknown slot '{slot}'{nearest(slot, slots)}")
    setting = load(Setting, data, where=where)
    factors = read_factors(crossed, [*Setting.model_fields, *slots], where=where)
    built = {name: _arm(name, table, setting, where) for name, table in arms.items()}
    if factors:
        built = _cross(built, factors, setting, where)
    return load(Experiment, {**head, "setting": setting, "factors": factors, "arms": built}, where=where)


def _arm(name: str, table: Any, setting: Setting, where: str) -> Arm:
    key = f"arm.{name}"
    if not isinstance(table, Mapping) or "base" not in table:
        raise ConfigError(f"{where}: {key}: missing key 'base': name a catalogue entry ({', '.join(CATALOG)})")
    table = dict(table)
    try:
        base = find(table.pop("base"))
    except ConfigError as error:
        raise ConfigError(f"{where}: {key}.base: {error}") from None
    differs = flatten(table.pop("differs", {}))
    for path in differs:
        top = path.split(".")[0]
        if top not in EXCEPTIONS:
            raise ConfigError(
                f"{where}: {key}.differs.{path}: an arm may make an exception in {', '.join(EXCEPTIONS)} only; "
                "task, evaluation and budget are shared, or the arms are not comparable"
            )
    algorithm = load(type(base), merge(dump(base), table), where=where, key=key)
    arm = Arm(algorithm=algorithm, differs=differs, stated=tuple(flatten(table)))
    try:
        arm.setting(setting)
    except ConfigError as error:
        raise ConfigError(f"{where}: {key}.differs: {error}") from None
    return arm


def _cross(arms: Mapping[str, Arm], factors: Mapping[str, Factor], setting: Setting, where: str) -> dict[str, Arm]:
    """Return every arm at every combination of levels, named `<arm>.<level>`."""
    out: dict[str, Arm] = {}
    for name, arm in arms.items():
        for cell in cells(factors):
            full = ".".join([name, *cell.levels.values()])
            if full in out:
                raise ConfigError(f"{where}: two arms would be named '{full}': rename an arm or a level")
            out[full] = _at(name, arm, cell, setting, where)
        if setting.budget.steps is not None:
            _check_samples(name, out, setting, where)
    return out


def _check_samples(name: str, arms: Mapping[str, Arm], setting: Setting, where: str) -> None:
    """Refuse levels that sample unequally under a budget in steps."""
    found = {}
    for arm in arms.values():
        if arm.of == name:
            rollout = arm.setting(setting).rollout
            found[rollout.prompts_per_step * rollout.samples_per_prompt] = ", ".join(arm.levels.values())
    if len(found) > 1:
        counts = ", ".join(f"{samples} at {level}" for samples, level in found.items())
        raise ConfigError(
            f"{where}: factor: arm.{name} would draw unequal samples in each step ({counts}): change "
            "rollout.prompts_per_step along with rollout.samples_per_prompt, or give the budget in samples"
        )


def _at(name: str, arm: Arm, cell: Cell, setting: Setting, where: str) -> Arm:
    """Lay the levels of a cell over an arm's algorithm and setting."""
    key = f"{where}: arm.{name} at {cell}"
    paths = [path for changes in cell.changes for path in changed_keys(changes)]
    for path in paths:
        own = next((p for p in (*arm.stated, *arm.differs) if overlap(p, path)), None)
        if own is not None:
            raise ConfigError(f"{key}: the arm states {own}, which a factor varies: leave it to one of them")
    algorithm, tables = dump(arm.algorithm), dump(arm.setting(setting))
    for changes in cell.changes:
        algorithm = merge(algorithm, {k: v for k, v in changes.items() if k not in Setting.model_fields})
        tables = merge(tables, {k: v for k, v in changes.items() if k in Setting.model_fields})
    try:
        changed = dump(load(Setting, tables))
        differs = arm.differs | {p: _leaf(changed, p) for p in paths if p.split(".")[0] in changed}
        built = load(type(arm.algorithm), algorithm)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from None
    return Arm(algorithm=built, differs=differs, stated=arm.stated, of=name, levels=cell.levels)


def _leaf(tables: Mapping[str, Any], path: str) -> Any:
    return functools.reduce(lambda table, name: table[name], path.split("."), tables)


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
