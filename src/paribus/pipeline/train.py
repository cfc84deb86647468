"""The loop: rollout, grade, shape, signal, update, record. A method is a different value, never a branch."""

from __future__ import annotations

from paribus.algorithms import signal_stats
from paribus.engines.protocols import SamplingPlan
from paribus.pipeline.prepare import prepare, start_stats
from paribus.pipeline.score import grade, refuse_failures, scores, verdict_stats
from paribus.pipeline.session import Session
from paribus.types import Key


def train(run: Session) -> None:
    """Train until the budget is spent; every step is recorded, and a stop leaves a resumable run."""
    sampler, learner, algorithm, clock = run.sampler, run.learner, run.algorithm, run.clock
    spec = run.setting.rollout
    plan = SamplingPlan(
        samples=spec.samples_per_prompt,
        max_tokens=spec.max_response,
        temperature=spec.temperature,
        top_p=spec.top_p,
    )
    for step in run.steps():
        with clock("rollout"):
            rollout = sampler.sample(run.prompts(step), plan, Key(run.seed, "sample", step))
        with clock("grade"):
            verdicts = grade(run.grader, rollout, run.by_id)
            refuse_failures(verdicts, run.setting.limit.grader_errors, step + 1)
        batch = prepare(algorithm, rollout, scores(verdicts), learner, spec.max_response, run.memory, clock)
        signal, memory = algorithm.signal(batch, run.memory)
        stats = learner.update(batch, signal, algorithm, Key(run.seed, "update", step))
        sampler.load(learner.weights(), version=step + 1)
        stats |= verdict_stats(rollout, verdicts) | signal_stats(batch, signal) | start_stats(batch)
        run.record(rollout, verdicts, batch, signal, stats, memory)
