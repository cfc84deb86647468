"""Given answers as ids: preference pairs, labelled answers and demonstrations, read from files and cut to fit.

docs/preference-data.md says what a file may look like: TRL's explicit and implicit shapes, as text or as messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase

from paribus.errors import DataError, nearest
from paribus.models import chat
from paribus.tasks.data import Row, read_rows

Ids = tuple[int, ...]


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


def read_pairs(path: str) -> list[Example]:
    """Return the pairs of a file: `prompt`, `chosen`, `rejected`, or the last two as whole conversations.

    Raises DataError naming file and row, as do the other readers.
    """
    return _read(path, _pair)


def read_labels(path: str) -> list[Example]:
    """Return the answers of a file that are good or bad each on its own: `prompt`, `completion`, `label`."""
    return _read(path, _labelled)


def read_demonstrations(path: str) -> list[Example]:
    """Return the demonstrations of a file: `prompt` and `completion`, or `messages`."""
    return _read(path, _demonstration)


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
    ids = chat.encode_text(tokenizer, prompt) if isinstance(prompt, str) else chat.encode(tokenizer, prompt)
    if not ids:
        raise DataError(f"{example.where}: the prompt is empty and this tokenizer has no BOS token to start from")
    return tuple(ids)


def _answer_ids(tokenizer: PreTrainedTokenizerBase, text: str | None) -> Ids | None:
    if text is None:
        return None
    ids: Ids = tuple(tokenizer(text, add_special_tokens=False).input_ids)
    return ids if not ids or ids[-1] == tokenizer.eos_token_id else (*ids, tokenizer.eos_token_id)


def _read(path: str, parse: Callable[[Row, str], Example]) -> list[Example]:
    file = Path(path).expanduser()
    rows = read_rows(file)
    if not rows:
        raise DataError(f"{path}: holds no rows")
    return [parse(row, f"{path}, row {i}") for i, row in enumerate(rows)]


def _pair(row: Row, where: str) -> Example:
    chosen, rejected = (_column(row, name, where) for name in ("chosen", "rejected"))
    conversations = all(isinstance(side, list) and len(side) > 1 for side in (chosen, rejected))
    if "prompt" in row and not (conversations and isinstance(row["prompt"], str)):
        prompt = _prompt(row["prompt"], where)
    elif conversations:
        prompt, chosen, rejected = _split_messages(chosen, rejected, where)
    elif isinstance(chosen, str) and isinstance(rejected, str):
        prompt, chosen, rejected = _split_texts(chosen, rejected, where)
    else:
        raise DataError(
            f"{where}: without a column 'prompt', 'chosen' and 'rejected' must both be text or both be conversations "
            "of two messages at least"
        )
    good, bad = _answer(chosen, "chosen", where), _answer(rejected, "rejected", where)
    return Example(where=where, prompt=prompt, good=good, bad=bad)


def _labelled(row: Row, where: str) -> Example:
    prompt = _prompt(_column(row, "prompt", where), where)
    answer = _answer(_column(row, "completion", where), "completion", where)
    label = _column(row, "label", where)
    if label not in (True, False):
        raise DataError(f"{where}, column 'label': must be true or false, not {label!r}")
    return Example(where=where, prompt=prompt, good=answer if label else None, bad=None if label else answer)


def _demonstration(row: Row, where: str) -> Example:
    if "messages" in row:
        messages = _messages(row["messages"], "messages", where)
        if len(messages) < 2:
            raise DataError(f"{where}, column 'messages': needs a prompt and, last, the assistant's answer")
        return Example(where=where, prompt=messages[:-1], good=_answer(messages[-1:], "messages", where))
    prompt = _prompt(_column(row, "prompt", where), where)
    return Example(where=where, prompt=prompt, good=_answer(_column(row, "completion", where), "completion", where))


def _split_messages(chosen: Any, rejected: Any, where: str) -> tuple[chat.Messages, Any, Any]:
    """Return the messages with which two conversations begin alike, and what each adds."""
    left, right = _messages(chosen, "chosen", where), _messages(rejected, "rejected", where)
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


def _column(row: Row, name: str, where: str) -> Any:
    if name not in row:
        raise DataError(f"{where}: no column '{name}'{nearest(name, row)}")
    return row[name]


def _prompt(value: Any, where: str) -> str | chat.Messages:
    return value if isinstance(value, str) else _messages(value, "prompt", where)


def _answer(value: Any, column: str, where: str) -> str:
    """Return the text of an answer: a string, or the one message of the assistant."""
    if isinstance(value, str):
        return value
    messages = _messages(value, column, where)
    if len(messages) != 1 or messages[0]["role"] != "assistant":
        roles = ", ".join(message["role"] for message in messages)
        raise DataError(
            f"{where}, column '{column}': an answer is text or one message of the assistant, and here are: {roles}"
        )
    return messages[0]["content"]


def _messages(value: Any, column: str, where: str) -> Sequence[Mapping[str, str]]:
    def fits(item: Any) -> bool:
        return isinstance(item, Mapping) and all(isinstance(item.get(name), str) for name in ("role", "content"))

    if not isinstance(value, list) or not value or not all(map(fits, value)):
        raise DataError(
            f"{where}, column '{column}': must be text, or a list of messages with the texts 'role' and 'content'"
        )
    return [{"role": item["role"], "content": item["content"]} for item in value]
