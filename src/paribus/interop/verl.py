"""Validation dumps of verl: `trainer.validation_data_dir`, one `<step>.jsonl` for each validation.

Read from its source: 0.9.1 (`RayPPOTrainer._write_generations`) writes input, output, gts, score, step, and a column
for each list of the reward's extra values (`reward`, `acc`, ...); 0.5 writes the same without gts. The problem's id is
there where the scorer returns it, as an exported one does; else the decoded prompt stands for it. Rows of one problem
are its samples (`val_kwargs.n`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from paribus.errors import DataError
from paribus.interop.outcomes import Outcomes
from paribus.interop.rows import Choice, Line, Row, outcomes, score, value


def matches(keys: set[str]) -> bool:
    return {"input", "output", "score", "step"} <= keys


def read(name: str, path: Path, lines: Sequence[Line], choice: Choice) -> Outcomes:
    """Return one run: the scores of one validation. Raises DataError for several steps in one file."""
    steps = sorted({str(value(line, "step")) for line in lines})
    if len(steps) > 1:
        raise DataError(f"{path}: holds steps {', '.join(steps)}: keep the rows of one validation")
    column = choice.metric or "score"
    named = all(line.data.get("problem_id") for line in lines)
    rows = (
        Row(
            line.place,
            None,
            str(line.data["problem_id"]) if named else prompt_id(value(line, "input")),
            None,
            score(value(line, column), line.place, column),
        )
        for line in lines
    )
    notes = [] if named else [f"{path}: problems are told apart by the hash of their prompt"]
    found = outcomes(
        name, path, rows, f"verl validation, step {steps[0]}", column, repeats="prompts that occur more than once"
    )
    return Outcomes(found.name, found.runs, found.source, found.judged, [*found.notes, *notes])


def prompt_id(text: object) -> str:
    """Return the id that stands for a prompt."""
    return hashlib.blake2b(str(text).encode(errors="surrogatepass"), digest_size=8).hexdigest()
