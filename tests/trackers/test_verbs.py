"""`run --track` and `track` on the command line: where trackers are named, and what is refused before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from paribus.cli import app
from paribus.errors import ConfigError
from paribus.trackers import beside, kinds

QUICKSTART = Path(__file__).resolve().parents[2] / "experiments" / "quickstart.toml"


@pytest.mark.parametrize(
    ("options", "variable", "expected"),
    [
        (["--track", "wandb", "--track", "mlflow"], None, ["wandb", "mlflow"]),
        ([], "trackio tensorboard", ["trackio", "tensorboard"]),
        (["--track", "wandb"], "mlflow", ["wandb"]),
        ([], None, []),
    ],
)
def test_trackers_are_named_by_option_or_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], variable: str | None, expected: list[str]
) -> None:
    asked: list[tuple[Path, list[str]]] = []

    class Stop:
        def __init__(self, folder: Path, names: Sequence[str]) -> None:
            asked.append((folder, list(names)))
            raise ConfigError("enough")

    monkeypatch.setattr(beside, "Beside", Stop)
    monkeypatch.setattr("paribus.lazy.run_processes", lambda: None)
    command = ["run", str(QUICKSTART), "--runs", str(tmp_path), *options]
    result = CliRunner().invoke(app, command, env={} if variable is None else {"PARIBUS_TRACK": variable})
    assert isinstance(result.exception, ConfigError), result.output
    assert asked == [(tmp_path / "quickstart", expected)] and not list(tmp_path.iterdir())


def test_an_unknown_tracker_and_a_missing_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(app, ["track", str(tmp_path), "--to", "wanb"])
    assert result.exit_code == 2 and "wandb" in result.output
    monkeypatch.setattr(kinds, "find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["track", str(tmp_path), "--to", "wandb"])
    assert "pip install 'paribus[wandb]'" in str(result.exception)
