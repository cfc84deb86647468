"""The command line: the app, what its verbs share, and its entry point; nothing heavy loads before a verb is known."""

from __future__ import annotations

import sys

import typer

from paribus.cli import bench, interop, launch, methods, results, training
from paribus.engines.heap import ask_huge_pages
from paribus.errors import Interrupted, ParibusError

app = typer.Typer(
    help="Controlled comparisons of RL post-training algorithms for language models.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for verbs in (training, results, interop, methods, bench, launch):
    app.registered_commands.extend(verbs.app.registered_commands)
    app.registered_groups.extend(verbs.app.registered_groups)


def main() -> None:
    """Run the command line; faults of input are one clear message, a stop is the shell's 128 + signal."""
    ask_huge_pages()
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
