"""Tasks that read data: what is loaded is what the files hold, and every fault names file, row, column and fix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paribus.errors import ConfigError, DataError
from paribus.part import dump, load
from paribus.tasks import BOXED_PROMPT, MARKER_PROMPT, Answer, Gsm8k, Jsonl, Math, Svamp, content_hash
from paribus.tasks.data import Columns, Files, strip_annotations
from paribus.tasks.rows import read_rows
from paribus.types import Problem


def write(path: Path, rows: list[dict[str, Any]], **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, **options) + "\n" for row in rows), encoding="utf-8", newline="\n")
    return path


def items(n: int) -> list[dict[str, Any]]:
    return [
        {"question": f"What is {i} + 1?", "answer": f"{i} + 1 = <<{i}+1={i + 1}>>{i + 1}\n#### {i + 1}"}
        for i in range(n)
    ]


def test_gsm8k_as_published(shared: Path) -> None:
    task = Gsm8k(path=str(shared / "data" / "gsm8k"))
    train, test = task.problems("train"), task.problems("test")
    assert (len(train), len(test)) == (7473, 1319)
    assert test[17].id == "gsm8k/test/17"
    assert [train[i].gold for i in (345, 5715, 5844, 6189)] == ["1080", "-7", "-47", "-12"]
    assert [test[i].gold for i in (489, 1113)] == ["-10", "-3"]
    assert not any("<<" in p.solution or ">>" in p.solution for p in train + test)
    assert all(p.solution.endswith(f"#### {p.gold}") or "," in p.solution.rsplit("####", 1)[1] for p in train + test)


@pytest.mark.parametrize(("name", "grader"), [("gsm8k", Answer()), ("math500.jsonl", Math())])
def test_an_oracle_that_answers_the_gold_is_always_right(shared: Path, name: str, grader: Answer | Math) -> None:
    path = str(shared / "data" / name)
    if name == "gsm8k":
        problems, form = Gsm8k(path=path).problems("test"), "#### {}"
    else:
        columns = Columns(question="problem", id="id")
        problems, form = Jsonl(path=path, columns=columns).problems("train"), "\\boxed{{{}}}"
    verdicts = [grader.grade(form.format(p.gold), p.gold) for p in problems]
    assert [p.id for p, v in zip(problems, verdicts, strict=True) if v.score != 1] == []


@pytest.mark.parametrize("gold", ["7", "-3", "1,200", "-1,200", "109,200,000", "0.5"])
def test_gsm8k_golds_are_normalised(tmp_path: Path, gold: str) -> None:
    write(tmp_path / "test.jsonl", [{"question": "?", "answer": f"It falls.\n#### {gold}"}])
    (problem,) = Gsm8k(path=str(tmp_path)).problems("test")
    assert problem.gold == gold.replace(",", "")


def test_lines_end_at_newlines_only(tmp_path: Path) -> None:
    odd = "a\u2028b\u2029c\u0085d\x0be\x1cf\rg\x00h"
    rows = [{"question": odd, "answer": "#### 1"}, {"question": odd + "!", "answer": "#### 2"}]
    write(tmp_path / "test.jsonl", rows, ensure_ascii=False)
    assert [p.question for p in Gsm8k(path=str(tmp_path)).problems("test")] == [odd, odd + "!"]


def test_the_whole_training_set_survives_being_rewritten_without_escapes(shared: Path, tmp_path: Path) -> None:
    source = Gsm8k(path=str(shared / "data" / "gsm8k")).problems("train")
    rows = list(read_rows(shared / "data" / "gsm8k" / "train.jsonl"))
    write(tmp_path / "train.jsonl", [dict(r) for r in rows], ensure_ascii=False)
    assert Gsm8k(path=str(tmp_path)).problems("train") == source


def test_annotations_are_removed_whole() -> None:
    assert strip_annotations("He has 16-3=<<16-3=13>>13 eggs, 1 << 2") == "He has 16-3=13 eggs, 1 << 2"


def test_validation_is_taken_out_of_train(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", items(50))
    write(tmp_path / "test.jsonl", items(5))
    whole = {p.id for p in Gsm8k(path=str(tmp_path)).problems("train")}
    task = Gsm8k(path=str(tmp_path), validation=10)
    train, validation = ({p.id for p in task.problems(s)} for s in ("train", "validation"))
    assert len(validation) == 10 and train | validation == whole and not train & validation
    more = {p.id for p in Gsm8k(path=str(tmp_path), validation=20).problems("validation")}
    assert validation < more, "a larger split holds the smaller one"
    assert {p.id for p in task.problems("validation")} == validation


@given(st.integers(0, 10), st.integers(0, 10))
def test_splits_of_one_file_are_a_partition(
    tmp_path_factory: pytest.TempPathFactory, validation: int, test: int
) -> None:
    path = write(tmp_path_factory.mktemp("d") / "all.jsonl", items(30))
    task = Jsonl(path=str(path), validation=validation, test=test)
    splits = [
        [p.id for p in task.problems(s)] if n else []
        for s, n in (("train", 1), ("validation", validation), ("test", test))
    ]
    assert [len(s) for s in splits] == [30 - validation - test, validation, test]
    assert sorted(name for s in splits for name in s) == sorted(f"all/train/{i}" for i in range(30))


def test_svamp(shared: Path) -> None:
    task = Svamp(path=str(shared / "data" / "svamp.json"))
    train, test = task.problems("train"), task.problems("test")
    assert (len(train), len(test)) == (700, 300)
    by_id = {p.id: p for p in train + test}
    assert by_id["svamp/chal-1"].gold == "51" and by_id["svamp/chal-2"].question.startswith("Dan had $ 3 left")
    assert all(Answer().grade(f"#### {p.gold}", p.gold).score == 1 for p in train + test)


def test_parquet_with_half_empty_optional_columns(tmp_path: Path) -> None:
    table = pyarrow.table(
        {"q": ["1+1", "2+2", "3+3"], "gold": [2.0, 4.0, 6.5], "why": ["add", None, ""], "x": [float("nan")] * 3}
    )
    pyarrow.parquet.write_table(table, tmp_path / "sums.parquet")
    columns = Columns(question="q", answer="gold", solution="why")
    problems = Jsonl(path=str(tmp_path / "sums.parquet"), columns=columns).problems("train")
    assert [(p.gold, p.solution) for p in problems] == [("2", "add"), ("4", ""), ("6.5", "")]


@pytest.mark.parametrize("missing", [None, float("nan"), ""])
def test_a_missing_gold_is_an_error_that_names_the_row(tmp_path: Path, missing: Any) -> None:
    rows = [{"question": "1+1", "answer": "2"}, {"question": "2+2", "answer": missing}]
    path = write(tmp_path / "sums.jsonl", rows)
    with pytest.raises(DataError, match=r"sums.jsonl, row 1: column 'answer' is empty"):
        Jsonl(path=str(path)).problems("train")


def test_optional_nan_and_none_do_no_harm(tmp_path: Path) -> None:
    rows = [{"question": "1+1", "answer": 2, "extra_info": None}, {"question": "2+2", "answer": 4, "extra_info": "NaN"}]
    path = write(tmp_path / "sums.jsonl", [*rows, {"question": "3+3", "answer": 6}])
    task = Jsonl(path=str(path), columns=Columns(solution="extra_info"))
    assert [(p.gold, p.solution) for p in task.problems("train")] == [("2", ""), ("4", "NaN"), ("6", "")]


def test_equal_texts_are_separate_problems_and_equal_ids_an_error(tmp_path: Path) -> None:
    rows = [{"uid": "a", "question": "Solve.", "answer": "1"}, {"uid": "b", "question": "Solve.", "answer": "2"}]
    path = write(tmp_path / "two.jsonl", rows)
    assert [(p.id, p.gold) for p in Jsonl(path=str(path), columns=Columns(id="uid")).problems("train")] == [
        ("a", "1"),
        ("b", "2"),
    ]
    path = write(tmp_path / "two.jsonl", [rows[0], rows[0]])
    with pytest.raises(DataError, match="1 ids stand more than once, for example 'a'"):
        Jsonl(path=str(path), columns=Columns(id="uid")).problems("train")


def test_files_per_split(tmp_path: Path) -> None:
    train, test = write(tmp_path / "a.jsonl", items(3)), write(tmp_path / "b.jsonl", items(2))
    task = Jsonl(files=Files(train=str(train), test=str(test)))
    assert [p.id for p in task.problems("test")] == ["b/test/0", "b/test/1"] and len(task.problems("train")) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"test.jsonl: no problems; an empty data set"),
        ('{"question": "?"', r"test.jsonl, line 1: not valid JSON"),
        ("[1, 2]", r"test.jsonl, line 1: a row must be a JSON object, not list"),
        ('{"question": "?", "answr": "#### 1"}', r"row 0: no column 'answer'; did you mean 'answr'\?"),
        ('{"question": "?", "answer": "one"}', r"row 0, column 'answer': no number after '####'"),
        ('{"question": ["?"], "answer": "#### 1"}', r"column 'question' must be text or a number, not list"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "test.jsonl").write_text(text)
    with pytest.raises(DataError, match=message):
        Gsm8k(path=str(tmp_path)).problems("test")


def test_bad_places_are_named(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", items(5))
    for task, split, message in [
        (Gsm8k(path=str(tmp_path / "nowhere")), "train", "nowhere: no such file or folder"),
        (
            Gsm8k(path=str(tmp_path)),
            "validation",
            "no validation split; take some problems out of train with `validation = 500`",
        ),
        (Gsm8k(path=str(tmp_path), validation=5), "train", "5 problems are too few to take 5 out of train"),
        (Gsm8k(path=str(tmp_path)), "tset", "unknown split 'tset'; did you mean 'test'?"),
        (
            Jsonl(path=str(tmp_path), columns=Columns(answer="anser")),
            "train",
            "no column 'anser'; did you mean 'answer'?",
        ),
        (Jsonl(files=Files(train="rows.tsv")), "train", "rows.tsv: unknown kind of file '.tsv'"),
        (Jsonl(files=Files(train="rows.jsonl")), "train", "rows.jsonl: no such file"),
    ]:
        with pytest.raises(DataError) as error:
            task.problems(split)  # type: ignore[arg-type]
        assert message in str(error.value)
    write(tmp_path / "validation.jsonl", items(2))
    with pytest.raises(DataError, match="has its own validation split; leave `validation = 3` out"):
        Gsm8k(path=str(tmp_path), validation=3).problems("validation")


def test_the_hub_is_optional() -> None:
    try:
        import datasets  # noqa: F401
    except ImportError:
        with pytest.raises(DataError, match=r"pip install 'paribus\[hub\]'; or set `path`"):
            Gsm8k().problems("test")


def test_prompts_are_filled_once_and_checked() -> None:
    problem = Problem(id="1", question="What is {question} in \\boxed{question}?", gold="1")
    task = Gsm8k(
        prompt="{question} Answer in \\boxed{} or \\boxed{answer}.", grader=Answer(policy="boxed"), system="Be brief."
    )
    assert task.messages(problem) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": f"{problem.question} Answer in \\boxed{{}} or \\boxed{{answer}}."},
    ]
    for prompt, message in [
        ("What?", "must contain '{question}'"),
        ("{question} {hint}", "unknown placeholder '{hint}'"),
    ]:
        with pytest.raises(ConfigError, match=message):
            load(Gsm8k, {"prompt": prompt})


@pytest.mark.parametrize(
    ("policy", "prompt", "fits"),
    [
        ("boxed", BOXED_PROMPT, True),
        ("strict", MARKER_PROMPT, True),
        ("boxed", MARKER_PROMPT, False),
        ("strict", BOXED_PROMPT, False),
        ("official-gsm8k", BOXED_PROMPT, False),
        ("flexible", BOXED_PROMPT, True),
        ("boxed", "{question}", True),
    ],
)
def test_the_prompt_asks_for_what_the_grader_reads(policy: str, prompt: str, fits: bool) -> None:
    data = {"prompt": prompt, "grader": {"type": "answer", "policy": policy}}
    if fits:
        assert load(Gsm8k, data).grader.name == f"answer/{policy}"
    else:
        with pytest.raises(ConfigError, match="the prompt asks for"):
            load(Gsm8k, data)


def test_tasks_are_values() -> None:
    task = Gsm8k(path="x", validation=10, grader=Answer(policy="boxed", stop=("Q:",)), prompt=BOXED_PROMPT)
    assert load(Gsm8k, dump(task)) == task
    with pytest.raises(ConfigError, match="give either 'path' or 'files'"):
        load(Jsonl, {})


def test_content_hash_tells_data_apart() -> None:
    a, b = Problem(id="1", question="ab", gold="c"), Problem(id="1", question="a", gold="bc")
    assert content_hash([a]) == content_hash([a]) != content_hash([b])
    assert content_hash([a, b]) != content_hash([b, a])
