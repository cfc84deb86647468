"""Grade a rollout: the same grader object as in evaluation turns texts into verdicts and verdicts into scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from paribus.batch import Mean, Rollout, Stats
from paribus.errors import RunError
from paribus.lazy import torch
from paribus.rewards import Judged, Response, StepScore, counted
from paribus.tasks import Grader, Item
from paribus.types import Key, Problem, Stop, Verdict

FAILED = ("timeout", "error")


def grade(grader: Grader, rollout: Rollout, problems: Mapping[str, Problem]) -> list[Verdict]:
    """Return one verdict per row, matched to its problem by id."""
    golds = [problems[i].gold for i in rollout.problem_id]
    cut = [stop is not Stop.EOS for stop in rollout.stop]
    return grader.grade_many([Item(*row) for row in zip(rollout.text, golds, cut, strict=True)])


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
