"""Verbs that carry experiments to other trainers and their results back: no training, no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from paribus.cli.options import ExperimentFile, Overrides

app = typer.Typer()
Tool = Annotated[Literal["verl", "trl"], typer.Argument(help="The other trainer.")]


@app.command()
def export(
    tool: Tool,
    file: ExperimentFile,
    target: Annotated[str, typer.Option("--target", help="Release of the trainer; default: the newest known.")] = "",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder; default: export/NAME-TOOL.")] = None,
    arm: Annotated[list[str], typer.Option("--arm", help="Only this arm (may be repeated).")] = [],  # noqa: B006
    gpus: Annotated[int, typer.Option("--gpus", min=1, help="GPUs of the one node that trains.")] = 1,
    micro_batch: Annotated[int, typer.Option("--micro-batch", min=1, help="Rows of one training pass on a GPU.")] = 16,
    allow_approx: Annotated[
        bool, typer.Option("--allow-approx", help="Take the nearest where a factor cannot be the same.")
    ] = False,
    overrides: Overrides = [],  # noqa: B006
) -> None:
    """Write an experiment's arms as folders that another trainer runs: configuration, data, scorer, mapping report."""
    from paribus.experiment import load_experiment
    from paribus.interop.export import export_arms

    exp = load_experiment(file, overrides)
    folders = export_arms(
        exp,
        tool,
        out or Path("export") / f"{exp.name}-{tool}",
        target,
        arms=arm,
        gpus=gpus,
        micro_batch=micro_batch,
        allow_approximate=allow_approx,
    )
    for folder in folders:
        typer.echo(folder)


@app.command()
def ingest(
    tool: Tool,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="An exported arm's folder, or one run's dumps.")],
    arm: Annotated[str, typer.Option("--arm", help="Name of the arm in the report; default: of the export.")] = "",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Experiment folder; default: runs/NAME.")] = None,
    experiment: Annotated[
        Path | None, typer.Option("--experiment", help="Experiment file, where the folder has no manifest.")
    ] = None,
    like: Annotated[str, typer.Option("--like", help="The arm of the experiment that was trained.")] = "",
    seed: Annotated[int | None, typer.Option("--seed", help="Only this seed, or that of a bare folder.")] = None,
    tokenizer: Annotated[
        str | None, typer.Option("--tokenizer", help="Model folder whose tokenizer counts; default: the experiment's.")
    ] = None,
    overrides: Overrides = [],  # noqa: B006
) -> None:
    """Turn what another trainer wrote into runs that `report` shows beside local ones; responses are graded again."""
    from paribus.interop.export.manifest import read_manifest
    from paribus.interop.ingest import Origin, tokenizer_length
    from paribus.interop.ingest import ingest as write
    from paribus.pipeline.compare import experiment_info

    told = read_manifest(tool, folder, experiment, overrides)
    origin = Origin(tool, told.version, arm or like or told.arm, like or told.arm or arm)
    length = tokenizer_length(told.experiment.setting.model, tokenizer)
    where = out or Path("runs") / told.experiment.name
    for line in write(told.experiment, origin, folder, where, length=length, describe=experiment_info, seed=seed):
        typer.echo(line)
