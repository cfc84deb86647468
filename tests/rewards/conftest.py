"""Files of user functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest


@pytest.fixture
def user_file(tmp_path: Path) -> Callable[[str], str]:
    """Writes a Python file and returns its path."""

    def write(source: str) -> str:
        path = tmp_path / "mine.py"
        path.write_text(dedent(source), encoding="utf-8")
        return str(path)

    return write
