"""Evaluate a policy: the same harness for the base and for every arm, all problems, one row per problem and sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from paribus.batch import Rollout
from paribus.engines.protocols import Sampler, SamplingPlan
from paribus.pipeline.score import grade, responses
from paribus.rewards import ModelScorer, RewardSpec, TaskReward, counted, judge
from paribus.store import EvalRow
from paribus.suites import EvalSpec
from paribus.tasks import Grader
from paribus.types import Key, Problem, Prompt, Stop, Verdict

Reward = Callable[[Rollout, Sequence[Verdict]], Sequence[float | None]]


def proxy(
    reward: RewardSpec, problems: Sequence[Problem], seed: int, models: Mapping[str, ModelScorer]
) -> Reward | None:
    """Return what training optimises as a function of graded rows; None where it is the grader's score itself."""
    if isinstance(reward, TaskReward):
        return None
    by_id = {p.id: p for p in problems}
    return lambda rollout, verdicts: (
        judge(reward, responses(rollout, verdicts, by_id, Key(seed, "eval-noise")), models).total
    )


def evaluate(
    sampler: Sampler,
    problems: Sequence[Problem],
    prompts: Sequence[Prompt],
    spec: EvalSpec,
    grader: Grader,
    seed: int,
    *,
    rows_at_once: int = 512,
    reward: Reward | None = None,
    divergence: Callable[[Rollout], Sequence[float]] | None = None,
    tick: Callable[[int, int], None] = lambda done, total: None,
) -> list[EvalRow]:
    """Return evaluation rows in the order of `problems` (all of them, whatever the batch size), samples in order.

    `seed` keys sampled decoding; greedy decoding ignores it. `reward` gives what training optimises where that is
    another thing than the grader's score, `divergence` the log-prob ratio of each response to the starting policy
    where the suite asks for it. `tick(done, total)` is called after every batch and may raise to stop.
    """
    plan = SamplingPlan(
        samples=spec.samples, max_tokens=spec.max_response, temperature=spec.temperature, top_p=spec.top_p
    )
    by_id = {p.id: p for p in problems}
    # alike lengths together, so that little is padded; rows are put back by position
    order = sorted(range(len(prompts)), key=lambda i: (len(prompts[i].ids), i))
    per_batch = max(1, rows_at_once // spec.samples)
    out: list[list[EvalRow]] = [[] for _ in prompts]
    for start in range(0, len(order), per_batch):
        places = order[start : start + per_batch]
        rollout = sampler.sample([prompts[i] for i in places], plan, Key(seed, "eval"))
        verdicts = grade(grader, rollout, by_id)
        lengths = rollout.response_length.tolist()
        nothing = [None] * rollout.rows
        rewards = reward(rollout, verdicts) if reward is not None else nothing
        ratios = divergence(rollout) if divergence is not None and spec.kl else nothing
        for row, verdict in enumerate(verdicts):
            place = places[row // spec.samples]
            out[place].append(
                EvalRow(
                    problem_id=rollout.problem_id[row],
                    sample=int(rollout.sample[row]),
                    response=rollout.text[row],
                    answer=verdict.answer,
                    score=counted(verdict),
                    status=verdict.status,
                    format=verdict.format,
                    truncated=rollout.stop[row] is not Stop.EOS,
                    tokens=lengths[row],
                    prompt_tokens=len(prompts[place].ids),
                    grader=grader.version,
                    reward=rewards[row],
                    kl=ratios[row],
                )
            )
        tick(min(start + per_batch, len(order)), len(order))
    return [row for rows in out for row in rows]
