"""The hard cases from public bug reports, by id."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest


def expand(text: str) -> str:
    """Write out the `REPEAT(s,n)` of the shared file's strings."""
    return re.sub(r"REPEAT\((.*),(\d+)\)", lambda m: m[1] * int(m[2]), text)


def _expanded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _expanded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_expanded(inner) for inner in value]
    return expand(value) if isinstance(value, str) else value


@pytest.fixture(scope="session")
def cases(shared: Path) -> dict[str, dict[str, Any]]:
    text = (shared / "cases" / "open.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.split("\n") if line]
    return {row["id"]: row | {"input": _expanded(row["input"])} for row in rows}
