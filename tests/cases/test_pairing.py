"""Families c and e: the cases of pairing and of evaluation in which grading takes part."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from batches import plain_batch
from paribus.algorithms import GroupZScore
from paribus.batch import Rollout
from paribus.engines.protocols import SamplingPlan
from paribus.engines.scripted import ScriptedSampler
from paribus.pipeline.evaluate import evaluate
from paribus.pipeline.score import grade
from paribus.suites import EvalSpec
from paribus.tasks import Answer
from paribus.types import Key, Problem, Prompt, Stop


def problems_and_sampler(n: int, right: set[int]) -> tuple[list[Problem], list[Prompt], ScriptedSampler]:
    problems = [Problem(id=f"p{i}", question="?", gold=str(i)) for i in range(n)]
    prompts = [Prompt(problem_id=p.id, ids=(5,) * (1 + i % 4), text="?") for i, p in enumerate(problems)]
    responses = {f"p{i}": [((5, 2), f"#### {i if i in right else i + 1}")] for i in range(n)}
    return problems, prompts, ScriptedSampler(responses, stop_ids=(2,))


@pytest.mark.parametrize("batch", [1, 7, 128, 1319, 2000])
def test_c12_and_e13_all_problems_are_evaluated_whatever_the_batch(cases: dict[str, Any], batch: int) -> None:
    n = cases["c12"]["input"]["n"]
    right = {i for b in range(10) for i in range(128 * b, 128 * b + 64)} | set(range(1280, 1319))
    problems, prompts, sampler = problems_and_sampler(n, right)
    rows = evaluate(sampler, problems, prompts, EvalSpec(max_response=4), Answer(), 0, rows_at_once=batch)
    assert [row.problem_id for row in rows] == [p.id for p in problems]
    scores = [row.score for row in rows]
    assert len(scores) == cases["c12"]["expected"]["evaluated"]
    assert sum(map(float, scores)) / n == pytest.approx(cases["e13"]["expected"]["accuracy"], abs=1e-6)


def test_c14_equal_texts_are_two_groups(cases: dict[str, Any]) -> None:
    case = cases["c14"]
    rewards = case["input"]["rewards"]["a"] + case["input"]["rewards"]["b"]
    reward = torch.tensor(rewards, dtype=torch.float64)[:, None]
    mask = torch.ones_like(reward, dtype=torch.bool)
    signal, _ = GroupZScore(eps=0)(plain_batch(reward, mask, torch.tensor([0, 0, 1, 1])), {})
    wanted = case["expected"]["advantages_ddof1"]["a"] + case["expected"]["advantages_ddof1"]["b"]
    torch.testing.assert_close(signal.advantage[:, 0], torch.tensor(wanted).double(), rtol=0, atol=1e-5)


def test_c16_verdicts_are_matched_by_id_not_by_arrival(cases: dict[str, Any]) -> None:
    names = cases["c16"]["input"]["prompts"]
    problems = {name: Problem(id=name, question=name, gold=str(i)) for i, name in enumerate(names)}
    for seed in range(5):
        arrival = (
            random.Random(seed).sample(names, 4) if seed else [names[i] for i in cases["c16"]["input"]["finish_order"]]
        )
        rollout = Rollout(
            tokens=torch.zeros(4, 1, dtype=torch.long),
            mask=torch.ones(4, 1, dtype=torch.bool),
            length=torch.ones(4, dtype=torch.long),
            group=torch.arange(4),
            sampled_logp=torch.zeros(4, 1),
            problem_id=arrival,
            sample=torch.zeros(4, dtype=torch.long),
            stop=[Stop.EOS] * 4,
            text=[f"#### {problems[name].gold}" for name in arrival],
            version=0,
        )
        assert [v.score for v in grade(Answer(), rollout, problems)] == [1, 1, 1, 1]


def test_e12_evaluation_uses_its_own_settings() -> None:
    problems, prompts, sampler = problems_and_sampler(8, {1})
    plans = []

    class Spy(ScriptedSampler):
        def sample(self, prompts: Sequence[Prompt], plan: SamplingPlan, key: Key) -> Rollout:
            plans.append((plan, key.purpose))
            return super().sample(prompts, plan, key)

    spy = Spy(sampler.responses, sampler.stop_ids)
    for spec in (EvalSpec(max_response=4), EvalSpec(max_response=3, samples=2, temperature=0.6, top_p=0.95)):
        plans.clear()
        rows = evaluate(spy, problems, prompts, spec, Answer(), 0, rows_at_once=6)
        wanted = SamplingPlan(
            samples=spec.samples, max_tokens=spec.max_response, temperature=spec.temperature, top_p=spec.top_p
        )
        assert set(plans) == {(wanted, "eval")} and len(plans) > 1
        if not spec.temperature:
            assert rows == evaluate(spy, problems, prompts, spec, Answer(), 1), "greedy decoding has no seed"
