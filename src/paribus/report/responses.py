"""What the length limit and the grader change: the same responses under a second limit, and by other graders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paribus.report.blocks import Block, Prose, Table
from paribus.report.message import Text, msg
from paribus.report.results import Scores
from paribus.report.text import DASH, percent
from paribus.store import EvalRow, ShortRow, StoredExperiment


def answers(s: Scores) -> list[tuple[Text, list[EvalRow]]]:
    """Return every model's responses of its final evaluations, all seeds of an arm together."""
    out: list[tuple[Text, list[EvalRow]]] = [(msg("base"), list(s.base_rows))]
    out += [(arm, [row for seed in seeds for row in s.rows[arm, seed]]) for arm, seeds in s.seeds.items()]
    return [(model, rows) for model, rows in out if rows]


def length_limits(exp: StoredExperiment, s: Scores) -> list[Block]:
    """Return accuracy under both length limits; nothing where a suite has one."""
    models = answers(s)
    if not any(row.short for _, rows in models for row in rows):
        return []
    suite: Mapping[str, int] = exp.info.resolved.get("setting", {}).get("eval", {}).get(s.suite, {})
    longest = suite.get("max_response")
    out: list[list[Text]] = []
    for model, rows in models:
        short = [row.short for row in rows if row.short is not None]
        if short:
            out.append([model, f"{short[0].limit:,}", *_under(short)])
        out.append(["" if short else model, DASH if longest is None else f"{longest:,}", *_under(rows)])
    columns = [
        msg("model"), msg("limit, tokens"), msg("accuracy"), msg("cut at the limit"), msg("no answer found"),
        msg("right among finished"),
    ]  # fmt: skip
    text = msg(
        "The same responses: under the shorter limit each is cut there and graded again. A model trained under a "
        "short limit learns to be brief; what it gains over the base at that limit is partly that."
    )
    name = f"{s.suite}-limits"
    return [Table(columns, out, msg("Two length limits"), labels=1, name=name), Prose(text, "note")]


def _under(rows: Sequence[EvalRow] | Sequence[ShortRow]) -> list[str]:
    known = [row for row in rows if row.score is not None]
    ended = [row.score for row in known if not row.truncated and row.score is not None]
    return [
        percent(sum(row.score or 0.0 for row in known) / len(known) if known else None),
        percent(sum(row.truncated for row in rows) / len(rows), 1),
        percent(sum(row.status == "unparsable" for row in rows) / len(rows), 1),
        percent(sum(ended) / len(ended) if ended else None),
    ]


def disagreement(s: Scores) -> list[Block]:
    """Return how often each reference grader judges otherwise than the declared one; nothing where none ran."""
    rows: list[list[Text]] = []
    for model, found in answers(s):
        names = dict.fromkeys(name for row in found for name in row.references)
        for i, name in enumerate(names):
            rows.append(["" if i else model, name, *_disagreed(found, name)])
    if not rows:
        return []
    columns = [
        msg("model"), msg("reference grader"), msg("its accuracy"), msg("responses judged by both"),
        msg("right by the declared grader only"), msg("right by the reference only"), msg("share that disagree"),
    ]  # fmt: skip
    text = msg(
        "Reference graders ran beside the declared one and changed no score. Where they disagree more for one model "
        "than for another, part of a difference in accuracy may be the grader's."
    )
    name = f"{s.suite}-graders"
    return [Table(columns, rows, msg("Do other graders agree?"), labels=2, name=name), Prose(text, "note")]


def _disagreed(rows: Sequence[EvalRow], name: str) -> list[str]:
    both = [(row.score, row.references[name]) for row in rows if row.references.get(name) is not None]
    known = [(own == 1, other == 1) for own, other in both if own is not None]
    declared, reference = (
        sum(side and not other for side, other in pairs) for pairs in (known, [p[::-1] for p in known])
    )
    agreed = percent((declared + reference) / len(known), 2) if known else DASH
    accuracy = percent(sum(other for _, other in known) / len(known) if known else None)
    return [accuracy, f"{len(known):,}", f"{declared:,}", f"{reference:,}", agreed]
