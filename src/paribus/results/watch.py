"""`paribus watch`: a live view of stored runs on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from paribus.report.text import DASH, aligned, duration, gigabytes, number, percent, visible
from paribus.results.progress import Progress, Reader, RunProgress

if TYPE_CHECKING:
    from rich.console import Console, Group

COLUMNS = ("run", "state", "step", "s/step", "left", "reward", "KL", "entropy", "tokens", "cut", "memory", "accuracy")
DISPENSABLE = ("memory", "entropy", "KL", "cut", "tokens", "reward", "left", "s/step")  # the first goes first
GAP = 2  # between columns
COLOURS = {"running": "cyan", "done": "green", "failed": "red", "silent": "yellow", "interrupted": "yellow"}


def watch(folder: Path, *, once: bool = False, every: float = 2.0, console: Console | None = None,
          sleep: Callable[[float], None] = time.sleep) -> None:  # fmt: skip
    """Show an experiment's runs until the last one has ended, or once. Ctrl-C ends it quietly. Raises DataError.

    Nothing is written, and no run is touched: the same view works on another machine that sees the files.
    """
    from rich.console import Console

    console = console or Console()
    reader = Reader(folder)
    try:
        if once or not console.is_terminal:
            _lines(reader, console, once, every, sleep)
        else:
            _live(reader, console, every, sleep)
    except KeyboardInterrupt:
        return


def _lines(reader: Reader, console: Console, once: bool, every: float, sleep: Callable[[float], None]) -> None:
    while True:
        state = reader.read()
        console.print("\n".join(as_lines(state)), highlight=False, markup=False, soft_wrap=True)
        if once or state.over:
            return
        sleep(every)


def _live(reader: Reader, console: Console, every: float, sleep: Callable[[float], None]) -> None:
    from rich.live import Live

    state = reader.read()
    with Live(as_table(state, *console.size), console=console, auto_refresh=False) as live:
        while not state.over:
            sleep(every)
            state = reader.read()
            live.update(as_table(state, *console.size), refresh=True)


def heading(state: Progress) -> str:
    """Return the first line: how many runs are where, and how long it may take."""
    waiting, stopped = state.count("waiting"), state.count("interrupted", "silent")
    parts = [f"{state.count('done')} of {len(state.runs)} runs done", f"{state.count('running')} running"]
    parts += [f"{waiting} waiting"] if waiting else []
    parts += [f"{stopped} stopped or silent"] if stopped else []
    parts += [f"{state.count('failed')} failed"] if state.count("failed") else []
    if state.left and not state.over:
        parts.append(f"about {duration(state.left)} left if one run follows the other")
    return f"{visible(state.name)}: {', '.join(parts)}"


def cells(run: RunProgress) -> list[str]:
    """Return a run's row, in the order of `COLUMNS`."""
    step = f"{run.step:,}" + (f"/{run.total:,}" if run.total else "")
    return [
        run.label,
        run.state,
        step if run.label != "base" else DASH,
        number(run.step_seconds, 1 if (run.step_seconds or 0) >= 10 else 2),
        duration(run.left) if run.left and run.state == "running" else DASH,
        number(run.reward, 3),
        number(run.kl, 4),
        number(run.entropy, 3),
        number(run.length, 0),
        percent(run.truncated, 0),
        gigabytes(run.memory),
        percent(run.accuracy, 1),
    ]


def as_lines(state: Progress) -> list[str]:
    """Return the view as plain text: a line for the whole, then one for each run that has begun, then alerts."""
    rows = [list(COLUMNS), *(cells(run) for run in state.runs if run.state != "waiting")]
    return [f"{time.strftime('%H:%M:%S')} {heading(state)}", *aligned(rows), *_alerts(state)]


def _alerts(state: Progress) -> list[str]:
    return [f"! {run.label}: {visible(' '.join(text.split()))}" for run in state.runs for text in run.alerts]


def as_table(state: Progress, width: int, height: int) -> Group:
    """Return the view for a terminal of this size: what does not fit goes, the least telling first."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    alerts = [Text(line, style="yellow") for line in _alerts(state)]
    runs = fitting_runs(state.runs, height - len(alerts) - 3)
    rows = [cells(run) for run in runs]
    kept = fitting_columns([list(COLUMNS), *rows], width)
    table = Table(box=None, pad_edge=False)
    for i in kept:
        table.add_column(COLUMNS[i], justify="left" if i < 2 else "right", no_wrap=True)
    for run, row in zip(runs, rows, strict=True):
        colour = COLOURS.get(run.state, "dim")
        table.add_row(*(Text(row[i], style=colour if i == 1 else "") for i in kept))
    hidden = len(state.runs) - len(runs)
    more = [Text(f"and {hidden} more runs that are done or waiting", style="dim")] if hidden else []
    return Group(Text(heading(state), style="bold"), table, *more, *alerts)


def fitting_columns(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return which columns fit beside each other, dropping those of `DISPENSABLE` in their order."""
    kept = list(range(len(COLUMNS)))
    widths = [max(len(row[i]) for row in rows) + GAP for i in kept]
    for name in DISPENSABLE:
        if sum(widths[i] for i in kept) - GAP > width:
            kept.remove(COLUMNS.index(name))
    return kept


def fitting_runs(runs: Sequence[RunProgress], height: int) -> list[RunProgress]:
    """Return the runs that fit below each other, in their order: first of all those that somebody has to look at."""
    quiet = [i for i, run in enumerate(runs) if run.state in ("done", "waiting")]
    spare = max(0, len(runs) - max(1, height))
    finished_first = sorted(quiet, key=lambda i: runs[i].state == "waiting")
    dropped = set(finished_first[:spare])
    return [run for i, run in enumerate(runs) if i not in dropped]
