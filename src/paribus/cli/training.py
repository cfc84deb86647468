"""Verbs that plan, train and evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from paribus.cli.options import ExperimentFile, Overrides, RunsFolder, SuitesFile
from paribus.cli.results import show_report

app = typer.Typer()


@app.command()
def run(
    file: ExperimentFile,
    arm: Annotated[
        list[str], typer.Option("--arm", help="Only this arm (may be repeated); _base: only the base's evaluation.")
    ] = [],  # noqa: B006
    seed: Annotated[list[int], typer.Option("--seed", help="Only this seed (may be repeated).")] = [],  # noqa: B006
    overrides: Overrides = [],  # noqa: B006
    runs: RunsFolder = Path("runs"),
    uncontrolled: Annotated[
        bool, typer.Option("--uncontrolled", help="Run although the arms differ in undeclared ways.")
    ] = False,
    on: Annotated[
        Literal["here", "ray"], typer.Option("--on", help="Where runs work: on this machine or a Ray cluster's.")
    ] = "here",
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write the report; jobs that do one run each do not.")
    ] = True,
    track: Annotated[
        list[str],
        typer.Option(
            "--track",
            envvar="PARIBUS_TRACK",
            help="Show the runs in trackio, tensorboard, wandb or mlflow (may be repeated).",
        ),
    ] = [],  # noqa: B006
) -> None:
    """Train and evaluate every arm with every seed, then write the report. Finished runs are skipped."""
    from paribus.lazy import run_processes

    if on == "here":
        run_processes()  # their imports take seconds: they go on beside what follows
    from paribus.experiment import controlled, load_experiment
    from paribus.launch import RayCluster
    from paribus.pipeline.compare import run_experiment
    from paribus.pipeline.processes import Processes
    from paribus.pipeline.tune import tuned
    from paribus.planning.budget import fitted
    from paribus.planning.plan import write_plan
    from paribus.planning.text import text
    from paribus.trackers.beside import Beside

    exp = load_experiment(file, overrides)
    trackers = Beside(runs / exp.name, track)
    if not controlled(exp) and not uncontrolled:
        typer.echo(text(exp), err=True)
        raise typer.Exit(1)
    # the memory of this machine says nothing about a cluster's
    exp, told = fitted(exp) if on == "here" or exp.setting.machine.memory is not None else (exp, "")
    if told:
        typer.echo(told, err=True)
    write_plan(exp, runs)
    place = RayCluster if on == "ray" else Processes
    with trackers:
        paths = run_experiment(tuned(exp, runs, on=place), runs, arms=arm, seeds=seed, on=place)
        if report:
            show_report(paths.root, None)


@app.command()
def plan(
    file: ExperimentFile,
    pilot: Annotated[
        bool, typer.Option("--pilot", help="Run a few steps of every arm and predict time and price.")
    ] = False,
    memory_theory: Annotated[
        bool, typer.Option("--memory-theory", help="Also the theoretical table of 7B models, PPO against GRPO.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The plan as JSON, as `run` stores it.")] = False,
    overrides: Overrides = [],  # noqa: B006
    runs: RunsFolder = Path("runs"),
) -> None:
    """Print what differs, memory, what can be shown, and the fairness check; exit 1 if a difference is undeclared."""
    from paribus.errors import ConfigError
    from paribus.experiment import controlled, load_experiment
    from paribus.planning.budget import fitted
    from paribus.planning.plan import make_plan
    from paribus.planning.screen import screen, theory_lines

    exp = load_experiment(file, overrides)
    try:
        exp, told = fitted(exp)
    except ConfigError as error:  # which `run` would end with; the plan shows why
        told = str(error)
    planned = make_plan(exp, runs)
    typer.echo(planned.model_dump_json(indent=2) if as_json else screen(exp, planned))
    if told:
        typer.echo(told, err=True)
    if memory_theory and not as_json:
        typer.echo("\n".join(["", *theory_lines()]))
    if pilot:
        from paribus.planning.predict import from_pilot

        typer.echo("\n".join(["", *from_pilot(exp, runs)]))
    if not controlled(exp):
        raise typer.Exit(1)


@app.command()
def advise(
    file: ExperimentFile,
    prompts: Annotated[int, typer.Option("--prompts", min=8, help="Training prompts to sample.")] = 256,
    samples: Annotated[int, typer.Option("--samples", min=2, help="Responses to each.")] = 16,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the experiment of the two recommended arms here.")
    ] = None,
    overrides: Overrides = [],  # noqa: B006
    runs: RunsFolder = Path("runs"),
) -> None:
    """Measure a pilot, apply the written rules, recommend two arms and predict what they cost."""
    from paribus.planning.advise import store
    from paribus.report.advice import lines

    advice, written = store(file, overrides, runs, prompts, samples, out, lambda text: typer.echo(text, err=True))
    typer.echo("\n".join([*lines(advice), *map(str, written)]))


@app.command("eval")
def evaluate(
    file: SuitesFile,
    model: Annotated[
        str, typer.Option("--model", help="Model folder, hub id or .gguf file; default: the file's.")
    ] = "",
    suite: Annotated[list[str], typer.Option("--suite", help="Only this suite (may be repeated).")] = [],  # noqa: B006
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for the rows, one file a suite.")] = None,
    overrides: Overrides = [],  # noqa: B006
) -> None:
    """Evaluate any model without training it, on the suites of a file of suites or of an experiment.

    With --out, finished suites are kept and not done again.
    """
    from paribus.experiment import load_experiment
    from paribus.part import read_toml
    from paribus.pipeline.standalone import evaluate_model, suites_of
    from paribus.suites import load_suites

    changed = [*overrides, *([f'model.path="{model}"'] if model else [])]
    if "arm" in read_toml(file):
        exp = load_experiment(file, changed)
        evaluate_model(suites_of(exp.setting, exp.seeds[0]), suite, out, typer.echo, setting=exp.setting)
    else:
        evaluate_model(load_suites(file, changed), suite, out, typer.echo)


@app.command()
def sft(
    file: Annotated[Path, typer.Argument(metavar="RECIPE.toml", help="Recipe, e.g. experiments/base-tiny.toml.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the model.")] = Path("models/base-tiny"),
) -> None:
    """Train a base model on demonstrations by a recipe; stopped runs go on from their last checkpoint."""
    from paribus.training import sft as training

    folder = training.run(file, out, progress=lambda text: typer.echo(text, err=True))
    typer.echo(folder)


@app.command("reward-model")
def reward_model(
    file: Annotated[Path, typer.Argument(metavar="RECIPE.toml", help="Recipe, e.g. experiments/reward-tiny.toml.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the model.")] = Path("models/reward-tiny"),
) -> None:
    """Train a reward model on pairs of answers by a recipe; stopped runs go on from their last checkpoint."""
    from paribus.training import reward_model as training

    folder = training.run(file, out, progress=lambda text: typer.echo(text, err=True))
    typer.echo(folder)
