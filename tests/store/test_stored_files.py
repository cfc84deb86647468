"""Bytes on disk survive full disks, odd text and interrupted writes."""

from __future__ import annotations

import errno
import gzip
import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel

from paribus.errors import DataError, RunError
from paribus.store import files

DiskFull = Callable[[int | None], None]


class Text(BaseModel):
    n: int
    text: str = ""


def test_nothing_that_is_not_finite_reaches_a_file() -> None:
    line = files.json_line({"a": math.nan, "b": [math.inf, -math.inf, 1.5], "c": {"d": math.nan}})
    assert json.loads(line) == {"a": None, "b": [None, None, 1.5], "c": {"d": None}}
    assert b"NaN" not in line and b"Infinity" not in line


def test_case_c17_line_separators_of_unicode_do_not_cut_rows(tmp_path: Path) -> None:
    odd = ["a\u2028b", "a\u2029b", "a\u0085b", "a\x1cb\x0bc\r\nd", "lone \ud800", "\u202eltr", "💡", "\0"]
    rows = [Text(n=i, text=t) for i, t in enumerate(odd)]
    for row in rows:
        files.append_line(tmp_path / "a.jsonl", row)
    assert len((tmp_path / "a.jsonl").read_bytes().split(b"\n")) == len(odd) + 1
    read = [r.text for r in files.read_rows(tmp_path / "a.jsonl", Text)]
    assert read == [t.replace("\ud800", "\ufffd") for t in odd]  # half a character is no text


def test_same_rows_give_the_same_gzip_bytes(tmp_path: Path) -> None:
    rows = [Text(n=i, text="word " * i) for i in range(50)]
    files.write_rows(tmp_path / "a.jsonl.gz", rows)
    files.write_rows(tmp_path / "another-name.jsonl.gz", rows)
    first = (tmp_path / "a.jsonl.gz").read_bytes()
    assert first == (tmp_path / "another-name.jsonl.gz").read_bytes()
    assert first[4:8] == b"\0\0\0\0"  # no time of day in the header
    assert len(gzip.decompress(first).splitlines()) == 50


def test_a_torn_last_line_is_no_row_and_a_bad_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"n":1}\n{"n":2}\n{"n":3')
    assert [r.n for r in files.read_rows(path, Text)] == [1, 2]
    path.write_bytes(b'{"n":1}\n{"n":"x"}\n')
    with pytest.raises(DataError, match=r"a\.jsonl, line 2: n: "):
        files.read_rows(path, Text)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(b'{"n":1}\n')[:-6])
    with pytest.raises(DataError, match=r"b\.jsonl\.gz: not readable"):
        files.read_rows(tmp_path / "b.jsonl.gz", Text)


@pytest.mark.parametrize("budget", [0, 1, 9])
def test_case_d06_a_failed_write_leaves_the_old_file(tmp_path: Path, disk_full: DiskFull, budget: int) -> None:
    path = tmp_path / "new folder" / "trainer_state.json"
    files.write_json(path, {"step": 10})
    disk_full(budget)
    with pytest.raises(RunError, match=r"trainer_state\.json: .*No space left.*intact"):
        files.write_json(path, {"step": 20, "more": "x" * 100})
    assert files.read_json(path) == {"step": 10}
    assert [p.name for p in path.parent.iterdir()] == ["trainer_state.json"]


@pytest.mark.parametrize("budget", [0, 1, 9])
def test_a_row_that_does_not_fit_is_taken_back_whole(tmp_path: Path, disk_full: DiskFull, budget: int) -> None:
    path = tmp_path / "steps.jsonl"
    files.append_line(path, Text(n=1))
    before = path.read_bytes()
    disk_full(budget)
    with pytest.raises(RunError, match="rows before it are intact"):
        files.append_line(path, Text(n=2, text="long enough"))
    disk_full(None)
    assert path.read_bytes() == before
    files.append_line(path, Text(n=3))  # space again: the file goes on cleanly
    assert [r.n for r in files.read_rows(path, Text)] == [1, 3]


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "final"
    files.replace_folder(target, lambda p: (p / "a").write_text("old"))  # type: ignore[arg-type, return-value]

    def half(path: Path) -> None:
        (path / "a").write_text("ne")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(RunError, match="No space left"):
        files.replace_folder(target, half)
    assert (target / "a").read_text() == "old"
    files.replace_folder(target, lambda p: (p / "b").write_text("new"))  # type: ignore[arg-type, return-value]
    assert [p.name for p in target.iterdir()] == ["b"]
    assert [p.name for p in tmp_path.iterdir()] == ["final"]
