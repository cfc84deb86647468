"""Graders: the one judgement of a response, the same object in training and in evaluation."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from paribus.errors import ConfigError
from paribus.part import Part, dump
from paribus.tasks import expressions, mathcheck, mathpool
from paribus.tasks.numbers import canonical, last_number, stated
from paribus.types import Verdict

MAX_MATH = 1_000  # characters of a mathematical answer; a longer one is no answer


class Item(NamedTuple):
    """One response to grade; `truncated` says that it ended at the length limit."""

    response: str
    gold: str
    truncated: bool = False


class Answer(Part):
    """Grades one number by exact rational comparison (`tasks.numbers` says how numbers are read); score 0 or 1.

    - `strict`: the number right after the last `marker` that a number follows; a malformed number there is wrong.
      A marker that begins with a newline counts only at the start of a line.
    - `boxed`: the content of the last non-empty `\\boxed` or `\\fbox`, which must be one number; an unclosed box is
      no box.
    - `flexible`: the first that is there of: marker, box, last `<answer>` tag, last `answer is` or `answer:`, last
      number of the text. Of a truncated response only the marker, box and tag count: a number that the text happened
      to stop at is no answer.
    - `official-gsm8k`: the data set's own rule: the first marker, one blank, then `-`, digits, dots and commas; commas
      dropped; strings equal (so `40.0` is not `40`, and `#### 1e3` is read as 1).

    `truncated` changes no verdict of `strict`, `boxed` and `official-gsm8k`. `stop`: a response is cut at the first of
    these strings before it is read, for base models that go on with a question of their own.
    `format` of a verdict: the answer stood in the declared form (for `flexible`, in any form but the last number) and
    `<think>` tags, if any, were in order and not empty.
    """

    type: Literal["answer"] = "answer"
    policy: Literal["strict", "flexible", "boxed", "official-gsm8k"] = "strict"
    marker: str = Field(default="####", min_length=1)
    stop: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What reports call this grader."""
        return f"answer/{self.policy}"

    @property
    def version(self) -> str:
        """A short hash of the grader's source and settings: equal versions give equal verdicts."""
        return _version(self)

    def grade(self, response: str, gold: str, *, truncated: bool = False) -> Verdict:
        """Judge one response; never raises on what a model or a data set may hold."""
        response = _cut(response, self.stop)
        if self.policy == "official-gsm8k":
            return self._official(response, gold)
        want = _gold_value(gold)
        if want is None:
            return Verdict(score=0.0, answer=None, status="ungradable")
        value, explicit = self._read(response, truncated)
        if value is None:
            return Verdict(score=0.0, answer=None, status="unparsable")
        form = explicit and _thought_in_order(response)
        return Verdict(score=float(value == want), answer=canonical(value), format=form)

    def grade_many(self, items: Sequence[Item]) -> list[Verdict]:
        """Judge responses; verdict i is that of item i."""
        return [self.grade(item.response, item.gold, truncated=item.truncated) for item in items]

    def _read(self, response: str, truncated: bool) -> tuple[Fraction | None, bool]:
        """Return the number that the response gives, and whether it stood in an explicit form."""
        if self.policy == "strict":
            return _after_marker(response, self.marker)[1], True
        if self.policy == "boxed":
            content = last_box(response)
            return (None if content is None else _only(content)), True
        found, value = _after_marker(response, self.marker)
        if found:
            return value, True
        enclosed = last_box(response)
        if enclosed is None:
            enclosed = last_tag(response)
        if enclosed is not None:
            return _only(enclosed), True
        if truncated:
            return None, False
        found, value = _after_phrase(response)
        return (value, True) if found else (last_number(response), False)

    def _official(self, response: str, gold: str) -> Verdict:
        match = re.search(re.escape(self.marker) + r" (-?[0-9.,]+)", "\n" + response)
        if match is None:
            return Verdict(score=0.0, answer=None, status="unparsable")
        answer = match[1].replace(",", "")
        return Verdict(score=float(answer == gold.strip().replace(",", "")), answer=answer, format=True)


class _Undecided(NamedTuple):
    gold: str
    answer: str
    format: bool


class Math(Part):
    """Grades a mathematical answer: exact checks of our own around math-verify in a process that can be killed.

    The answer is the content of the last non-empty `\\boxed` or `\\fbox`, else of the last `<answer>` tag, else what
    follows the last `answer is` or `answer:`; of a truncated response only the box and the tag count. Equality is
    that of `tasks.expressions`; what is neither rational nor built of parts goes to math-verify, gold first.
    `seconds` of processor time is the limit for one response, `workers` the number of processes. A verdict whose
    grading timed out or crashed has that status and is no wrong answer. A gold that is empty, prose (several words) or
    unreadable is `ungradable`.
    """

    type: Literal["math"] = "math"
    seconds: float = Field(default=3.0, gt=0)
    workers: int = Field(default=1, ge=1)

    @property
    def name(self) -> str:
        """What reports call this grader."""
        return "math/math-verify"

    @property
    def version(self) -> str:
        """A short hash of the grader's source, settings and math libraries. Raises ConfigError without math-verify."""
        return _version(self, "math-verify", "latex2sympy2_extended", "sympy")

    @property
    def pool(self) -> mathpool.Pool:
        """The processes that judge, shared by all graders of this many workers; its `counts` are for the record."""
        return mathpool.shared_pool(mathcheck.judge, workers=self.workers, warm_up=(r"\frac{x}{\sqrt{2}}", "1-x^2"))

    def grade(self, response: str, gold: str, *, truncated: bool = False) -> Verdict:
        """Judge one response; never raises on what a model or a data set may hold."""
        return self.grade_many([Item(response, gold, truncated)])[0]

    def grade_many(self, items: Sequence[Item]) -> list[Verdict]:
        """Judge responses, in parallel where processes are needed; verdict i is that of item i."""
        verdicts = [self._at_once(item) for item in items]
        pending = [(i, v) for i, v in enumerate(verdicts) if isinstance(v, _Undecided)]
        if pending:
            outcomes = self.pool.map([(v.gold, v.answer) for _, v in pending], seconds=self.seconds)
            for (i, undecided), outcome in zip(pending, outcomes, strict=True):
                verdicts[i] = _settle(undecided, outcome)
        return [v for v in verdicts if isinstance(v, Verdict)]

    def _at_once(self, item: Item) -> Verdict | _Undecided:
        """Judge what needs no computer algebra."""
        gold = expressions.clean(last_box(item.gold) or item.gold) if len(item.gold) <= MAX_MATH else ""
        if expressions.is_prose(gold):
            return Verdict(score=0.0, answer=None, status="ungradable")
        text, form = self._read(item.response, item.truncated)
        answer = expressions.clean(text) if text and len(text) <= MAX_MATH else ""
        if not answer:
            return Verdict(score=0.0, answer=None, status="unparsable")
        equal = expressions.compare(gold, answer, lambda gold, answer: None)
        if equal is None:
            return _Undecided(gold, answer, form)
        return Verdict(score=float(equal), answer=answer, format=form)

    @staticmethod
    def _read(response: str, truncated: bool) -> tuple[str | None, bool]:
        enclosed = last_box(response)
        if enclosed is None:
            enclosed = last_tag(response)
        if enclosed is not None:
            return enclosed, _thought_in_order(response)
        return (None if truncated else _formula_after_phrase(response)), False


Grader = Annotated[Answer | Math, Field(discriminator="type")]


def _settle(undecided: _Undecided, outcome: mathpool.Outcome) -> Verdict:
    _, answer, form = undecided
    if outcome.status != "ok":
        return Verdict(score=0.0, answer=answer, status=outcome.status, format=form)
    if outcome.value == "ungradable":
        return Verdict(score=0.0, answer=answer, status="ungradable", format=form)
    return Verdict(score=float(outcome.value == "right"), answer=answer, format=form)


@cache
def _source_hash() -> bytes:
    digest = hashlib.sha256()
    for name in ("arithmetic", "expressions", "grading", "mathcheck", "mathpool", "numbers"):
        digest.update((Path(__file__).parent / f"{name}.py").read_bytes())
    return digest.digest()


@lru_cache(maxsize=64)
def _version(grader: Part, *packages: str) -> str:
    try:
        releases = [importlib.metadata.version(package) for package in packages]
    except importlib.metadata.PackageNotFoundError as error:
        raise ConfigError(f"grading mathematics needs {error.name}: pip install 'paribus[train]'") from None
    settings = json.dumps([dump(grader), releases], sort_keys=True).encode()
    return hashlib.sha256(_source_hash() + settings).hexdigest()[:12]


def _cut(response: str, stops: Sequence[str]) -> str:
    ends = [at for stop in stops if (at := response.find(stop)) >= 0]
    return response[: min(ends)] if ends else response


@lru_cache(maxsize=8192)
def _gold_value(gold: str) -> Fraction | None:
    reading = stated(gold, whole=True)
    return reading.value if reading else None


def _only(content: str) -> Fraction | None:
    """Return the one number that a box or tag holds; None where there is none, or several."""
    reading = stated(content, whole=True)
    return reading.value if reading else None


def _after_marker(response: str, marker: str) -> tuple[bool, Fraction | None]:
    """Return whether a number, well-formed or not, follows a marker, and the value of the last that does."""
    text = "\n" + response
    end = len(text)
    while (at := text.rfind(marker, 0, end)) >= 0:
        line = _first_line(text[at + len(marker) : end])
        box = last_box(line)
        reading = stated(line.lstrip("#") if box is None else box)
        if reading:
            return True, reading.value
        end = at
    return False, None


def _first_line(text: str) -> str:
    """Return the first line of `text` that is not blank."""
    return text.lstrip().partition("\n")[0]


_PHRASE = re.compile(r"\banswer\b(?:\s{1,2}is\b|[*_`\s]{0,4}[:=])[*_`\s:]{0,6}", re.IGNORECASE)


def _after_phrases(response: str) -> Iterator[str]:
    """Yield what follows each `answer is` or `answer:`, the last first, to the end of its line or the next phrase."""
    end = len(response)
    for match in reversed(list(_PHRASE.finditer(response))):
        yield _first_line(response[match.end() : end])
        end = match.start()


def _after_phrase(response: str) -> tuple[bool, Fraction | None]:
    """Return whether a number, well-formed or not, follows such a phrase, and the value of the last that does."""
    for line in _after_phrases(response):
        if reading := stated(line):
            return True, reading.value
    return False, None


_FORMULA = re.compile(r"\$([^$]++)\$|\\\(([^\\]++(?:\\[^)][^\\]*+)*+)\\\)")


def _formula_after_phrase(response: str) -> str | None:
    """Return the formula that follows the last such phrase: what stands between dollar signs, else its whole line."""
    line = next(_after_phrases(response), "").strip().strip("*_`").removesuffix(".")
    formula = _FORMULA.search(line)
    return (formula[1] or formula[2]) if formula else line or None


_BOX_OR_BRACE = re.compile(
    r"\\(?:boxed|fbox)\s{0,2}(?:(?P<box>\{)|(?P<bare>[-+\u2212]?[0-9][^\s$]*))|\\[\\{}]|(?P<open>\{)|(?P<close>\})"
)


def last_box(text: str) -> str | None:
    """Return the content of the last closed, non-empty `\\boxed{...}` or `\\fbox{...}`, or None; `\\boxed 42` counts.

    The last is the one that begins last: of nested boxes, the inner one.
    """
    if "box" not in text:
        return None
    best: tuple[int, str] | None = None
    opened: list[tuple[int, bool]] = []
    for match in _BOX_OR_BRACE.finditer(text):
        if match["box"] or match["open"]:
            opened.append((match.end(), bool(match["box"])))
        elif match["bare"]:
            best = max(best or (0, ""), (match.start("bare"), match["bare"].rstrip(".,;:!?")))
        elif match["close"] and opened:
            start, box = opened.pop()
            if box and (best is None or start > best[0]) and (content := text[start : match.start()]).strip():
                best = start, content
    return best[1] if best else None


def last_tag(text: str) -> str | None:
    """Return the content of the last closed, non-empty `<answer>...</answer>`; else None."""
    limit = len(text)
    while (at := text.rfind("<answer>", 0, limit)) >= 0:
        content, closed, _ = text[at + len("<answer>") : limit].partition("</answer>")
        if closed and content.strip():
            return content
        limit = at
    return None


def _thought_in_order(response: str) -> bool:
    """Say whether reasoning, where the response has `<think>` tags, is one closed pair around something.

    The opening tag may have stood in the prompt.
    """
    opened, closed = response.count("<think>"), response.count("</think>")
    if not opened and not closed:
        return True
    thought = response.partition("</think>")[0]
    if opened:
        thought = thought.partition("<think>")[2]
    return opened <= 1 and closed == 1 and bool(thought.strip())
