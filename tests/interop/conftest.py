"""Files of rows for the readers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

Write = Callable[[str, Iterable[Mapping[str, Any]]], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes rows as JSON lines, gzipped where the name says so."""

    def make(name: str, rows: Iterable[Mapping[str, Any]]) -> Path:
        data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return make
