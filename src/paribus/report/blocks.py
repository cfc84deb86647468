"""What a page is made of, before it is HTML or Markdown; every string in it is plain text and untrusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph; a `warning` stands out, a `note` steps back."""

    text: str
    tone: Literal["plain", "note", "warning"] = "plain"
    kind: Literal["prose"] = "prose"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under column heads; the first `labels` columns hold words, the others numbers."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    labels: int = 1
    marked: frozenset[int] = frozenset()  # rows that stand out as a warning
    kind: Literal["table"] = "table"


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing as SVG text of our own making; `name` is its file name, `title` what it shows."""

    name: str
    title: str
    svg: str
    wide: bool = False
    kind: Literal["figure"] = "figure"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one model said to a problem, and how it was judged."""

    model: str
    verdict: Literal["right", "wrong", "not counted"]
    read: str  # the answer that the grader read
    detail: str
    text: str


@dataclass(frozen=True, slots=True)
class Example:
    """One problem and the answers of several models, side by side."""

    problem: str
    question: str
    gold: str
    answers: Sequence[Answer]
    kind: Literal["example"] = "example"


Block = Prose | Table | Figure | Example


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    blocks: Sequence[Block]

    @property
    def runs(self) -> list[tuple[str, list[Block]]]:
        """Neighbouring blocks of one kind, together: figures share a grid."""
        return [(kind, list(found)) for kind, found in groupby(self.blocks, key=lambda block: block.kind)]

    @property
    def anchor(self) -> str:
        return "".join(c if c.isalnum() else "-" for c in self.title.lower())


@dataclass(frozen=True, slots=True)
class Tile:
    """A headline number: what, how much, and how sure."""

    label: str
    value: str
    detail: str


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    question: str
    controlled: bool
    verdict: Sequence[str]
    tiles: Sequence[Tile]
    sections: Sequence[Section]
