"""One spelling of an answer, so that equal answers of several samples are one vote."""

from __future__ import annotations

from collections.abc import Sequence

from paribus.tasks.arithmetic import arithmetic
from paribus.tasks.grading import Grader, Math
from paribus.tasks.numbers import canonical
from paribus.types import Verdict

_OPEN, _CLOSE = "([{", ")]}"


def votes(grader: Grader, verdicts: Sequence[Verdict]) -> list[str | None]:
    """Return the answers of one problem's samples in the spelling that `grader`'s equality knows.

    Numbers are one already (`18`, `18.0` and `$18` are `18`), except for `official-gsm8k`, to which they are different
    strings. Of mathematical answers, rationals become numbers, by themselves and inside tuples, intervals and lists,
    and words small; what needs algebra to be recognised as equal, such as `p - q` and `-q + p`, stays apart. Answers
    that were judged differently are never one vote, whatever they look like: they keep their own spelling.
    """
    answers = [verdict.answer for verdict in verdicts]
    if not isinstance(grader, Math):
        return answers
    spelled = [answer and _spelling(answer) for answer in answers]
    judged: dict[str | None, set[tuple[float, str]]] = {}
    for text, verdict in zip(spelled, verdicts, strict=True):
        judged.setdefault(text, set()).add((verdict.score, verdict.status))
    return [text if len(judged[text]) == 1 else answer for text, answer in zip(spelled, answers, strict=True)]


def _spelling(text: str) -> str:
    exact, value = arithmetic(text)
    if exact:
        return text if value is None else canonical(value)
    if len(text) > 2 and text.isalpha():
        return text.casefold()
    enclosed = len(text) > 2 and text[0] in "([" and text[-1] in ")]"
    parts = _split(text[1:-1] if enclosed else text)
    if len(parts) == 1:
        return text
    joined = ",".join(map(_spelling, parts))
    return text[0] + joined + text[-1] if enclosed else joined


def _split(text: str) -> list[str]:
    """Split at the commas outside all brackets; one part where the brackets do not match up."""
    parts, depth, start = [], 0, 0
    for i, character in enumerate(text):
        depth += (character in _OPEN) - (character in _CLOSE)
        if depth < 0:
            return [text]
        if character == "," and not depth:
            parts.append(text[start:i])
            start = i + 1
    return [text] if depth else [*parts, text[start:]]
