"""The command line, one function a verb; nothing heavy loads before its verb is known."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from paribus.errors import Interrupted, ParibusError

app = typer.Typer(
    help="Controlled comparisons of RL post-training algorithms for language models.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ExperimentFile = Annotated[Path, typer.Argument(metavar="EXPERIMENT.toml", help="Experiment file.")]
Overrides = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the file, e.g. budget.steps=10.")
]
SettingOf = Annotated[
    Path | None, typer.Option("--experiment", help="Experiment file whose setting to take; default: the quickstart's.")
]
NewFile = Annotated[Path | None, typer.Option("--out", "-o", help="File to write; default: standard output.")]
RunsFolder = Annotated[Path, typer.Option("--runs", help="Folder that holds the runs of all experiments.")]


@app.command()
def run(
    file: ExperimentFile,
    arm: Annotated[list[str], typer.Option("--arm", help="Only this arm (may be repeated).")] = [],  # noqa: B006
    seed: Annotated[list[int], typer.Option("--seed", help="Only this seed (may be repeated).")] = [],  # noqa: B006
    overrides: Overrides = [],  # noqa: B006
    runs: RunsFolder = Path("runs"),
    uncontrolled: Annotated[
        bool, typer.Option("--uncontrolled", help="Run although the arms differ in undeclared ways.")
    ] = False,
) -> None:
    """Train and evaluate every arm with every seed, then write the report. Finished runs are skipped."""
    from paribus.experiment import controlled, load_experiment
    from paribus.pipeline.compare import run_experiment
    from paribus.plan import text

    exp = load_experiment(file, overrides)
    if not controlled(exp) and not uncontrolled:
        typer.echo(text(exp), err=True)
        raise typer.Exit(1)
    paths = run_experiment(exp, runs, arms=arm, seeds=seed)
    _report(paths.root, None)


@app.command()
def plan(file: ExperimentFile, overrides: Overrides = []) -> None:  # noqa: B006
    """Print the arms, what differs between them and what they need; exit 1 if a difference is undeclared."""
    from paribus.experiment import controlled, load_experiment
    from paribus.plan import text

    exp = load_experiment(file, overrides)
    typer.echo(text(exp))
    if not controlled(exp):
        raise typer.Exit(1)


@app.command("eval")
def evaluate(
    file: ExperimentFile,
    model: Annotated[
        str, typer.Option("--model", help="Model folder, hub id or .gguf file; default: the file's.")
    ] = "",
    suite: Annotated[list[str], typer.Option("--suite", help="Only this suite (may be repeated).")] = [],  # noqa: B006
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for the rows, one file a suite.")] = None,
    overrides: Overrides = [],  # noqa: B006
) -> None:
    """Evaluate any model folder with the harness, prompts and grader of an experiment, without training."""
    from paribus.experiment import load_experiment
    from paribus.pipeline.worker import evaluate_model

    changed = [f'model.path="{model}"'] if model else []
    evaluate_model(load_experiment(file, [*overrides, *changed]), suite, out, typer.echo)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="RUNS/EXPERIMENT", help="Folder of an experiment's runs.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where to write; default: <folder>/report.")] = None,
) -> None:
    """Write report.md and a self-contained report.html from stored runs."""
    _report(folder, out)


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


@app.command("list")
def list_() -> None:
    """List the methods of the catalogue."""
    from paribus.algorithms import CATALOG
    from paribus.algorithms.cards import CARDS

    width = max(map(len, CATALOG))
    for name, algorithm in CATALOG.items():
        typer.echo(f"{name:<{width}}  {CARDS[name].title}  [{algorithm.paper}]")


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Catalogue entry, see `paribus list`.")],
    toml: Annotated[bool, typer.Option("--toml", help="As TOML, to start an arm of your own from.")] = False,
) -> None:
    """Print a method's resolved maths on one screen: every slot, every field, formula and source."""
    from paribus.algorithms import find
    from paribus.algorithms.show import show_text
    from paribus.part import to_toml

    algorithm = find(name)
    typer.echo(to_toml(algorithm) if toml else show_text(algorithm))


@app.command()
def diff(
    left: Annotated[str, typer.Argument(help="Catalogue entry.")],
    right: Annotated[str, typer.Argument(help="Catalogue entry.")],
) -> None:
    """Print every field in which two methods differ, and whether their source declares it."""
    from paribus.algorithms import find
    from paribus.algorithms.show import diff_text

    typer.echo(diff_text(find(left), find(right)))


@app.command()
def ladder(
    left: Annotated[str, typer.Argument(help="Catalogue entry to start from.")],
    right: Annotated[str, typer.Argument(help="Catalogue entry to end at.")],
    experiment: SettingOf = None,
    out: NewFile = None,
) -> None:
    """Write an experiment whose arms walk from one method to another, one slot at a time."""
    from paribus.ladder import ladder as written

    _write(written(left, right, experiment), out)


@app.command()
def ablate(
    name: Annotated[str, typer.Argument(help="Catalogue entry.")],
    slot: Annotated[str, typer.Option("--slot", help="The slot to vary, e.g. aggregate.")],
    experiment: SettingOf = None,
    out: NewFile = None,
) -> None:
    """Write an experiment that varies one slot of a method over its options."""
    from paribus.ladder import ablation

    _write(ablation(name, slot, experiment), out)


@app.command()
def doctor() -> None:
    """Print what is installed, what is missing and the line that installs it."""
    from paribus.doctor import check

    lines, healthy = check()
    typer.echo("\n".join(lines))
    if not healthy:
        raise typer.Exit(1)


def _write(text: str, out: Path | None) -> None:
    from paribus.store.files import replace_file

    if out is None:
        typer.echo(text, nl=False)
    else:
        replace_file(out, text.encode())
        typer.echo(out)


def _report(folder: Path, out: Path | None) -> None:
    from paribus.report import build, summary

    page = build(folder, out or folder / "report")
    typer.echo("\n".join(["", *summary(folder), "", str(page)]))


def main() -> None:
    """Run the command line; faults of input are one clear message, a stop is the shell's 128 + signal."""
    try:
        app(standalone_mode=True)
    except ParibusError as error:
        typer.echo(f"paribus: {error}", err=True)
        sys.exit(error.code)
    except Interrupted as stop:
        typer.echo("paribus: stopped; the same command goes on from here", err=True)
        sys.exit(stop.code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)
