"""What a report's blocks say, as plain English text that tests can compare."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from paribus.report.blocks import Block, Table
from paribus.report.message import Text, say
from paribus.store import EvalRow, StoredRun
from paribus.store.files import write_rows
from paribus.store.layout import step_files


def said(texts: Iterable[Text]) -> list[str]:
    """Return texts in English."""
    return [say(text) for text in texts]


def tables(blocks: Sequence[Block]) -> dict[str, Table]:
    """Return the tables by their names; a name that comes twice is an error."""
    found = [block for block in blocks if block.kind == "table"]
    assert len({t.name for t in found}) == len(found)
    return {t.name: t for t in found}


def rows(table: Table) -> list[list[str]]:
    """Return a table's cells in English."""
    return [said(row) for row in table.rows]


def prose(blocks: Sequence[Block], tone: str | None = None) -> list[str]:
    """Return the paragraphs in English, those of one tone or all."""
    return [say(b.text) for b in blocks if b.kind == "prose" and tone in (None, b.tone)]


def evaluated(run: StoredRun | None, change: Callable[[int, EvalRow], dict[str, Any]], suite: str = "test") -> None:
    """Write a run's last evaluation again, each row with what `change` adds."""
    assert run is not None
    path = step_files(run.paths.evals / suite)[max(run.eval_steps(suite))]
    write_rows(path, [row.model_copy(update=change(i, row)) for i, row in enumerate(run.eval(suite))])
