"""Task: where problems come from, how they are asked, and who grades the answers."""

from __future__ import annotations

import hashlib
import json
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import field_validator, model_validator

from paribus.errors import DataError, nearest
from paribus.part import Part
from paribus.tasks.grading import Answer, Grader
from paribus.types import Problem

if TYPE_CHECKING:
    from paribus.tasks.shapes import Origin

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")

# `{name}`, but not a LaTeX argument: a prompt may ask for `\boxed{}` or `\boxed{answer}` and mean just that
_PLACEHOLDER = re.compile(r"(\\[A-Za-z]+)?\{([A-Za-z_][A-Za-z0-9_]*)\}")


MARKER_PROMPT = '{question}\nLet\'s think step by step and write the final answer after "####".'
BOXED_PROMPT = "{question}\nLet's think step by step and put the final answer within \\boxed{}."


class Task(Part):
    """A source of problems with one way to ask them and one grader, the same in training and in evaluation.

    `prompt` is the user's message, with `{question}` in it; `system` is sent before it when given. Kinds of task
    add a `type` and the fields that say where the problems are.
    """

    prompt: str = "{question}"
    system: str | None = None
    grader: Grader = Answer()

    @field_validator("prompt")
    @classmethod
    def _asks_the_question(cls, prompt: str) -> str:
        names = [name for command, name in _PLACEHOLDER.findall(prompt) if not command]
        for name in names:
            if name != "question":
                raise ValueError(f"unknown placeholder '{{{name}}}'{nearest(name, ['question'])}")
        if "question" not in names:
            raise ValueError("must contain '{question}', where the problem's text goes")
        return prompt

    @model_validator(mode="after")
    def _grader_reads_what_the_prompt_asks_for(self) -> Task:
        if not isinstance(self.grader, Answer) or self.grader.policy == "flexible":
            return self
        text, marker = f"{self.system or ''}\n{self.prompt}", self.grader.marker.strip()
        if self.grader.policy == "boxed" and marker in text and "\\boxed" not in text:
            raise ValueError(f"the prompt asks for '{marker}' but the grader's policy 'boxed' reads \\boxed{{}}")
        if self.grader.policy != "boxed" and "\\boxed" in text and marker not in text:
            raise ValueError(
                f"the prompt asks for \\boxed{{}} but the grader's policy '{self.grader.policy}' reads '{marker}'"
            )
        return self

    @property
    def hub_id(self) -> str | None:
        """The hub's data set that the problems come from; None where they come from nowhere on a network."""
        return None

    def origin(self, split: Split) -> Origin | None:
        """Return what the problems of a split are read from; None where they are generated. Raises DataError."""
        return None

    @abstractmethod
    def problems(self, split: Split) -> list[Problem]:
        """Return all problems of a split, always in the same order. Raises DataError."""

    def messages(self, problem: Problem) -> list[dict[str, str]]:
        """Return the chat messages (`role`, `content`) that ask `problem`: its own where it has some, as they are.

        The chat template is the model's affair.
        """
        if problem.messages:
            return [dict(message) for message in problem.messages]
        content = _PLACEHOLDER.sub(lambda m: m[0] if m[1] else problem.question, self.prompt)
        user = {"role": "user", "content": content}
        return [user] if self.system is None else [{"role": "system", "content": self.system}, user]


def check_split(name: str) -> Split:
    """Return `name` as a split. Raises DataError with the nearest known name."""
    for split in SPLITS:
        if split == name:
            return split
    raise DataError(f"unknown split '{name}'{nearest(name, SPLITS)}")


def check_problems(problems: Sequence[Problem], where: str) -> list[Problem]:
    """Return `problems` as a list, refusing an empty set and repeated ids (equal texts are separate problems)."""
    if not problems:
        raise DataError(f"{where}: no problems; an empty data set can be neither trained on nor evaluated")
    repeated = [name for name, count in Counter(p.id for p in problems).items() if count > 1]
    if repeated:
        raise DataError(
            f"{where}: {len(repeated)} ids stand more than once, for example '{repeated[0]}'; "
            "ids pair evaluation rows and key the random draws, so each must be unique"
        )
    return list(problems)


def content_hash(problems: Iterable[Problem]) -> str:
    """Return a short sha256 of ids, questions, golds and messages in order: equal hashes mean the same data."""
    return texts_hash(text for p in problems for text in (p.id, p.question, p.gold, *_own_messages(p)))


def _own_messages(problem: Problem) -> list[str]:
    # nothing where there are none, so that other data keeps the hash that stored runs have of it
    return [messages_text(problem.messages)] if problem.messages else []


def messages_text(messages: Iterable[Mapping[str, str]]) -> str:
    """Return messages as one text, another one for every other list of messages."""
    return json.dumps([[message["role"], message["content"]] for message in messages])


def texts_hash(texts: Iterable[str]) -> str:
    """Return a short sha256 of texts in order."""
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:16]
