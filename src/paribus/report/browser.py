"""The problems that a page lets its reader leaf through, chosen by a rule that is printed with them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain, zip_longest
from typing import NamedTuple

from paribus.report.blocks import Block, Browser, Case, Code, Prose, Sample, Table
from paribus.report.examples import READ, Rows, common_seeds, first_samples, judged
from paribus.report.message import Message, Text, msg
from paribus.report.results import Scores
from paribus.report.text import number, visible
from paribus.store import EvalRow, StoredExperiment

PLACES = 400  # problems that a page holds at most
ROOM = 2_400_000  # bytes of text that it holds at most
LONGEST = 4000  # characters of a response or a question


class Model(NamedTuple):
    """Whose responses: an arm and one of its seeds, or the base, which has none."""

    name: Text
    seed: int | None
    rows: Rows


class Kind(NamedTuple):
    """A kind of problem, and those of that kind in the order in which they are taken."""

    text: Message
    problems: Sequence[str]


def browser(exp: StoredExperiment, s: Scores) -> list[Block]:
    """Return the rule, the counts of each kind and the problems; nothing without a seed that every arm finished."""
    arms = [arm for arm in exp.info.arms if s.seeds[arm]]
    common = common_seeds(s, arms)
    if not common:
        return []
    base = first_samples(s.base_rows) if s.base_rows else None
    models = [Model(msg("base"), None, base)] if base else []
    models += [Model(arm, seed, first_samples(s.rows[arm, seed])) for arm in arms for seed in s.seeds[arm]]
    found = kinds({arm: first_samples(s.rows[arm, common[0]]) for arm in arms}, base, s.suite)
    cases = _cases(exp, s.suite, models, found)
    first = [i for i, m in enumerate(models) if m.seed == common[0]]
    return [
        Prose(_rule(s.suite, common[0]), "note"),
        _counts(found, cases),
        Browser(
            models=[(m.name, "" if m.seed is None else msg("seed {seed}", seed=str(m.seed))) for m in models],
            shown=(first[0], first[1] if len(first) > 1 else 0),
            kinds=[kind.text for kind in found],
            cases=cases,
        ),
        Code(_command(exp.info.name, arms), msg("Every response, in the terminal")),
    ]


def kinds(arms: Mapping[str, Rows], base: Rows | None, suite: str) -> list[Kind]:
    """Sort the problems into kinds, each into the first that holds: disagreements come first.

    Problems that are not counted for one of the models are left out.
    """
    models = [*arms.values(), *([base] if base else [])]
    order = sorted(next(iter(arms.values())), key=lambda problem: _shuffled(suite, problem))
    rest = [i for i in order if all(rows[i].score is not None for rows in models)]
    out = []
    for text, holds in _tests(arms, base):
        out.append(Kind(text, [i for i in rest if holds(i)]))
        rest = [i for i in rest if not holds(i)]
    if len(arms) > 1:
        apart = {i: _length_ratio([rows[i] for rows in arms.values()]) for i in rest if _all_right(arms, i)}
        unlike = sorted((i for i in apart if apart[i] > 1), key=lambda i: -apart[i])
        out.append(Kind(msg("all arms are right, in answers of different length"), unlike))
        rest = [i for i in rest if apart.get(i, 1) <= 1]
    return [*out, Kind(msg("any other problem"), rest)]


def _tests(arms: Mapping[str, Rows], base: Rows | None) -> Iterator[tuple[Message, Callable[[str], bool]]]:
    """Return what makes a problem one of a kind: the arms disagree, or all of them differ from the base."""

    def right(name: str, problem: str) -> bool:
        return judged(arms[name][problem]) == "right"

    def only(one: str, other: str) -> Callable[[str], bool]:
        return lambda i: right(one, i) and not right(other, i)

    if len(arms) == 2:
        first, second = arms
        for one, other in ((first, second), (second, first)):
            yield msg("{a} is right, {b} is wrong", a=one, b=other), only(one, other)
    if len(arms) > 2:
        yield msg("some arms are right, others wrong"), lambda i: len({right(arm, i) for arm in arms}) == 2
    if base:
        yield (
            msg("the base is right, no arm is"),
            lambda i: judged(base[i]) == "right" and not any(right(arm, i) for arm in arms),
        )
        if len(arms) == 1:
            yield (
                msg("the base is wrong, {arm} is right", arm=next(iter(arms))),
                lambda i: judged(base[i]) != "right" and _all_right(arms, i),
            )


def _all_right(arms: Mapping[str, Rows], problem: str) -> bool:
    return all(judged(rows[problem]) == "right" for rows in arms.values())


def _length_ratio(rows: Sequence[EvalRow]) -> float:
    lengths = [max(1, row.tokens) for row in rows]
    return max(lengths) / min(lengths)


def _shuffled(suite: str, problem: str) -> bytes:
    """Return what problems are sorted by for an order that nobody chose: a hash of their ids, keyed by the suite."""
    return blake2b(problem.encode(errors="replace"), key=suite.encode()[:64], digest_size=16).digest()


def _cases(exp: StoredExperiment, suite: str, models: Sequence[Model], found: Sequence[Kind]) -> list[Case]:
    """Take one problem of each kind in turn, as long as there is a place and room; return them kind by kind."""
    asked = exp.problems(suite)
    turns = chain.from_iterable(zip_longest(*([(k, i) for i in kind.problems] for k, kind in enumerate(found))))
    out: list[Case] = []
    room = ROOM
    for k, problem in (turn for turn in turns if turn):
        samples = [_sample(m.rows[problem]) if problem in m.rows else None for m in models]
        question, gold = (asked[problem].question, asked[problem].gold) if problem in asked else ("", "")
        shown, left_out = _shown(question)
        case = Case(problem, k, shown, left_out, _shown(gold, READ)[0], samples)
        room -= len(shown.encode()) + sum(len(sample.text.encode()) + 60 for sample in samples if sample)
        if room < 0 or len(out) == PLACES:
            break
        out.append(case)
    return sorted(out, key=lambda case: case.kind)


def _sample(row: EvalRow) -> Sample:
    text, left_out = _shown(row.response)
    return Sample(judged(row), row.tokens, row.truncated, _shown(row.answer or "", READ)[0], text, left_out)


def _shown(text: str, longest: int = LONGEST) -> tuple[str, int]:
    """Return the beginning of a text with what is invisible spelt out, and how many characters are left out."""
    return visible(text[:longest]), max(0, len(text) - longest)


def _rule(suite: str, seed: int) -> Message:
    return msg(
        "Rule: problems of the final evaluation on {suite} are sorted by how the arms (seed {seed}, first sample) and "
        "the base were judged, each into the first kind of the table that it fits. The page takes one problem of each "
        "kind in turn until it holds {places} problems or {room} MB of text: those whose lengths differ most first, "
        "all others in the order of a hash of their ids. Nothing was picked by hand.",
        suite=suite,
        seed=str(seed),
        places=PLACES,
        room=number(ROOM / 1e6, 1),
    )


def _command(experiment: str, arms: Sequence[str]) -> str:
    """Return what lists the problems that only the first arm gets right, from all that are stored."""
    first, *others = [arm if arm.isidentifier() else f'models["{arm}"]' for arm in arms]
    query = " and ".join([first, *(f"not {other}" for other in others)])
    return f"paribus samples {shlex.quote(f'runs/{experiment}')} --where {shlex.quote(query)}"


def _counts(found: Sequence[Kind], cases: Sequence[Case]) -> Table:
    rows: list[list[Text]] = []
    for k, kind in enumerate(found):
        held = sum(case.kind == k for case in cases)
        rows.append([kind.text, f"{len(kind.problems):,}", f"{held:,}"])
    rows.append([msg("all"), f"{sum(len(kind.problems) for kind in found):,}", f"{len(cases):,}"])
    columns = [msg("kind"), msg("problems"), msg("of them in this page")]
    return Table(columns, rows, name="sample-kinds")
