"""Methods as text: the resolved maths of one on a screen, and the table of two methods' differences."""

from __future__ import annotations

import textwrap
from typing import Any, NamedTuple

from paribus.algorithms.cards import CARDS, Card
from paribus.algorithms.catalog import Algorithm
from paribus.algorithms.slot import Need, Slot
from paribus.algorithms.spec import PolicyGradient
from paribus.part import diff

WIDTH = 118
_IDENTITY = ("name", "paper")
_UNKNOWN = Card("own method", {})


class DiffRow(NamedTuple):
    """One field in which two methods differ; None where a side has no such field. `declared`: both sources name it."""

    path: str
    left: Any
    right: Any
    declared: bool


def show_text(algorithm: Algorithm) -> str:
    """Every Part in use with all its fields, its formula and its source, in the order in which they act."""
    card = CARDS.get(algorithm.name, _UNKNOWN)
    needs = ", ".join(need.value for need in Need if need in algorithm.needs) or "nothing beside rollout and score"
    lines = [f"{algorithm.name}: {card.title} [{algorithm.paper}]", f"needs: {needs}", ""]
    for name, part in algorithm.slots.items():
        lines += textwrap.wrap(part_text(part), WIDTH, initial_indent=f"{name:<24}", subsequent_indent=" " * 24)
        lines += _wrapped(part.formula, "    ")
        for inner, value in part:
            lines += _wrapped(f"{inner}: {value.formula}", "    ") if isinstance(value, Slot) else []
        if name in card.sources:
            lines += _wrapped(card.sources[name], "    source: ")
    if isinstance(algorithm, PolicyGradient):
        old = "recomputed by the learner" if algorithm.old == "learner" else "as the sampler recorded them"
        lines.append(f"{'entropy':<24}{algorithm.entropy:g}")
        lines.append(f"{'imitation':<24}{algorithm.imitation:g}")
        lines.append(f"{'old':<24}{algorithm.old}: old log-probs {old}")
    if card.deviations:
        lines += ["", "departs from its source:"]
        for text in card.deviations:
            lines += _wrapped(text, "  - ")
    return "\n".join(lines)


def differences(left: Algorithm, right: Algorithm) -> list[DiffRow]:
    """Every field but name and paper in which two methods differ."""
    declared = set(_declared(left)) & set(_declared(right))
    return [
        DiffRow(path, a, b, path.split(".")[0] in declared) for path, a, b in diff(left, right) if path not in _IDENTITY
    ]


def diff_text(left: Algorithm, right: Algorithm) -> str:
    """The table of differences, and below it what no source declares."""
    rows = differences(left, right)
    if not rows:
        return f"{left.name} and {right.name} do not differ."
    head = ("field", left.name, right.name, "declared")
    cells = [head, *((r.path, cell_text(r.left), cell_text(r.right), "yes" if r.declared else "no") for r in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    lines.insert(1, "  ".join("-" * width for width in widths))
    hidden = list(dict.fromkeys(row.path.split(".")[0] for row in rows if not row.declared))
    names = [name for name in _declared(left) if name in _declared(right)]
    lines += ["", f"declared by their source as the difference: {', '.join(names) or 'nothing'}"]
    lines += [f"undeclared: {', '.join(hidden)}"] if hidden else []
    return "\n".join(lines)


def _declared(algorithm: Algorithm) -> tuple[str, ...]:
    return CARDS.get(algorithm.name, _UNKNOWN).declared


def part_text(part: Slot) -> str:
    """A Part with all its fields on one line."""
    fields = ", ".join(f"{name}={cell_text(value)}" for name, value in part if name != "type")
    return f"{type(part).__name__}({fields})"


def cell_text(value: Any) -> str:
    """A field's value as people read it; a dash for None."""
    if value is None:
        return "—"
    if isinstance(value, Slot):
        return part_text(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=" " * len(indent))
