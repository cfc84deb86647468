"""Tasks that read data: GSM8K, SVAMP, and any file or hub data set whose rows hold questions and answers."""

from __future__ import annotations

import hashlib
import re
from abc import abstractmethod
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from paribus.errors import DataError
from paribus.part import Part, without_defaults
from paribus.settings import Commit
from paribus.tasks.base import MARKER_PROMPT, SPLITS, Split, Task, check_problems, check_split
from paribus.tasks.hub import Place, is_hub_id, read_table
from paribus.tasks.numbers import canonical, stated
from paribus.tasks.rows import Row, Table, has, missing, read_rows, text, value
from paribus.tasks.shapes import KINDS, VERL, Message, Origin, Taken, detect, question_text, read_prompt
from paribus.types import Problem


class DataTask(Task):
    """A task whose problems are rows of files; missing splits can be taken out of the training rows.

    `validation` and `test` say how many problems to take, where the data has no such split of its own: those with the
    smallest hashes of their ids, which therefore stay the same whatever the order of the file.
    """

    validation: int = Field(default=0, ge=0)
    test: int = Field(default=0, ge=0)

    @property
    def hub_id(self) -> str | None:
        return self._where() if is_hub_id(self._where()) else None

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
        table = self._table(split)
        return None if table is None else check_problems(self._made(table, split), table.where)

    def origin(self, split: Split) -> Origin:
        """Return what the problems of a split were read from, and which columns were taken. Raises DataError."""
        table = self._table(split) or self._table("train")
        if table is None:
            raise DataError(f"{self._where()}: no {split} split")
        return self._described(table)

    @abstractmethod
    def _where(self) -> str:
        """Name the data, for errors."""

    @abstractmethod
    def _table(self, split: Split) -> Table | None:
        """Return the rows of the data's own split, or None where it has none."""

    @abstractmethod
    def _described(self, table: Table) -> Origin:
        """Return what of a table is taken for what."""

    @abstractmethod
    def _made(self, table: Table, split: Split) -> list[Problem]:
        """Return the problems of a table's rows."""


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

    def _table(self, split: Split) -> Table | None:
        return read_table(Place(self._where(), config="main" if self.hub_id else None), split)

    def _described(self, table: Table) -> Origin:
        return Origin(table.where, "GSM8K", {"question": "question", "answer": "answer"}, table.hub)

    def _made(self, table: Table, split: Split) -> list[Problem]:
        return [self._problem(row, i, split, f"{table.where}, row {i}") for i, row in enumerate(table.rows)]

    def _problem(self, row: Row, index: int, split: Split, where: str) -> Problem:
        answer = text(row, "answer", where)
        _, marker, gold = answer.rpartition("####")
        reading = stated(gold, whole=True) if marker else None
        if reading is None or reading.value is None:
            raise DataError(f"{where}, column 'answer': no number after '####', where GSM8K has its gold answer")
        return Problem(
            id=f"gsm8k/{split}/{index}",
            question=text(row, "question", where),
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

    def _table(self, split: Split) -> Table | None:
        return read_table(Place(self.path), split)

    def _described(self, table: Table) -> Origin:
        return Origin(table.where, "SVAMP", {"question": "Body and Question", "answer": "Answer"}, table.hub)

    def _made(self, table: Table, split: Split) -> list[Problem]:
        return [self._problem(row, f"{table.where}, row {i}") for i, row in enumerate(table.rows)]

    def _problem(self, row: Row, where: str) -> Problem:
        body = text(row, "Body", where).strip()
        stop = "" if body.endswith((".", "!", "?", ",")) else "."
        return Problem(
            id=f"svamp/{text(row, 'ID', where)}",
            question=f"{body}{stop} {text(row, 'Question', where).strip()}",
            gold=text(row, "Answer", where),
            tags={"kind": text(row, "Type", where)},
        )


class Columns(Part):
    """Which column of the data is what (`a.b`: field `b` of column `a`); question and answer are detected otherwise.

    Questions are text, or chat messages. Without an `id` column, ids are made of the file's name and the row.
    """

    question: str | None = None
    answer: str | None = None
    solution: str | None = None
    id: str | None = None


class Files(Part):
    """A name for each split: of its file, or what the hub calls it."""

    train: str | None = None
    validation: str | None = None
    test: str | None = None

    def of(self, split: Split) -> str | None:
        return {"train": self.train, "validation": self.validation, "test": self.test}[split]


class Jsonl(DataTask):
    """Problems from jsonl, json, csv or parquet, or from the hub; docs/data.md says what rows may look like.

    `path`: a folder with a file per split (`train.jsonl`, `test.parquet`); or one file, which is the split that it is
    named after, else the training split; or `owner/name` of the hub, with its configuration, the commit, and the names
    of its `splits` where they are others. Or `files`, one per split.
    """

    type: Literal["jsonl"] = "jsonl"
    path: str | None = None
    config: str | None = None
    revision: Commit | None = None
    splits: Files = Files()
    files: Files = Files()
    columns: Columns = Columns()

    @model_serializer(mode="wrap")
    def _as_stored(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the hub's keys where they are not used: configurations from before them stay the same."""
        return without_defaults(self, fields(self), ("config", "revision", "splits"))

    @model_validator(mode="after")
    def _one_place(self) -> Jsonl:
        if (self.path is None) == (self.files == Files()):
            raise ValueError("give either 'path' or 'files'")
        if self.path is None and (self.config, self.revision, self.splits) != (None, None, Files()):
            raise ValueError("'config', 'revision' and 'splits' are for data of the hub: leave them out beside 'files'")
        return self

    def _where(self) -> str:
        return self.path or ", ".join(name for split in SPLITS if (name := self.files.of(split)))

    def _table(self, split: Split) -> Table | None:
        if self.path is not None:
            return read_table(Place(self.path, self.config, self.revision, self.splits.of(split)), split)
        file = self.files.of(split)
        return None if file is None else Table(file, read_rows(Path(file).expanduser()))

    def _described(self, table: Table) -> Origin:
        taken = detect(table, dict(self.columns))
        return Origin(table.where, taken.kind, taken.columns, table.hub)

    def _made(self, table: Table, split: Split) -> list[Problem]:
        if not table.rows:
            return []
        taken, ids = detect(table, dict(self.columns)), self._ids(table, split)
        return [self._problem(row, ids[i], taken, f"{table.where}, row {i}") for i, row in enumerate(table.rows)]

    def _ids(self, table: Table, split: Split) -> list[str]:
        """Return an id for each row: of the declared column, else of verl's index where it is one, else of the row."""
        if self.columns.id is not None:
            return [text(row, self.columns.id, f"{table.where}, row {i}") for i, row in enumerate(table.rows)]
        if set(VERL) <= set(table.columns) and all(has(row, "extra_info.index") for row in table.rows):
            read = [(row.get("data_source"), row["extra_info"]["index"]) for row in table.rows]
            if not any(missing(part) for pair in read for part in pair) and len(set(map(str, read))) == len(read):
                return [f"{source}/{split}/{index}" for source, index in read]
        file = Path(table.where).absolute()
        name = table.hub.id if table.hub else file.parent.name if file.stem in SPLITS else file.stem
        return [f"{name}/{split}/{i}" for i in range(len(table.rows))]

    def _problem(self, row: Row, name: str, taken: Taken, where: str) -> Problem:
        held = value(row, taken.question, where)
        asked = read_prompt(held, taken.question, where) if isinstance(held, (str, list)) else ""
        solution = value(row, taken.solution, where) if taken.solution and has(row, taken.solution) else None
        messages: tuple[Message, ...] = () if isinstance(asked, str) else tuple(asked)
        if messages:
            self._check_unworded(where)
        return Problem(
            id=name,
            question=question_text(messages) if messages else text(row, taken.question, where),
            gold=text(row, taken.answer, where),
            solution="" if missing(solution) else str(solution),
            tags=_tags(row) if taken.kind == KINDS[0].name else {},
            messages=messages,
        )

    def _check_unworded(self, where: str) -> None:
        """Refuse words of our own around ready-made messages: they would silently not be sent."""
        for key, default in (("prompt", "{question}"), ("system", None)):
            if getattr(self, key) != default:
                raise DataError(f"{where}: ready-made messages are sent as they are: leave the task's `{key}` out")


def _tags(row: Row) -> dict[str, str]:
    return {name: str(row[name]) for name in ("data_source", "ability") if not missing(row.get(name))}
