"""Given answers: which shapes of data are read as what, and what is left of them in ids."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import fakehub
from paribus.algorithms import DemonstrationFile, LabelFile, PairFile
from paribus.algorithms.offline import DemonstrationColumns, PairColumns
from paribus.errors import DataError
from paribus.models.pairs import Encoded, Example, Limits, encode, fit, read
from paribus.tasks import Jsonl
from toymodels import BOS, EOS, TURN, tokenizer

TEMPLATE = "{% for m in messages %}{{ m['content'] }}<turn>{% endfor %}{% if add_generation_prompt %}>{% endif %}"
WIDE = Limits(prompt=50, response=50, length=100)


def read_pairs(path: str, **more: Any) -> list[Example]:
    return read(PairFile(path=path, **more)).examples


def read_labels(path: str, **more: Any) -> list[Example]:
    return read(LabelFile(path=path, **more)).examples


def read_demonstrations(path: str, **more: Any) -> list[Example]:
    return read(DemonstrationFile(path=path, **more)).examples


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def says(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def written(*rows: dict[str, Any]) -> str:
        path = tmp_path / "data.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return str(path)

    return written


def letters(text: str) -> tuple[int, ...]:
    return tuple(tokenizer()(text, add_special_tokens=False).input_ids)


def sides(example: Example) -> tuple[Any, str | None, str | None]:
    return example.prompt, example.good, example.bad


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": [user("1+1")], "chosen": [says("2")], "rejected": [says("3")]},
        {"prompt": [user("1+1")], "chosen": "2", "rejected": "3", "score": 7},
        {"chosen": [user("1+1"), says("2")], "rejected": [user("1+1"), says("3")]},
        {"prompt": "1+1", "chosen": [user("1+1"), says("2")], "rejected": [user("1+1"), says("3")]},
    ],
    ids=["explicit", "answers as text", "implicit", "implicit beside the prompt's text"],
)
def test_conversations(write: Any, row: dict[str, Any]) -> None:
    (example,) = read_pairs(write(row))
    assert sides(example) == ([user("1+1")], "2", "3")
    (found,), dropped = encode(tokenizer(template=TEMPLATE), [example], WIDE)
    assert found == Encoded((*letters("1+1"), TURN, *letters(">")), (*letters("2"), EOS), (*letters("3"), EOS))
    assert dropped == 0


def test_plain_text_meets_no_template(write: Any) -> None:
    explicit, implicit = read_pairs(
        write(
            {"prompt": "1+1=", "chosen": "2", "rejected": "3"},
            {"chosen": "what is 1+1? it is 2", "rejected": "what is 1+1? it is 3."},
        )
    )
    assert sides(explicit) == ("1+1=", "2", "3")
    assert sides(implicit) == ("what is 1+1? it is", " 2", " 3."), "cut between words, the space goes to the answers"
    (found, _), _ = encode(tokenizer(template=TEMPLATE), [explicit, implicit], WIDE)
    assert found.prompt == letters("1+1=")


def test_equal_beginnings_of_two_conversations_are_the_prompt(write: Any) -> None:
    turns = [user("hi"), says("hello"), user("1+1")]
    same, other = read_pairs(
        write(
            {"chosen": [*turns, says("2")], "rejected": [*turns, says("2")]},
            {"chosen": [user("a b"), says("c")], "rejected": [user("a b"), says("d")]},
        )
    )
    assert sides(same) == (turns, "2", "2"), "equal answers are answers still"
    assert sides(other) == ([user("a b")], "c", "d")


def test_labels_and_demonstrations(write: Any) -> None:
    good, bad = read_labels(
        write(
            {"prompt": "a", "completion": "b", "label": True},
            {"prompt": [user("a")], "completion": [says("c")], "label": 0},
        )
    )
    assert sides(good) == ("a", "b", None) and sides(bad) == ([user("a")], None, "c")
    shown, turns = read_demonstrations(
        write({"prompt": "a", "completion": "b"}, {"messages": [user("a"), says("b"), user("c"), says("d")]})
    )
    assert sides(shown) == ("a", "b", None)
    assert sides(turns) == ([user("a"), says("b"), user("c")], "d", None), "the last answer alone is learnt"


@pytest.mark.parametrize(
    ("read", "row", "message"),
    [
        (read_pairs, {"prompt": "a", "chosen": "b", "rejectd": "c"}, "no column 'rejected'; did you mean 'rejectd'"),
        (read_pairs, {"chosen": "two words", "rejected": "other words"}, "do not begin with the same words"),
        (read_pairs, {"chosen": [user("a"), says("b")], "rejected": [user("c"), says("b")]}, "share no prompt"),
        (read_pairs, {"chosen": [says("b")], "rejected": [says("c")]}, "without a column 'prompt'"),
        (read_pairs, {"prompt": [user("a")], "chosen": [user("b")], "rejected": "c"}, "and here are: user"),
        (
            read_pairs,
            {"prompt": [user("a")], "chosen": [says("b"), user("c"), says("d")], "rejected": "c"},
            "column 'chosen': an answer is text or one message of the assistant, and here are: assistant, user",
        ),
        (read_pairs, {"prompt": 7, "chosen": "b", "rejected": "c"}, "column 'prompt': must be text, or a list"),
        (read_pairs, {"prompt": [{"role": "user"}], "chosen": "b", "rejected": "c"}, "texts 'role' and 'content'"),
        (read_labels, {"prompt": "a", "completion": "b", "label": "yes"}, "must be true or false, not 'yes'"),
        (read_demonstrations, {"messages": [says("b")]}, "needs a prompt and, last, the assistant's answer"),
        (read_demonstrations, {"text": "b"}, "no column 'prompt'"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(write: Any, read: Any, row: dict[str, Any], message: str) -> None:
    path = write({"prompt": "a", "chosen": "b", "rejected": "c", "completion": "d", "label": True}, row)
    with pytest.raises(DataError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}, row 1") and message in str(error.value)


def test_csv_gives_labels_as_text(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text('prompt,completion,label\na,"b, c",true\na,d,FALSE\na,,1\na,e,0\n', encoding="utf-8")
    assert [sides(x) for x in read_labels(str(path))] == [
        ("a", "b, c", None),
        ("a", None, "d"),
        ("a", "", None),
        ("a", None, "e"),
    ]


def test_declared_columns_win(write: Any) -> None:
    path = write({"prompt": "no", "chosen": "x", "rejected": "y", "q": {"text": "a"}, "better": "b", "worse": "c"})
    columns = {"prompt": "q.text", "chosen": "better", "rejected": "worse"}
    given = read(PairFile(path=path, columns=PairColumns(**columns)))
    assert [sides(x) for x in given.examples] == [("a", "b", "c")] and given.origin.columns == columns
    both = write({"prompt": "a", "completion": "b", "messages": [user("c"), says("d")]})
    for key, expected in (("messages", ([user("c")], "d", None)), ("completion", ("a", "b", None))):
        (shown,) = read_demonstrations(both, columns=DemonstrationColumns(**{key: key}))
        assert sides(shown) == expected


@pytest.mark.parametrize(
    ("source", "row", "message"),
    [
        (
            PairFile,
            {"question": "Is it?", "chosen": "It is so.", "rejected": "It is not so."},
            "no column 'prompt', and 'question' could be it: say so with `source.columns.prompt = \"question\"`",
        ),
        (
            DemonstrationFile,
            {"prompt": "a", "completion": "b", "messages": [user("c"), says("d")]},
            "'messages' and 'completion' could each hold the demonstration: say which with `source.columns.messages",
        ),
        (PairFile, {"prompt": [user("a"), says("b")], "chosen": "c", "rejected": "d"}, "ends with a message of 'assis"),
        (DemonstrationFile, {"messages": [user("a"), says("b"), says("c")]}, "ends with a message of 'assistant'"),
        (LabelFile, {"prompt": str([user("a")]), "completion": "b", "label": True}, "text that spells out a list of"),
        (PairFile, {"chosen": "a b", "rejected": [user("a"), says("c")]}, "without a column 'prompt'"),
    ],
)
def test_what_could_be_two_things_is_refused(write: Any, source: Any, row: dict[str, Any], message: str) -> None:
    path = write(row)
    with pytest.raises(DataError) as error:
        read(source(path=path))
    assert str(error.value).startswith(f"{path}, row 0") and message in str(error.value)


def test_rows_of_another_kind_are_named(write: Any) -> None:
    row = {"data_source": "s", "prompt": [user("a")], "reward_model": {"ground_truth": "1"}}
    with pytest.raises(
        DataError, match=r"no column 'chosen'.*source\.columns\.chosen.*verl's RLHF rows, which are for"
    ):
        read_pairs(write(row))
    with pytest.raises(
        DataError, match=r"no column 'completion'.*preference pairs, which are for source.type = \"pair"
    ):
        read_labels(write({"prompt": "a", "chosen": "b", "rejected": "c"}))
    with pytest.raises(DataError, match=r"row 0: column 'q' is empty; fill it or remove the row"):
        read_pairs(write({"q": None, "chosen": "a b", "rejected": "a c"}), columns=PairColumns(prompt="q"))
    with pytest.raises(DataError, match=r"row 1: no column 'q'"):
        read_pairs(
            write({"q": "a", "chosen": "b", "rejected": "c"}, {"prompt": "a", "chosen": "b", "rejected": "c"}),
            columns=PairColumns(prompt="q"),
        )


def test_a_folder_and_the_hub_give_what_the_file_gives(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"prompt": [user("a")], "chosen": [says("b")], "rejected": [says("c")]}
    one = read(PairFile(path=write(row)))
    (tmp_path / "data.jsonl").rename(tmp_path / "train.jsonl")
    folder = read(PairFile(path=str(tmp_path)))
    asked = fakehub.install(monkeypatch, {"team/pairs": {"train_prefs": [row]}})
    source = PairFile(path="team/pairs", config="all", revision=fakehub.COMMIT, split="train_prefs")
    remote = read(source)
    assert one.hash == folder.hash == remote.hash
    assert [sides(x) for x in one.examples] == [sides(x) for x in remote.examples] == [([user("a")], "b", "c")]
    assert asked == [("team/pairs", "all", fakehub.COMMIT)]
    assert remote.origin.hub == ("team/pairs", "all", "train_prefs", fakehub.COMMIT)
    assert read(PairFile(path=write(row | {"chosen": [says("d")]}))).hash != one.hash


def test_broken_files_are_named_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"prompt": "a", "chosen": "b", "rejected": "c"}\n{"prompt": \n', encoding="utf-8")
    with pytest.raises(DataError, match=r"pairs\.jsonl, line 2: not valid JSON"):
        read_pairs(str(path))
    path.write_text("\n", encoding="utf-8")
    with pytest.raises(DataError, match="holds no rows"):
        read_pairs(str(path))
    with pytest.raises(DataError, match="no such file"):
        read_pairs(str(tmp_path / "none.jsonl"))


def test_the_prompt_is_cut_from_the_left_and_leaves_each_answer_its_budget() -> None:
    limits = Limits(prompt=3, response=4, length=6)
    found = fit((1, 2, 3, 4, 5), (6, 7), (8, 9, 10, 11, 12), limits)
    assert found == Encoded((3, 4, 5), (6, 7), (8, 9, 10))
    assert fit((1,), None, (8, 9, 10, 11, 12), limits) == Encoded((1,), None, (8, 9, 10, 11))
    assert fit((1, 2), (5,), None, Limits(prompt=3, response=4, length=1)).good == ()


def test_a_pair_without_two_answers_is_dropped_and_counted() -> None:
    rows = [
        Example(where="f, row 0", prompt="ab", good="c", bad=""),
        Example(where="f, row 1", prompt="abcdef", good="c", bad="d"),
        Example(where="f, row 2", prompt="ab", good="c", bad="d"),
        Example(where="f, row 3", prompt="ab", bad=""),
    ]
    made = tokenizer()
    found = encode(made, rows, Limits(prompt=6, response=4, length=6))
    assert found.dropped == 3 and found.rows == [Encoded(letters("ab"), (*letters("c"), EOS), (*letters("d"), EOS))]


def test_the_end_marker_is_there_once_and_is_cut_with_a_long_answer() -> None:
    rows = [Example(where="f, row 0", prompt="a", good="bcd", bad="b<eos>")]
    (found,), _ = encode(tokenizer(), rows, Limits(prompt=6, response=3, length=9))
    assert found.good == letters("bcd") and found.bad == (*letters("b"), EOS)


def test_a_prompt_needs_a_token_to_start_from() -> None:
    row = Example(where="f, row 0", prompt="", good="a")
    with pytest.raises(DataError, match="f, row 0: the prompt is empty"):
        encode(tokenizer(), [row], WIDE)
    from tokenizers.processors import TemplateProcessing

    adding = tokenizer()
    adding.backend_tokenizer.post_processor = TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", BOS)])
    assert encode(adding, [row], WIDE).rows == [Encoded((BOS,), (*letters("a"), EOS))]


def test_every_example_of_the_documentation_is_read(tmp_path: Path) -> None:
    for name in ("data.md", "preference-data.md"):
        text = (Path(__file__).resolve().parents[2] / "docs" / name).read_text(encoding="utf-8")
        blocks = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
        pieces = [piece for block in blocks for piece in block.strip().split("\n\n")]
        assert len(pieces) == {"data.md": 6, "preference-data.md": 3}[name]
        for number, piece in enumerate(pieces):
            path = tmp_path / f"{name}-{number}.jsonl"
            path.write_text(piece, encoding="utf-8")
            first = json.loads(piece.splitlines()[0])
            sources = {"chosen": PairFile, "label": LabelFile, "completion": DemonstrationFile}
            source = next((source for column, source in sources.items() if column in first), None)
            if source is None:
                assert len(Jsonl(path=str(path)).problems("train")) == 3
            else:
                assert len(read(source(path=str(path))).examples) == len(piece.splitlines())
