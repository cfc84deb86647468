"""Shapes of rows: each is told by its columns and mapped, and what could be two things is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from paribus.errors import ConfigError, DataError
from paribus.part import dump, load
from paribus.suites import EvalSpec
from paribus.tasks import Columns, Gsm8k, Jsonl, Svamp, content_hash
from paribus.tasks.data import Files
from paribus.types import Problem

SYSTEM = {"role": "system", "content": "Be brief.\n"}
USER = {"role": "user", "content": "1 + 1 = {question}? "}
SAYS = {"role": "assistant", "content": "2"}


def verl(index: Any, *, gold: Any = "2", source: str = "openai/gsm8k", prompt: Any = None) -> dict[str, Any]:
    return {
        "data_source": source,
        "prompt": [SYSTEM, USER] if prompt is None else prompt,
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": gold},
        "extra_info": {"split": "train", "index": index, "question": "1 + 1?", "answer": "1 + 1 = 2"},
    }


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def written(*rows: dict[str, Any], name: str = "train.jsonl") -> str:
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return str(tmp_path / name)

    return written


def test_verl_parquet_as_its_scripts_write_it(tmp_path: Path) -> None:
    rows = [verl(7), verl(3, gold="4", prompt=[USER, SAYS, USER])]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "train.parquet")
    task = Jsonl(path=str(tmp_path))
    first, second = task.problems("train")
    assert first == Problem(
        id="openai/gsm8k/train/7",
        question=USER["content"],
        gold="2",
        tags={"data_source": "openai/gsm8k", "ability": "math"},
        messages=(SYSTEM, USER),
    )
    assert task.messages(first) == [SYSTEM, USER], "roles and system prompt as they are; no template of ours on top"
    assert second.gold == "4" and task.messages(second) == [USER, SAYS, USER]
    assert second.question == f"user: {USER['content']}\n\nassistant: 2\n\nuser: {USER['content']}"
    assert str(task.origin("train")) == (
        f"{tmp_path / 'train.parquet'}: verl's RLHF rows; question from 'prompt', answer from "
        "'reward_model.ground_truth'"
    )


@pytest.mark.parametrize("index", [[1, 1], [1, None]], ids=["repeated", "missing"])
def test_without_an_index_of_its_own_a_verl_row_has_its_number(write: Any, index: list[Any]) -> None:
    task = Jsonl(path=write(*(verl(i) for i in index), name="aime.jsonl"))
    assert [p.id for p in task.problems("train")] == ["aime/train/0", "aime/train/1"]


@pytest.mark.parametrize("gold", ["answer", "solution", "ground_truth"])
@pytest.mark.parametrize("prompt", ["1 + 1?", [SYSTEM, USER]], ids=["text", "messages"])
def test_trl_prompt_only(write: Any, gold: str, prompt: Any) -> None:
    task = Jsonl(path=write({"prompt": prompt, gold: 2, "level": "easy"}))
    (problem,) = task.problems("train")
    assert problem.gold == "2" and problem.id.endswith("/train/0") and problem.solution == ""
    asked = [{"role": "user", "content": "1 + 1?"}] if isinstance(prompt, str) else prompt
    assert task.messages(problem) == asked
    assert task.origin("train").columns == {"question": "prompt", "answer": gold}


def test_text_goes_through_the_tasks_own_prompt(write: Any) -> None:
    task = Jsonl(path=write({"prompt": "1 + 1?", "answer": "2"}), prompt="Q: {question}", system="Hm.")
    (problem,) = task.problems("train")
    assert [m["content"] for m in task.messages(problem)] == ["Hm.", "Q: 1 + 1?"]


def test_beside_an_answer_a_solution_is_how_to_get_there(write: Any) -> None:
    path = write({"problem": "1 + 1?", "solution": "as 1 + 1 = 2, 2", "answer": "2"})
    (problem,) = Jsonl(path=path).problems("train")
    assert (problem.question, problem.gold, problem.solution) == ("1 + 1?", "2", "")
    (problem,) = Jsonl(path=path, columns=Columns(solution="solution")).problems("train")
    assert problem.gold == "2" and problem.solution == "as 1 + 1 = 2, 2"


def test_a_declared_mapping_wins_over_every_shape(write: Any) -> None:
    row = verl(1) | {"answer": "9", "question": "other"}
    columns = Columns(question="extra_info.question", answer="answer", solution="extra_info.answer", id="ability")
    (problem,) = Jsonl(path=write(row), columns=columns).problems("train")
    assert (problem.id, problem.question, problem.gold, problem.solution, problem.messages) == (
        *("math", "1 + 1?", "9", "1 + 1 = 2"),
        (),
    )
    both = write({"prompt": "a", "question": "b", "answer": "1", "ground_truth": "2"}, name="both.jsonl")
    (problem,) = Jsonl(path=both, columns=Columns(question="prompt", answer="ground_truth")).problems("train")
    assert (problem.question, problem.gold) == ("a", "2")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"prompt": "a", "question": "b", "answer": "1"},
            "'question' and 'prompt' could each be the question: say which with `columns.question = \"question\"`",
        ),
        (
            {"prompt": "a", "answer": "1", "ground_truth": "2"},
            "'answer' and 'ground_truth' could each be the answer: say which with `columns.answer = \"answer\"`",
        ),
        ({"text": "a", "answer": "1"}, "no column for the question (known names: 'question', 'prompt', 'problem')"),
        ({"prompt": "a", "label": "1"}, "no column for the answer (known names: 'answer', 'ground_truth', 'solution')"),
        ({"prompt": "a", "chosen": "b", "rejected": "c"}, 'look like preference pairs, which are for source.type = "p'),
        ({"prompt": "a", "completion": "b", "label": True}, "look like labelled answers"),
        ({"prompt": "a", "completion": "b"}, 'look like demonstrations, which are for source.type = "demonstration_f'),
        ({"messages": [USER, SAYS]}, "look like conversations"),
    ],
)
def test_what_cannot_be_told_is_refused_by_name(write: Any, row: dict[str, Any], message: str) -> None:
    path = write(row)
    with pytest.raises(DataError) as error:
        Jsonl(path=path).problems("train")
    assert str(error.value).startswith(f"{path}: ") and message in str(error.value)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (verl(1, prompt=[USER, SAYS]), "the prompt ends with a message of 'assistant', and the model answers the user"),
        (verl(1, prompt=[SYSTEM]), "the prompt ends with a message of 'system'"),
        (verl(1, prompt=[{"role": "user", "content": " "}]), "the last message is empty; fill it or remove the row"),
        (verl(1, prompt=[]), "column 'prompt': must be text, or a list of messages"),
        (verl(1, prompt=[{"role": "user", "content": ["image"]}]), "the texts 'role' and 'content'"),
        (verl(1, prompt=[USER | {"tool_calls": ["x"]}]), "message 0 holds 'tool_calls', which would be lost"),
        (verl(1, prompt=str([USER])), "text that spells out a list of messages"),
        (verl(1, prompt=json.dumps([USER])), "write the data as jsonl or parquet"),
        (verl(1, prompt=""), "column 'prompt' is empty; fill it or remove the row"),
        (verl(1, gold=None), "column 'reward_model.ground_truth' is empty; fill it or remove the row"),
        (verl(1, gold={"target": ["2"]}), "column 'reward_model.ground_truth' must be text or a number, not dict"),
        (verl(1) | {"reward_model": "rule"}, "no column 'reward_model.ground_truth'"),
    ],
)
def test_a_row_that_cannot_be_asked_is_named(write: Any, row: dict[str, Any], message: str) -> None:
    path = write(verl(0), row)
    with pytest.raises(DataError) as error:
        Jsonl(path=path).problems("train")
    assert str(error.value).startswith(f"{path}, row 1") and message in str(error.value)


def test_null_fields_that_parquet_adds_to_messages_are_nothing(write: Any) -> None:
    (problem,) = Jsonl(path=write(verl(1, prompt=[USER | {"tool_calls": None, "name": ""}]))).problems("train")
    assert problem.messages == (USER,)


@pytest.mark.parametrize(("key", "words"), [("prompt", "Q: {question}"), ("system", "Be kind.")])
def test_words_that_would_silently_not_be_sent_are_refused(write: Any, key: str, words: str) -> None:
    path = write(verl(1))
    with pytest.raises(DataError, match=f"row 0: ready-made messages are sent as they are: leave the task's `{key}` "):
        load(Jsonl, {"path": path, key: words}).problems("train")


def test_worked_examples_stand_behind_the_system_prompt_and_before_the_conversation(write: Any) -> None:
    shot = {"role": "user", "content": "2 + 2?"}
    turns = [{"role": "user", "content": "3 + 3?"}, {"role": "assistant", "content": "6"}, shot]
    train = write(verl(0, prompt=[SYSTEM, *turns], gold="4"))
    test = write(verl(0, prompt=[SYSTEM, USER, SAYS, USER]), name="test.jsonl")
    task = Jsonl(files=Files(train=train, test=test))
    spec = EvalSpec(shots=1, max_response=8)
    (problem,) = spec.problems(task)
    messages = spec.messages(task)(problem)
    assert messages == [SYSTEM, *turns, {"role": "assistant", "content": "#### 4"}, USER, SAYS, USER]


def test_several_worked_examples_of_several_turns_are_counted_as_such(write: Any) -> None:
    def turns(i: int) -> list[dict[str, str]]:
        return [{"role": "user", "content": f"{i}?"}, SAYS, {"role": "user", "content": f"and {i} + 1?"}]

    train = write(*(verl(i, prompt=turns(i), gold=str(i)) for i in range(3)))
    test = write(verl(0, prompt=[USER]), name="test.jsonl")
    task, spec = Jsonl(files=Files(train=train, test=test)), EvalSpec(shots=2, max_response=8)
    (problem,) = spec.problems(task)
    asked = spec.messages(task)(problem)
    assert len(asked) == 2 * 4 + 1 and asked[-1] == USER and [m["role"] for m in asked[:4]] == ["user", "assistant"] * 2


def test_the_hash_covers_messages_and_leaves_other_data_its_hash() -> None:
    plain = Problem(id="1", question="ab", gold="c")
    assert content_hash([plain]) == "6ed542bf08381fce"
    said = [Problem(id="1", question="ab", gold="c", messages=m) for m in ((USER,), (SYSTEM, USER), (USER, SYSTEM))]
    assert len({content_hash([p]) for p in (plain, *said)}) == 4


def test_other_tasks_say_what_they_read(shared: Path) -> None:
    gsm8k = Gsm8k(path=str(shared / "data" / "gsm8k")).origin("test")
    assert gsm8k.columns == {"question": "question", "answer": "answer"} and gsm8k.where.endswith("test.jsonl")
    svamp = Svamp(path=str(shared / "data" / "svamp.json"))
    assert svamp.origin("test").where == svamp.origin("train").where == svamp.path, "test is taken out of it"


def test_tasks_with_data_of_the_hub_are_values() -> None:
    task = Jsonl(path="team/sums", config="main", revision="a" * 40, splits=Files(test="holdout"))
    assert load(Jsonl, dump(task)) == task
    assert not {"config", "revision", "splits"} & set(dump(Jsonl(path="train.csv"))), "as stored before there were any"
    for data, message in [
        ({"path": "team/sums", "revision": "main"}, "revision: 'main' is no commit: give its 40 hexadecimal digits"),
        ({"files": {"train": "a.csv"}, "config": "main"}, "leave them out beside 'files'"),
    ]:
        with pytest.raises(ConfigError, match=message):
            load(Jsonl, data)
