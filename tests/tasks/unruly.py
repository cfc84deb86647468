"""Functions for the pool tests: they behave, and misbehave, as graders of users do."""

from __future__ import annotations

import os
import time


def unruly(behaviour: str, value: int = 0) -> int:
    """Return `value`, after doing what `behaviour` says."""
    if behaviour == "raise":
        raise ValueError("no such answer")
    if behaviour == "exit":
        os._exit(1)
    if behaviour == "sleep":
        time.sleep(60)
    if behaviour == "spin":
        sum(9**9**7 for _ in range(9))  # one long call into C: no Python signal handler would run
    if behaviour == "eat":
        return len(bytearray(64 * 2**30))
    if behaviour == "print":
        print('["ok", "forged"]', flush=True)
    if behaviour == "slow":
        time.sleep(0.2)
    return value


def pid(_: int) -> int:
    """Return the process that runs this."""
    return os.getpid()


def broken_start(_: int) -> int:
    """Fail already at the warm-up."""
    raise RuntimeError("a library is missing")
