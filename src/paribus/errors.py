"""Errors that people see: each says what is wrong, where, and what to do about it."""

from __future__ import annotations

import difflib
import signal
from collections.abc import Iterable


class ParibusError(Exception):
    """Base of every error caused by input; the command line prints it without a traceback and exits with `code`."""

    code = 2


class ConfigError(ParibusError):
    """A file, key or value of a configuration that cannot be used."""


class DataError(ParibusError):
    """A data set, row or column that cannot be used."""


class ModelError(ParibusError):
    """A model or tokenizer folder that cannot be used."""


class CheckpointError(ParibusError):
    """A checkpoint that is missing, truncated or altered."""


class RunError(ParibusError):
    """A run that had to stop (non-finite streak, grader failures, disk full); what was saved stays usable."""

    code = 3


class Interrupted(Exception):
    """A run stopped because it was asked to, by signal `number`; what was saved is complete and resumable."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number  # the shell's convention


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `"; did you mean 'x'?"` for the closest of `known`, or the list of what is known."""
    names = sorted(known)
    match = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if match:
        return f"; did you mean '{match[0]}'?"
    return f"; known: {', '.join(names)}" if names else ""
