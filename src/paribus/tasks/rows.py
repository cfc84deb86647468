"""Rows of files: jsonl, json, csv and parquet, read whole; every fault names file and line."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from paribus.errors import DataError, nearest
from paribus.tasks.base import SPLITS, Split
from paribus.tasks.numbers import canonical

SUFFIXES = (".jsonl", ".json", ".csv", ".parquet")

Row = Mapping[str, Any]


class HubOrigin(NamedTuple):
    """Which rows of the hub were read: the data set's id, its configuration, its split, and the commit."""

    id: str
    config: str
    split: str
    revision: str


class Table(NamedTuple):
    """Rows with the name of what they were read from, for errors; `hub` where that is a data set of the hub."""

    where: str
    rows: list[Row]
    hub: HubOrigin | None = None

    @property
    def columns(self) -> list[str]:
        """Every column that some row has, in the order in which they come up."""
        return list(dict.fromkeys(name for row in self.rows for name in row))


def locate(path: str) -> dict[Split, Path]:
    """Return the file of each split that `path`, a folder or a file, holds. Raises DataError where it holds none."""
    place = Path(path).expanduser()
    if place.is_file():
        return {next((s for s in SPLITS if s == place.stem), "train"): place}
    if not place.is_dir():
        raise DataError(f"{path}: no such file or folder")
    files: dict[Split, Path] = {}
    for split in SPLITS:
        found = [file for suffix in SUFFIXES if (file := place / f"{split}{suffix}").is_file()]
        if len(found) > 1:
            names = " and ".join(file.name for file in found)
            raise DataError(f"{path}: holds {names}, both the {split} split: keep one of them, or name the file itself")
        if found:
            files[split] = found[0]
    if not files:
        raise DataError(f"{path}: holds no train, validation or test file ({', '.join(SUFFIXES)})")
    return files


def read_rows(file: Path) -> list[Row]:
    """Return the rows of a jsonl, json (a list), csv or parquet file. Raises DataError naming file and line."""
    if file.suffix not in SUFFIXES:
        raise DataError(f"{file}: unknown kind of file '{file.suffix}'; known: {', '.join(SUFFIXES)}")
    try:
        if file.suffix == ".parquet":
            return _parquet_rows(file)
        if file.suffix == ".csv":
            with open(file, encoding="utf-8-sig", newline="") as lines:
                return _csv_rows(lines, file)
        # only "\n" ends a line: U+2028 and the like may stand inside a JSON string
        with open(file, encoding="utf-8-sig", newline="\n") as lines:
            if file.suffix == ".json":
                return _objects(json.load(lines), file)
            return [_object(line, number, file) for number, line in enumerate(lines, 1) if line.strip()]
    except FileNotFoundError:
        raise DataError(f"{file}: no such file") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: not text in UTF-8: {error}; save it in that encoding") from None
    except json.JSONDecodeError as error:
        raise DataError(f"{file}: not valid JSON: {error}") from None


def _object(line: str, number: int, file: Path) -> Row:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{file}, line {number}: not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise DataError(f"{file}, line {number}: a row must be a JSON object, not {type(value).__name__}")
    return value


def _objects(data: Any, file: Path) -> list[Row]:
    if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
        raise DataError(f"{file}: must hold a list of JSON objects")
    return data


def _csv_rows(lines: TextIO, file: Path) -> list[Row]:
    reader = csv.reader(lines, strict=True)
    rows: list[Row] = []
    begin, header = 1, list[str]()
    try:
        for fields in reader:
            if fields and not header:
                header = _header(fields, f"{file}, line {begin}")
            elif fields:  # a blank line is no row
                if len(fields) != len(header):
                    raise DataError(
                        f"{file}, line {begin}: {len(fields)} fields, and the header names {len(header)}: put a field "
                        "that holds commas or line breaks in double quotes"
                    )
                rows.append(dict(zip(header, fields, strict=True)))
            begin = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{file}, line {begin}: not valid csv: {error}; a quoted field ends with a double quote, and one inside it "
            "is written twice"
        ) from None
    return rows


def _header(names: list[str], where: str) -> list[str]:
    if empty := [place for place, name in enumerate(names, 1) if not name.strip()]:
        raise DataError(f"{where}: column {empty[0]} of the header has no name: name it, or remove the column")
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise DataError(f"{where}: the header names '{repeated[0]}' more than once: rename one of the columns")
    return names


def _parquet_rows(file: Path) -> list[Row]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise DataError(f"{file}: reading parquet needs pyarrow: pip install 'paribus[hub]'") from None
    try:
        rows: list[Row] = pyarrow.parquet.read_table(file).to_pylist()
    except pyarrow.ArrowInvalid as error:
        raise DataError(f"{file}: not a readable parquet file: {error}") from None
    return rows


def has(row: Row, column: str) -> bool:
    """Say whether a row has a column; `a.b` is also field `b` of column `a`."""
    head, dot, rest = column.partition(".")
    inner = row.get(head)
    return column in row or bool(dot and isinstance(inner, Mapping) and has(inner, rest))


def value(row: Row, column: str, where: str) -> Any:
    """Return what a row holds in a column; `a.b` is also field `b` of column `a`. Raises DataError if it has none."""
    if not has(row, column):
        raise DataError(f"{where}: no column '{column}'{nearest(column, names(row))}")
    if column in row:
        return row[column]
    head, _, rest = column.partition(".")
    return value(row[head], rest, where)


def names(row: Row) -> list[str]:
    """Return the columns of a row, and the fields of those that hold fields, as `column.field`."""
    inner = [f"{name}.{field}" for name, held in row.items() if isinstance(held, Mapping) for field in names(held)]
    return [*row, *inner]


def missing(held: Any) -> bool:
    """Say whether a cell is empty: null, no text, or not a number."""
    return held is None or held == "" or (isinstance(held, float) and math.isnan(held))


def text(row: Row, column: str, where: str) -> str:
    """Return a required value as text; a whole float (`51.0`) as the integer that it is. Raises DataError."""
    held = value(row, column, where)
    if missing(held):
        raise DataError(f"{where}: column '{column}' is empty; fill it or remove the row")
    if isinstance(held, float) and math.isfinite(held):
        return canonical(Fraction(repr(held)))
    if not isinstance(held, (str, int, float)) or isinstance(held, bool):
        raise DataError(f"{where}: column '{column}' must be text or a number, not {type(held).__name__}")
    return str(held)
