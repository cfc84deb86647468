"""Verbs that read the catalogue, and `doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paribus.cli.options import Json, NewFile, SettingOf

app = typer.Typer()


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
def doctor(as_json: Json = False) -> None:
    """Print what is installed, what is missing or clashes, the line that mends it, and which use it is fit for."""
    from paribus.doctor import check, text

    found = check()
    typer.echo(found.model_dump_json(indent=2) if as_json else text(found))
    if not found.healthy:
        raise typer.Exit(1)


def _write(text: str, out: Path | None) -> None:
    from paribus.store.files import replace_file

    if out is None:
        typer.echo(text, nl=False)
    else:
        replace_file(out, text.encode())
        typer.echo(out)
