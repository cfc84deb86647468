"""The verb that writes files for the schedulers of other machines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paribus.cli.options import ExperimentFile, Overrides, RunsFolder

if TYPE_CHECKING:
    from paribus.experiment import Experiment

app = typer.Typer()
launch = typer.Typer(no_args_is_help=True, help="Write the files that run every arm and seed on other machines.")
app.add_typer(launch, name="launch")

JobsFolder = Annotated[Path, typer.Option("--out", "-o", help="Folder for the files.")]


@launch.command()
def slurm(
    file: ExperimentFile,
    out: JobsFolder,
    overrides: Overrides = [],  # noqa: B006
    runs: RunsFolder = Path("runs"),
) -> None:
    """Write Slurm scripts: the base, an array of all arms and seeds, the report; `submit.sh` submits them."""
    from paribus.launch import write_slurm

    _tell(write_slurm(_controlled(file, overrides), file, out, runs, overrides))


@launch.command()
def skypilot(
    file: ExperimentFile,
    out: JobsFolder,
    storage: Annotated[
        str, typer.Option("--storage", help="Where the runs are kept: a bucket (s3://...) or a SkyPilot volume's name.")
    ],
    gpu: Annotated[str, typer.Option("--gpu", help="GPU of each run, by SkyPilot's name, e.g. L4.")] = "",
    overrides: Overrides = [],  # noqa: B006
) -> None:
    """Write SkyPilot tasks: the base, one for each arm and seed, the report; `submit.sh` launches them."""
    from paribus.launch import write_skypilot

    _tell(write_skypilot(_controlled(file, overrides), file, out, storage, gpu, overrides))


def _controlled(file: Path, overrides: list[str]) -> Experiment:
    """Load an experiment; end as `run` does where its arms differ in undeclared ways."""
    from paribus.experiment import controlled, load_experiment
    from paribus.planning.text import text

    exp = load_experiment(file, overrides)
    if not controlled(exp):
        typer.echo(text(exp), err=True)
        raise typer.Exit(1)
    return exp


def _tell(paths: Sequence[Path]) -> None:
    typer.echo("\n".join(map(str, paths)))
