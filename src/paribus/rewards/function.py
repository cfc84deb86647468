"""A reward that the user wrote: a function of a Python file, called as TRL or verl would, where it can be killed."""

from __future__ import annotations

import ast
import hashlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field, model_validator

from paribus.errors import ConfigError, RunError, nearest
from paribus.rewards.base import Response, Reward, Scorer, Tally, Values
from paribus.rewards.calls import invoke
from paribus.tasks.mathpool import Outcome, shared_pool
from paribus.types import Problem

VERL = ("data_source", "solution_str", "ground_truth", "extra_info")
COLUMNS = ("problem_id", "question", "answer", "ground_truth", "solution", "truncated")


class Parameters(NamedTuple):
    """What a function can be called with, by keyword: `open` says that it takes any other keyword too."""

    known: tuple[str, ...]
    required: tuple[str, ...]
    open: bool


def read_parameters(source: bytes, path: str, name: str) -> Parameters:
    """Return the parameters of a top-level function without running the file. Raises ValueError naming both."""
    try:
        body = ast.parse(source, filename=path).body
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{path}: not valid Python: {error}") from None
    functions = {node.name: node for node in body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    if name not in functions:
        raise ValueError(f"{path}: no function '{name}' at its top level{nearest(name, functions)}")
    if isinstance(functions[name], ast.AsyncFunctionDef):
        raise ValueError(f"{path}: function '{name}' is async: write it as a plain def")
    spec = functions[name].args
    if spec.posonlyargs:
        raise ValueError(f"{path}: function '{name}' has positional-only parameters: it is called by keyword")
    plain, named = [a.arg for a in spec.args], [a.arg for a in spec.kwonlyargs]
    needed = [a for a, default in zip(named, spec.kw_defaults, strict=True) if default is None]
    required = plain[: len(plain) - len(spec.defaults)] + needed
    return Parameters(tuple(plain + named), tuple(required), spec.kwarg is not None)


def columns(problem: Problem, truncated: bool) -> dict[str, Any]:
    """Return what a user function is told of a row: COLUMNS, and the problem's tags by their names.

    Functions of others call the gold `answer` or `ground_truth`, as their data sets do: both are given.
    """
    values = (problem.id, problem.question, problem.gold, problem.gold, problem.solution, truncated)
    return dict(problem.tags) | dict(zip(COLUMNS, values, strict=True))


def check_columns(parameters: Parameters, own: tuple[str, ...], where: str) -> None:
    """Refuse a function that cannot be called with `own` arguments and every column, or that requires yet another."""
    if not parameters.open:
        raise ValueError(f"{where} must take every column by keyword: end its parameters with **kwargs")
    if unknown := [name for name in parameters.required if name not in (*own, *COLUMNS)]:
        raise ValueError(
            f"{where} requires '{unknown[0]}'; sure to be there are: {', '.join((*own, *COLUMNS))} "
            "(give a tag of the problems a default)"
        )


class UserFunction(Scorer):
    """Function `name` of the Python file at `path`, called by keyword in `workers` processes that can be killed.

    The file is parsed when the experiment is loaded and run in the workers only. `sha256`, filled in at loading, is
    the file's: stored with the experiment, and a file that has changed since is refused. `seconds` of processor time
    is the limit of one call (by the clock, ten times as much).
    """

    path: str
    name: str
    sha256: str = ""
    seconds: float = Field(default=10.0, gt=0)
    workers: int = Field(default=1, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _inspected(cls, data: Any) -> Any:
        if not (isinstance(data, Mapping) and all(isinstance(data.get(key), str) for key in ("path", "name"))):
            return data
        path, name = data["path"], data["name"]
        try:
            source = Path(path).read_bytes()
        except OSError as error:
            raise ValueError(f"{path}: cannot read the file of function '{name}': {error.strerror}") from None
        sha256 = hashlib.sha256(source).hexdigest()
        if data.get("sha256", "") not in ("", sha256):
            raise ValueError(f"{path}: the file of function '{name}' has changed: its sha256 is {sha256}")
        return {**data, "sha256": sha256, **cls.inspect(read_parameters(source, path, name), data)}

    @classmethod
    @abstractmethod
    def inspect(cls, parameters: Parameters, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return fields that follow from the parameters. Raises ValueError where the function cannot be called."""

    def call(self, calls: Sequence[tuple[int | None, dict[str, Any]]]) -> list[Outcome]:
        """Return the outcome of each call; a call is how many numbers it gives (None: one) and its arguments."""
        who = (self.path, self.name, self.sha256)
        pool = shared_pool(invoke, workers=self.workers, warm_up=(*who, None, None))
        try:
            return pool.map([(*who, *call) for call in calls], seconds=self.seconds)
        except RunError as error:  # the file cannot be loaded
            raise ConfigError(f"{self.path}: function '{self.name}': {error}") from None


class Function(UserFunction, Reward):
    """The number that a user function gives. `signature`, read off its parameters at loading, says how it is called:

    - `trl`, one call for all rows: `f(prompts=[...], completions=[...], **columns) -> list`, a column being a list.
      `conversational`: prompts and completions are lists of messages, as TRL gives them for chat data.
    - `verl`, one call per row: `f(data_source, solution_str, ground_truth, extra_info) -> number or {"score": ...}`.
      `data_source` is passed on as declared, else as the row of verl's data has it.

    A call that crashes or runs out of time leaves its rows (`trl`: all, `verl`: one) without a value.
    """

    type: Literal["function"] = "function"
    signature: Literal["trl", "verl"]
    conversational: bool = False
    data_source: str = ""

    @classmethod
    def inspect(cls, parameters: Parameters, data: Mapping[str, Any]) -> dict[str, Any]:
        where = f"{data['path']}: function '{data['name']}'"
        marks = {"trl": "completions", "verl": "solution_str"}
        fitting = [kind for kind, mark in marks.items() if mark in parameters.known]
        signature = data.get("signature") or (fitting[0] if len(fitting) == 1 else None)
        if signature is None:
            raise ValueError(
                f"{where}: cannot tell TRL's signature (a parameter 'completions') from verl's ('solution_str'); "
                f'state it: signature = "trl" or "verl"'
            )
        if signature == "trl":
            check_columns(parameters, ("prompts", "completions"), where)
        elif signature == "verl":
            if refused := [] if parameters.open else [name for name in VERL if name not in parameters.known]:
                raise ValueError(f"{where} does not take '{refused[0]}', which verl passes")
            if unknown := [name for name in parameters.required if name not in VERL]:
                raise ValueError(f"{where} requires '{unknown[0]}', which verl does not pass")
        return {"signature": signature}

    def score(self, rows: Sequence[Response], name: str, tally: Tally) -> Values:
        if self.signature == "trl":
            outcomes = self.call([(len(rows), self._batched(rows))])
            values: Values = outcomes[0].value if outcomes[0].status == "ok" else [None] * len(rows)
        else:
            outcomes = list(tally.outcomes.get(self, ())) or self.call(
                [(None, self._single(row.problem, row.text, row.truncated)) for row in rows]
            )
            values = [outcome.value if outcome.status == "ok" else None for outcome in outcomes]
        for outcome in outcomes:
            if outcome.status != "ok":
                tally.failed += 1
                tally.reason = f"{self.path}: function '{self.name}': {outcome.detail}"
        return values

    def ask(self, problem: Problem, text: str, truncated: bool) -> Outcome:
        """Return the outcome of the call for one response (`verl`): all rows need not be there for it."""
        return self.call([(None, self._single(problem, text, truncated))])[0]

    def _batched(self, rows: Sequence[Response]) -> dict[str, Any]:
        every = [columns(row.problem, row.truncated) for row in rows]
        names = dict.fromkeys(name for row in every for name in row)
        return {name: [row.get(name) for row in every] for name in names} | {
            "prompts": [self._asked(row.problem) for row in rows],
            "completions": [self._said("assistant", row.text) for row in rows],
        }

    def _asked(self, problem: Problem) -> str | list[dict[str, str]]:
        if self.conversational and problem.messages:
            return [dict(message) for message in problem.messages]
        return self._said("user", problem.question)

    def _said(self, role: str, text: str) -> str | list[dict[str, str]]:
        return [{"role": role, "content": text}] if self.conversational else text

    def _single(self, problem: Problem, text: str, truncated: bool) -> dict[str, Any]:
        source = self.data_source or problem.tags.get("data_source", "")
        values = (source, text, problem.gold, columns(problem, truncated))
        return dict(zip(VERL, values, strict=True))
