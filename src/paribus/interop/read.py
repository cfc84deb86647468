"""Which reader a source needs, told from what it holds."""

from __future__ import annotations

from pathlib import Path

from paribus.errors import DataError
from paribus.interop import lm_eval, plain, published, stored, trl, verl
from paribus.interop.outcomes import Outcomes
from paribus.interop.published import Counts, Published
from paribus.interop.rows import Choice, json_lines, load_bytes, shown
from paribus.store.schema import EvalRow

EXPECTED = (
    f"rows of Paribus, plain rows ({plain.FIELDS}), samples of lm-evaluation-harness (doc_id, filtered_resps, ...), "
    "a validation dump of verl (input, output, score, step)"
)


def read(source: str, choice: Choice | None = None) -> Outcomes | Counts | Published:
    """Return what a source holds: a stored run, arm or base, a file of rows, counts as 776/1319, published numbers.

    Raises DataError or ConfigError that names file, line and key.
    """
    choice = choice or Choice()
    counts = published.parse_counts(source)
    if counts is not None:
        return counts
    path = Path(source)
    if not path.exists():
        raise DataError(f"{source}: no such file or folder, nor counts such as 776/1319")
    return _folder(path, choice) if path.is_dir() else _file(path, choice)


def _folder(path: Path, choice: Choice) -> Outcomes:
    if stored.is_run(path):
        return stored.read_run(path, choice)
    if stored.arm_runs(path):
        return stored.read_arm(path, choice)
    if stored.is_evaluated(path):
        return stored.read_evaluated(path, choice)
    held = sorted(child.name for child in path.iterdir() if not child.name.startswith("."))
    raise DataError(
        f"{path}: neither a run, an arm nor an evaluation of Paribus; give one of the things in it: "
        f"{', '.join(held[:8]) or 'it is empty'}{', …' * (len(held) > 8)}"
    )


def _file(path: Path, choice: Choice) -> Outcomes | Published:
    data, name = load_bytes(path), path.name.removesuffix(".gz").rsplit(".", 1)[0]
    if data.startswith(trl.MAGIC):
        return trl.read(name, path, choice)
    if not data.lstrip().startswith(b"{"):
        return published.read(path, data)
    lines = json_lines(path, data)
    keys = set(lines[0].data)
    for reader in (lm_eval, verl):
        if reader.matches(keys):
            return reader.read(name, path, lines, choice)
    if EvalRow.model_fields.keys() >= keys >= {"problem_id", "response", "grader"}:
        return stored.read_rows_file(name, path)
    if plain.matches(keys):
        return plain.read(name, path, lines, choice)
    raise DataError(
        f"{lines[0].place}: unknown rows with keys {', '.join(map(shown, sorted(keys)))}; known: {EXPECTED}"
    )
