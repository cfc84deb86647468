"""Verbs that read stored results: no training, no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from paribus.cli.options import ExperimentFolder, Json, RunsFolder

app = typer.Typer()


@app.command()
def report(
    folder: ExperimentFolder,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where to write; default: <folder>/report.")] = None,
    language: Annotated[Literal["en", "zh", "both"], typer.Option("--language", help="Of the page.")] = "both",
) -> None:
    """Write a self-contained page from stored runs, as Markdown too, with every table and figure as files."""
    show_report(folder, out, language)


@app.command()
def compare(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]SOURCE...",
            help="Stored run, arm or base; rows of any tool (JSON lines, lm-evaluation-harness, verl, TRL); counts "
            "such as ppo=776/1319; or one file of published numbers. Several sources of a name are runs of one arm.",
        ),
    ],
    margin: Annotated[
        float | None,
        typer.Option("--margin", help="Points within which arms count as equivalent, declared beforehand."),
    ] = None,
    paired: Annotated[bool, typer.Option("--paired", help="Runs of all arms share their seeds.")] = False,
    suite: Annotated[str | None, typer.Option("--suite", help="Evaluation suite of stored runs.")] = None,
    answers: Annotated[str | None, typer.Option("--filter", help="Answer filter of lm-evaluation-harness.")] = None,
    metric: Annotated[str | None, typer.Option("--metric", help="Column of scores, where there are several.")] = None,
    as_json: Json = False,
) -> None:
    """Say which is better, from results of any tool: no training, no model."""
    from paribus.interop import Choice, Published
    from paribus.results import compare as rows
    from paribus.results import counts
    from paribus.results.sources import load

    found = load(sources, Choice(suite=suite, filter=answers, metric=metric))
    if isinstance(found, Published):
        judged = counts.judge(found, margin)
        typer.echo(counts.as_json(judged) if as_json else counts.as_text(judged))
        return
    comparison = rows.compare(found, margin=margin, paired=paired)
    typer.echo(rows.as_json(comparison) if as_json else rows.as_text(comparison))


@app.command()
def samples(
    folder: ExperimentFolder,
    where: Annotated[str, typer.Option("--where", help='Which problems, e.g. "ppo and not grpo".')] = "True",
    suite: Annotated[str | None, typer.Option("--suite", help="Evaluation suite; default: the primary one.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Runs of this seed; default: the lowest of all.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=0, help="Show at most so many.")] = 20,
    as_json: Json = False,
) -> None:
    """Show problems chosen by a query, with every model's answer side by side."""
    from paribus.results import samples as results

    found = results.search(folder, where, suite=suite, seed=seed, limit=limit)
    typer.echo(results.as_json(found) if as_json else results.as_text(found))


@app.command()
def watch(
    folder: ExperimentFolder,
    once: Annotated[bool, typer.Option("--once", help="Show the state once and end.")] = False,
    every: Annotated[float, typer.Option("--every", min=0.1, help="Seconds between looks.")] = 2.0,
) -> None:
    """Show live how far an experiment's runs are, and what looks unhealthy in them; Ctrl-C ends it."""
    from paribus.results.watch import watch as show

    show(folder, once=once, every=every)


@app.command()
def track(
    folder: ExperimentFolder,
    to: Annotated[Literal["trackio", "tensorboard", "wandb", "mlflow"], typer.Option("--to", help="Which tracker.")],
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the last run has ended.")] = False,
) -> None:
    """Send stored runs to a tracker: what it does not have yet, of runs finished or under way."""
    from paribus.trackers.replay import track as send
    from paribus.trackers.replay import until_over

    try:
        if follow:
            send(folder, to, until_over(10.0))
        else:
            send(folder, to)
    except KeyboardInterrupt:
        return


@app.command()
def calibrate(
    source: Annotated[Path, typer.Argument(metavar="EXPERIMENT", help="Folder of an experiment's runs, or its file.")],
    repeats: Annotated[int, typer.Option("--repeats", min=100, help="Simulated experiments for each number.")] = 2000,
    margin: Annotated[
        float | None, typer.Option("--margin", min=0, help="Points; default: the margin of the experiment.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the simulation.")] = 0,
    runs: RunsFolder = Path("runs"),
) -> None:
    """Simulate the experiment's design with the spread of its stored runs: false claims, coverage and power."""
    from paribus.planning import calibrate as planning

    found = planning.calibrate(
        source, runs, repeats=repeats, margin=margin, seed=seed, report=lambda line: typer.echo(line, err=True)
    )
    typer.echo(planning.text(found))


def show_report(folder: Path, out: Path | None, language: Literal["en", "zh", "both"] = "both") -> None:
    from paribus.report import build, summary

    page = build(folder, out or folder / "report", language=language)
    typer.echo("\n".join(["", *summary(folder), "", str(page)]))
