"""Bytes on disk: atomic replacement, synced appends, JSON without NaN, gzip that is the same for the same rows."""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import re
import shutil
import socket
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from paribus.errors import DataError, RunError

R = TypeVar("R", bound=BaseModel)
_SURROGATE = re.compile("[\ud800-\udfff]")
_TEMPORARY = ".tmp-"  # a file or folder being written: nothing that starts so was ever complete


def plain(value: Any) -> Any:
    """Return JSON data in which every non-finite number is null and every half of a character is U+FFFD."""
    if isinstance(value, BaseModel):
        return plain(value.model_dump())
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def json_line(value: Any) -> bytes:
    """Return one line of JSON; ASCII only, so that no character of the text, such as U+2028, can end it early."""
    return json.dumps(plain(value), allow_nan=False, separators=(",", ":")).encode() + b"\n"


def canonical(value: Any) -> bytes:
    """Return the bytes whose hash identifies `value`: keys sorted, no spaces."""
    return json.dumps(plain(value), allow_nan=False, sort_keys=True, separators=(",", ":")).encode()


def sync_folder(path: Path) -> None:
    """Make renames and new names inside a folder survive a power cut."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def replace_file(path: Path, data: bytes) -> None:
    """Write `path` so that at every moment it holds all of the old or all of the new bytes. Raises RunError."""
    # a name of its own: runs of one experiment on several machines may write its common files at the same time
    temporary = path.with_name(f"{_TEMPORARY}{socket.gethostname()}-{os.getpid()}-{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            _write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise RunError(f"{path}: cannot be written ({error.strerror}); its former content is intact") from error


def write_json(path: Path, value: Any) -> None:
    """Write an indented JSON file atomically."""
    text = json.dumps(plain(value), allow_nan=False, indent=2)
    replace_file(path, text.encode() + b"\n")


def append_line(path: Path, value: Any) -> None:
    """Append one row and sync it; a row that does not fit is taken back whole. Raises RunError."""
    data = json_line(value)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            end = os.fstat(fd).st_size
            try:
                _write_all(fd, data)
                os.fsync(fd)
            except BaseException:
                os.ftruncate(fd, end)
                raise
        finally:
            os.close(fd)
    except OSError as error:
        raise RunError(f"{path}: a row cannot be added ({error.strerror}); the rows before it are intact") from error


def write_rows(path: Path, rows: Iterable[BaseModel]) -> None:
    """Write rows as gzipped JSON lines, atomically; the same rows give the same bytes."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, compresslevel=6, mtime=0) as file:
        for row in rows:
            file.write(json_line(row))
    replace_file(path, buffer.getvalue())


def read_json(path: Path) -> Any:
    """Read a JSON file. Raises DataError that names it."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not readable as JSON: {error}") from None


def complete_lines(data: bytes) -> list[bytes]:
    """Return the lines that end with a newline; what follows the last one was torn by a crash."""
    return data.split(b"\n")[:-1]


def read_rows(path: Path, cls: type[R]) -> list[R]:
    """Read the complete rows of a `.jsonl` or `.jsonl.gz` file; an absent file has none. Raises DataError."""
    try:
        data = path.read_bytes() if path.exists() else b""
        if path.suffix == ".gz" and data:
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: not readable: {error}") from None
    rows = []
    for number, line in enumerate(complete_lines(data), start=1):
        try:
            rows.append(cls.model_validate_json(line))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "row"
            raise DataError(f"{path}, line {number}: {where}: {first['msg']}") from None
    return rows


def replace_folder(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary folder, sync it and rename it to `path`; only then its former content goes.

    Raises RunError on a full disk or the like; `path` is then as it was.
    """
    temporary, former = path.with_name(f"{_TEMPORARY}{path.name}"), path.with_name(f"{_TEMPORARY}old-{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for leftover in (temporary, former):
            shutil.rmtree(leftover, ignore_errors=True)
        temporary.mkdir()
        write(temporary)
        _sync_tree(temporary)
        if path.exists():
            os.replace(path, former)
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    shutil.rmtree(former, ignore_errors=True)


def remove_folder(path: Path) -> None:
    """Remove a folder; it loses its name first, so that a crash never leaves half of it under that name."""
    doomed = path.with_name(f"{_TEMPORARY}old-{path.name}")
    shutil.rmtree(doomed, ignore_errors=True)
    os.replace(path, doomed)
    shutil.rmtree(doomed)


def remove_temporary(folder: Path) -> None:
    """Remove what an interrupted process left half-written anywhere inside `folder`."""
    for path in sorted(folder.rglob(f"{_TEMPORARY}*")):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)  # it may have gone with its folder


def _sync_tree(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            sync_folder(path)
            continue
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    sync_folder(folder)
