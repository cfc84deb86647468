"""The loop: take rows, signal, update, record. A method is a different value, never a branch."""

from __future__ import annotations

from paribus.pipeline.session import Session
from paribus.types import Key


def train(run: Session) -> None:
    """Train until the budget is spent; every step is recorded, and a stop leaves a resumable run."""
    sampler, learner, algorithm, source = run.sampler, run.learner, run.algorithm, run.source
    for step in run.steps():
        taken = source.next(run, step)
        signal, memory = algorithm.signal(taken.batch, run.memory)
        stats = learner.update(taken.batch, signal, algorithm, Key(run.seed, "update", step))
        sampler.load(learner.weights(), version=step + 1)
        stats |= taken.stats | algorithm.describe(taken.batch, signal)
        run.record(taken, signal, stats, memory)
