"""Experiment: one shared setting, named arms, seeds and a budget; load, resolve, validate, plan."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, model_validator

from paribus.algorithms import CATALOG, PolicyGradient, find
from paribus.errors import ConfigError, nearest
from paribus.part import Part, diff, dump, flatten, load, read_toml, replace
from paribus.settings import Budget, EvalSpec, LimitSpec, MachineSpec, ModelSpec, OptimSpec, RolloutSpec, SaveSpec
from paribus.tasks import TaskSpec

IDENTITY = ("name", "paper")  # fields of an algorithm that name it and change no number
EXCEPTIONS = ("rollout", "optim", "model")  # tables of the setting that an arm may declare an exception in
NOT_IDENTITY = ("machine", "save")  # tables that may change between attempts of one run


class Setting(Part):
    """Everything the arms share; whatever is not in an arm is shared by construction."""

    model: ModelSpec = ModelSpec()
    task: TaskSpec
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
        return self


class Arm(Part):
    """One algorithm under comparison, with the exceptions it declares from the shared setting."""

    algorithm: PolicyGradient
    differs: dict[str, Any] = Field(default_factory=dict)  # dotted setting key -> value
    stated: tuple[str, ...] = ()  # algorithm fields that the file writes out for this arm

    def setting(self, shared: Setting) -> Setting:
        """Return the shared setting with this arm's declared exceptions."""
        return replace(shared, **self.differs) if self.differs else shared


class Experiment(Part):
    """A comparison: the same question asked of every arm, all else equal."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    question: str
    primary: str  # "<suite>:accuracy": the headline, declared before running
    seeds: tuple[int, ...] = Field(min_length=1)
    differs: tuple[str, ...] = ()  # algorithm slots that are meant to differ between arms
    setting: Setting
    arms: dict[str, Arm] = Field(min_length=1)

    @model_validator(mode="after")
    def _checked(self) -> Experiment:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds {list(self.seeds)} repeat: every seed is one independent run")
        suite, _, metric = self.primary.partition(":")
        if suite not in self.setting.eval or metric != "accuracy":
            known = ", ".join(f"{s}:accuracy" for s in self.setting.eval)
            raise ValueError(f"primary = '{self.primary}' is not measured here; known: {known}")
        for name in self.arms:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
                raise ValueError(f"arm name '{name}': use letters, digits, '.', '_' and '-'")
        for name, arm in self.arms.items():
            setting = arm.setting(self.setting)
            try:
                arm.algorithm.check(setting.rollout.samples_per_prompt, setting.updates_per_rollout)
            except ConfigError as error:
                raise ValueError(f"arm '{name}': {error}") from None
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
        _override(data, text)
    return resolve(data, where=where)


def resolve(data: Mapping[str, Any], *, where: str = "") -> Experiment:
    """Build the experiment from the tables of a file: `[arm.x]` becomes catalogue entry plus overrides."""
    data = dict(data)
    head = {k: data.pop(k) for k in ("name", "question", "primary", "seeds", "differs") if k in data}
    arms = data.pop("arm", None)
    if not isinstance(arms, Mapping) or not arms:
        raise ConfigError(f'{where}: no arms: write a table `[arm.NAME]` with `base = "..."` for each method')
    unknown = [k for k in data if k not in Setting.model_fields]
    if unknown:
        known = [*Setting.model_fields, *("name", "question", "primary", "seeds", "differs", "arm")]
        raise ConfigError("\n".join(f"{where}: unknown key '{k}'{nearest(k, known)}" for k in unknown))
    slots = [f for f in PolicyGradient.model_fields if f not in IDENTITY]
    for slot in head.get("differs", ()):
        if slot.split(".")[0] not in slots:
            raise ConfigError(f"{where}: differs: unknown slot '{slot}'{nearest(slot, slots)}")
    setting = load(Setting, data, where=where)
    built = {name: _arm(name, table, setting, where) for name, table in arms.items()}
    return load(Experiment, {**head, "setting": setting, "arms": built}, where=where)


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
    algorithm = load(PolicyGradient, _merge(dump(base), table), where=where, key=key)
    arm = Arm(algorithm=algorithm, differs=differs, stated=tuple(flatten(table)))
    try:
        arm.setting(setting)
    except ConfigError as error:
        raise ConfigError(f"{where}: {key}.differs: {error}") from None
    return arm


def _merge(base: dict[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """Lay a table over dumped parts: fields of the same part are replaced one by one, another `type` starts afresh."""
    out = dict(base)
    for key, value in table.items():
        old = out.get(key)
        same = (
            isinstance(old, Mapping)
            and isinstance(value, Mapping)
            and value.get("type", old.get("type")) == old.get("type")
        )
        out[key] = _merge(dict(old), value) if same else value  # type: ignore[arg-type]
    return out


def _override(data: dict[str, Any], text: str) -> None:
    """Set `a.b.c=value` in raw tables; the value is TOML, or a plain string."""
    path, equals, raw = text.partition("=")
    if not equals or not path:
        raise ConfigError(f"--set {text}: write it as key=value, e.g. --set budget.steps=10")
    try:
        value = tomllib.loads(f"x = {raw}")["x"]
    except tomllib.TOMLDecodeError:
        value = raw
    *parents, last = path.split(".")
    for name in parents:
        data = data.setdefault(name, {})
        if not isinstance(data, dict):
            raise ConfigError(f"--set {text}: '{name}' is a value, not a table")
    data[last] = value


def comparable(arm: Arm, shared: Setting) -> dict[str, Any]:
    """Return everything that decides an arm's numbers, by dotted key: its algorithm and its own setting."""
    algorithm = {k: v for k, v in dump(arm.algorithm).items() if k not in IDENTITY}
    return flatten({**algorithm, "setting": dump(arm.setting(shared))})


def differences(exp: Experiment) -> list[PlanRow]:
    """Return every key in which arms differ; what is not declared makes the comparison uncontrolled.

    A difference is declared when `differs` names its slot, when an arm's table states the key, or when it is an
    exception under `[arm.x.differs]`.
    """
    sides = [comparable(arm, exp.setting) for arm in exp.arms.values()]
    stated = {key for arm in exp.arms.values() for key in arm.stated}
    keys = list(dict.fromkeys(d.path for other in sides[1:] for d in diff(sides[0], other)))
    keys = [k for k in keys if not any(o.startswith(k + ".") for o in keys)]
    rows = []
    for key in keys:
        declared = key.startswith("setting.") or any(
            key == name or key.startswith(name + ".") for name in (*exp.differs, *stated)
        )
        rows.append(PlanRow(key, tuple(side.get(key) for side in sides), declared))
    return rows


def controlled(exp: Experiment) -> bool:
    """True when every difference between the arms is declared."""
    return all(row.declared for row in differences(exp))


def run_config(exp: Experiment, arm: str) -> dict[str, Any]:
    """Return the fully resolved configuration of an arm's runs, as stored in `config.json`."""
    a = exp.arms[arm]
    return {"algorithm": dump(a.algorithm), "setting": dump(a.setting(exp.setting))}


def identity(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a configuration that decides a run's numbers; machine and saving may change in between."""
    return {**config, "setting": {k: v for k, v in config["setting"].items() if k not in NOT_IDENTITY}}


def base_config(exp: Experiment) -> dict[str, Any]:
    """Return what decides the numbers of the base's evaluation."""
    setting = dump(exp.setting)
    return {"setting": {k: setting[k] for k in ("model", "task", "eval")}}
