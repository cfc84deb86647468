"""One training step after another on work of fixed length, through the pipeline's own pieces."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, cast

import torch

from paribus.algorithms import CATALOG, Need, Offline, OutcomeAtEnd, PairFile, PolicyGradient
from paribus.batch import Rollout
from paribus.bench import flops, inside
from paribus.bench.flops import Count, Group
from paribus.bench.inputs import Inputs
from paribus.engines.learner import TorchLearner
from paribus.engines.local import LocalSampler
from paribus.engines.machine import prepare_machine
from paribus.engines.protocols import SamplingPlan
from paribus.errors import ConfigError
from paribus.experiment import Setting
from paribus.models import chat
from paribus.models.hf import load_model
from paribus.part import replace
from paribus.pipeline.clock import Clock
from paribus.pipeline.collect import collect
from paribus.pipeline.given import GivenRows
from paribus.pipeline.prepare import measure, prepare
from paribus.planning.shapes import ModelShape, find_shape
from paribus.rewards import ModelScorer
from paribus.settings import Budget, MachineSpec, ModelSpec, OptimSpec, RolloutSpec
from paribus.suites import EvalSpec
from paribus.tasks import Answer, Columns, Jsonl
from paribus.types import Key, Problem, Prompt

Kind = Literal["grpo", "ppo", "ppo_without_kl", "dpo", "rollout"]
SEED = 0
# KL in the reward reads the old log-probs before the update: the sampler's, as the libraries compared with do
_PPO = replace(CATALOG["ppo"], old="sampler")
ALGORITHMS: dict[Kind, PolicyGradient | Offline] = {
    "grpo": CATALOG["trl_grpo"],
    "ppo": _PPO,
    "ppo_without_kl": replace(_PPO, shaping=(OutcomeAtEnd(),)),
    "dpo": CATALOG["trl_dpo"],
    "rollout": CATALOG["trl_grpo"],
}
UPDATES = ("critic_update", "policy_update")


class Size(NamedTuple):
    """What a step holds: prompts (pairs, for dpo), samples of each, tokens of each response."""

    prompts: int
    samples: int
    max_new: int


class Step(NamedTuple):
    """One step: seconds by phase ("step" is all of it), kinds of seconds inside, tokens, what was needed, peak RSS."""

    seconds: dict[str, float]
    inside: dict[str, float]
    tokens: int
    needed: dict[str, Count]
    peak_rss: dict[str, int]  # bytes, by phase


class Workbench:
    """A model with its sampler and learner. Responses always run to their limit, so that every step is alike.

    It stands where the pipeline expects a session. Scores are drawn from N(0, 1) in place of the grader's (which runs
    all the same), so that every row has an advantage and is trained.
    """

    def __init__(self, inputs: Inputs, kind: Kind, size: Size, machine: MachineSpec) -> None:
        spec = ModelSpec(path=inputs.model)
        device = prepare_machine(machine)
        # without stop tokens nothing ends before its limit
        self.loaded = dataclasses.replace(load_model(spec, device=device), stop_ids=())
        self.shape: ModelShape = find_shape(spec).shape
        self.rows = inputs.read()
        if len(self.rows) < size.prompts:
            raise ConfigError(f"{inputs.rows}: {len(self.rows)} rows, and a step takes {size.prompts}")
        self.kind, self.size, self.algorithm = kind, size, ALGORITHMS[kind]
        self.setting = Setting(
            model=spec,
            task=Jsonl(path=str(inputs.rows), columns=Columns(question="question"), grader=Answer(policy="flexible")),
            rollout=RolloutSpec(
                prompts_per_step=size.prompts, samples_per_prompt=size.samples, max_response=size.max_new
            ),
            optim=OptimSpec(lr=1e-6),
            budget=Budget(steps=1),
            eval={"test": EvalSpec(max_response=size.max_new, references=())},
            machine=machine,
        )
        self.clock = Clock(cuda=device.type == "cuda")
        self.sampler = LocalSampler(self.loaded, decode_rows=machine.decode_rows)
        self.learner = TorchLearner(
            self.loaded,
            optim=self.setting.optim,
            rollout=self.setting.rollout,
            machine=machine,
            key=Key(SEED, "critic"),
            critic=self.algorithm.critic,
            needs_reference=Need.REFERENCE in self.algorithm.needs,
            timer=self.clock,
        )
        self.seed, self.done, self.memory = SEED, 0, self.algorithm.memory()
        self.reward_models: dict[str, ModelScorer] = {}
        self.tokenizer, self.grader = self.loaded.tokenizer, self.setting.task.grader
        self.by_id = {str(i): Problem(id=str(i), question=r["question"], gold=r["answer"])
                      for i, r in enumerate(self.rows)}  # fmt: skip
        if isinstance(self.algorithm, Offline):
            algorithm = replace(self.algorithm, source=PairFile(path=str(inputs.rows)))
            self.pairs = GivenRows.read(algorithm, self.loaded, self.setting.rollout)

    def prompts(self, step: int, refill: int = 0) -> list[Prompt]:
        """Return the prompts of a step: the next ones of the file, round and round."""
        places = [(step * self.size.prompts + i) % len(self.rows) for i in range(self.size.prompts)]
        ids = [tuple(chat.encode_text(self.tokenizer, self.rows[i]["prompt"])) for i in places]
        return [Prompt(problem_id=str(i), ids=x, text="") for i, x in zip(places, ids, strict=True)]

    def sample(self, step: int, max_new: int | None = None) -> Rollout:
        """Return a rollout of a step's prompts."""
        plan = SamplingPlan(samples=self.size.samples, max_tokens=max_new or self.size.max_new)
        return self.sampler.sample(self.prompts(step), plan, Key(SEED, "sample", step))

    def step(self) -> Step:
        """Do the next step and say what it took."""
        self.clock.take()
        start = time.perf_counter()
        with inside.watched() as seconds:
            groups = groups_of(self._do(self.done))
        wall = time.perf_counter() - start
        row = self.clock.take()
        self.done += 1
        update = sum(row["seconds"].get(name, 0.0) for name in UPDATES)
        return Step(
            seconds=row["seconds"] | {"step": wall} | ({"update": update} if update else {}),
            inside=seconds,
            tokens=sum(sum(g.responses) for g in groups),
            needed=self.needed(groups),
            peak_rss=row["rss_peak"],
        )

    def needed(self, groups: Sequence[Group]) -> dict[str, Count]:
        """Return what each phase of a step over `groups` needs, by the names of the clock."""
        shape, needs = self.shape, self.algorithm.needs
        found: dict[str, Count] = {}
        if self.kind != "dpo":
            found["rollout"] = flops.prefill(shape, groups) + flops.decode(shape, groups)
        if self.kind == "rollout":
            return found
        if Need.REFERENCE in needs:
            found["ref_logp"] = flops.score(shape, groups)
        if Need.VALUES in needs:
            found |= {"values": flops.score(shape, groups, 1), "critic_update": flops.update(shape, groups, 1)}
        return found | {"policy_update": flops.update(shape, groups)}

    def _do(self, step: int) -> Rollout:
        """Do what the loop does in a step, and return the rows that it did it with."""
        session, algorithm = cast(Any, self), self.algorithm
        self.sampler.load(self.learner.weights(), version=step)
        if self.kind == "rollout":
            with self.clock("rollout"):
                return self.sample(step)
        if isinstance(algorithm, Offline):
            rows, _ = self.pairs.step(SEED, step, self.size.prompts)
            batch = measure(algorithm, rows, session)
        else:
            graded = collect(session, step, self.sampler)
            score = torch.randn(graded.rollout.rows, generator=torch.Generator().manual_seed(step))
            batch, _ = prepare(algorithm, dataclasses.replace(graded, score=score), session)
        signal, self.memory = algorithm.signal(batch, self.memory)
        self.learner.update(batch, signal, algorithm, Key(SEED, "update", step))
        return batch.rollout

    def close(self) -> None:
        self.clock.close()


def groups_of(rollout: Rollout) -> list[Group]:
    """Return prompts and responses of a rollout as lengths."""
    begin = rollout.mask.long().argmax(1).tolist()
    found: dict[int, tuple[int, list[int]]] = {}
    for group, prompt, length in zip(rollout.group.tolist(), begin, rollout.length.tolist(), strict=True):
        found.setdefault(group, (prompt, []))[1].append(length - prompt)
    return [Group(prompt, tuple(responses)) for prompt, responses in found.values()]
