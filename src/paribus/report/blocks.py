"""What a page is made of, before it is HTML or Markdown; every string in it is plain text and untrusted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal, NamedTuple

from paribus.report.message import Language, Text, say

Judgement = Literal["right", "wrong", "not counted"]


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph; a `warning` stands out, a `note` steps back."""

    text: Text
    tone: Literal["plain", "note", "warning"] = "plain"
    kind: Literal["prose"] = "prose"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under column heads; the first `labels` columns hold words, the others numbers.

    `name` is its file name among the exports, one table a name; without one it is named after its section.
    """

    columns: Sequence[Text]
    rows: Sequence[Sequence[Text]]
    caption: Text = ""
    labels: int = 1
    marked: frozenset[int] = frozenset()  # rows that stand out as a warning
    name: str = ""
    kind: Literal["table"] = "table"


class Picture(NamedTuple):
    """A drawing as SVG text of our own making, and a function that gives it as PNG: few readers want that."""

    svg: str
    png: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class Drawing:
    """One way to look at a figure: `draw` says its words in a language, `data` are the numbers in it."""

    label: Text
    draw: Callable[[Language], Picture] = field(compare=False)
    data: Table


@dataclass(frozen=True, slots=True)
class Figure:
    """One or several drawings of the same thing; `name` is its file name, `title` what it shows.

    Several drawings are a switch. Figures whose drawings have the same labels are switched together: those are the
    axes of the page.
    """

    name: str
    title: Text
    drawings: Sequence[Drawing]
    wide: bool = False
    kind: Literal["figure"] = "figure"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of a list that a machine went through; `ok` is None where it could not tell."""

    text: Text
    ok: bool | None
    detail: Text = ""


@dataclass(frozen=True, slots=True)
class Checks:
    """What was checked, line by line."""

    lines: Sequence[Check]
    kind: Literal["checks"] = "checks"


@dataclass(frozen=True, slots=True)
class Code:
    """Lines to be copied as they are: commands, a file."""

    text: str
    caption: Text = ""
    kind: Literal["code"] = "code"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one model said to a problem, and how it was judged."""

    model: Text
    verdict: Judgement
    read: Text  # the answer that the grader read
    detail: Text
    text: Text


@dataclass(frozen=True, slots=True)
class Example:
    """One problem and the answers of several models, side by side."""

    problem: str
    question: Text
    gold: Text
    answers: Sequence[Answer]
    kind: Literal["example"] = "example"


@dataclass(frozen=True, slots=True)
class Sample:
    """One model's response as the browser holds it: what is invisible is spelt out already."""

    verdict: Judgement
    tokens: int
    truncated: bool
    read: str
    text: str
    left_out: int  # characters of the text that the page does not hold


@dataclass(frozen=True, slots=True)
class Case:
    """One problem of the browser: `samples` in the order of the browser's models, None where there is no response."""

    problem: str
    kind: int  # which of the browser's kinds it was chosen for
    question: str
    left_out: int  # characters of the question that the page does not hold
    gold: str
    samples: Sequence[Sample | None]


@dataclass(frozen=True, slots=True)
class Browser:
    """Problems to leaf through, two models at a time: `models` are (name, run), `shown` the two to begin with."""

    models: Sequence[tuple[Text, Text]]
    shown: tuple[int, int]
    kinds: Sequence[Text]
    cases: Sequence[Case]
    kind: Literal["browser"] = "browser"


Block = Prose | Table | Figure | Checks | Code | Example | Browser


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: level 2 belongs to the level 1 before it; a `folded` one opens when asked for."""

    title: Text
    blocks: Sequence[Block]
    level: Literal[1, 2] = 1
    tone: Literal["plain", "good", "warning"] = "plain"
    folded: bool = False

    @property
    def runs(self) -> list[tuple[str, list[Block]]]:
        """Neighbouring blocks of one kind, together: figures share a grid."""
        return [(kind, list(found)) for kind, found in groupby(self.blocks, key=lambda block: block.kind)]

    @property
    def anchor(self) -> str:
        """The name that a link leads to, the same in every language."""
        return "-".join("".join(c if c.isalnum() else " " for c in say(self.title).lower()).split())


@dataclass(frozen=True, slots=True)
class Tile:
    """A headline number: what, how much, and how sure."""

    label: Text
    value: Text
    detail: Text


@dataclass(frozen=True, slots=True)
class Page:
    title: Text
    question: Text
    controlled: bool
    verdict: Sequence[Text]
    tiles: Sequence[Tile]
    sections: Sequence[Section]
