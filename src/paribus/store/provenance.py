"""Where a run came from: hashes of configuration and code, package versions, host, git commit."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import socket
import subprocess
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from paribus.store.files import canonical

PACKAGES = (
    "paribus",
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "numpy",
    "scipy",
    "pydantic",
    "math-verify",
    "datasets",
)
_SOURCE = Path(__file__).resolve().parents[1]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def file_sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def value_hash(value: Any) -> str:
    """Return the sha256 of JSON data; the order of keys does not matter."""
    return sha256(canonical(value))


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@cache
def code_version() -> str:
    """Return the sha256 of the package's own Python files: it changes when, and only when, the code does."""
    digest = hashlib.sha256()
    for path in sorted(_SOURCE.rglob("*.py")):
        digest.update(f"{path.relative_to(_SOURCE).as_posix()}\0{file_sha256(path)}\n".encode())
    return digest.hexdigest()


@cache
def git_commit() -> str | None:
    """Return the commit of the checkout this package runs from ("-dirty" if changed); None outside a checkout."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(_SOURCE), *arguments], capture_output=True, text=True, timeout=10, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    # an installed copy may lie inside somebody else's repository, whose commit says nothing about it
    if git("ls-files", "--error-unmatch", "part.py") is None:
        return None
    commit = git("rev-parse", "HEAD")
    return f"{commit}-dirty" if commit and git("status", "--porcelain", "--", str(_SOURCE)) else commit


def processor() -> str:
    """Return the processor's model where Linux tells it, else what Python knows."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines() if file.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


@cache
def package_versions() -> dict[str, str]:
    """Return the versions of the installed packages that matter, from their metadata (nothing is imported)."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def environment() -> dict[str, Any]:
    """Return the fields of an `Attempt` that describe this process's machine and software."""
    return {
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "packages": package_versions(),
        "code": code_version(),
        "git": git_commit(),
    }
