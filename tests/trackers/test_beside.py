"""Trackers beside runs, as processes: what they do to the runs is nothing, whatever happens to them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from paribus.errors import ConfigError
from paribus.trackers import kinds
from paribus.trackers.beside import Beside
from storedruns import write_experiment_of

WANDB = """
import json, time
class Run:
    summary = {}
    def define_metric(self, *names, **options): pass
    def log(self, row):
        with open(FILE, "a") as file:
            file.write(json.dumps(row) + "\\n")
    def finish(self, exit_code): pass
def Settings(**options): return options
def init(**options):
    BODY
    return Run()
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a package named wandb where the trackers' processes find it; it writes rows to the returned file."""
    rows, src = tmp_path / "rows.jsonl", Path(kinds.__file__).parents[2]
    (tmp_path / "wandb.py").write_text(WANDB.replace("FILE", repr(str(rows))).replace("BODY", "pass"))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{src}")
    monkeypatch.syspath_prepend(tmp_path)
    return rows


def body(library: Path, code: str) -> None:
    file = library.with_name("wandb.py")
    file.write_text(file.read_text().replace("    pass\n    return Run()", f"    {code}\n    return Run()"))


def test_the_last_rows_are_sent_after_the_runs_ended(tmp_path: Path, library: Path) -> None:
    root = tmp_path / "runs" / "toy"
    with Beside(root, ["wandb", "wandb"]) as beside:
        assert len(beside._live) == 1
        write_experiment_of(root, {"ppo": {0: "11"}})
    rows = [json.loads(line) for line in library.read_text().splitlines()]
    assert [row["step"] for row in rows if "train/reward" in row] == [1, 2, 3, 4]
    assert beside._live[0].returncode == 0


def test_a_fault_is_one_line_and_stops_nothing(
    tmp_path: Path, library: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    body(library, 'import sys; print("much", file=sys.stderr); raise ConnectionError("no network")')
    root = write_experiment_of(tmp_path / "runs" / "toy", {"ppo": {0: "11", 1: "10"}})
    with Beside(root, ["wandb"]):
        pass
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 1 and "note: tracking with wandb ended: ConnectionError: no network" in said[0]
    assert f"paribus track {root} --to wandb" in said[0]


def test_a_tracker_that_hangs_is_ended(tmp_path: Path, library: Path, capfd: pytest.CaptureFixture[str]) -> None:
    body(library, "time.sleep(600)")
    root = write_experiment_of(tmp_path / "runs" / "toy", {"ppo": {0: "11"}})
    began = time.monotonic()
    with Beside(root, ["wandb"], patience=1.0) as beside:
        pass
    assert time.monotonic() - began < 20 and beside._live[0].returncode is not None
    assert "took too long and was ended" in capfd.readouterr().err


def test_a_missing_library_is_refused_before_anything_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'paribus\[trackio\]'"):
        Beside(tmp_path, ["trackio"])
