"""Factors: what an experiment varies across all of its arms, as named levels that each change dotted keys."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import Field

from paribus.errors import ConfigError, nearest
from paribus.part import Part, flatten

_BASE = "the base is evaluated once for all arms; write one experiment for each"
FIXED = {
    "model": _BASE,
    "task": _BASE,
    "eval": _BASE,
    "budget": "the budget is what makes the arms comparable",
    "limit": "it decides when a run gives up, not what is compared",
    "save": "it changes no number",
    "machine": "it changes no number",
}
_LEVEL = re.compile(r"[A-Za-z0-9._-]+")


class Factor(Part):
    """Named levels in the order of the file; each is the tables that it lays over setting and algorithm."""

    levels: dict[str, dict[str, Any]] = Field(min_length=2)

    @property
    def keys(self) -> list[str]:
        """Every dotted key that a level changes."""
        return list(dict.fromkeys(path for changes in self.levels.values() for path in changed_keys(changes)))


class Cell(NamedTuple):
    """One combination: the level of each factor, and their changes."""

    levels: dict[str, str]
    changes: list[dict[str, Any]]

    def __str__(self) -> str:
        return ", ".join(f"{factor} = {level}" for factor, level in self.levels.items())


def read_factors(tables: Any, targets: Collection[str], *, where: str = "") -> dict[str, Factor]:
    """Read the `[factor.NAME]` tables of a file; `targets` are the setting's tables and the algorithms' slots.

    A factor is `key = "dotted.key"` with `values = [...]`, or `levels` with a table of changes for each name. Raises
    ConfigError.
    """
    if not isinstance(tables, Mapping):
        raise ConfigError(f"{where}: factor: write a table `[factor.NAME]` for each factor")
    factors = {name: Factor(levels=_levels(name, table, where)) for name, table in tables.items()}
    owners: dict[str, str] = {}
    for name, factor in factors.items():
        for path in factor.keys:
            _check_target(f"{where}: factor.{name}", path, targets)
            clash = next((p for p, owner in owners.items() if owner != name and overlap(path, p)), None)
            if clash is not None:
                raise ConfigError(f"{where}: factors '{owners[clash]}' and '{name}' both change {path}")
            owners[path] = name
    return factors


def cells(factors: Mapping[str, Factor]) -> list[Cell]:
    """Return every combination of levels, the last factor varying fastest."""
    combinations = itertools.product(*(factor.levels.items() for factor in factors.values()))
    return [
        Cell({name: level for name, (level, _) in zip(factors, found, strict=True)}, [changes for _, changes in found])
        for found in combinations
    ]


def changed_keys(changes: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the dotted keys that nested tables set; a table with a `type` is one value: it may be another Part."""
    for name, value in changes.items():
        path = f"{prefix}.{name}" if prefix else name
        if isinstance(value, Mapping) and value and "type" not in value:
            yield from changed_keys(value, path)
        else:
            yield path


def overlap(one: str, other: str) -> bool:
    """True if one dotted key is the other, or lies within it."""
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")


def changes_text(changes: Mapping[str, Any]) -> str:
    """Return a level's changes as "reward.flip = 0.15, ..."."""
    return ", ".join(f"{path} = {value}" for path, value in flatten(changes).items() if path) or "as the file says"


def _levels(name: str, table: Any, where: str) -> dict[str, dict[str, Any]]:
    key = f"{where}: factor.{name}"
    if not isinstance(table, Mapping) or set(table) not in ({"key", "values"}, {"levels"}):
        raise ConfigError(
            f'{key}: write `key = "dotted.key"` and `values = [...]`, or tables `[factor.{name}.levels.LEVEL]`'
        )
    levels = table["levels"] if "levels" in table else _from_values(key, table["key"], table["values"])
    if not isinstance(levels, Mapping) or len(levels) < 2:
        raise ConfigError(f"{key}: a factor needs at least two levels")
    for level, changes in levels.items():
        if not _LEVEL.fullmatch(level):
            raise ConfigError(
                f"{key}: level '{level}' becomes part of a run's name: use letters, digits, '.', '_' and '-', "
                f"or name it by a table `[factor.{name}.levels.LEVEL]`"
            )
        if not isinstance(changes, Mapping):
            raise ConfigError(f"{key}.levels.{level}: write a table of the keys that this level changes")
    for (one, a), (other, b) in itertools.combinations(levels.items(), 2):
        if a == b:
            raise ConfigError(f"{key}: levels '{one}' and '{other}' are the same")
    return {level: dict(changes) for level, changes in levels.items()}


def _from_values(key: str, path: Any, values: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(path, str) or not isinstance(values, list):
        raise ConfigError(f"{key}: `key` is a dotted key in quotes, `values` a list")
    levels: dict[str, dict[str, Any]] = {}
    for value in values:
        name = _name(key, value)
        if name in levels:
            raise ConfigError(f"{key}: value {name} comes twice")
        for part in reversed(path.split(".")):
            value = {part: value}
        levels[name] = value
    return levels


def _name(key: str, value: Any) -> str:
    """Name a level by its value: 0.05, 16, token_mean, true."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    if isinstance(value, (int, str)):
        return str(value)
    raise ConfigError(f"{key}: `values` holds numbers, words or true and false; name tables under `levels` instead")


def _check_target(key: str, path: str, targets: Collection[str]) -> None:
    top = path.split(".")[0]
    if top in FIXED:
        raise ConfigError(f"{key}: no factor may change {path}: {FIXED[top]}")
    if top not in targets:
        raise ConfigError(f"{key}: unknown key '{path}'{nearest(top, [t for t in targets if t not in FIXED])}")
