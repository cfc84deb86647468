"""Files that several runs of one experiment write, on one machine or on many that share the folder."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from paribus.store import ExperimentPaths, wait_for_lock
from paribus.store.files import replace_file


def test_processes_that_write_the_same_file_at_once_do_not_meet(tmp_path: Path) -> None:
    file = tmp_path / "experiment.json"
    children = []
    for number in range(4):
        child = os.fork()
        if child == 0:
            try:
                for _ in range(100):
                    replace_file(file, str(number).encode() * 1000)
            except BaseException:
                os._exit(1)
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert len(set(file.read_bytes())) == 1 and os.listdir(tmp_path) == ["experiment.json"]


def test_a_lost_machines_lock_is_waited_for(tmp_path: Path) -> None:
    paths = ExperimentPaths(tmp_path).run("ppo", 0)
    paths.root.mkdir(parents=True)
    paths.lock.touch()
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        import fcntl

        with open(paths.lock, "r+") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            os.write(theirs, b"!")
            time.sleep(60)
        os._exit(0)
    os.read(ours, 1)
    began = time.monotonic()
    wait_for_lock(paths, 0.3)
    assert time.monotonic() - began >= 0.3  # it is held for longer, and no error: the writer will say so
    threading.Timer(0.3, lambda: os.kill(child, 9)).start()
    wait_for_lock(paths, 60)
    assert time.monotonic() - began < 30
    os.waitpid(child, 0)
