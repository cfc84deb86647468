"""Problems shown with every model's answer, chosen by a rule that is printed with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from paribus.report.blocks import Answer, Block, Example, Judgement, Prose
from paribus.report.message import Joined, Text, msg
from paribus.report.results import Scores
from paribus.report.text import count, cut
from paribus.store import EvalRow, ProblemRow, StoredExperiment

SHOWN = 2  # problems of each kind
LONGEST = 2000  # characters of an answer or a question
READ = 200  # characters of what a grader read

Rows = Mapping[str, EvalRow]  # a model's first sample of every problem


class Kind(NamedTuple):
    """A kind of problem: what the models' answers must have been, the base's first."""

    text: str
    holds: Callable[[bool, Sequence[bool]], bool]


KINDS = (
    Kind(
        "The base is wrong, all arms are right: {found} of {all}.",
        lambda base, arms: not base and all(arms),
    ),
    Kind(
        "The arms disagree: {found} of {all}.",
        lambda base, arms: any(arms) and not all(arms),
    ),
    Kind(
        "The base is right, all arms are wrong: {found} of {all}.",
        lambda base, arms: base and not any(arms),
    ),
    Kind(
        "All are wrong: {found} of {all}.",
        lambda base, arms: not base and not any(arms),
    ),
)


def examples(exp: StoredExperiment, s: Scores) -> list[Block]:
    """Return up to two problems of each kind, the first in the order of their ids, from the lowest common seed."""
    arms = [arm for arm in exp.info.arms if s.seeds[arm]]
    common = common_seeds(s, arms)
    if not common or not s.base_rows:
        return [Prose(msg("Examples need an evaluation of the base and one seed that every arm finished."), "note")]
    seed = common[0]
    first = {"base": first_samples(s.base_rows)} | {arm: first_samples(s.rows[arm, seed]) for arm in arms}
    known = [i for i in sorted(s.problems, key=natural) if all(rows[i].score is not None for rows in first.values())]
    questions = exp.problems(s.suite)
    rule = msg(
        "Rule: of the final evaluation on {suite} (base, and every arm's seed {seed}; first sample of a problem), the "
        "first {shown} problems of each kind in the order of their ids. Nothing was picked by hand.",
        suite=s.suite,
        seed=str(seed),
        shown=SHOWN,
    )
    out: list[Block] = [Prose(rule, "note")]
    for kind in KINDS:
        found = [i for i in known if kind.holds(*_right(first, i))]
        out.append(Prose(msg(kind.text, found=count(len(found), "problem"), all=len(known))))
        out += [_example(i, questions.get(i), {m: rows[i] for m, rows in first.items()}) for i in found[:SHOWN]]
    return out


def natural(text: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts test-9 before test-10."""
    return [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in re.split(r"([0-9]+)", text) if p]


def common_seeds(s: Scores, arms: Sequence[str]) -> list[int]:
    """Return the seeds that all of these arms have finished, in order."""
    return sorted(set.intersection(*(set(s.seeds[arm]) for arm in arms))) if arms else []


def first_samples(rows: Sequence[EvalRow]) -> Rows:
    """Return the first response to each problem."""
    out: dict[str, EvalRow] = {}
    for row in rows:
        out.setdefault(row.problem_id, row)
    return out


def judged(row: EvalRow) -> Judgement:
    """Return how a response was judged; a score between 0 and 1 is not right."""
    if row.score is None:
        return "not counted"
    return "right" if row.score == 1 else "wrong"


def _right(first: Mapping[str, Rows], problem: str) -> tuple[bool, list[bool]]:
    base, *arms = [rows[problem].score == 1 for rows in first.values()]
    return base, arms


def _example(problem: str, asked: ProblemRow | None, rows: Mapping[str, EvalRow]) -> Example:
    answers = [
        Answer(
            msg("base") if model == "base" else model,
            judged(row),
            cut(row.answer or "", READ),
            _detail(row),
            cut(row.response, LONGEST),
        )
        for model, row in rows.items()
    ]
    question = cut(asked.question, LONGEST) if asked else msg("(the question was not stored)")
    return Example(problem, question, cut(asked.gold, READ) if asked else "", answers)


def _detail(row: EvalRow) -> Text:
    tokens = count(row.tokens, "token")
    return Joined([tokens, msg("cut at the limit")], ", ") if row.truncated else tokens
