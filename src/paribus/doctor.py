"""What `paribus doctor` prints: versions found, versions needed, and the line that fixes a fault."""

from __future__ import annotations

import importlib.metadata
import platform
import sys

from packaging.requirements import Requirement

EXTRAS = {
    "": "always",
    "train": "training and evaluation",
    "hub": "data sets from the hub, parquet",
    "gguf": "GGUF files",
    "ray": "runs on a Ray cluster",
}


def check() -> tuple[list[str], bool]:
    """Return the lines to print, and whether everything that training needs is there."""
    lines = [f"python {platform.python_version()} on {platform.system()} {platform.machine()}"]
    healthy = sys.version_info >= (3, 11)
    if not healthy:
        lines.append("  needs 3.11 or newer")
    requirements = [Requirement(text) for text in importlib.metadata.requires("paribus") or ()]
    for extra, use in EXTRAS.items():
        faults = []
        lines.append(f"{extra or 'base'}: {use}")
        for need in requirements:
            if not _belongs(need, extra):
                continue
            found = _version(need.name)
            good = found is not None and need.specifier.contains(found, prereleases=True)
            lines.append(
                f"  {'ok ' if good else 'NO '} {need.name} {found or 'not installed'} (needs {need.specifier})"
            )
            faults += [] if good else [need.name]
        if faults:
            target = f"paribus[{extra}]" if extra else "paribus"
            lines.append(f"  fix: pip install '{target}'")
            healthy = healthy and extra not in ("", "train")
    return lines, healthy


def _belongs(need: Requirement, extra: str) -> bool:
    if need.marker is None:
        return extra == ""
    return extra != "" and need.marker.evaluate({"extra": extra}) and not need.marker.evaluate({"extra": ""})


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
