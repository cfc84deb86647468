"""Arguments and options that several verbs take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ExperimentFile = Annotated[Path, typer.Argument(metavar="EXPERIMENT.toml", help="Experiment file.")]
SuitesFile = Annotated[
    Path, typer.Argument(metavar="FILE.toml", help="File of suites ([task], [eval.NAME]) or experiment file.")
]
ExperimentFolder = Annotated[Path, typer.Argument(metavar="RUNS/EXPERIMENT", help="Folder of an experiment's runs.")]
Overrides = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the file, e.g. budget.steps=10.")
]
SettingOf = Annotated[
    Path | None, typer.Option("--experiment", help="Experiment file whose setting to take; default: the quickstart's.")
]
NewFile = Annotated[Path | None, typer.Option("--out", "-o", help="File to write; default: standard output.")]
RunsFolder = Annotated[Path, typer.Option("--runs", help="Folder that holds the runs of all experiments.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
