"""How results stand on a terminal: aligned columns, wrapped sentences."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from paribus.report.text import aligned, visible

WIDTH = 110


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return aligned lines; names in them are other people's text and made harmless."""
    return aligned([[visible(cell) for cell in row] for row in rows])


def paragraph(text: str, mark: str = "") -> list[str]:
    """Return a sentence or several, wrapped; `mark` stands before the first line."""
    return textwrap.wrap(
        visible(text), WIDTH, initial_indent=mark, subsequent_indent=" " * len(mark), break_on_hyphens=False
    )
