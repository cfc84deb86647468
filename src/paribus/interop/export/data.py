"""Data of an export: problems as message lists with their ids, as parquet."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from paribus.errors import ConfigError, DataError
from paribus.experiment import Setting
from paribus.store.files import canonical
from paribus.suites import EvalSpec
from paribus.tasks import Answer, TaskSpec
from paribus.types import Problem

TRAIN = "train"  # the data source of the training rows; those of evaluation rows are the names of the suites
Row = dict[str, Any]


def train_rows(setting: Setting) -> list[Row]:
    """Return the training problems in the order of the data. Raises ConfigError, DataError."""
    return _rows(setting.task.problems("train"), setting.task.messages, setting.task, TRAIN)


def suite_rows(name: str, suite: EvalSpec, setting: Setting) -> list[Row]:
    """Return the problems of a suite, worked examples included. Raises ConfigError, DataError."""
    if name == TRAIN:
        raise ConfigError(f"eval.{TRAIN}: training rows are known by that name: give the suite another one")
    return _rows(suite.problems(setting.task), suite.messages(setting.task), suite.asks(setting.task), name)


def _rows(problems: Sequence[Problem], ask: Callable[[Problem], Any], task: TaskSpec, source: str) -> list[Row]:
    grader = task.grader
    if not isinstance(grader, Answer):
        raise ConfigError(f"{source}: grader {grader.name} needs more than the standard library: only 'answer' is")
    unread = [p.id for p in problems if grader.grade("", p.gold).status == "ungradable"]
    if unread:
        raise DataError(
            f"{source}: {len(unread)} golds cannot be read, for example that of '{unread[0]}': such rows are not "
            "counted here, and another trainer would take them for wrong answers"
        )
    return [
        {
            "data_source": source,
            "prompt": [dict(message) for message in ask(p)],
            "ability": task.type,
            "reward_model": {"style": "rule", "ground_truth": p.gold},
            "extra_info": {"problem_id": p.id, "index": i, "split": source},
        }
        for i, p in enumerate(problems)
    ]


def prompts_hash(rows: Sequence[Row]) -> str:
    """Return the sha256 of ids, messages and golds in order: equal hashes mean that the same was asked."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(canonical([row["extra_info"]["problem_id"], row["prompt"], row["reward_model"]]) + b"\n")
    return digest.hexdigest()


def write_parquet(path: Path, rows: Sequence[Row]) -> None:
    """Write rows, the same bytes for the same rows and release of pyarrow. Raises ConfigError without pyarrow."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ConfigError("writing parquet needs pyarrow: pip install 'paribus[hub]'") from None
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path, compression="zstd")
