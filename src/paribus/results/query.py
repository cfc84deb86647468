"""A small, safe language for choosing rows: `ppo and not grpo`, `base.tokens > 200`, `"apple" in grpo.response`.

A model's name alone means that its answer is right. The text is parsed by Python's own parser, and only the node types
named here are ever evaluated: no call but `len`, no attribute but a row's fields.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from paribus.errors import ConfigError, nearest
from paribus.store import EvalRow, ProblemRow

LONGEST = 500  # characters of a query: deep nesting of longer ones could exhaust the stack
FIELDS = ("score", "tokens", "truncated", "status", "answer", "format", "response")
ASKED = ("question", "gold")
MODELS = "models"  # models["a-b"]: a model whose name is no Python name
_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, other: one in other,
    ast.NotIn: lambda one, other: one not in other,
}


@dataclass(frozen=True, slots=True)
class Query:
    """A checked query over the answers of `models`."""

    text: str
    tree: ast.expr
    models: tuple[str, ...]

    def holds(self, rows: Mapping[str, EvalRow], asked: ProblemRow) -> bool:
        """Return whether the query holds of one problem's answers. Raises ConfigError if it is no condition."""
        return _truth(self, _value(self, self.tree, rows, asked))


def parse(text: str, models: Collection[str]) -> Query:
    """Parse a query and check every name in it. Raises ConfigError that says what is wrong and what is known."""
    if len(text) > LONGEST:
        raise ConfigError(f"--where: {len(text)} characters, at most {LONGEST}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ConfigError(f"--where: {text!r} cannot be read: {error}") from None
    query = Query(text, tree, tuple(models))
    _check(query, tree)
    return query


def _check(query: Query, node: ast.expr) -> None:
    """Walk the whole tree once, so that a fault shows before any row is read."""
    match node:
        case ast.BoolOp(values=parts):
            children = parts
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            children = [operand]
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _COMPARE for op in ops):
            children = [left, *others]
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            children = parts
        case ast.Call(func=ast.Name(id="len"), args=[inner], keywords=[]):
            children = [inner]
        case ast.Constant(value=bool() | int() | float() | str() | None):
            return
        case ast.Attribute(value=owner, attr=field):
            _model(query, owner)
            if field not in FIELDS:
                raise ConfigError(f"--where: no field '{field}' of an answer{nearest(field, FIELDS)}")
            return
        case ast.Name(id=name) if name in ASKED and name not in query.models:
            return
        case ast.Name() | ast.Subscript():
            _model(query, node)
            return
        case _:
            raise ConfigError(
                f"--where: '{ast.unparse(node)}' is not allowed: use names of models, their fields "
                f"({', '.join(FIELDS)}), {' and '.join(ASKED)}, and, or, not, comparisons, in, len, numbers and text"
            )
    for child in children:
        _check(query, child)


def _model(query: Query, node: ast.expr) -> str:
    """Return the name of the model that a node stands for. Raises ConfigError."""
    match node:
        case ast.Name(id=name):
            pass
        case ast.Subscript(value=ast.Name(id=owner), slice=ast.Constant(value=str() as name)) if owner == MODELS:
            pass
        case _:
            raise ConfigError(f"--where: '{ast.unparse(node)}' is not a model; write its name, or {MODELS}[\"name\"]")
    if name not in query.models:
        raise ConfigError(f"--where: no model '{name}'{nearest(name, query.models)}")
    return name


def _value(query: Query, node: ast.expr, rows: Mapping[str, EvalRow], asked: ProblemRow) -> Any:
    match node:
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_truth(query, _value(query, part, rows, asked)) for part in parts)
        case ast.BoolOp(values=parts):
            return any(_truth(query, _value(query, part, rows, asked)) for part in parts)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _truth(query, _value(query, operand, rows, asked))
        case ast.UnaryOp(operand=operand):
            return _apply(query, operator.neg, _value(query, operand, rows, asked))
        case ast.Compare(left=left, ops=ops, comparators=others):
            values = [_value(query, part, rows, asked) for part in (left, *others)]
            pairs = zip(values, ops, values[1:], strict=False)
            return all(_compare(query, op, one, other) for one, op, other in pairs)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return tuple(_value(query, part, rows, asked) for part in parts)
        case ast.Call(args=[inner]):
            found = _value(query, inner, rows, asked)
            return 0 if found is None else _apply(query, len, found)
        case ast.Constant(value=constant):
            return constant
        case ast.Attribute(value=owner, attr=field):
            return getattr(rows[_model(query, owner)], field)
        case ast.Name(id=name) if name in ASKED and name not in query.models:
            return asked.question if name == "question" else asked.gold
        case _:
            return rows[_model(query, node)].score == 1


def _compare(query: Query, op: ast.cmpop, one: Any, other: Any) -> bool:
    """Compare; nothing is more, less or part of what is absent."""
    if not isinstance(op, (ast.Eq, ast.NotEq)) and (one is None or other is None):
        return False
    return _apply(query, _COMPARE[type(op)], one, other)


def _apply(query: Query, function: Callable[..., Any], *values: Any) -> Any:
    try:
        return function(*values)
    except TypeError as error:
        raise ConfigError(f"--where: {query.text!r}: {error}") from None


def _truth(query: Query, found: Any) -> bool:
    if isinstance(found, bool):
        return found
    raise ConfigError(f"--where: {query.text!r}: {found!r} is neither true nor false; compare it with something")
