"""Grade a rollout: the same grader object as in evaluation turns texts into verdicts and verdicts into scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paribus.batch import Mean, Rollout, Stats
from paribus.errors import RunError
from paribus.lazy import torch
from paribus.tasks import Grader, Item
from paribus.types import Problem, Stop, Verdict

FAILED = ("timeout", "error")


def grade(grader: Grader, rollout: Rollout, problems: Mapping[str, Problem]) -> list[Verdict]:
    """Return one verdict per row, matched to its problem by id."""
    golds = [problems[i].gold for i in rollout.problem_id]
    cut = [stop is not Stop.EOS for stop in rollout.stop]
    return grader.grade_many([Item(*row) for row in zip(rollout.text, golds, cut, strict=True)])


def counted(verdict: Verdict) -> float | None:
    """Return the score, or None where the grader could not tell: that is never a silent 0."""
    return verdict.score if verdict.status in ("ok", "unparsable") else None


def scores(verdicts: Sequence[Verdict]) -> torch.Tensor:
    """Return the outcome of each row `[B]`; NaN where the grader could not tell."""
    return torch.tensor([float("nan") if (score := counted(v)) is None else score for v in verdicts])


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


def verdict_stats(rollout: Rollout, verdicts: Sequence[Verdict]) -> Stats:
    """Return what is recorded of a graded rollout: accuracy of the counted rows, shares, lengths."""
    n = len(verdicts)
    known = [score for v in verdicts if (score := counted(v)) is not None]
    lengths = rollout.response_length.tolist()
    finished = [length for length, stop in zip(lengths, rollout.stop, strict=True) if stop is Stop.EOS]
    return {
        "format": Mean(sum(v.format for v in verdicts), n),
        "truncated": Mean(sum(stop is not Stop.EOS for stop in rollout.stop), n),
        "unparsable": Mean(sum(v.status == "unparsable" for v in verdicts), n),
        "unscored": Mean(n - len(known), n),
        "grader_failed": Mean(sum(v.status in FAILED for v in verdicts), n),
        "response_tokens": Mean(sum(lengths), n),
        "finished_tokens": Mean(sum(finished), len(finished)),
    }
