"""Experiment files written from the catalogue: a walk from one method to another, and one slot over its options."""

from __future__ import annotations

import itertools
import json
import tomllib
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel

from paribus.algorithms import CATALOG, PolicyGradient, find
from paribus.errors import ConfigError, nearest
from paribus.experiment import IDENTITY, resolve
from paribus.part import NONE, dump, load, read_toml, replace

# The order of a walk: credit, then what the reward holds, then the loss, then which rows train. Other slots follow.
ORDER = ("advantage", "critic", "whiten", "shaping", "kl", "aggregate", "ratio", "surrogate", "keep", "old", "entropy")

# The shared setting of experiments/quickstart.toml, for an installation that has no such folder.
SETTING = """
primary = "test:accuracy"
margin = 2.0
seeds = [0, 1, 2]
[model]
path = "tiny"
[task]
type = "stories"
[rollout]
prompts_per_step = 16
samples_per_prompt = 8
max_response = 96
[optim]
lr = 1.5e-4
warmup_steps = 5
[budget]
steps = 16
[eval.test]
split = "test"
max_response = 96
[eval.sampled]
split = "test"
limit = 200
samples = 8
temperature = 1.0
max_response = 96
"""


class Rung(NamedTuple):
    """One method of a walk, and the slots in which it differs from the one before."""

    changed: tuple[str, ...]
    algorithm: PolicyGradient


class Option(NamedTuple):
    """One thing that a slot may hold instead: `source` says whose numbers it has, `fault` why it cannot be had."""

    name: str
    value: Any
    source: str = "defaults"
    fault: str = ""


def slots() -> list[str]:
    """Return the slots of a policy-gradient method in the order of a walk."""
    names = [name for name in PolicyGradient.model_fields if name not in IDENTITY]
    return sorted(names, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


def rungs(left: PolicyGradient, right: PolicyGradient) -> list[Rung]:
    """Return the walk from `left` to `right`, each a valid method.

    Neighbours differ in one slot, or in the fewest that are only valid together, such as a critic and the advantage
    that uses its values. The last has all of `right` but its name. Raises ConfigError if the two do not differ.
    """
    todo = [name for name in slots() if getattr(left, name) != getattr(right, name)]
    if not todo:
        raise ConfigError(f"{left.name} and {right.name} do not differ in any slot: there is nothing to walk")
    out = [Rung((), left)]
    while todo:
        here = out[-1].algorithm
        changed = _next(here, right, todo)
        out.append(Rung(changed, replace(here, **_taken(right, changed))))
        todo = [name for name in todo if name not in changed]
    return out


def ladder(left: str, right: str, base: Path | None = None) -> str:
    """Return the experiment whose arms walk from one catalogue entry to another, as TOML.

    The shared setting is that of the experiment file `base`, or the quickstart's. Raises ConfigError, also where the
    setting does not suit an arm.
    """
    start, end = _method(left), _method(right)
    walk = rungs(start, end)
    last = len(walk) - 1
    arms = [f"[arm.0-{left}]", f'base = "{left}"', ""]
    for i, rung in enumerate(walk[1:], 1):
        arms += [f"# differs from the arm before in: {', '.join(rung.changed)}"]
        if i == last:
            arms += [f"[arm.{i}-{right}]", f'base = "{right}"', ""]
        else:
            arms += [f"[arm.{i}-{'-'.join(rung.changed)}]", f'base = "{left}"', *_changes(start, rung.algorithm), ""]
    return _document(
        [
            f"Written by `paribus ladder {left} {right}`: from {left} to {right}, one slot at a time.",
            "Each arm differs from the one before in one slot, or in slots that are only valid together.",
        ],
        f"ladder-{left}-{right}",
        f"Which of the slots in which {left} and {right} differ makes the difference between them?",
        [name for rung in walk for name in rung.changed],
        _tables(base),
        arms,
    )


def ablation(name: str, slot: str, base: Path | None = None) -> str:
    """Return the experiment that varies one slot of a catalogue entry over its options, as TOML.

    Each option has its own defaults or, where it has none, the numbers of the first catalogue entry with it. Those that
    the method or the setting cannot have stand in comments, with the reason. Raises ConfigError if none is left.
    """
    method, tables = _method(name), _tables(base)
    if slot not in slots():
        raise ConfigError(f"unknown slot '{slot}'{nearest(slot, slots())}")
    found = [_tried(method, slot, option, tables) for option in options(method, slot)]
    refused = [f"{option.name}: {option.fault}" for option in found if option.fault]
    if len(refused) == len(found):
        raise ConfigError("\n".join([f"{name} has no other choice of {slot}:", *(f"  {text}" for text in refused)]))
    arms = [f"[arm.{name}]", f'base = "{name}"', ""]
    for option in found:
        if not option.fault:
            arms += [f"[arm.{name}-{option.name}] # {option.source}", f'base = "{name}"']
            arms += [f"{slot} = {inline(option.value)}", ""]
    arms += [f"# left out: {text}" for text in refused]
    return _document(
        [f"Written by `paribus ablate {name} --slot {slot}`: {name} with every choice of one slot."],
        f"ablate-{name}-{slot}",
        f"What does the choice of {slot} do to {name}?",
        [slot],
        tables,
        arms,
    )


def options(method: PolicyGradient, slot: str) -> list[Option]:
    """Return what a slot may hold instead of what it holds, by its declared type; of a list, each term more or less."""
    field, now = PolicyGradient.model_fields[slot], getattr(method, slot)
    if get_origin(field.annotation) is tuple:
        return [_term(slot, now, kind) for kind in _choices(get_args(field.annotation)[0])]
    return [_option(slot, choice) for choice in _choices(field.annotation) if not _holds(now, choice)]


def inline(value: Any) -> str:
    """Return plain data as a TOML value on one line; None is "none"."""
    if value is None:
        return f'"{NONE}"'
    if isinstance(value, Mapping):
        pairs = sorted(value.items(), key=lambda pair: pair[0] != "type")
        return f"{{ {', '.join(f'{name} = {inline(item)}' for name, item in pairs)} }}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(inline, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (bool, str)) else repr(value)


def _method(name: str) -> PolicyGradient:
    method = find(name)
    if not isinstance(method, PolicyGradient):
        raise ConfigError(f"{name} is not a policy-gradient method: it has no slots to walk through or to vary")
    return method


def _next(here: PolicyGradient, goal: PolicyGradient, todo: Sequence[str]) -> tuple[str, ...]:
    """Return the next step: the first slot that is left, after whatever must change before or along with it."""
    for size in range(1, len(todo) + 1):
        together = [(todo[0], *others) for others in itertools.combinations(todo[1:], size - 1)]
        steps = [_least(here, goal, names) for names in together if _fault(here, **_taken(goal, names)) is None]
        if steps:
            return min(steps, key=len)
    raise AssertionError("the goal itself is valid")


def _least(here: PolicyGradient, goal: PolicyGradient, names: Sequence[str]) -> tuple[str, ...]:
    """Return the fewest of `names` that may change on their own."""
    subsets = (part for size in range(1, len(names) + 1) for part in itertools.combinations(names, size))
    return next(part for part in subsets if _fault(here, **_taken(goal, part)) is None)


def _taken(goal: PolicyGradient, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(goal, name) for name in names}


def _fault(method: PolicyGradient, **changes: Any) -> str | None:
    try:
        replace(method, **changes)
    except ConfigError as error:
        return _told(error)
    return None


def _told(error: ConfigError) -> str:
    return "; ".join(line.strip().removeprefix("(top level): ") for line in str(error).splitlines())


def _changes(start: PolicyGradient, method: PolicyGradient) -> list[str]:
    data = dump(method)
    return [f"{name} = {inline(data[name])}" for name in slots() if getattr(start, name) != getattr(method, name)]


def _choices(annotation: Any) -> Iterator[Any]:
    """Yield the classes and literal values of a union, however it is nested."""
    origin = get_origin(annotation)
    if origin in (typing.Union, UnionType):
        for inner in get_args(annotation):
            yield from _choices(inner)
    elif origin is Annotated:
        yield from _choices(get_args(annotation)[0])
    elif origin is Literal:
        yield from get_args(annotation)
    elif annotation is bool:
        yield from (False, True)
    else:
        yield annotation


def _holds(now: Any, choice: Any) -> bool:
    """True if a slot's value is of that class, or is that literal; a number may always be another one."""
    if isinstance(choice, type):
        return type(now) is choice and (choice is NoneType or issubclass(choice, BaseModel))
    return bool(now == choice)


def _option(slot: str, choice: Any) -> Option:
    if choice is NoneType:
        return Option("none", None)
    if not isinstance(choice, type):
        return Option(str(choice).lower(), choice)
    if not issubclass(choice, BaseModel):
        return Option(
            choice.__name__, None, fault=f"no list of choices: vary it by [factor.{slot}] with values = [...]"
        )
    kind = choice.model_fields["type"].default if "type" in choice.model_fields else slot
    try:
        return Option(kind, dump(load(choice, {})))
    except ConfigError as error:
        name, value = _in_catalogue(slot, choice)
        return Option(kind, value, f"as in {name}", "" if value else f"no default: {_told(error)}")


def _in_catalogue(slot: str, choice: type[BaseModel]) -> tuple[str, dict[str, Any] | None]:
    """Return the first catalogue entry that has a Part of that class in a slot, and the Part."""
    for name, method in CATALOG.items():
        held = getattr(method, slot) if isinstance(method, PolicyGradient) else ()
        for part in held if isinstance(held, tuple) else (held,):
            if type(part) is choice:
                return name, dump(part)
    return "none", None


def _term(slot: str, now: Sequence[BaseModel], choice: type[BaseModel]) -> Option:
    """Return the terms without those of one class, or with one more."""
    kept = [dump(term) for term in now if type(term) is not choice]
    kind = choice.model_fields["type"].default
    if len(kept) < len(now):
        return Option(f"without-{kind}", kept)
    more = _option(slot, choice)
    return more._replace(name=f"with-{kind}", value=[*kept, more.value])


def _tried(method: PolicyGradient, slot: str, option: Option, tables: Mapping[str, Any]) -> Option:
    """Return the option with the reason why neither the method nor the setting can have it, if there is one."""
    if option.fault:
        return option
    fault = _fault(method, **{slot: option.value})
    if fault is None:
        table = {"base": method.name, slot: NONE if option.value is None else option.value}
        try:
            resolve({"name": "trial", "question": "", **tables, "arm": {option.name: table}})
        except ConfigError as error:
            fault = _told(error).removeprefix(f"arm '{option.name}': ")
    return option._replace(fault=fault or "")


def _tables(base: Path | None) -> dict[str, Any]:
    """Return everything of an experiment file but its name, question, arms and factors."""
    data = tomllib.loads(SETTING) if base is None else read_toml(base)
    return {key: value for key, value in data.items() if key not in ("name", "question", "differs", "arm", "factor")}


def _document(
    comments: Sequence[str],
    name: str,
    question: str,
    differs: Sequence[str],
    tables: Mapping[str, Any],
    arms: list[str],
) -> str:
    """Return the file, which has been read back: what it says can be planned and run."""
    import tomli_w

    head = {"name": name, "question": question, "differs": list(dict.fromkeys(differs))}
    lines = [*(f"# {text}" for text in comments), tomli_w.dumps({**head, **tables}), *arms]
    text = "\n".join(lines).rstrip() + "\n"
    resolve(tomllib.loads(text), where=name)
    return text
