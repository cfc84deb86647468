"""The architecture as a test: an import may only point to a lower floor, and heavy libraries stay where they belong."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[1] / "src" / "paribus"
FLOOR = {
    **dict.fromkeys(["errors", "lazy", "types", "part", "settings", "batch", "tensors"], 1),
    **dict.fromkeys(["algorithms", "tasks", "stats", "factors"], 2),
    **dict.fromkeys(["rewards", "suites", "tuning"], 2.5),
    "experiment": 3,
    **dict.fromkeys(["models", "store"], 4),
    "interop": 4.5,
    **dict.fromkeys(["engines", "report"], 5),
    **dict.fromkeys(["pipeline", "training"], 6),
    **dict.fromkeys(["planning", "results", "launch", "trackers"], 6.5),
    **dict.fromkeys(["cli", "doctor", "__init__", "__main__", "bench", "calibration", "ladder"], 7),
}
ONLY_IN = {
    "transformers": {"models"},
    "datasets": {"tasks"},
    "vllm": {"engines"},
    "ray": {"launch"},
    "matplotlib": {"report"},
    "math_verify": {"tasks"},
    "vaderSentiment": {"rewards"},
    "trackio": {"trackers"},
    "tensorboard": {"trackers"},
    "wandb": {"trackers"},
    "mlflow": {"trackers"},
}
NO_TORCH = {
    "report",
    "stats",
    "store",
    "tasks",
    "rewards",
    "interop",
    "results",
    "trackers",
    "doctor",
    "suites",
    "experiment",
    "factors",
    "part",
    "types",
    "settings",
    "errors",
}
MODULES = sorted(p for p in SRC.rglob("*.py") if "assets" not in p.parts)


def unit(path: Path) -> str:
    """Return the top-level module or folder of the package that a file belongs to."""
    parts = path.relative_to(SRC).parts
    return parts[0] if len(parts) > 1 else path.stem


def imports(path: Path) -> list[str]:
    """Return every module named in an import statement of the file, at whatever depth."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full"
            found.append(node.module or "")
            if node.module == "paribus":
                found += [f"paribus.{a.name}" for a in node.names]
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SRC)))
def test_imports_point_down(path: Path) -> None:
    here = unit(path)
    assert here in FLOOR, f"{here}: give the new module a floor"
    for name in imports(path):
        root, _, rest = name.partition(".")
        if root == "paribus" and rest:
            other = rest.split(".")[0]
            same = other == here or (FLOOR[here] in (1, 7) and FLOOR[other] == FLOOR[here])
            assert same or FLOOR[other] < FLOOR[here], f"{path.name} ({here}) imports {name}"
        if root in ONLY_IN:
            assert here in ONLY_IN[root], f"{path.name} imports {root}: only {ONLY_IN[root]} may"
        if here in NO_TORCH:
            assert root not in ("torch", "jaxtyping") and name != "paribus.lazy", f"{path.name} ({here}) touches torch"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SRC)))
def test_a_file_fits_on_a_few_screens(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    limit = 120 if path.relative_to(SRC).as_posix() == "pipeline/train.py" else 350
    assert lines <= limit, f"{path.relative_to(SRC)} has {lines} lines, more than {limit}: split it"


def test_light_verbs_load_no_heavy_library() -> None:
    """`list`, `show`, `diff`, `plan` and `report` start without torch: their modules import in a blink."""
    code = (
        "import sys, paribus, paribus.cli, paribus.experiment, paribus.algorithms, paribus.tasks, paribus.store,"
        "paribus.stats, paribus.rewards, paribus.report; "
        "heavy = {'torch', 'transformers', 'scipy.stats', 'matplotlib', 'math_verify', 'sympy', 'vaderSentiment'}"
        " & set(sys.modules);"
        "sys.exit(', '.join(sorted(heavy)) or 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
