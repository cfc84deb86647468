"""An experiment from its file: catalogue, then the file's tables, then overrides."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from paribus.algorithms import CATALOG, Offline, PolicyGradient, find
from paribus.errors import ConfigError, nearest
from paribus.experiment.spec import EXCEPTIONS, IDENTITY, Arm, Experiment, Setting
from paribus.factors import Cell, Factor, cells, changed_keys, overlap, read_factors
from paribus.part import dump, flatten, load, merge, override, read_toml


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
    head = {k: data.pop(k) for k in ("name", "question", "primary", "margin", "seeds", "differs", "tune") if k in data}
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
