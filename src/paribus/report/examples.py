"""Problems shown with every model's answer, chosen by a rule that is printed with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from paribus.report.blocks import Answer, Block, Example, Prose
from paribus.report.results import Scores
from paribus.report.text import count
from paribus.store import EvalRow, ProblemRow, StoredExperiment

SHOWN = 2  # problems of each kind
LONGEST = 2000  # characters of an answer


class Kind(NamedTuple):
    """A kind of problem: what the models' answers must have been, the base's first."""

    text: str
    holds: Callable[[bool, Sequence[bool]], bool]


KINDS = (
    Kind("the base is wrong, all arms are right", lambda base, arms: not base and all(arms)),
    Kind("the arms disagree", lambda base, arms: any(arms) and not all(arms)),
    Kind("the base is right, all arms are wrong", lambda base, arms: base and not any(arms)),
    Kind("all are wrong", lambda base, arms: not base and not any(arms)),
)


def examples(exp: StoredExperiment, s: Scores) -> list[Block]:
    """Return up to two problems of each kind, the first in the order of their ids, from the lowest common seed."""
    arms = [arm for arm in exp.info.arms if s.seeds[arm]]
    common = sorted(set.intersection(*(set(s.seeds[arm]) for arm in arms))) if arms else []
    if not common or not s.base_rows:
        return [Prose("Examples need an evaluation of the base and one seed that every arm finished.", "note")]
    seed = common[0]
    first = {"base": _first_sample(s.base_rows)} | {arm: _first_sample(s.rows[arm, seed]) for arm in arms}
    known = [i for i in sorted(s.problems, key=natural) if all(rows[i].score is not None for rows in first.values())]
    questions = exp.problems(s.suite)
    out: list[Block] = [
        Prose(
            f"Rule: of the final evaluation on {s.suite} (base, and every arm's seed {seed}; first sample of a "
            f"problem), the first {SHOWN} problems of each kind in the order of their ids. Nothing was picked by hand.",
            "note",
        )
    ]
    for kind in KINDS:
        found = [i for i in known if kind.holds(*_right(first, i))]
        out.append(Prose(f"{kind.text[0].upper()}{kind.text[1:]}: {count(len(found), 'problem')} of {len(known):,}."))
        out += [_example(i, questions.get(i), {m: rows[i] for m, rows in first.items()}) for i in found[:SHOWN]]
    return out


def natural(text: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts test-9 before test-10."""
    return [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in re.split(r"([0-9]+)", text) if p]


def _first_sample(rows: Sequence[EvalRow]) -> dict[str, EvalRow]:
    out: dict[str, EvalRow] = {}
    for row in rows:
        out.setdefault(row.problem_id, row)
    return out


def _right(first: dict[str, dict[str, EvalRow]], problem: str) -> tuple[bool, list[bool]]:
    base, *arms = [rows[problem].score == 1 for rows in first.values()]
    return base, arms


def _example(problem: str, asked: ProblemRow | None, rows: dict[str, EvalRow]) -> Example:
    answers = [
        Answer(model, _verdict(row), row.answer or "", _detail(row), _cut(row.response)) for model, row in rows.items()
    ]
    question = asked.question if asked else "(the question was not stored)"
    return Example(problem, question, asked.gold if asked else "", answers)


def _verdict(row: EvalRow) -> Literal["right", "wrong", "not counted"]:
    if row.score is None:
        return "not counted"
    return "right" if row.score == 1 else "wrong"


def _detail(row: EvalRow) -> str:
    return count(row.tokens, "token") + (", cut at the limit" if row.truncated else "")


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … ({len(text) - LONGEST:,} more characters)"
