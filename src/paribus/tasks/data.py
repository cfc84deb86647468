"""Tasks that read data: GSM8K, SVAMP, and any jsonl or parquet file with its columns mapped."""

from __future__ import annotations

import hashlib
import json
import math
import re
from abc import abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from paribus.errors import DataError, nearest
from paribus.part import Part
from paribus.tasks.base import MARKER_PROMPT, SPLITS, Split, Task, check_problems, check_split
from paribus.tasks.numbers import canonical, stated
from paribus.types import Problem

SUFFIXES = (".jsonl", ".json", ".parquet")

Row = Mapping[str, Any]


class DataTask(Task):
    """A task whose problems are rows of files; missing splits can be taken out of the training rows.

    `validation` and `test` say how many problems to take, where the data has no such split of its own: those with the
    smallest hashes of their ids, which therefore stay the same whatever the order of the file.
    """

    validation: int = Field(default=0, ge=0)
    test: int = Field(default=0, ge=0)

    def problems(self, split: Split) -> list[Problem]:
        """Return all problems of a split, in the order of the data. Raises DataError naming file, row and fix."""
        check_split(split)
        taken = {"validation": self.validation, "test": self.test}
        own = self._own(split)
        if own is not None and taken.get(split):
            raise DataError(f"{self._where()}: has its own {split} split; leave `{split} = {taken[split]}` out")
        if own is not None and split != "train":
            return own
        rows = self._own("train") if own is None else own
        if rows is None or (own is None and not taken[split]):
            raise DataError(
                f"{self._where()}: no {split} split"
                + ("" if rows is None else f"; take some problems out of train with `{split} = 500`, for example")
            )
        if sum(taken.values()) >= len(rows):
            count = sum(taken.values())
            raise DataError(f"{self._where()}: {len(rows)} problems are too few to take {count} out of train")
        return [p for p, place in zip(rows, self._places(rows), strict=True) if place == split]

    def _places(self, rows: list[Problem]) -> list[Split]:
        by_hash = sorted(range(len(rows)), key=lambda i: hashlib.blake2b(rows[i].id.encode()).digest())
        places: list[Split] = ["train"] * len(rows)
        for rank, i in enumerate(by_hash[: self.test + self.validation]):
            places[i] = "test" if rank < self.test else "validation"
        return places

    def _own(self, split: Split) -> list[Problem] | None:
        """Return the problems of the data's own split, or None where it has none."""
        found = self._rows(split)
        if found is None:
            return None
        where, rows = found
        return check_problems([self._problem(row, i, split, where) for i, row in enumerate(rows)], where)

    @abstractmethod
    def _where(self) -> str:
        """Name the data, for errors."""

    @abstractmethod
    def _rows(self, split: Split) -> tuple[str, list[Row]] | None:
        """Return the name and the rows of the data's own split, or None where it has none."""

    @abstractmethod
    def _problem(self, row: Row, index: int, split: Split, source: str) -> Problem:
        """Return the problem of row `index` (from 0) of the split that was read from `source`."""


_ANNOTATION = re.compile(r"<<[^<>]*>>")


def strip_annotations(solution: str) -> str:
    """Return a GSM8K solution without its calculator annotations, `16-3=<<16-3=13>>13` becoming `16-3=13`."""
    return _ANNOTATION.sub("", solution)


class Gsm8k(DataTask):
    """Grade-school word problems (Cobbe et al. 2021, arXiv 2110.14168): 7,473 train, 1,319 test, one number each.

    `path`: a folder with `train.jsonl` and `test.jsonl`, or one jsonl file; without it the hub's `openai/gsm8k`.
    The hub has no validation split: `validation` problems are taken out of train.
    """

    type: Literal["gsm8k"] = "gsm8k"
    path: str | None = None
    prompt: str = MARKER_PROMPT

    def _where(self) -> str:
        return self.path or "openai/gsm8k"

    def _rows(self, split: Split) -> tuple[str, list[Row]] | None:
        if self.path is not None:
            return _file_rows(self.path, split)
        return None if split == "validation" else ("openai/gsm8k", _hub_rows("openai/gsm8k", "main", split))

    def _problem(self, row: Row, index: int, split: Split, source: str) -> Problem:
        where = f"{source}, row {index}"
        answer = _text(row, "answer", where)
        _, marker, gold = answer.rpartition("####")
        reading = stated(gold, whole=True) if marker else None
        if reading is None or reading.value is None:
            raise DataError(f"{where}, column 'answer': no number after '####', where GSM8K has its gold answer")
        return Problem(
            id=f"gsm8k/{split}/{index}",
            question=_text(row, "question", where),
            gold=canonical(reading.value),
            solution=strip_annotations(answer),
        )


class Svamp(DataTask):
    """One-step word problems with varied wording (Patel et al. 2021, arXiv 2103.07191).

    `path`: the published `SVAMP.json`, or a folder with `train.json` and `test.json`. Of the single file of 1,000,
    `test` problems are held out.
    """

    type: Literal["svamp"] = "svamp"
    path: str
    prompt: str = MARKER_PROMPT
    test: int = Field(default=300, ge=0)

    def _where(self) -> str:
        return self.path

    def _rows(self, split: Split) -> tuple[str, list[Row]] | None:
        return _file_rows(self.path, split)

    def _problem(self, row: Row, index: int, split: Split, source: str) -> Problem:
        where = f"{source}, row {index}"
        body = _text(row, "Body", where).strip()
        stop = "" if body.endswith((".", "!", "?", ",")) else "."
        return Problem(
            id=f"svamp/{_text(row, 'ID', where)}",
            question=f"{body}{stop} {_text(row, 'Question', where).strip()}",
            gold=_text(row, "Answer", where),
            tags={"kind": _text(row, "Type", where)},
        )


class Columns(Part):
    """Which column of the data is what. Without an `id` column, ids are made of the file's name and the row."""

    question: str = "question"
    answer: str = "answer"
    solution: str | None = None
    id: str | None = None


class Files(Part):
    """One file per split."""

    train: str | None = None
    validation: str | None = None
    test: str | None = None

    def of(self, split: Split) -> str | None:
        return {"train": self.train, "validation": self.validation, "test": self.test}[split]


class Jsonl(DataTask):
    """Problems from jsonl, json or parquet, with the columns mapped.

    `path`: a folder with a file per split (`train.jsonl`, `test.parquet`), or one file, which is the split that it is
    named after, else the training split; or `files`, one per split.
    """

    type: Literal["jsonl"] = "jsonl"
    path: str | None = None
    files: Files = Files()
    columns: Columns = Columns()

    @model_validator(mode="after")
    def _one_place(self) -> Jsonl:
        if (self.path is None) == (self.files == Files()):
            raise ValueError("give either 'path' or 'files'")
        return self

    def _where(self) -> str:
        return self.path or ", ".join(name for split in SPLITS if (name := self.files.of(split)))

    def _rows(self, split: Split) -> tuple[str, list[Row]] | None:
        named = self.files.of(split)
        found = _file_rows(self.path, split) if self.path else named and (named, read_rows(Path(named).expanduser()))
        if found:
            self._check_columns(*found)
        return found or None

    def _check_columns(self, where: str, rows: list[Row]) -> None:
        present = {name for row in rows for name in row}
        for what, column in dict(self.columns).items():
            if rows and column is not None and column not in present:
                raise DataError(
                    f"{where}: no column '{column}'{nearest(column, present)}; name it with `columns.{what} = \"...\"`"
                )

    def _problem(self, row: Row, index: int, split: Split, source: str) -> Problem:
        columns, file, where = self.columns, Path(source).absolute(), f"{source}, row {index}"
        name = file.parent.name if file.stem in SPLITS else file.stem
        solution = row.get(columns.solution) if columns.solution else None
        return Problem(
            id=_text(row, columns.id, where) if columns.id else f"{name}/{split}/{index}",
            question=_text(row, columns.question, where),
            gold=_text(row, columns.answer, where),
            solution="" if _missing(solution) else str(solution),
        )


def _file_rows(path: str, split: Split) -> tuple[str, list[Row]] | None:
    file = locate(path).get(split)
    return None if file is None else (str(file), read_rows(file))


def locate(path: str) -> dict[Split, Path]:
    """Return the file of each split that `path`, a folder or a file, holds. Raises DataError where it holds none."""
    place = Path(path).expanduser()
    if place.is_file():
        return {next((s for s in SPLITS if s == place.stem), "train"): place}
    if not place.is_dir():
        raise DataError(f"{path}: no such file or folder")
    candidates = [(split, place / f"{split}{suffix}") for split in SPLITS for suffix in reversed(SUFFIXES)]
    files = {split: file for split, file in candidates if file.is_file()}
    if not files:
        raise DataError(f"{path}: holds no train, validation or test file ({', '.join(SUFFIXES)})")
    return files


def read_rows(file: Path) -> list[Row]:
    """Return the rows of a jsonl, json (a list) or parquet file. Raises DataError naming file and line."""
    if file.suffix not in SUFFIXES:
        raise DataError(f"{file}: unknown kind of file '{file.suffix}'; known: {', '.join(SUFFIXES)}")
    try:
        if file.suffix == ".parquet":
            return _parquet_rows(file)
        # only "\n" ends a line: U+2028 and the like may stand inside a JSON string
        with open(file, encoding="utf-8-sig", newline="\n") as lines:
            if file.suffix == ".json":
                return _objects(json.load(lines), file)
            return [_object(line, number, file) for number, line in enumerate(lines, 1) if line.strip()]
    except FileNotFoundError:
        raise DataError(f"{file}: no such file") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: not valid JSON in UTF-8: {error}") from None


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


def _hub_rows(name: str, config: str, split: Split) -> list[Row]:
    try:
        import datasets
    except ImportError:
        raise DataError(
            f"{name}: reading from the hub needs the package 'datasets': pip install 'paribus[hub]'; "
            "or set `path` to a local folder with train.jsonl and test.jsonl"
        ) from None
    try:
        return list(datasets.load_dataset(name, config, split=split))
    except OSError as error:
        raise DataError(f"{name}: cannot be read from the hub ({error}); set `path` to a local folder") from None


def _missing(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _text(row: Row, column: str, where: str) -> str:
    """Return a required value as text; a whole float (`51.0`) as the integer that it is."""
    if column not in row:
        raise DataError(f"{where}: no column '{column}'{nearest(column, row)}")
    value = row[column]
    if _missing(value):
        raise DataError(f"{where}: column '{column}' is empty; fill it or remove the row")
    if isinstance(value, float) and math.isfinite(value):
        return canonical(Fraction(repr(value)))
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        raise DataError(f"{where}: column '{column}' must be text or a number, not {type(value).__name__}")
    return str(value)
