"""Reference graders: other readings of the same responses, run beside the declared grader; they change no score."""

from __future__ import annotations

from collections.abc import Sequence

from paribus.part import replace
from paribus.tasks.base import Task
from paribus.tasks.grading import Answer, Grader, Item, Math
from paribus.tasks.shots import asks_for_box
from paribus.types import Verdict


def usual_references(task: Task) -> tuple[Grader, ...]:
    """Return the two graders that a task's declared one is set against: those that read answers of the same form.

    After a marker: `strict`, `official-gsm8k` and `flexible`; in a box: `boxed`, `flexible` and `math`; less the
    declared one. Marker and `stop` are the declared grader's.
    """
    declared = task.grader
    answer = declared if isinstance(declared, Answer) else Answer()
    boxed = asks_for_box(task)
    policies = ("boxed", "flexible") if boxed else ("strict", "official-gsm8k", "flexible")
    family: list[Grader] = [replace(answer, policy=policy) for policy in policies]
    if boxed:
        family.append(Math())
    return tuple(grader for grader in family if grader.name != declared.name)


def grade_by(reference: Grader, declared: Grader, items: Sequence[Item]) -> list[Verdict]:
    """Judge responses by a reference grader, on the part of each text that the declared grader reads."""
    stops = declared.stop if isinstance(declared, Answer) else ()
    return reference.grade_many([item._replace(response=_before(item.response, stops)) for item in items])


def _before(text: str, stops: Sequence[str]) -> str:
    return text[: min((at for stop in stops if (at := text.find(stop)) >= 0), default=None)]
