"""Supervised fine-tuning: `paribus sft RECIPE.toml` makes the embedded base model from demonstrations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from pydantic import Field, model_validator

from paribus.engines.checkpoint import restore_tensors, write_tensors
from paribus.engines.local import LocalSampler
from paribus.engines.optim import Optimizer, lr_scale
from paribus.engines.protocols import SamplingPlan
from paribus.engines.scoring import plainly_before, token_scores
from paribus.models import chat, hf, tiny
from paribus.models.packing import pack
from paribus.part import Part, dump, load, read_toml
from paribus.settings import MachineSpec, ModelSpec, OptimSpec
from paribus.store import files
from paribus.store.provenance import package_versions, value_hash
from paribus.tasks.base import Split
from paribus.tasks.grading import Item
from paribus.tasks.stories import Mistakes, Stories
from paribus.training.common import (
    CHECKPOINTS,
    Plan,
    Progress,
    Step,
    finished,
    refuse_inner_loop,
    rows_of_step,
    train,
)
from paribus.types import Key, Problem, Prompt, Stop

RECIPE = "recipe.json"


class Measure(Part):
    """How the finished model is measured: greedy, and several samples a problem at temperature 1."""

    split: Split = "test"
    samples: int = Field(default=8, ge=1)
    max_response: int = Field(default=96, ge=1)  # tokens


class SftSpec(Part):
    """A recipe: the network, the demonstrations and the training; everything that the result depends on."""

    name: str
    seed: int = 0
    steps: int = Field(ge=1)  # updates
    rows: int = Field(ge=1)  # demonstrations per update
    save_every: int = Field(default=100, ge=1)  # steps
    model: tiny.TinySpec = tiny.TinySpec()
    task: Stories = Stories()
    mistakes: Mistakes = Mistakes()
    optim: OptimSpec
    measure: Measure = Measure()
    machine: MachineSpec = MachineSpec(device="cpu")

    @model_validator(mode="after")
    def _no_loop_around_a_step(self) -> SftSpec:
        refuse_inner_loop(self.optim, "steps and rows")
        return self


class Example(NamedTuple):
    """A prompt with its response as ids; the response, its end marker included, starts at `start`."""

    ids: tuple[int, ...]
    start: int


def make_example(tokenizer: Any, messages: chat.Messages, answer: str) -> Example:
    """Return prompt and answer as ids, closed by exactly one end marker, wherever it comes from."""
    prompt = chat.encode(tokenizer, messages)
    response = list(tokenizer(answer, add_special_tokens=False).input_ids)
    if response[-1:] != [tokenizer.eos_token_id]:
        response.append(tokenizer.eos_token_id)
    return Example((*prompt, *response), len(prompt))


def collate(examples: Sequence[Example], pad_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return right-padded ids `[B, T]` and the mask `[B, T]` of response tokens.

    As everywhere, index t speaks about token t: the first answer token is trained, predicted from the prompt's last.
    """
    width = max(len(e.ids) for e in examples)
    tokens = torch.tensor([[*e.ids, *[pad_id] * (width - len(e.ids))] for e in examples])
    mask = torch.tensor([[e.start <= t < len(e.ids) for t in range(width)] for e in examples])
    return tokens, mask


class Trainer:
    """The network under training; a step is a pure function of the recipe, the step's number and the state before."""

    def __init__(self, spec: SftSpec) -> None:
        self.spec = spec
        self.problems = spec.task.problems("train")
        self.tokenizer = tiny.build_tokenizer([t for p in self.problems for t in (p.question, p.solution)], spec.model)
        self.model = tiny.build_model(spec.model, self.tokenizer, Key(spec.seed, "init").hash())
        self.optimizer = Optimizer([(self.model.named_parameters(), spec.optim.lr)], spec.optim)

    def examples(self, step: int) -> list[Example]:
        """The demonstrations of a step, each with mistakes of its own."""
        spec, out = self.spec, []
        for epoch, index in rows_of_step(len(self.problems), spec.rows, spec.seed, step):
            problem = self.problems[index]
            key = Key(spec.seed, "demonstration", epoch, problem.id)
            answer = spec.task.demonstration(problem, key, spec.mistakes)
            out.append(make_example(self.tokenizer, spec.task.messages(problem), answer))
        return out

    def step(self, step: int) -> Step:
        """One update by the mean over all response tokens of the step, however it is cut into micro-batches."""
        examples = self.examples(step)
        total = sum(len(e.ids) - e.start for e in examples)
        loss = 0.0
        for places in pack([(1, len(e.ids)) for e in examples], self.spec.machine.micro_tokens):
            tokens, mask = collate([examples[i] for i in places], self.tokenizer.pad_token_id)
            hidden = plainly_before(self.model.base_model, tokens, mask)
            logp, _ = token_scores(hidden, self.model.lm_head, tokens[mask], 1.0, "none")
            share = -logp.sum() / total
            share.backward()
            self.optimizer.collect()
            loss += share.item()
        norm = self.optimizer.step(lr_scale(self.spec.optim, step, self.spec.steps))
        return Step(loss, norm)

    def save(self, folder: Path) -> None:
        write_tensors(folder / "model.safetensors", dict(self.model.named_parameters()))
        self.optimizer.save(folder / "optimizer.safetensors")

    def restore(self, folder: Path) -> None:
        restore_tensors(folder / "model.safetensors", dict(self.model.named_parameters()))
        self.optimizer.restore(folder / "optimizer.safetensors")


def run(path: str | Path, out: Path, *, progress: Progress) -> Path:
    """Train and measure by the recipe at `path`; write a Hugging Face folder with `recipe.json` to `out`.

    May be stopped at any moment (Ctrl-C, kill): the same call goes on from the last checkpoint, bit for bit.
    Returns `out`. Raises ConfigError when `out` holds anything else than this recipe's work.
    """
    spec = load(SftSpec, read_toml(path), where=str(path))
    identity = value_hash(dump(spec))
    if finished(out, RECIPE, identity):
        progress(f"{out}: made by this very recipe already; nothing to do")
        return out
    if spec.machine.threads is not None:
        torch.set_num_threads(spec.machine.threads)
    trainer = Trainer(spec)
    plan = Plan(spec.name, identity, spec.steps, spec.save_every)
    loss = train(trainer, plan, out / CHECKPOINTS, progress).loss
    measured = measure(trainer, progress)
    record = {
        "identity": identity,
        "recipe": dump(spec),
        "parameters": sum(p.numel() for p in trainer.model.parameters()),
        "final_loss": loss,
        "measured": measured,
        "packages": package_versions(),
    }

    def write(folder: Path) -> None:
        hf.save_model(trainer.model, trainer.tokenizer, folder)
        files.write_json(folder / RECIPE, record)

    files.replace_folder(out, write)  # the checkpoints go with the folder's former content
    progress(f"{spec.name}: " + ", ".join(f"{name} {value}" for name, value in measured.items()))
    return out


def measure(trainer: Trainer, progress: Progress) -> dict[str, float | int | str]:
    """Return accuracy of the network: greedy, and of samples at temperature 1 (their mean, and pass@k)."""
    spec = trainer.spec
    plan = spec.measure
    stops = hf.stop_ids(trainer.model, trainer.tokenizer)
    loaded = hf.LoadedModel(
        trainer.model, trainer.tokenizer, ModelSpec(path=spec.name), spec.name, stops, trainer.tokenizer.pad_token_id
    )
    sampler = LocalSampler(loaded, decode_rows=spec.machine.decode_rows)
    problems = spec.task.problems(plan.split)
    room = spec.model.context - plan.max_response
    prompts = []
    for problem in problems:
        prompt = chat.make_prompt(trainer.tokenizer, problem.id, spec.task.messages(problem), room, "error")
        assert prompt is not None  # "error" drops nothing
        prompts.append(prompt)
    progress(f"{spec.name}: measuring on {len(problems)} problems of the {plan.split} split")
    greedy = _score(spec, sampler, problems, prompts, samples=1, temperature=0.0)
    sampled = _score(spec, sampler, problems, prompts, samples=plan.samples, temperature=1.0)
    return {
        "split": plan.split,
        "problems": len(problems),
        "greedy": round(float(greedy.mean()), 4),
        "sampled": round(float(sampled.mean()), 4),
        f"pass@{plan.samples}": round(float(sampled.max(1).mean()), 4),
    }


def _score(
    spec: SftSpec,
    sampler: LocalSampler,
    problems: Sequence[Problem],
    prompts: Sequence[Prompt],
    *,
    samples: int,
    temperature: float,
) -> np.ndarray:
    """Return the scores `[problems, samples]`."""
    plan = SamplingPlan(samples=samples, max_tokens=spec.measure.max_response, temperature=temperature)
    rollout = sampler.sample(prompts, plan, Key(spec.seed, "eval"))
    golds = [p.gold for p in problems for _ in range(samples)]
    rows = zip(rollout.text, golds, (stop is not Stop.EOS for stop in rollout.stop), strict=True)
    verdicts = spec.task.grader.grade_many([Item(*row) for row in rows])
    return np.array([v.score for v in verdicts]).reshape(len(problems), samples)
