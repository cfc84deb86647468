"""Evaluate a policy: the same harness for the base and for every arm, all problems, one row per problem and sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from paribus.batch import Rollout
from paribus.engines.protocols import Sampler, SamplingPlan
from paribus.models.chat import decode_responses
from paribus.pipeline.ahead import Ahead, slow_judges
from paribus.pipeline.questions import Questions
from paribus.pipeline.score import Decode, Graded, grade_evaluation, responses
from paribus.rewards import ModelScorer, RewardSpec, TaskReward, counted, judge
from paribus.store import EvalRow
from paribus.suites import EvalSpec
from paribus.tasks import Grader, TaskSpec
from paribus.types import Key, Problem, Prompt, Stop, Verdict

Tick = Callable[[int, int], None]  # tick(done, total); may raise to stop
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


def evaluate_suite(
    sampler: Sampler,
    asked: Questions,
    spec: EvalSpec,
    training: TaskSpec,
    seed: int,
    *,
    tokenizer: Any,
    rows_at_once: int,
    tick: Tick,
    reward: RewardSpec = TaskReward(),  # noqa: B008
    models: Mapping[str, ModelScorer] | None = None,
    divergence: Callable[[Rollout], Sequence[float]] | None = None,
) -> list[EvalRow]:
    """Return the rows of one suite as everybody evaluates it: the base, every arm, and `paribus eval`.

    `reward` is recorded on the training task's own problems only: it may read what other data does not have.
    """
    return evaluate(
        sampler,
        asked.problems,
        asked.prompts,
        spec,
        spec.asks(training).grader,
        seed,
        references=spec.reference_graders(training),
        decode=lambda responses: decode_responses(tokenizer, responses, ()),
        rows_at_once=rows_at_once,
        reward=None if spec.task is not None else proxy(reward, asked.problems, seed, models or {}),
        divergence=divergence,
        tick=tick,
    )


def evaluate(
    sampler: Sampler,
    problems: Sequence[Problem],
    prompts: Sequence[Prompt],
    spec: EvalSpec,
    grader: Grader,
    seed: int,
    *,
    references: Sequence[Grader] = (),
    decode: Decode | None = None,
    rows_at_once: int = 512,
    reward: Reward | None = None,
    divergence: Callable[[Rollout], Sequence[float]] | None = None,
    tick: Tick = lambda done, total: None,
) -> list[EvalRow]:
    """Return evaluation rows in the order of `problems` (all of them, whatever the batch size), samples in order.

    `seed` keys sampled decoding; greedy decoding ignores it. `references` judge every response too and change no
    score; `decode` turns the ids of responses cut at `spec.short` into text, and is needed with it. `reward` gives
    what training optimises where that is another thing than the grader's score, `divergence` the log-prob ratio of
    each response to the starting policy where the suite asks for it. `tick` is called after every batch.
    """
    plan = SamplingPlan(
        samples=spec.samples, max_tokens=spec.max_response, temperature=spec.temperature, top_p=spec.top_p
    )
    by_id, slow = {p.id: p for p in problems}, slow_judges(grader, references=references)
    # alike lengths together, so that little is padded; rows are put back by position
    order = sorted(range(len(prompts)), key=lambda i: (len(prompts[i].ids), i))
    per_batch = max(1, rows_at_once // spec.samples)
    out: list[list[EvalRow]] = [[] for _ in prompts]
    for start in range(0, len(order), per_batch):
        places = order[start : start + per_batch]
        with Ahead([prompts[i] for i in places], plan, by_id, slow) as ahead:
            rollout = ahead.sample(sampler, Key(seed, "eval"))
            graded = grade_evaluation(
                grader, rollout, by_id, ahead, references=references, short=spec.short, decode=decode
            )
        nothing = [None] * rollout.rows
        rewards = reward(rollout, graded.verdicts) if reward is not None else nothing
        ratios = divergence(rollout) if divergence is not None and spec.kl else nothing
        for row in range(rollout.rows):
            place = places[row // spec.samples]
            facts = {"prompt_tokens": len(prompts[place].ids), "grader": grader.version}
            out[place].append(_row(rollout, graded, row, reward=rewards[row], kl=ratios[row], **facts))
        tick(min(start + per_batch, len(order)), len(order))
    return [row for rows in out for row in rows]


def _row(rollout: Rollout, graded: Graded, row: int, **fields: Any) -> EvalRow:
    verdict = graded.verdicts[row]
    return EvalRow(
        problem_id=rollout.problem_id[row],
        sample=int(rollout.sample[row]),
        response=rollout.text[row],
        answer=graded.answers[row],
        score=counted(verdict),
        status=verdict.status,
        format=verdict.format,
        truncated=rollout.stop[row] is not Stop.EOS,
        tokens=int(rollout.mask[row].sum()),
        references=graded.references[row],
        short=graded.short[row],
        **fields,
    )
