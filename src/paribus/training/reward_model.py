"""Reward models from comparisons: `paribus reward-model RECIPE.toml` trains one on the start model's own answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field, model_validator

from paribus.algorithms import BradleyTerry
from paribus.engines.checkpoint import restore_tensors, write_tensors
from paribus.engines.local import LocalSampler
from paribus.engines.machine import prepare_machine
from paribus.engines.optim import Optimizer, lr_scale
from paribus.models.hf import load_model
from paribus.models.packing import pack
from paribus.models.pairs import Ids
from paribus.models.reward import RewardModel, make_reward_model
from paribus.part import Part, dump, load, read_toml
from paribus.settings import MachineSpec, ModelSpec, OptimSpec
from paribus.stats import bootstrap, wilson
from paribus.store import files
from paribus.store.provenance import package_versions, value_hash
from paribus.tasks import Split, TaskSpec
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
from paribus.training.comparisons import (
    Comparison,
    FilePairs,
    Material,
    OwnPairs,
    choose_problems,
    from_answers,
    from_file,
    sample_answers,
)
from paribus.types import Key, Problem

RECORD = "reward_model.json"


class RewardModelSpec(Part):
    """A recipe: the start model, its comparisons, the loss and the training; all that the result depends on."""

    name: str
    seed: int = 0
    model: ModelSpec = ModelSpec()
    task: TaskSpec | None = None  # of own pairs
    pairs: Annotated[OwnPairs | FilePairs, Field(discriminator="type")]
    loss: BradleyTerry = BradleyTerry()
    optim: OptimSpec
    epochs: float = Field(default=1.0, gt=0)  # passes over the problems that have pairs
    batch: int = Field(default=16, ge=1)  # problems per update, each with all its pairs
    save_every: int = Field(default=50, ge=1)  # updates between checkpoints; held-out pairs are measured at each
    machine: MachineSpec = MachineSpec(device="cpu")

    @model_validator(mode="after")
    def _consistent(self) -> RewardModelSpec:
        refuse_inner_loop(self.optim, "epochs and batch")
        if self.loss.margin:
            raise ValueError("loss.margin needs margins in the data, which neither own pairs nor those of files have")
        if (self.task is None) == isinstance(self.pairs, OwnPairs):
            raise ValueError("own pairs need a task to answer problems of, and pairs of a file have none")
        return self


class Trainer:
    """A reward model under training on comparisons."""

    def __init__(self, spec: RewardModelSpec, model: RewardModel, comparisons: Sequence[Comparison]) -> None:
        self.spec = spec
        self.model = model
        self.comparisons = comparisons
        self.steps = max(1, round(spec.epochs * len(comparisons) / spec.batch))
        self.optimizer = Optimizer([(model.model.named_parameters(), spec.optim.lr)], spec.optim)

    def step(self, step: int) -> Step:
        """One update by the mean over its problems of the mean over each one's pairs, however micro-batches cut it.

        The pairs of a problem share their rows and stand in one forward pass (InstructGPT, arXiv 2203.02155, 3.5).
        """
        spec, loss = self.spec, 0.0
        chosen = [self.comparisons[i] for _, i in rows_of_step(len(self.comparisons), spec.batch, spec.seed, step)]
        for places in pack([shape(c) for c in chosen], spec.machine.micro_tokens):
            good, bad, weight = pair_scores(self.model, [chosen[i] for i in places])
            share = (weight * spec.loss.per_pair(good, bad)).sum() / len(chosen)
            share.backward()
            self.optimizer.collect()
            loss += share.item()
        return Step(loss, self.optimizer.step(lr_scale(spec.optim, step, self.steps)))

    def save(self, folder: Path) -> None:
        write_tensors(folder / "model.safetensors", dict(self.model.model.named_parameters()))
        self.optimizer.save(folder / "optimizer.safetensors")

    def restore(self, folder: Path) -> None:
        restore_tensors(folder / "model.safetensors", dict(self.model.model.named_parameters()))
        self.optimizer.restore(folder / "optimizer.safetensors")


def shape(comparison: Comparison) -> tuple[int, int]:
    """Return rows and padded width of a comparison's forward pass."""
    return len(comparison.rows), max(map(len, comparison.rows))


def pair_scores(
    model: RewardModel, comparisons: Sequence[Comparison]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the scores `[N]` of the good and of the bad rows of all pairs, and 1 / (pairs of its problem) of each."""
    scores = model.scores([row for c in comparisons for row in c.rows])
    first = np.cumsum([0, *(len(c.rows) for c in comparisons)])
    pairs = [
        (first[i] + good, first[i] + bad, 1 / len(c.pairs)) for i, c in enumerate(comparisons) for good, bad in c.pairs
    ]
    good, bad, weight = zip(*pairs, strict=True)
    return scores[list(good)], scores[list(bad)], scores.new_tensor(weight)


def ranked(model: RewardModel, comparisons: Sequence[Comparison], micro_tokens: int) -> list[list[bool]]:
    """Say of every pair of every comparison whether the good answer has the higher score; a tie is a mistake."""
    scores = iter(model.score([row for c in comparisons for row in c.rows], micro_tokens=micro_tokens))
    found = []
    for comparison in comparisons:
        mine = [next(scores) for _ in comparison.rows]
        found.append([mine[good] > mine[bad] for good, bad in comparison.pairs])
    return found


def measure(right: Sequence[Sequence[bool]], seed: int) -> dict[str, Any]:
    """Return the accuracy on held-out pairs.

    Over pairs with Wilson's interval, which takes them for independent; and as the mean over problems, each counting
    once, with a bootstrap over problems, which knows that the pairs of a problem hang together.
    """
    flat = [r for pairs in right for r in pairs]
    rng = np.random.Generator(np.random.Philox(Key(seed, "bootstrap").hash()))
    by_problem = bootstrap([sum(pairs) / len(pairs) for pairs in right], rng)
    return {"pairs": wilson(sum(flat), len(flat))._asdict(), "problems": by_problem._asdict()}


def gather(spec: RewardModelSpec, model: RewardModel, folder: Path, progress: Progress) -> tuple[Material, Material]:
    """Return what is trained on and what is held out: from the file, or sampled, graded and paired."""
    pairs = spec.pairs
    if isinstance(pairs, FilePairs):
        return from_file(model, pairs)
    assert spec.task is not None  # checked with the recipe
    sampler = LocalSampler(load_model(spec.model, device=model.model.device), decode_rows=spec.machine.decode_rows)
    # what was sampled stands under a name that changes with whatever it depends on
    identity = value_hash([dump(part) for part in (spec.model, spec.task, pairs)] + [spec.seed])[:16]
    wanted: list[tuple[Split, list[Problem]]] = [
        ("train", choose_problems(spec.task, "train", pairs.problems, "pairs.problems")),
        ("validation", choose_problems(spec.task, "validation", pairs.held_out, "pairs.held_out")),
    ]
    made = []
    for split, problems in wanted:
        stored = folder / "answers" / identity / split
        answers = sample_answers(sampler, spec.task, problems, pairs, spec.seed, stored, progress)
        made.append(from_answers(model, spec.task, problems, answers, pairs, spec.seed, split))
    return made[0], made[1]


def distribution(model: RewardModel, rows: Sequence[Ids], micro_tokens: int) -> dict[str, float]:
    """Return mean and standard deviation of the scores of rows."""
    scores = np.array(model.score(rows, micro_tokens=micro_tokens))
    return {"mean": float(scores.mean()), "std": float(scores.std()), "rows": len(rows)}


def run(path: str | Path, out: Path, *, progress: Progress) -> Path:
    """Sample, pair and train by the recipe at `path`; write the reward model's folder, `reward_model.json` in it.

    May be stopped at any moment (Ctrl-C, kill): the same call goes on from the last checkpoint, bit for bit.
    Returns `out`. Raises ConfigError when `out` holds anything else than this recipe's work.
    """
    spec = load(RewardModelSpec, read_toml(path), where=str(path))
    identity = value_hash(dump(spec))
    if finished(out, RECORD, identity):
        progress(f"{out}: made by this very recipe already; nothing to do")
        return out
    model = make_reward_model(spec.model, device=prepare_machine(spec.machine))
    trained_on, held_out = gather(spec, model, out / CHECKPOINTS, progress)
    for split, material in (("training", trained_on), ("held out", held_out)):
        progress(f"{spec.name}: {split}: " + ", ".join(f"{name} {n}" for name, n in material.counts.items()))
    trainer = Trainer(spec, model, trained_on.comparisons)
    budget = spec.machine.micro_tokens

    def on_the_way() -> dict[str, float]:
        right = ranked(model, held_out.comparisons, budget)
        return {"held_out_accuracy": wilson(sum(map(sum, right)), sum(map(len, right))).estimate}

    plan = Plan(spec.name, identity, trainer.steps, spec.save_every)
    outcome = train(trainer, plan, out / CHECKPOINTS, progress, measure=on_the_way)
    measured = measure(ranked(model, held_out.comparisons, budget), spec.seed)
    record = {
        "identity": identity,
        "recipe": dump(spec),
        "parameters": sum(p.numel() for p in model.model.parameters()),
        "steps": trainer.steps,
        "final_loss": outcome.loss,
        "data": {
            split: {"hash": material.hash, **material.counts}
            for split, material in (("train", trained_on), ("held_out", held_out))
        },
        "held_out_accuracy": measured,
        "held_out_scores": distribution(model, held_out.rows, budget),
        "curve": outcome.curve,
        "packages": package_versions(),
    }

    def write(folder: Path) -> None:
        model.save(folder)
        files.write_json(folder / RECORD, record)

    files.replace_folder(out, write)  # the checkpoints go with the folder's former content
    accuracy = measured["pairs"]
    progress(
        f"{spec.name}: {accuracy['estimate']:.1%} of {accuracy['n']} held-out pairs ranked right "
        f"({accuracy['low']:.1%} to {accuracy['high']:.1%})"
    )
    return out
