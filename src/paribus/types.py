"""Nouns without tensors: Problem, Prompt, Verdict, Stop, Key."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One item of a task: what is asked and what counts as right.

    `id` is stable across runs and machines (it pairs evaluation rows and keys the random draws).
    `solution` is a worked solution where the data has one, `tags` say what kind of problem it is. `messages` are the
    ready-made chat messages (`role`, `content`) of data that has them: they are sent as they are, and `question` is
    their text for people.
    """

    id: str
    question: str
    gold: str
    solution: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    messages: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The exact token ids a sampler continues, made once per problem; ids are the truth, `text` is for people."""

    problem_id: str
    ids: tuple[int, ...]
    text: str


class Stop(StrEnum):
    """Why a response ended: a stop token, the length limit, or an engine error."""

    EOS = "eos"
    LENGTH = "length"
    ERROR = "error"


Status = Literal["ok", "unparsable", "ungradable", "timeout", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A grader's judgement of one response.

    `score` is the reward of the task (0 or 1 for exact answers); `answer` what was read from the response;
    `status` is `ok` (an answer was read and compared), `unparsable` (no answer found: score 0), `ungradable`
    (the gold itself cannot be read: not counted), `timeout` or `error` (the grader failed: not counted).
    `format` says whether the declared answer format was kept; it is recorded, never rewarded.
    `steps` holds per-step scores where a process reward exists.
    """

    score: float
    answer: str | None
    status: Status = "ok"
    format: bool = False
    steps: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Key:
    """Who is drawn: randomness is a pure function of these, never of batch layout, order, rank or restart.

    `purpose` names the stream (`order`, `sample`, `eval`, `critic`, `shuffle` ...), so no stream disturbs another;
    `round` counts the refills of one step.
    """

    seed: int
    purpose: str
    step: int = 0
    problem: str = ""
    sample: int = 0
    round: int = 0

    def hash(self) -> int:
        """A 63-bit number, the same on every platform."""
        text = "\x1f".join(map(str, (self.seed, self.purpose, self.step, self.problem, self.sample, self.round)))
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1
