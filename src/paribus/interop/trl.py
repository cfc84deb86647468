"""Completion logs of TRL: `log_completions=True`, `completions/completions_<step>.parquet`.

Read from the source of 1.16.0 (`GRPOTrainer.log`; RLOO is alike): columns step, prompt and completion (text, or lists
of messages), one column of rewards named after each reward function, perhaps columns logged by the user, advantage.
They are completions of training prompts; a file holds one step.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from paribus.errors import DataError
from paribus.interop.outcomes import Outcomes
from paribus.interop.rows import Choice, Row, chosen, outcomes, score
from paribus.interop.verl import prompt_id
from paribus.store.files import canonical

MAGIC = b"PAR1"
COLUMNS = ("step", "prompt", "completion", "advantage")


def read(name: str, path: Path, choice: Choice) -> Outcomes:
    """Return one run: the rewards of one step under the chosen reward function. Raises DataError."""
    table = read_table(path)
    rewards = [column for column in table.column_names if column not in COLUMNS and _numeric(table, column)]
    column = chosen(choice.metric, rewards, what="reward column", option="--metric", where=str(path))
    steps = sorted(set(table["step"].to_pylist()))
    if len(steps) != 1:
        raise DataError(f"{path}: holds steps {', '.join(map(str, steps))}: keep the rows of one step")
    pairs = zip(table["prompt"].to_pylist(), table[column].to_pylist(), strict=True)
    rows = (
        Row(f"{path}, row {i}", None, _prompt(prompt), None, score(_known(found), f"{path}, row {i}", column))
        for i, (prompt, found) in enumerate(pairs, start=1)
    )
    found = outcomes(
        name, path, rows, f"TRL completions, step {steps[0]}", column, repeats="prompts that were drawn more than once"
    )
    note = f"{path}: completions of training prompts, not an evaluation; prompts are told apart by their hash"
    return Outcomes(found.name, found.runs, found.source, found.judged, [*found.notes, note])


def read_table(path: Path) -> Any:
    """Return a completions file as an Arrow table. Raises DataError without pyarrow, and where it is another file."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise DataError(f"{path}: reading parquet needs pyarrow: pip install 'paribus[hub]'") from None
    try:
        found = parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"{path}: not readable as parquet: {error}") from None
    missing = [column for column in COLUMNS if column not in found.column_names]
    if missing:
        raise DataError(f"{path}: not a completions file of TRL: no column {', '.join(missing)}")
    return found


def _numeric(table: Any, column: str) -> bool:
    from pyarrow import types

    kind = table.schema.field(column).type
    return types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)


def _known(found: Any) -> Any:
    """A reward function may decline a row: TRL stores NaN then."""
    return None if isinstance(found, float) and math.isnan(found) else found


def _prompt(prompt: Any) -> str:
    return prompt_id(prompt if isinstance(prompt, str) else canonical(prompt))
