"""What every exported folder holds: data, scorer, mapping report, and a manifest with the hashes of all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from paribus.algorithms import OutcomeAtEnd, PolicyGradient
from paribus.errors import ConfigError, nearest
from paribus.experiment import Arm, Experiment, Setting
from paribus.interop.export.data import TRAIN, Row, prompts_hash, suite_rows, train_rows, write_parquet
from paribus.interop.export.manifest import MANIFEST
from paribus.interop.export.mapping import Entry, markdown
from paribus.interop.export.scorer import scorer_source, source_hash
from paribus.part import dump
from paribus.store.files import replace_file, write_json
from paribus.store.provenance import code_version, file_sha256, value_hash
from paribus.tasks import Answer


@dataclass(slots=True)
class Folder:
    """One arm's folder while it is written."""

    path: Path
    tool: str
    version: str
    experiment: Experiment
    arm: str
    prompts: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path.exists() and any(self.path.iterdir()) and not (self.path / MANIFEST).exists():
            raise ConfigError(f"{self.path}: holds something else than an export; choose another --out")

    def text(self, name: str, content: str, *, executable: bool = False) -> None:
        replace_file(self.path / name, content.encode())
        if executable:
            (self.path / name).chmod(0o755)

    def data(self, setting: Setting) -> None:
        """Write the training problems and those of every suite. Raises ConfigError, DataError."""
        found = {TRAIN: train_rows(setting)}
        found |= {name: suite_rows(name, suite, setting) for name, suite in setting.eval.items()}
        for source, rows in found.items():
            write_parquet(self.path / "data" / f"{source}.parquet", rows)
            self.prompts[source] = {"problems": len(rows), "sha256": prompts_hash(rows)}

    def rows(self, rows: Sequence[Row]) -> None:
        """Write training rows that are not problems: pairs of answers."""
        write_parquet(self.path / "data" / f"{TRAIN}.parquet", rows)
        self.prompts[TRAIN] = {"rows": len(rows), "sha256": value_hash(list(rows))}

    def report(self, entries: Sequence[Entry]) -> None:
        """Write the mapping report, for people and for machines."""
        title = f"Arm {self.arm} of {self.experiment.name} in {self.tool} {self.version}"
        self.text("mapping.md", markdown(title, entries))
        write_json(self.path / "mapping.json", [asdict(entry) for entry in entries])

    def close(self) -> Path:
        """Write the manifest and return the folder."""
        names = {p.relative_to(self.path).as_posix(): p for p in sorted(self.path.rglob("*")) if p.is_file()}
        files = {name: p for name, p in names.items() if name != MANIFEST and not name.startswith("runs/")}
        write_json(
            self.path / MANIFEST,
            {
                "tool": self.tool,
                "version": self.version,
                "arm": self.arm,
                "seeds": list(self.experiment.seeds),
                "paribus": code_version(),
                "scorer_source": source_hash(),
                "prompts": self.prompts,
                "files": {name: file_sha256(p) for name, p in files.items()},
                "experiment": dump(self.experiment),
            },
        )
        return self.path


def arms_of(exp: Experiment, names: Sequence[str]) -> dict[str, Arm]:
    """Return the arms of those names, or all. Raises ConfigError for an unknown one."""
    for name in names:
        if name not in exp.arms:
            raise ConfigError(f"no arm '{name}' in this experiment{nearest(name, exp.arms)}")
    return {name: arm for name, arm in exp.arms.items() if not names or name in names}


def python_sources(setting: Setting, worth: dict[str, tuple[Any, ...]]) -> str:
    """Return scorer.py for the training data and every suite."""
    graders: dict[str, Answer] = {}
    for name, task in ((TRAIN, setting.task), *((n, s.asks(setting.task)) for n, s in setting.eval.items())):
        assert isinstance(task.grader, Answer), "checked by the mapping"
        graders[name] = task.grader
    return scorer_source(graders, worth)


def outcomes(method: PolicyGradient) -> dict[str, tuple[Any, ...]]:
    """Return what a score is worth in training, where it is not the score itself."""
    for term in method.shaping:
        if isinstance(term, OutcomeAtEnd) and not term.plain:
            return {TRAIN: (term.wrong, term.right, term.low, term.high)}
    return {}
