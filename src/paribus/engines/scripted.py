"""Fakes: a sampler that replays a table of responses, and a learner that only keeps count."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from paribus.batch import Batch, Mean, Rollout, Signal, Stats
from paribus.engines.protocols import Finished, Objective, SamplingPlan
from paribus.engines.rollouts import Response, assemble, row_keys
from paribus.errors import ConfigError
from paribus.types import Key, Prompt, Stop

LOGP = -0.5  # of every replayed token, under sampler and learner alike; the entropy is then 0.5


@dataclass
class ScriptedSampler:
    """Replays `responses[problem id]`: greedy plans take the first, others one of them by the row's key."""

    responses: Mapping[str, Sequence[tuple[tuple[int, ...], str]]]  # ids (a stop token last, or none) and text
    stop_ids: tuple[int, ...]
    version: int = 0

    def sample(
        self, prompts: Sequence[Prompt], plan: SamplingPlan, key: Key, finished: Finished | None = None
    ) -> Rollout:
        if plan.topk or plan.mix_rate:
            raise ConfigError("a scripted sampler has no model: it can neither list likely tokens nor mix embeddings")
        asked = [prompt.problem_id for prompt in prompts for _ in range(plan.samples)]
        rows = []
        for problem, row_key in zip(asked, row_keys(prompts, plan.samples, key), strict=True):
            known = self.responses[problem]
            ids, text = known[row_key % len(known) if plan.temperature else 0]
            cut = list(ids[: plan.max_tokens])
            stop = Stop.EOS if cut[-1] in self.stop_ids else Stop.LENGTH
            rows.append(Response(cut, [LOGP] * len(cut), stop, text))
            if finished is not None:
                finished([(len(rows) - 1, text, stop)])
        return assemble(prompts, plan.samples, rows, pad_id=self.stop_ids[0], version=self.version)

    def load(self, weights: Mapping[str, Any] | None, version: int) -> None:
        self.version = version


@dataclass
class ScriptedLearner:
    """Scores every token alike and remembers which steps it was updated at, across `save` and `restore`."""

    updated: list[int] = field(default_factory=list)

    def logp(self, rollout: Rollout, *, of: Literal["policy", "reference"] = "policy") -> torch.Tensor:
        return torch.where(rollout.mask, LOGP, 0.0)

    def logp_and_entropy(self, rollout: Rollout) -> tuple[torch.Tensor, torch.Tensor]:
        logp = self.logp(rollout)
        return logp, -logp

    def values(self, rollout: Rollout) -> torch.Tensor:
        return torch.zeros(rollout.mask.shape)

    def values_and_final(self, rollout: Rollout) -> tuple[torch.Tensor, torch.Tensor]:
        return self.values(rollout), torch.zeros(rollout.rows)

    def update(self, batch: Batch, signal: Signal, objective: Objective, key: Key) -> Stats:
        self.updated.append(key.step)
        return {"updates": Mean(1.0, 1.0)}

    def weights(self) -> Mapping[str, Any] | None:
        return None

    def save(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        (path / "learner.json").write_text(json.dumps(self.updated), encoding="utf-8")

    def restore(self, path: Path) -> None:
        self.updated = json.loads((path / "learner.json").read_text(encoding="utf-8"))
