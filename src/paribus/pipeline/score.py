"""Grade a rollout: the same grader object as in evaluation turns texts into verdicts and verdicts into scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from paribus.batch import Mean, Rollout, Stats
from paribus.errors import RunError
from paribus.lazy import torch
from paribus.pipeline.ahead import Ahead
from paribus.rewards import Judged, Response, StepScore, counted
from paribus.store import ShortRow
from paribus.tasks import Grader, Item
from paribus.tasks.references import grade_by
from paribus.tasks.votes import votes
from paribus.types import Key, Problem, Stop, Verdict

FAILED = ("timeout", "error")

Decode = Callable[[Sequence[Sequence[int]]], Sequence[str]]  # token ids of responses to texts


def grade(
    grader: Grader, rollout: Rollout, problems: Mapping[str, Problem], ahead: Ahead | None = None
) -> list[Verdict]:
    """Return one verdict per row, matched to its problem by id; those that were begun ahead are waited for."""
    if ahead is not None and grader in ahead:
        return ahead.result(grader, rollout)
    return grader.grade_many(_items(rollout, problems))


def _items(rollout: Rollout, problems: Mapping[str, Problem]) -> list[Item]:
    golds = [problems[i].gold for i in rollout.problem_id]
    cut = [stop is not Stop.EOS for stop in rollout.stop]
    return [Item(*row) for row in zip(rollout.text, golds, cut, strict=True)]


class Graded(NamedTuple):
    """An evaluation's responses as judged, row by row: by the declared grader, cut shorter, by the references."""

    verdicts: list[Verdict]
    answers: list[str | None]  # in one spelling within a problem
    short: list[ShortRow | None]
    references: list[dict[str, float | None]]


def grade_evaluation(
    grader: Grader,
    rollout: Rollout,
    problems: Mapping[str, Problem],
    ahead: Ahead,
    *,
    references: Sequence[Grader] = (),
    short: int | None = None,
    decode: Decode | None = None,
) -> Graded:
    """Return one verdict per row, what it would be under the limit of `short` tokens, and the references' scores.

    A response longer than `short` is decoded from its first tokens, which are what the shorter limit would have left,
    since draws are keyed by position; a shorter one is the same under both limits.
    """
    items, n = _items(rollout, problems), rollout.rows
    ids = [rollout.tokens[i][rollout.mask[i]].tolist() for i in range(n)] if short is not None else []
    longer = [i for i, own in enumerate(ids) if short is not None and len(own) > short]
    texts: Sequence[str] = ()
    if longer:
        assert decode is not None
        texts = decode([ids[i][:short] for i in longer])
    cut = [Item(text, items[i].gold, True) for i, text in zip(longer, texts, strict=True)]
    verdicts = grade(grader, rollout, problems, ahead)
    under = dict(zip(longer, grader.grade_many(cut), strict=True))
    rows: list[ShortRow | None] = [None] * n
    if short is not None:
        kept = [under.get(i, verdict) for i, verdict in enumerate(verdicts)]
        for i, (verdict, answer) in enumerate(zip(kept, _answers(grader, kept, rollout), strict=True)):
            cut_off = i in under or items[i].truncated
            score, status = counted(verdict), verdict.status
            rows[i] = ShortRow(limit=short, answer=answer, score=score, status=status, truncated=cut_off)
    scores: list[dict[str, float | None]] = [{} for _ in items]
    for reference in references:
        begun = ahead.result(reference, rollout) if reference in ahead else None
        for row, verdict in zip(scores, begun or grade_by(reference, grader, items), strict=True):
            row[reference.name] = counted(verdict)
    return Graded(verdicts, _answers(grader, verdicts, rollout), rows, scores)


def _answers(grader: Grader, verdicts: Sequence[Verdict], rollout: Rollout) -> list[str | None]:
    """Return each row's answer, spelled alike within its group."""
    groups: dict[int, list[int]] = {}
    for row, group in enumerate(rollout.group.tolist()):
        groups.setdefault(group, []).append(row)
    out: list[str | None] = [None] * len(verdicts)
    for rows in groups.values():
        for row, answer in zip(rows, votes(grader, [verdicts[row] for row in rows]), strict=True):
            out[row] = answer
    return out


def responses(
    rollout: Rollout, verdicts: Sequence[Verdict], problems: Mapping[str, Problem], key: Key
) -> list[Response]:
    """Return graded rows as rewards read them; `key` is completed with problem and sample of each."""
    return [
        Response(
            problem=problems[rollout.problem_id[i]],
            text=rollout.text[i],
            truncated=bool(cut),
            verdict=verdicts[i],
            key=replace(key, problem=rollout.problem_id[i], sample=int(rollout.sample[i])),
        )
        for i, cut in enumerate(rollout.truncated)
    ]


def refuse_failures(verdicts: Sequence[Verdict], limit: float, step: int) -> None:
    """Raise RunError when more than `limit` of a step's rows made the grader fail: a broken grader looks like 0."""
    failed = [v for v in verdicts if v.status in FAILED]
    if len(failed) > limit * len(verdicts):
        kinds = {s: sum(v.status == s for v in failed) for s in FAILED}
        raise RunError(
            f"step {step}: the grader failed on {len(failed)} of {len(verdicts)} rows "
            f"({kinds['timeout']} timeouts, {kinds['error']} errors), more than limit.grader_errors = {limit}: "
            "look at the grader, or raise the limit"
        )


def refuse_rewards(judged: Judged, verdicts: Sequence[Verdict], limit: float, step: int) -> None:
    """Raise RunError when more than `limit` of a step's rows lost their reward because a user function failed."""
    lost = sum(x is None and counted(v) is not None for x, v in zip(judged.total, verdicts, strict=True))
    if judged.failed and lost > limit * len(verdicts):
        raise RunError(
            f"step {step}: {lost} of {len(verdicts)} rows have no reward, more than limit.grader_errors = {limit}; "
            f"{judged.failed} calls of reward functions failed, the last one: {judged.reason}"
        )


def refuse_steps(steps: Sequence[Sequence[StepScore] | None], verdicts: Sequence[Verdict], step: int) -> None:
    """Raise RunError when no row at all has scores of its steps: the run would train on nothing."""
    if all(found is None for found in steps) and any(counted(v) is not None for v in verdicts):
        raise RunError(
            f"step {step}: the steps of none of the {len(steps)} rows could be scored: look at the scorer in [steps]"
        )


def judged_stats(parts: Mapping[str, torch.Tensor], failed: int, rows: int) -> Stats:
    """Return the mean of every component of the reward over the rows that have it."""
    stats: Stats = {"reward_failed": Mean(failed, rows)} if failed else {}
    for name, values in parts.items():
        known = values[torch.isfinite(values)]
        stats[name] = Mean(known.sum(), known.numel())
    return stats


def verdict_stats(rollout: Rollout, verdicts: Sequence[Verdict]) -> Stats:
    """Return what is recorded of a graded rollout: accuracy of the counted rows, shares, lengths."""
    n = len(verdicts)
    known = [score for v in verdicts if (score := counted(v)) is not None]
    lengths = rollout.response_length.tolist()
    finished = [length for length, stop in zip(lengths, rollout.stop, strict=True) if stop is Stop.EOS]
    return {
        "gold": Mean(sum(known), len(known)),
        "format": Mean(sum(v.format for v in verdicts), n),
        "truncated": Mean(sum(stop is not Stop.EOS for stop in rollout.stop), n),
        "unparsable": Mean(sum(v.status == "unparsable" for v in verdicts), n),
        "unscored": Mean(n - len(known), n),
        "grader_failed": Mean(sum(v.status in FAILED for v in verdicts), n),
        "response_tokens": Mean(sum(lengths), n),
        "finished_tokens": Mean(sum(finished), len(finished)),
    }
