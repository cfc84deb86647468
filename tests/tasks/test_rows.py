"""Rows of files: csv as spreadsheets write it, and every fault named with its file, its line and the fix."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paribus.errors import DataError
from paribus.tasks import Jsonl, hub
from paribus.tasks.hub import Place
from paribus.tasks.rows import has, locate, names, read_rows, value


def test_csv_as_spreadsheets_write_it(tmp_path: Path) -> None:
    file = tmp_path / "train.csv"
    file.write_bytes(
        b'\xef\xbb\xbfquestion,answer,note\r\n"Say ""hi"", twice",2,\r\n\r\n"two\r\nlines",7,"a,b"\r\n'
        + "5 × 5 = ?,25,é\r\n".encode()
    )
    assert read_rows(file) == [
        {"question": 'Say "hi", twice', "answer": "2", "note": ""},
        {"question": "two\r\nlines", "answer": "7", "note": "a,b"},
        {"question": "5 × 5 = ?", "answer": "25", "note": "é"},
    ]
    problems = Jsonl(path=str(tmp_path)).problems("train")
    assert [(p.question, p.gold) for p in problems][1] == ("two\r\nlines", "7")


CELL = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=5))
def test_what_the_csv_module_writes_is_read_back(tmp_path_factory: pytest.TempPathFactory, rows: list) -> None:
    file = tmp_path_factory.mktemp("csv") / "rows.csv"
    with open(file, "w", encoding="utf-8", newline="") as out:
        csv.writer(out).writerows([("a", "b"), *rows])
    assert read_rows(file) == [{"a": a, "b": b} for a, b in rows]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3,4,5\n", "rows.csv, line 3: 3 fields, and the header names 2: put a field"),
        ('a,b\n"1\n1",2\n3\n', "rows.csv, line 4: 1 fields, and the header names 2"),
        ("a,b,a\n1,2,3\n", "rows.csv, line 1: the header names 'a' more than once: rename"),
        ("a,,c\n1,2,3\n", "rows.csv, line 1: column 2 of the header has no name: name it, or remove"),
        ("\n\na, \n", "rows.csv, line 3: column 2 of the header has no name"),
        ('a,b\n1,2\n"3,4\n5,6\n', "rows.csv, line 3: not valid csv: unexpected end of data; a quoted field ends"),
        ('a,b\n"1"x,2\n', "rows.csv, line 2: not valid csv"),
    ],
)
def test_a_broken_csv_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as error:
        read_rows(file)
    assert message in str(error.value) and str(file) in str(error.value)


def test_a_csv_without_rows_holds_none(tmp_path: Path) -> None:
    for text in ("", "question,answer\n"):
        (tmp_path / "train.csv").write_text(text)
        assert read_rows(tmp_path / "train.csv") == []
        with pytest.raises(DataError, match=r"train\.csv: no problems"):
            Jsonl(path=str(tmp_path)).problems("train")


def test_other_encodings_and_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("question,answer\nÜber?,1\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"a\.csv: not text in UTF-8.*save it in that encoding"):
        read_rows(tmp_path / "a.csv")
    (tmp_path / "a.parquet").write_bytes(b"no parquet at all")
    with pytest.raises(DataError, match=r"a\.parquet: not a readable parquet file"):
        read_rows(tmp_path / "a.parquet")


def test_two_files_of_one_split_are_refused(tmp_path: Path) -> None:
    for name in ("train.csv", "train.jsonl", "test.jsonl"):
        (tmp_path / name).write_text("")
    with pytest.raises(DataError, match=r"holds train\.jsonl and train\.csv, both the train split: keep one"):
        locate(str(tmp_path))


def test_dotted_names_go_into_columns_of_fields(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"a": [{"b": {"c": 1}}], "a.d": [2]}), tmp_path / "x.parquet")
    (row,) = read_rows(tmp_path / "x.parquet")
    assert value(row, "a.b.c", "") == 1 and value(row, "a.d", "") == 2, "a column of that very name comes first"
    assert has(row, "a.b") and not has(row, "a.c") and not has(row, "a.b.c.d")
    assert set(names(row)) == {"a", "a.b", "a.b.c", "a.d"}
    with pytest.raises(DataError, match=r"x, row 0: no column 'a\.b\.e'; did you mean 'a\.b\.c'\?"):
        value(row, "a.b.e", "x, row 0")


def test_what_is_for_the_hub_is_refused_beside_a_path(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"a": 1}\n')
    for place in (Place(str(tmp_path), config="main"), Place(str(tmp_path / "train.jsonl"), split="test")):
        for read in (lambda p: hub.read_table(p, "train"), hub.read_given):
            with pytest.raises(DataError, match="are for data sets of the hub"):
                read(place)
