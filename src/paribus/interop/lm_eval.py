"""Sample files of lm-evaluation-harness: `--log_samples`, `samples_<task>_<date>.jsonl`.

Read from its source at commit 034ab03 (`lm_eval/evaluator.py`, `lm_eval/loggers/evaluation_tracker.py`): one row for
each document and filter, with doc_id, doc, target, arguments, resps, filtered_resps, filter, metrics (their names),
doc_hash, prompt_hash, target_hash, and each metric's value under its own name. Before its pull request 2517 (November
2024) rows had neither `filter` nor `metrics`: a document then came once for each filter, in the order of the task's
filters, and metrics are the numbers among the other keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paribus.errors import DataError
from paribus.interop.outcomes import Outcomes
from paribus.interop.rows import Choice, Line, Row, chosen, identifier, outcomes, score, value

NOT_METRICS = {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash",
               "prompt_hash", "target_hash"}  # fmt: skip


def matches(keys: set[str]) -> bool:
    return {"doc_id", "filtered_resps"} <= keys


def read(name: str, path: Path, lines: Sequence[Line], choice: Choice) -> Outcomes:
    """Return one run under the chosen filter and metric. Raises DataError where either is open.

    A problem's id is its doc_id with the hash of the document, so that files of two tasks never join by accident.
    """
    filters = _filters(lines)
    rule = chosen(choice.filter, sorted(set(filters)), what="filter", option="--filter", where=str(path))
    kept = [line for line, own in zip(lines, filters, strict=True) if own == rule]
    metrics = sorted({key for line in kept for key in _metrics(line)})
    metric = chosen(choice.metric, metrics, what="metric", option="--metric", where=f"{path}, filter {rule}")
    rows = (
        Row(line.place, None, _problem(line), 0, score(value(line, metric), line.place, metric)) for line in kept
    )  # one row a document and filter: a second one is a copy
    return outcomes(name, path, rows, "lm-evaluation-harness samples", f"{metric}, filter {rule}")


def _filters(lines: Sequence[Line]) -> list[str]:
    """Return the filter of each row; where rows do not name it, "unnamed 1" for a document's first row, and so on."""
    seen: Counter[str] = Counter()
    out = []
    for line in lines:
        if "filter" in line.data:
            out.append(str(line.data["filter"]))
        else:
            document = _problem(line)
            seen[document] += 1
            out.append(f"unnamed {seen[document]}")
    return out


def _metrics(line: Line) -> list[str]:
    names = line.data.get("metrics")
    if names is None:
        return [key for key, found in line.data.items() if key not in NOT_METRICS and _is_number(found)]
    if not isinstance(names, list):
        raise DataError(f"{line.place}: metrics: expected a list of names, got {names!r}")
    return [str(metric) for metric in names]


def _is_number(found: Any) -> bool:
    return isinstance(found, (bool, int, float))


def _problem(line: Line) -> str:
    document = identifier(line, "doc_id")
    digest = line.data.get("doc_hash")
    return f"{document}" if digest is None else f"{document}:{str(digest)[:12]}"
