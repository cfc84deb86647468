"""Part: a frozen, tagged value whose fields are hyperparameters; load, dump, replace and diff work on any of them."""

from __future__ import annotations

import tomllib
import typing
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from paribus.errors import ConfigError, nearest

NONE = "none"  # TOML has no null: an optional slot is switched off by writing "none"


class Part(BaseModel):
    """Base of every value of a specification: immutable, comparable, refuses unknown keys, printable, storable."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _none_from_text(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        optional = {n for n, f in cls.model_fields.items() if type(None) in get_args(f.annotation)}
        return {k: None if k in optional and v == NONE else v for k, v in data.items()}


P = TypeVar("P", bound=BaseModel)


class Difference(NamedTuple):
    """One field in which two values differ; a missing side is None with `absent` in its place in print."""

    path: str
    left: Any
    right: Any


def replace(part: P, **changes: Any) -> P:
    """Return `part` with fields changed, validated again; a dotted path goes as `{"surrogate.high": 0.28}` via `**`."""
    data: dict[str, Any] = {name: getattr(part, name) for name in type(part).model_fields}
    for path, value in changes.items():
        head, _, rest = path.partition(".")
        if head not in data:
            raise ConfigError(f"unknown field '{path}' of {type(part).__name__}{nearest(head, data)}")
        if rest:
            inner = data[head]
            if not isinstance(inner, BaseModel):
                raise ConfigError(f"'{head}' of {type(part).__name__} is {inner!r}: it has no field '{rest}'")
            value = replace(inner, **{rest: value})
        data[head] = value
    return load(type(part), data)


def dump(part: BaseModel) -> dict[str, Any]:
    """Return plain JSON data (dicts, lists, numbers, strings, None) from which `load` rebuilds an equal value."""
    return part.model_dump(mode="json")


def without_defaults(part: BaseModel, data: Mapping[str, Any], later: Collection[str]) -> dict[str, Any]:
    """Return dumped fields less those of `later` that are at their defaults: what was stored before they came is the
    same configuration.
    """
    defaults = {key: field.default for key, field in type(part).model_fields.items()}
    return {k: v for k, v in data.items() if k not in later or getattr(part, k) != defaults[k]}


def flatten(data: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested dicts and lists as one dict from dotted path to leaf."""
    if isinstance(data, Mapping) and (data or not prefix):
        items: Any = data.items()
    elif isinstance(data, (list, tuple)) and data and any(isinstance(x, (Mapping, list, tuple)) for x in data):
        items = ((f"{x['type']}" if isinstance(x, Mapping) and "type" in x else str(i), x) for i, x in enumerate(data))
    else:
        return {prefix: data}
    out: dict[str, Any] = {}
    for name, value in items:
        out |= flatten(value, f"{prefix}.{name}" if prefix else str(name))
    return out


def diff(left: BaseModel | Mapping[str, Any], right: BaseModel | Mapping[str, Any]) -> list[Difference]:
    """Return the leaves in which two values differ, in the order of their fields; a side that lacks a leaf has None."""
    a = flatten(dump(left) if isinstance(left, BaseModel) else left)
    b = flatten(dump(right) if isinstance(right, BaseModel) else right)
    paths = list(dict.fromkeys([*a, *b]))
    out = [Difference(p, a.get(p), b.get(p)) for p in paths if a.get(p) != b.get(p)]
    # `critic: None` against `critic.lr: ...` would print the bare slot as well: the expanded leaves say it all
    return [d for d in out if not any(o.path.startswith(d.path + ".") for o in out)]


def to_toml(part: BaseModel | Mapping[str, Any]) -> str:
    """Return TOML text that `load(cls, tomllib.loads(text))` reads back to an equal value; None is written "none"."""
    import tomli_w

    def plain(value: Any) -> Any:
        if value is None:
            return NONE
        if isinstance(value, Mapping):
            return {k: plain(v) for k, v in value.items()}
        return [plain(v) for v in value] if isinstance(value, (list, tuple)) else value

    return tomli_w.dumps(plain(dump(part) if isinstance(part, BaseModel) else part))


def read_toml(path: str | Path) -> dict[str, Any]:
    """Read a TOML file; a syntax error names the file and line."""
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def merge(base: dict[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """Lay a table over dumped parts: fields of the same part are replaced one by one, another `type` starts afresh."""
    out = dict(base)
    for key, value in table.items():
        old = out.get(key)
        same = (
            isinstance(old, Mapping)
            and isinstance(value, Mapping)
            and value.get("type", old.get("type")) == old.get("type")
        )
        out[key] = merge(dict(old), value) if same else value  # type: ignore[arg-type]
    return out


def override(data: dict[str, Any], text: str) -> None:
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


def load(cls: type[P], data: Any, *, where: str = "", key: str = "") -> P:
    """Validate `data` as `cls`; every fault is listed with its dotted key, and an unknown key with the nearest known.

    `where` is the file the data came from, `key` the dotted key that `data` stands under. Raises ConfigError.
    """
    try:
        return cls.model_validate(data)
    except ValidationError as error:
        lines = [_explain(cls, item, key) for item in error.errors(include_url=False)]
        head = f"{where}: " if where else ""
        raise ConfigError("\n".join(head + line for line in dict.fromkeys(lines))) from None


def _explain(cls: type[BaseModel], item: Any, under: str) -> str:
    loc = [str(x) for x in item["loc"]]
    owner, keys = _walk(cls, loc)
    key = ".".join([under] * bool(under) + keys) or "(top level)"
    if item["type"] == "extra_forbidden":
        return f"unknown key '{key}'{nearest(loc[-1], owner.model_fields if owner else ())}"
    if item["type"] == "union_tag_invalid":
        tag, known = item["ctx"]["tag"], [t.strip().strip("'") for t in item["ctx"]["expected_tags"].split(",")]
        return f"{key}: unknown type '{tag}'{nearest(tag, known)}"
    if item["type"] == "union_tag_not_found":
        return f'{key}: say which kind with `type = "..."`'
    if item["type"] == "missing":
        return f"missing key '{key}'"
    message = item["msg"].removeprefix("Value error, ")
    return f"{key}: {message}" if item["type"] == "value_error" else f"{key}: {message} (got {item['input']!r})"


def _walk(cls: type[BaseModel], loc: list[str]) -> tuple[type[BaseModel] | None, list[str]]:
    """Follow an error's location; return the model that owns its last key, and the keys without union tags."""
    owner: type[BaseModel] | None = cls
    keys: list[str] = []
    models: list[type[BaseModel]] = []
    for i, name in enumerate(loc):
        tagged = [m for m in models if "type" in m.model_fields and m.model_fields["type"].default == name]
        if tagged:
            owner, models = tagged[0], []
            continue
        if len(models) == 1 and name in models[0].model_fields:
            owner, models = models[0], []
        keys.append(name)
        if i < len(loc) - 1 and owner is not None and name in owner.model_fields:
            models = _models(owner.model_fields[name].annotation)
        elif len(models) == 1:
            owner = models[0]
        if i < len(loc) - 1 and len(models) == 1:
            owner = models[0]
    return owner, keys


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    found: list[type[BaseModel]] = []
    for inner in typing.get_args(annotation):
        found += [m for m in _models(inner) if m not in found]
    return found
