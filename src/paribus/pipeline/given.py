"""Given rows as data: read and tokenised once, drawn step by step in an order of the run's seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from paribus.algorithms import LabelFile, Offline, OwnSource
from paribus.batch import Batch, Mean, Role, Stats
from paribus.engines.rollouts import Response, assemble
from paribus.errors import DataError
from paribus.lazy import torch
from paribus.models import pairs
from paribus.models.hf import LoadedModel
from paribus.pipeline.order import problems_of_step
from paribus.pipeline.pairs import with_mismatched
from paribus.pipeline.questions import read_from
from paribus.settings import RolloutSpec
from paribus.store import DataInfo
from paribus.tasks.shapes import Origin
from paribus.types import Prompt, Stop


class GivenRows:
    """The usable rows of a file or hub data set, with what is stored of it and where it came from.

    A step takes `rollout.prompts_per_step` of them, each epoch in a new order.
    """

    def __init__(
        self, path: str, fitted: pairs.Fitted, loaded: LoadedModel, *, labels: bool, info: DataInfo, origin: Origin
    ) -> None:
        self.path, self.loaded, self.labels, self.info, self.origin = path, loaded, labels, info, origin
        self.rows, self.dropped = fitted

    @classmethod
    def read(cls, algorithm: Offline, loaded: LoadedModel, spec: RolloutSpec) -> GivenRows:
        """Read what an algorithm's source names. Raises DataError, also for fewer rows than a step takes."""
        source = algorithm.source
        assert not isinstance(source, OwnSource)
        given = pairs.read(source)
        limits = pairs.Limits(spec.max_prompt, spec.max_response, loaded.model.config.max_position_embeddings)
        fitted = pairs.encode(loaded.tokenizer, given.examples, limits)
        if len(fitted.rows) < spec.prompts_per_step:
            raise DataError(
                f"{source.path}: {len(fitted.rows)} rows can be used ({fitted.dropped} have no answer within "
                f"the limits), and a step takes rollout.prompts_per_step = {spec.prompts_per_step} of them: "
                "lower it or add rows"
            )
        if isinstance(source, LabelFile):
            _refuse_long(source.path, fitted.rows, limits.length)
        info = DataInfo(
            name=source.type,
            split=source.split or "train",
            n=len(given.examples),
            hash=given.hash,
            **read_from(given.origin),
        )
        return cls(source.path, fitted, loaded, labels=isinstance(source, LabelFile), info=info, origin=given.origin)

    def step(self, seed: int, step: int, per_step: int) -> tuple[Batch, Stats]:
        """Return the rows of a step."""
        chosen = problems_of_step(len(self.rows), per_step, seed, step)
        batch = self._batch(chosen)
        stats: Stats = {"rows": Mean(len(chosen), 1), "rows_dropped_in_file": Mean(self.dropped, 1)}
        return (with_mismatched(batch) if self.labels else batch), stats

    def _batch(self, chosen: list[int]) -> Batch:
        answers = [
            (i, answer, role)
            for i in chosen
            for answer, role in ((self.rows[i].good, Role.GOOD), (self.rows[i].bad, Role.BAD))
            if answer is not None
        ]
        prompts = [Prompt(problem_id=f"{self.path}#{i}", ids=self.rows[i].prompt, text="") for i, _, _ in answers]
        responses = [Response(list(ids), [0.0] * len(ids), self._stop(ids), "") for _, ids, _ in answers]
        rollout = assemble(prompts, 1, responses, pad_id=self.loaded.pad_id, version=0)
        number = torch.tensor([i for i, _, _ in answers])
        role = torch.tensor([int(role) for _, _, role in answers])
        return Batch(
            rollout=dataclasses.replace(rollout, group=number),
            score=(role == Role.GOOD).float(),
            reward=torch.zeros(rollout.mask.shape),
            mask=rollout.mask,
            role=role,
            unit=number,
        )

    def _stop(self, ids: tuple[int, ...]) -> Stop:
        return Stop.EOS if ids[-1] in self.loaded.stop_ids else Stop.LENGTH


def _refuse_long(path: str, rows: Sequence[pairs.Encoded], context: int) -> None:
    """Raise DataError where some prompt with some other row's answer would not fit the model."""
    prompt = max(len(row.prompt) for row in rows)
    answer = max(len(row.good or row.bad or ()) for row in rows)
    if prompt + answer > context:
        raise DataError(
            f"{path}: the longest prompt and the longest answer have {prompt} + {answer} tokens, and the model reads "
            f"{context}: every prompt is measured with another row's answer, so lower rollout.max_prompt or "
            "rollout.max_response"
        )
