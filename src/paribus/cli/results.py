"""Verbs that read stored results: no training, no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paribus.cli.options import ExperimentFolder

app = typer.Typer()


@app.command()
def report(
    folder: ExperimentFolder,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where to write; default: <folder>/report.")] = None,
) -> None:
    """Write report.md and a self-contained report.html from stored runs."""
    show_report(folder, out)


def show_report(folder: Path, out: Path | None) -> None:
    from paribus.report import build, summary

    page = build(folder, out or folder / "report")
    typer.echo("\n".join(["", *summary(folder), "", str(page)]))
