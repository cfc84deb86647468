"""Sample and judge the rows of a step: refills and probes included, everything charged to the arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from paribus.algorithms import Keep, Need
from paribus.batch import Mean, Rollout, Stats, concat, select
from paribus.engines.protocols import Sampler, SamplingPlan
from paribus.lazy import torch
from paribus.part import Part
from paribus.pipeline.ahead import Ahead, slow_judges
from paribus.pipeline.score import (
    grade,
    judged_stats,
    refuse_failures,
    refuse_rewards,
    refuse_steps,
    responses,
    verdict_stats,
)
from paribus.rewards import Judged, Response, StepScore, judge, row_functions, step_scores
from paribus.types import Key, Prompt, Verdict

if TYPE_CHECKING:
    from torch import Tensor

    from paribus.pipeline.session import Session

Steps = list[list[StepScore] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """Rows of a step with what they are worth. `samples` and `tokens` count all that was sampled for them."""

    rollout: Rollout
    verdicts: list[Verdict]
    score: Tensor  # [B]; NaN where it could not be told
    parts: dict[str, Tensor]  # components of the reward
    steps: Steps | None
    greedy_score: Tensor | None  # [B], of the greedy response to the row's prompt
    samples: int
    tokens: int
    stats: Stats
    entropy: Stats = field(default_factory=dict)  # of all that was sampled; empty where the sampler does not tell it


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """What one request for prompts gave, and what was sampled for it: rows, and greedy responses where they count."""

    rollout: Rollout
    verdicts: list[Verdict]
    score: Tensor  # [B]; NaN where it could not be told
    parts: dict[str, Tensor]
    steps: Steps | None
    greedy: Tensor | None  # [B]
    failed: int  # calls of reward functions
    samples: int
    tokens: int

    @property
    def groups(self) -> int:
        return int(self.rollout.group.max()) + 1

    def kept(self, keep: Keep) -> list[int]:
        """The groups that would train, in the order in which they were asked."""
        group = self.rollout.group
        return list(dict.fromkeys(group[keep(self.score, group, torch.isfinite(self.score))].tolist()))


def collect(run: Session, step: int, sampler: Sampler) -> Graded:
    """Return the rows of a step, sampled by `sampler` and judged."""
    rounds = [_draw(run, step, 0, sampler)]
    wanted = run.setting.rollout.prompts_per_step
    keep = run.algorithm.keep
    if not keep.rounds:
        return _joined(rounds)
    kept = [rounds[0].kept(keep)]
    while sum(map(len, kept)) < wanted and len(rounds) <= keep.rounds:
        rounds.append(_draw(run, step, len(rounds), sampler))
        kept.append(rounds[-1].kept(keep))
    stats: Stats = {
        "refills": Mean(len(rounds) - 1, 1),
        "kept_groups": Mean(sum(map(len, kept)), sum(part.groups for part in rounds)),
    }
    return _first_groups(_joined(rounds), rounds, kept, wanted, stats)


def _draw(run: Session, step: int, number: int, sampler: Sampler) -> _Round:
    spec, algorithm = run.setting.rollout, run.algorithm
    prompts = run.prompts(step, number)
    mix = algorithm.explore
    plan = SamplingPlan(
        samples=spec.samples_per_prompt,
        max_tokens=spec.max_response,
        temperature=spec.temperature,
        top_p=spec.top_p,
        topk=algorithm.topk,
        mix_rate=mix.rate if mix is not None else 0.0,
        mix_neighbours=mix.neighbours if mix is not None else 0,
    )
    rollout, verdicts, rows, judged = _judged(run, sampler, prompts, plan, Key(run.seed, "sample", step, round=number))
    score, failed, samples, tokens = _scores(judged.total), judged.failed, rollout.rows, int(rollout.mask.sum())
    steps = None
    if Need.STEPS in algorithm.needs and run.setting.steps is not None:
        with run.clock("grade"):
            steps = step_scores(run.setting.steps, rows, run.reward_models)
        refuse_steps(steps, verdicts, step + 1)
        score = _where(score, torch.tensor([found is not None for found in steps]))
    greedy = None
    if Need.GREEDY in algorithm.needs:
        greedy_plan = SamplingPlan(samples=1, max_tokens=spec.max_response, temperature=0.0)
        probe, _, _, found = _judged(run, sampler, prompts, greedy_plan, Key(run.seed, "greedy", step, round=number))
        greedy = _scores(found.total)[rollout.group]
        score = _where(score, torch.isfinite(greedy))
        failed, samples, tokens = failed + found.failed, samples + probe.rows, tokens + int(probe.mask.sum())
    return _Round(
        rollout=rollout,
        verdicts=verdicts,
        score=score,
        parts={f"reward/{name}": _scores(values) for name, values in judged.components.items()},
        steps=steps,
        greedy=greedy,
        failed=failed,
        samples=samples,
        tokens=tokens,
    )


def _judged(
    run: Session, sampler: Sampler, prompts: Sequence[Prompt], plan: SamplingPlan, key: Key
) -> tuple[Rollout, list[Verdict], list[Response], Judged]:
    """Sample rows and judge them, as they end where that pays: verdicts, graded rows, the rewards made of them."""
    # noise of its own: with that of a sample, a greedy baseline would know the sample's luck
    noise = replace(key, purpose="greedy-noise" if key.purpose == "greedy" else "noise")
    limit, reward = run.setting.limit.grader_errors, run.setting.reward
    with Ahead(prompts, plan, run.by_id, slow_judges(run.grader, reward=reward)) as ahead:
        with run.clock("rollout"):
            rollout = ahead.sample(sampler, key)
        with run.clock("grade"):  # of what was begun ahead, only the time spent waiting for it
            verdicts = grade(run.grader, rollout, run.by_id, ahead)
            refuse_failures(verdicts, limit, key.step + 1)
            rows = responses(rollout, verdicts, run.by_id, noise)
            outcomes: dict[Part, list[Any]] = {f: ahead.result(f, rollout) for f in row_functions(reward)}
            judged = judge(reward, rows, run.reward_models, outcomes)
            refuse_rewards(judged, verdicts, limit, key.step + 1)
    return rollout, verdicts, rows, judged


def _joined(rounds: Sequence[_Round]) -> Graded:
    rollout = rounds[0].rollout if len(rounds) == 1 else concat([part.rollout for part in rounds])
    verdicts = [verdict for part in rounds for verdict in part.verdicts]
    parts = {name: torch.cat([part.parts[name] for part in rounds]) for name in rounds[0].parts}
    steps = [part.steps for part in rounds if part.steps is not None]
    greedy = [part.greedy for part in rounds if part.greedy is not None]
    failed = sum(part.failed for part in rounds)
    return Graded(
        rollout=rollout,
        verdicts=verdicts,
        score=torch.cat([part.score for part in rounds]),
        parts=parts,
        steps=[row for found in steps for row in found] if steps else None,
        greedy_score=torch.cat(greedy) if greedy else None,
        samples=sum(part.samples for part in rounds),
        tokens=sum(part.tokens for part in rounds),
        stats=verdict_stats(rollout, verdicts) | judged_stats(parts, failed, len(verdicts)),
        entropy={} if rollout.entropy is None else {"entropy": Mean(rollout.entropy.sum(), rollout.mask.sum())},
    )


def _first_groups(
    graded: Graded, rounds: Sequence[_Round], kept: Sequence[Sequence[int]], wanted: int, stats: Stats
) -> Graded:
    """Only the first `wanted` groups that are worth training on; all of the first round where there is none."""
    first, chosen = 0, []
    for part, groups in zip(rounds, kept, strict=True):
        chosen += [first + g for g in groups]
        first += part.groups
    if not chosen:
        chosen = list(range(rounds[0].groups))
    rows = torch.isin(graded.rollout.group, torch.tensor(chosen[:wanted])).nonzero().squeeze(1)
    places = rows.tolist()
    return Graded(
        rollout=select(graded.rollout, rows),
        verdicts=[graded.verdicts[i] for i in places],
        score=graded.score[rows],
        parts=select(graded.parts, rows),
        steps=None if graded.steps is None else [graded.steps[i] for i in places],
        greedy_score=select(graded.greedy_score, rows),
        samples=graded.samples,
        tokens=graded.tokens,
        stats=graded.stats | stats,
        entropy=graded.entropy,
    )


def _scores(values: Sequence[float | None]) -> Tensor:
    return torch.tensor([float("nan") if x is None else x for x in values])


def _where(score: Tensor, known: Tensor) -> Tensor:
    return torch.where(known, score, float("nan"))


def step_tensors(rollout: Rollout, steps: Steps, tokenizer: Any) -> tuple[Tensor, Tensor]:
    """Return where steps end `[B, T]` (bool) and their scores there; the stop token belongs to the last step.

    A token that ends several steps bears the sum of their scores.
    """
    end = torch.zeros_like(rollout.mask)
    score = torch.zeros(rollout.mask.shape)
    for row, found in enumerate(steps):
        places = rollout.mask[row].nonzero().squeeze(1).tolist()
        ids, text = rollout.tokens[row, places].tolist(), rollout.text[row]
        for item in found or []:
            whole = item.end >= len(text)
            place = places[-1] if whole else places[_tokens_of(tokenizer, ids, text[: item.end]) - 1]
            end[row, place] = True
            score[row, place] += item.score
    return end, score


def _tokens_of(tokenizer: Any, ids: list[int], text: str) -> int:
    """The least number of tokens that say all of `text`, with which they begin.

    The text itself is compared, not its length: half of a character's bytes already decode to some character.
    """
    low, high = 1, len(ids)
    while low < high:
        middle = (low + high) // 2
        said = tokenizer.decode(ids[:middle], skip_special_tokens=False, clean_up_tokenization_spaces=False)
        low, high = (low, middle) if said.startswith(text) else (middle + 1, high)
    return low
