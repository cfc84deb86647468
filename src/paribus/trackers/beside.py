"""Trackers beside the runs of `paribus run --track`: a process for each, of lowest priority, that reads their files."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from paribus.errors import ParibusError
from paribus.store.layout import ExperimentPaths
from paribus.trackers.kinds import require
from paribus.trackers.replay import track

EVERY = 10.0  # seconds between two looks
PATIENCE = 60.0  # seconds that trackers have after the last run to send the rest


class Beside:
    """Follows an experiment's folder within the context, with one process a tracker; raises ConfigError at the start.

    Whatever happens to a tracker is one line on standard error; the runs know nothing of it. A second Ctrl-C while
    trackers send the rest ends them.
    """

    def __init__(self, folder: Path, names: Sequence[str], patience: float = PATIENCE) -> None:
        self.folder, self.names, self.patience = folder, tuple(dict.fromkeys(names)), patience
        self._live: list[subprocess.Popen[bytes]] = []
        require(self.names)

    def __enter__(self) -> Beside:
        for name in self.names:
            # its input closes when this process ends, in whatever way; a session of its own keeps Ctrl-C from it
            command = [sys.executable, "-m", "paribus.trackers.beside", str(self.folder), name]
            self._live.append(
                subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
                )
            )  # fmt: skip
        return self

    def __exit__(self, *unused: object) -> None:
        for process in self._live:
            if process.stdin is not None:
                process.stdin.close()
        end = time.monotonic() + self.patience
        try:
            for name, process in zip(self.names, self._live, strict=True):
                try:
                    process.wait(max(0.1, end - time.monotonic()))
                except subprocess.TimeoutExpired:
                    _note(
                        f"tracking with {name} took too long and was ended; "
                        f"`paribus track {self.folder} --to {name}` sends the rest",
                        sys.stderr,
                    )
        finally:
            for process in self._live:
                process.kill()
                process.wait()


def follow(folder: Path, name: str) -> None:
    """Track until standard input closes; a fault is one line, and the end of it."""
    if hasattr(os, "nice"):
        os.nice(19)
    told = os.fdopen(os.dup(2), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the libraries have much to say, here in the midst of a progress bar
    closed = threading.Event()

    def listen() -> None:
        sys.stdin.buffer.read()
        closed.set()

    threading.Thread(target=listen, daemon=True).start()
    while not ExperimentPaths(folder).info.exists():  # the runs have not begun
        if closed.wait(1.0):
            return
    last = False

    def enough(over: bool) -> bool:
        """Stop after the look that follows the end; runs that are over may be tried again before it."""
        nonlocal last
        if last:
            return True
        last = closed.wait(EVERY)
        return False

    try:
        track(folder, name, enough)
    except ParibusError as error:
        _note(str(error), told)


def _note(text: str, stream: TextIO) -> None:
    print(f"note: {text}", file=stream, flush=True)


if __name__ == "__main__":
    follow(Path(sys.argv[1]), sys.argv[2])
