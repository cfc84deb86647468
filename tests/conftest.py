"""Fixtures of all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real data and hard cases that lies beside a checkout; absent elsewhere."""
    if not SHARED.is_dir():
        pytest.skip("the folder ../shared (real data and hard cases) is not beside this checkout")
    return SHARED
