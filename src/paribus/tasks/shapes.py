"""What the columns of a file mean: TRL's shapes, verl's RLHF rows and our own, told apart by the columns' names."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from paribus.errors import DataError, nearest
from paribus.tasks.rows import HubOrigin, Table, has, missing, names

QUESTIONS = ("question", "prompt", "problem")
ANSWERS = ("answer", "ground_truth", "solution")
VERL = ("data_source", "prompt", "reward_model")

Message = dict[str, str]

# what csv makes of a list of messages, in JSON or as Python prints it
_WRITTEN_OUT = re.compile(r"""\s*\[\s*\{\s*["'](role|content)["']\s*:""")


class Kind(NamedTuple):
    """A kind of rows: its name, the columns that all have, and what takes them."""

    name: str
    columns: frozenset[str]
    taker: str


KINDS = (
    Kind("verl's RLHF rows", frozenset(VERL), 'a task: type = "jsonl"'),
    Kind("preference pairs", frozenset({"chosen", "rejected"}), 'source.type = "pair_file"'),
    Kind("labelled answers", frozenset({"completion", "label"}), 'source.type = "label_file"'),
    Kind("demonstrations", frozenset({"prompt", "completion"}), 'source.type = "demonstration_file"'),
    Kind("conversations", frozenset({"messages"}), 'source.type = "demonstration_file"'),
)


class Origin(NamedTuple):
    """What was read: from where, as rows of which kind, and which column was taken for what."""

    where: str
    kind: str
    columns: Mapping[str, str]
    hub: HubOrigin | None = None

    def __str__(self) -> str:
        taken = ", ".join(f"{what} from '{column}'" for what, column in self.columns.items())
        hub = f", commit {self.hub.revision}" if self.hub else ""
        return f"{self.where}{hub}: {self.kind}" + (f"; {taken}" if taken else "")


class Taken(NamedTuple):
    """Which columns a task reads, and what kind of rows they make."""

    kind: str
    question: str
    answer: str
    solution: str | None = None
    id: str | None = None

    @property
    def columns(self) -> dict[str, str]:
        """The column of each thing that is read."""
        return {what: column for what, column in self._asdict().items() if what != "kind" and column is not None}


def detect(table: Table, declared: Mapping[str, str | None]) -> Taken:
    """Return which columns hold question and answer; what `declared` names is taken as it says.

    Raises DataError for a named column that is not there, and where none or several could be meant.
    """
    present = list(dict.fromkeys(name for row in table.rows for name in names(row)))
    for what, column in declared.items():
        if column is not None and not any(has(row, column) for row in table.rows):
            raise DataError(
                f"{table.where}: no column '{column}'{nearest(column, present)}; "
                f'name it with `columns.{what} = "..."`'
            )
    solution, name = declared.get("solution"), declared.get("id")
    if set(VERL) <= set(present):
        question, answer = declared.get("question") or "prompt", declared.get("answer") or "reward_model.ground_truth"
        return Taken(KINDS[0].name, question, answer, solution, name)
    claimed = {column for column in declared.values() if column is not None}
    question = declared.get("question") or _only("question", QUESTIONS, present, claimed, table.where)
    answers = [column for column in ANSWERS if column in present and column not in {*claimed, question}]
    if "solution" in answers and len(answers) > 1:
        answers.remove("solution")  # beside the answer, a solution is how to get there
    answer = declared.get("answer") or _only("answer", answers or ANSWERS, present, {*claimed, question}, table.where)
    shape = "prompt-only" if question == "prompt" else "question"
    return Taken(f"{shape} rows with answers", question, answer, solution, name)


def _only(what: str, known: Sequence[str], present: Collection[str], claimed: Collection[str], where: str) -> str:
    """Return the one column of `known` that is there and stands for nothing else."""
    found = [column for column in known if column in present and column not in claimed]
    if len(found) == 1:
        return found[0]
    if found:
        listed = " and ".join(f"'{column}'" for column in found)
        raise DataError(f'{where}: {listed} could each be the {what}: say which with `columns.{what} = "{found[0]}"`')
    listed = ", ".join(f"'{column}'" for column in known)
    raise DataError(
        f"{where}: no column for the {what} (known names: {listed}) among {_listed(present)}: "
        f'name it with `columns.{what} = "..."`' + hint(present)
    )


def _listed(present: Collection[str]) -> str:
    return ", ".join(f"'{column}'" for column in present if "." not in column) or "no columns"


def hint(present: Collection[str]) -> str:
    """Return, for an error about missing columns, what kind of rows these seem to be and what takes such."""
    kind = next((kind for kind in KINDS if kind.columns <= set(present)), None)
    return f"; these look like {kind.name}, which are for {kind.taker}" if kind is not None else ""


def read_messages(held: Any, column: str, where: str) -> list[Message]:
    """Return a list of chat messages, roles and contents as they are. Raises DataError for anything else."""

    def fits(item: Any) -> bool:
        return isinstance(item, Mapping) and all(isinstance(item.get(name), str) for name in ("role", "content"))

    if not isinstance(held, list) or not held or not all(map(fits, held)):
        raise DataError(
            f"{where}, column '{column}': must be text, or a list of messages with the texts 'role' and 'content'"
        )
    for number, item in enumerate(held):
        more = [name for name, extra in item.items() if name not in ("role", "content") and extra not in (None, "", [])]
        if more:
            raise DataError(
                f"{where}, column '{column}': message {number} holds '{more[0]}', which would be lost: only 'role' and "
                "'content' are sent; remove it, or the row"
            )
    return [{"role": item["role"], "content": item["content"]} for item in held]


def read_prompt(held: Any, column: str, where: str) -> str | list[Message]:
    """Return a prompt: text, or messages that end with the user's turn. Raises DataError."""
    if isinstance(held, str):
        if _WRITTEN_OUT.match(held):
            raise DataError(
                f"{where}, column '{column}': text that spells out a list of messages: a csv cell cannot hold one; "
                "write the data as jsonl or parquet, with a list in this column"
            )
        return held
    return ends_with_user(read_messages(held, column, where), column, where)


def ends_with_user(messages: list[Message], column: str, where: str) -> list[Message]:
    """Return messages whose last is the user's and says something. Raises DataError for others."""
    last = messages[-1]
    if last["role"] != "user":
        raise DataError(
            f"{where}, column '{column}': the prompt ends with a message of '{last['role']}', and the model answers "
            "the user: remove what comes after the last message of 'user'"
        )
    if missing(last["content"].strip()):
        raise DataError(f"{where}, column '{column}': the last message is empty; fill it or remove the row")
    return messages


def question_text(messages: Sequence[Mapping[str, str]]) -> str:
    """Return what messages ask, for people to read: the user's one message, or all turns with their roles."""
    turns = [message for message in messages if message["role"] != "system"]
    if len(turns) == 1:
        return turns[0]["content"]
    return "\n\n".join(f"{message['role']}: {message['content']}" for message in turns)
