"""What this machine and environment hold, by package metadata and device files: nothing heavy is imported."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from paribus.store.provenance import processor


@dataclass(frozen=True)
class Environment:
    """One Python environment; `versions` by canonical name, `requires` is what Paribus itself asks for."""

    python: str
    platform: str
    cpu: str
    gpus: Sequence[str]
    versions: Mapping[str, str]
    requires: Sequence[str]


def survey() -> Environment:
    """Describe the environment of this process."""
    found = importlib.metadata.distributions()
    versions = {str(canonicalize_name(d.metadata["Name"])): d.version for d in found if d.metadata["Name"]}
    try:
        requires = importlib.metadata.requires("paribus") or []
    except importlib.metadata.PackageNotFoundError:  # run from its sources
        requires = []
    return Environment(
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        cpu=f"{processor()}, {os.cpu_count()} cores",
        gpus=_gpus(),
        versions=versions,
        requires=requires,
    )


def _gpus() -> list[str]:
    """Return a line for each NVIDIA GPU: what the driver's tool says, or the device files where it is absent."""
    tool = shutil.which("nvidia-smi")
    if tool is not None:
        command = [tool, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        except (OSError, subprocess.TimeoutExpired):
            done = None
        if done is not None and done.returncode == 0:
            return [line.strip() for line in done.stdout.splitlines() if line.strip()]
    return [f"NVIDIA, {path}" for path in sorted(Path("/dev").glob("nvidia[0-9]*"))]
