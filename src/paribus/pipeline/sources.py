"""Where the rows of a step come from: the policy itself, pairs and labels made of own responses, or given data."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from paribus.algorithms import Need, Offline, OwnSource, PolicyGradient
from paribus.batch import Batch, Moments, Stats
from paribus.lazy import torch
from paribus.pipeline.collect import Graded, collect
from paribus.pipeline.given import GivenRows
from paribus.pipeline.pairs import own_rows
from paribus.pipeline.prepare import measure, prepare, start_stats

if TYPE_CHECKING:
    from paribus.pipeline.session import Session


class Taken(NamedTuple):
    """What a step trains on. `graded` is what was sampled for it: None where the rows are given data."""

    batch: Batch
    graded: Graded | None
    stats: Stats


class Source(Protocol):
    """Gives the rows of a step: a pure function of the run's seed, the step and the weights at hand."""

    def next(self, run: Session, step: int) -> Taken: ...


class OnPolicy:
    """Rows that the policy samples now, with everything its method needs."""

    def __init__(self, algorithm: PolicyGradient) -> None:
        self.algorithm = algorithm

    def next(self, run: Session, step: int) -> Taken:
        graded = collect(run, step, run.sampler)
        batch, stats = prepare(self.algorithm, graded, run)
        return Taken(batch, graded, graded.stats | graded.entropy | stats)


class OwnData:
    """Pairs, labels or demonstrations made of own responses: of the policy that started the run, or as it is now.

    Sampling each step's prompts from the starting policy when the step comes gives the same data as sampling all of
    them beforehand, at the same cost, and needs no store of its own.
    """

    def __init__(self, algorithm: Offline) -> None:
        self.algorithm = algorithm

    def next(self, run: Session, step: int) -> Taken:
        starting = Need.START in self.algorithm.needs
        graded = collect(run, step, run.start_sampler if starting else run.sampler)
        source = self.algorithm.source
        assert isinstance(source, OwnSource)
        rows, stats = own_rows(source, graded)
        known = graded.score[torch.isfinite(graded.score)].double()
        stats["score"] = Moments(known.sum(), known.square().sum(), known.numel())
        batch = measure(self.algorithm, rows, run)
        return Taken(batch, graded, graded.stats | stats | start_stats(batch))


class GivenData:
    """Rows of a file."""

    def __init__(self, algorithm: Offline, rows: GivenRows) -> None:
        self.algorithm, self.rows = algorithm, rows

    def next(self, run: Session, step: int) -> Taken:
        batch, stats = self.rows.step(run.seed, step, run.setting.rollout.prompts_per_step)
        batch = measure(self.algorithm, batch, run)
        return Taken(batch, None, stats | start_stats(batch))
