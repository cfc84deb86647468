"""Given answers as ids: preference pairs, labelled answers and demonstrations, read and cut to fit.

docs/preference-data.md says what rows may look like: TRL's explicit and implicit shapes, as text or as messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase

from paribus.algorithms import FileSource
from paribus.errors import DataError, nearest
from paribus.models import chat
from paribus.tasks.base import messages_text, texts_hash
from paribus.tasks.hub import Place, read_given
from paribus.tasks.rows import Row, has, missing, value
from paribus.tasks.shapes import QUESTIONS, Origin, ends_with_user, hint, read_messages, read_prompt

Ids = tuple[int, ...]
Names = Mapping[str, str]  # what the reader calls a column -> what the data calls it


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A row of a file: a prompt with a good answer, a bad one, or both. A prompt in messages goes through the chat
    template, a plain text does not. `where` names file and row, for errors."""

    where: str
    prompt: str | chat.Messages
    good: str | None = None
    bad: str | None = None


class Limits(NamedTuple):
    """In tokens: of a prompt, of an answer with its end marker, and of both together (the model's context)."""

    prompt: int
    response: int
    length: int


class Encoded(NamedTuple):
    """An example in ids; both answers continue the very same prompt. None: no such answer."""

    prompt: Ids
    good: Ids | None = None
    bad: Ids | None = None


class Fitted(NamedTuple):
    """What is left of some examples, in their order, and how many were dropped because an answer was empty."""

    rows: list[Encoded]
    dropped: int


class GivenAnswers(NamedTuple):
    """The rows of a file or hub data set, in its order, and what they were read from."""

    examples: list[Example]
    origin: Origin

    @property
    def hash(self) -> str:
        """A short sha256 of prompts and answers in order: equal hashes mean the same data."""
        return texts_hash(text for example in self.examples for text in _contents(example))


def _contents(example: Example) -> tuple[str, ...]:
    prompt = example.prompt
    kind, text = ("text", prompt) if isinstance(prompt, str) else ("messages", messages_text(prompt))
    sides = (("good", example.good), ("bad", example.bad))
    return (kind, text, *(part for side, answer in sides if answer is not None for part in (side, answer)))


def read(source: FileSource) -> GivenAnswers:
    """Return the answers that a source names: pairs, labelled answers or demonstrations.

    Raises DataError naming file and row.
    """
    table = read_given(Place(source.path, source.config, source.revision, source.split))
    if not table.rows:
        raise DataError(f"{table.where}: holds no rows")
    kind, parse, needed = READERS[source.type]
    declared = {what: column for what, column in dict(source.columns).items() if column is not None}
    names = _names(source, declared)
    for what, column in names.items():
        if what in needed and not any(has(row, column) for row in table.rows):
            raise DataError(
                f"{table.where}: no column '{column}'{nearest(column, table.columns)}; name it with "
                f'`source.columns.{what} = "..."`{hint(table.columns)}'
            )
    examples = []
    for i, row in enumerate(table.rows):
        where = f"{table.where}, row {i}"
        for column in declared.values():
            if value(row, column, where) is None:  # what is declared is never replaced by what could be detected
                raise DataError(f"{where}: column '{column}' is empty; fill it or remove the row")
        examples.append(parse(row, names, where))
    there = {what: column for what, column in names.items() if any(has(row, column) for row in table.rows)}
    return GivenAnswers(examples, Origin(table.where, kind, there, table.hub))


def _names(source: FileSource, declared: Names) -> dict[str, str]:
    """Return the column of each thing that may be read; of two forms of a demonstration, the declared one alone."""
    names = {what: declared.get(what, what) for what in type(source.columns).model_fields}
    for one, other in (("messages", "completion"), ("completion", "messages")):
        if one in declared and other not in declared:
            names.pop(other, None)
    return names


def encode(tokenizer: PreTrainedTokenizerBase, examples: Iterable[Example], limits: Limits) -> Fitted:
    """Return the examples in ids, each answer closed by one end marker unless it is cut short by the limits.

    An example with an answer of which nothing is there or nothing is left is dropped. Raises DataError for a prompt
    without a single token.
    """
    rows: list[Encoded] = []
    dropped = 0
    for example in examples:
        prompt = _prompt_ids(tokenizer, example)
        found = fit(prompt, _answer_ids(tokenizer, example.good), _answer_ids(tokenizer, example.bad), limits)
        if () in (found.good, found.bad):
            dropped += 1
        else:
            rows.append(found)
    return Fitted(rows, dropped)


def fit(prompt: Ids, good: Ids | None, bad: Ids | None, limits: Limits) -> Encoded:
    """Cut a prompt from the left and each answer from the right; what the prompt leaves is each answer's budget.

    Ids come without padding, so that what is cut off are tokens and never their padding.
    """
    prompt = prompt[-limits.prompt :]
    budget = max(0, min(limits.response, limits.length - len(prompt)))
    return Encoded(prompt, *(None if ids is None else ids[:budget] for ids in (good, bad)))


def _prompt_ids(tokenizer: PreTrainedTokenizerBase, example: Example) -> Ids:
    prompt = example.prompt
    if isinstance(prompt, str):
        ids = chat.encode_text(tokenizer, prompt)
    else:
        ids = chat.encode(tokenizer, prompt, example.where)
    if not ids:
        raise DataError(f"{example.where}: the prompt is empty and this tokenizer has no BOS token to start from")
    return tuple(ids)


def _answer_ids(tokenizer: PreTrainedTokenizerBase, text: str | None) -> Ids | None:
    if text is None:
        return None
    ids: Ids = tuple(tokenizer(text, add_special_tokens=False).input_ids)
    return ids if not ids or ids[-1] == tokenizer.eos_token_id else (*ids, tokenizer.eos_token_id)


def _pair(row: Row, names: Names, where: str) -> Example:
    chosen, rejected = (value(row, names[side], where) for side in ("chosen", "rejected"))
    conversations = all(isinstance(side, list) and len(side) > 1 for side in (chosen, rejected))
    stated = value(row, names["prompt"], where) if has(row, names["prompt"]) else None
    prompt: str | chat.Messages
    if stated is not None and not (conversations and isinstance(stated, str)):
        prompt = read_prompt(stated, names["prompt"], where)
    elif conversations:
        prompt, chosen, rejected = _split_messages(chosen, rejected, names, where)
    elif isinstance(chosen, str) and isinstance(rejected, str):
        _refuse_another_prompt(row, where)
        prompt, chosen, rejected = _split_texts(chosen, rejected, where)
    else:
        raise DataError(
            f"{where}: without a column 'prompt', 'chosen' and 'rejected' must both be text or both be conversations "
            "of two messages at least"
        )
    good, bad = _answer(chosen, names["chosen"], where), _answer(rejected, names["rejected"], where)
    return Example(where=where, prompt=prompt, good=good, bad=bad)


def _refuse_another_prompt(row: Row, where: str) -> None:
    """Raise DataError where the prompt seems to stand in a column of another name: it would be guessed instead."""
    for column in QUESTIONS:
        if not missing(row.get(column)):
            raise DataError(
                f"{where}: no column 'prompt', and '{column}' could be it: say so with `source.columns.prompt = "
                f'"{column}"`, or remove that column if chosen and rejected begin with the prompt'
            )


def _labelled(row: Row, names: Names, where: str) -> Example:
    prompt = read_prompt(value(row, names["prompt"], where), names["prompt"], where)
    answer = _answer(value(row, names["completion"], where), names["completion"], where)
    label = value(row, names["label"], where)
    if isinstance(label, str):  # csv knows nothing but text
        label = {"true": True, "1": True, "false": False, "0": False}.get(label.casefold(), label)
    if label not in (True, False):
        raise DataError(f"{where}, column '{names['label']}': must be true or false, not {label!r}")
    return Example(where=where, prompt=prompt, good=answer if label else None, bad=None if label else answer)


def _demonstration(row: Row, names: Names, where: str) -> Example:
    there = {what for what, name in names.items() if has(row, name) and value(row, name, where) is not None}
    if {"messages", "completion"} <= there:
        raise DataError(
            f"{where}: '{names['messages']}' and '{names['completion']}' could each hold the demonstration: say which "
            f'with `source.columns.messages = "{names["messages"]}"`'
        )
    if "messages" in there or "completion" not in names:
        column = names["messages"]
        messages = read_messages(value(row, column, where), column, where)
        if len(messages) < 2:
            raise DataError(f"{where}, column '{column}': needs a prompt and, last, the assistant's answer")
        answer = _answer(messages[-1:], column, where)
        return Example(where=where, prompt=ends_with_user(messages[:-1], column, where), good=answer)
    prompt = read_prompt(value(row, names["prompt"], where), names["prompt"], where)
    answer = _answer(value(row, names["completion"], where), names["completion"], where)
    return Example(where=where, prompt=prompt, good=answer)


class Reader(NamedTuple):
    """How rows of a source are read: what they are called, by which function, and the columns that must be there."""

    kind: str
    parse: Callable[[Row, Names, str], Example]
    needed: tuple[str, ...]


READERS = {
    "pair_file": Reader("preference pairs", _pair, ("chosen", "rejected")),
    "label_file": Reader("labelled answers", _labelled, ("prompt", "completion", "label")),
    "demonstration_file": Reader("demonstrations", _demonstration, ()),
}


def _split_messages(chosen: Any, rejected: Any, names: Names, where: str) -> tuple[chat.Messages, Any, Any]:
    """Return the messages with which two conversations begin alike, and what each adds."""
    left, right = (read_messages(side, names[n], where) for side, n in ((chosen, "chosen"), (rejected, "rejected")))
    shared = min(_alike(left, right), len(left) - 1, len(right) - 1)
    if not shared:
        raise DataError(f"{where}: 'chosen' and 'rejected' do not begin with the same message: they share no prompt")
    return left[:shared], left[shared:], right[shared:]


def _split_texts(chosen: str, rejected: str, where: str) -> tuple[str, str, str]:
    """Return the words with which two texts begin alike, and the rest of each, its leading space included."""
    shared = chosen[: _alike(chosen, rejected)]
    cut = max((i for i, letter in enumerate(shared) if letter.isspace()), default=0)
    if not shared[:cut].strip():
        raise DataError(
            f"{where}: 'chosen' and 'rejected' do not begin with the same words: they share no prompt; add a column "
            "'prompt'"
        )
    return shared[:cut], chosen[cut:], rejected[cut:]


def _alike(left: Sequence[Any], right: Sequence[Any]) -> int:
    """Return how many items two sequences begin with alike."""
    pairs = zip(left, right, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))


def _answer(held: Any, column: str, where: str) -> str:
    """Return the text of an answer: a string, or the one message of the assistant."""
    if isinstance(held, str):
        return held
    messages = read_messages(held, column, where)
    if len(messages) != 1 or messages[0]["role"] != "assistant":
        roles = ", ".join(message["role"] for message in messages)
        raise DataError(
            f"{where}, column '{column}': an answer is text or one message of the assistant, and here are: {roles}"
        )
    return messages[0]["content"]
