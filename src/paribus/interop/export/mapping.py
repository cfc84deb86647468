"""The mapping report: what becomes of every factor of a run in another tool, and what stops an export."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from paribus.errors import ConfigError
from paribus.experiment import IDENTITY, Arm, Setting
from paribus.part import dump, flatten
from paribus.rewards import TaskReward
from paribus.tasks import Answer

# exact: written so; default: the tool's own, relied on; random: the same distribution, other draws; approximate: the
# nearest that the tool has, taken under --allow-approx only; refused: there is nothing near
Status = Literal["exact", "default", "random", "approximate", "refused"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One factor (a dotted key of the run's configuration, with all below it) and what it became."""

    factor: str
    value: Any
    status: Status
    lines: tuple[str, ...] = ()  # key=value, as the tool is given them
    note: str = ""


@dataclass(slots=True)
class Book:
    """All entries of one arm, in the order in which they were made."""

    config: dict[str, Any]  # the run's configuration, by dotted key
    entries: list[Entry] = field(default_factory=list)

    def add(self, factor: str, status: Status, *lines: str, note: str = "") -> None:
        self.entries.append(Entry(factor, self._value(factor), status, lines, note))

    def exact(self, factor: str, *lines: str, note: str = "") -> None:
        self.add(factor, "exact", *lines, note=note)

    def default(self, factor: str, note: str) -> None:
        self.add(factor, "default", note=note)

    def approximate(self, factor: str, *lines: str, note: str) -> None:
        self.add(factor, "approximate", *lines, note=note)

    def refuse(self, factor: str, note: str) -> None:
        self.add(factor, "refused", note=note)

    def choose(self, exact: bool, factor: str, *lines: str, otherwise: str) -> None:
        """Add the lines as exact, or as the nearest, with what is different then."""
        self.add(factor, "exact" if exact else "approximate", *lines, note="" if exact else otherwise)

    @property
    def lines(self) -> dict[str, str]:
        """Every line by its key. Raises ConfigError where two entries set a key to different values."""
        found: dict[str, str] = {}
        for entry in self.entries:
            for line in entry.lines:
                key = line.partition("=")[0]
                if found.setdefault(key, line) != line:
                    raise ConfigError(f"{entry.factor}: {line} contradicts {found[key]}")
        return found

    def close(self) -> None:
        """Refuse every factor of the run that no rule has looked at: nothing is dropped silently."""
        for leaf in self.config:
            if not any(leaf == e.factor or leaf.startswith(e.factor + ".") for e in self.entries):
                self.refuse(leaf, "the exporter has no rule for it")

    def check(self, arm: str, tool: str, allow_approximate: bool) -> None:
        """Raise ConfigError, with every reason, where something stops the export."""
        refused = [e for e in self.entries if e.status == "refused"]
        near = [] if allow_approximate else [e for e in self.entries if e.status == "approximate"]
        if not refused and not near:
            return
        rows = [f"  {e.factor} = {shown(e.value)}: {e.note}" for e in (*refused, *near)]
        hint = "" if refused else "\n--allow-approx takes the nearest instead and says so in the mapping report"
        raise ConfigError("\n".join([f"arm '{arm}' cannot be run as it is by {tool}:", *rows]) + hint)

    def _value(self, factor: str) -> Any:
        if factor in self.config:
            return self.config[factor]
        return {k.removeprefix(factor + "."): v for k, v in self.config.items() if k.startswith(factor + ".")}


def factors(arm: Arm, setting: Setting) -> dict[str, Any]:
    """Return everything that decides a run of the arm, by dotted key."""
    algorithm = {k: v for k, v in dump(arm.algorithm).items() if k not in IDENTITY}
    return {k: v for k, v in flatten({"algorithm": algorithm, "setting": dump(setting)}).items()}


def map_scores(book: Book, setting: Setting, tool: str, *reward: str, cut: str, note: str) -> None:
    """Add what becomes of grader, reward and rewards of steps, which every tool is given as scorer.py.

    The tool takes the score by the lines `reward` and as `note` says; `cut` says what comes of it that scorers are not
    told that a response was cut.
    """
    grader = setting.task.grader
    if not isinstance(grader, Answer):
        book.refuse("setting.task.grader", f"{grader.name} needs more than the standard library")
    elif grader.policy == "flexible":
        book.approximate("setting.task.grader", note=cut)
    else:
        book.exact("setting.task.grader", note=f"scorer.py, made from the grader's source, version {grader.version}")
    if isinstance(setting.reward, TaskReward):
        book.exact("setting.reward", *reward, note=note)
    else:
        book.refuse("setting.reward", f"a reward of type '{setting.reward.type}' is not exported, only the task's own")
    if setting.steps is not None:
        book.refuse("setting.steps", f"{tool} has no rewards of steps")
    else:
        book.default("setting.steps", "none")


def keyword(name: str, value: Any) -> str:
    """Return a value as a script writes it."""
    return f"{name}={value!r}"


def shown(value: Any) -> str:
    """Return a value as one line of text."""
    if isinstance(value, Mapping):
        return ", ".join(f"{k}={shown(v)}" for k, v in value.items()) or "none"
    return "none" if value is None else str(value).replace("\n", "\\n")


def markdown(title: str, entries: Iterable[Entry]) -> str:
    """Return the report as a page: what needs a look first, then everything."""
    rows = list(entries)
    count = {s: sum(e.status == s for e in rows) for s in ("exact", "default", "random", "approximate", "refused")}
    head = ", ".join(f"{n} {status}" for status, n in count.items() if n)
    table = ["| factor | value | status | written as | note |", "| --- | --- | --- | --- | --- |"]
    for e in rows:
        written = "<br>".join(f"`{_cell(line)}`" for line in e.lines)
        table.append(f"| {e.factor} | {_cell(shown(e.value))} | {e.status} | {written} | {_cell(e.note)} |")
    legend = (
        "*exact*: written so. *default*: the tool's own value, relied on. *random*: the same distribution, other draws "
        "than here. *approximate*: the nearest that the tool has, because `--allow-approx` was given."
    )
    return "\n".join([f"# {title}", "", head, "", legend, "", *table, ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
