"""Comparisons to train a reward model on: the start model's own answers, graded and paired, or pairs from a file."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from paribus.algorithms import PairFile
from paribus.engines.local import LocalSampler
from paribus.engines.protocols import SamplingPlan
from paribus.errors import ConfigError, DataError
from paribus.models import chat
from paribus.models.pairs import Ids, read
from paribus.models.reward import RewardModel
from paribus.part import Part
from paribus.store import files
from paribus.store.provenance import value_hash
from paribus.tasks import Item, Split, TaskSpec
from paribus.training.common import HEARTBEAT, Progress
from paribus.types import Key, Problem, Prompt, Stop


class OwnPairs(Part):
    """How many problems are answered by the start model, how often each, and how many pairs of one problem count."""

    type: Literal["own"] = "own"
    problems: int = Field(default=1000, ge=1)  # the first of the training split
    held_out: int = Field(default=500, ge=1)  # the first of the validation split: measured, never trained on
    samples: int = Field(default=8, ge=2)  # per problem, at temperature 1
    max_response: int = Field(ge=1)  # tokens
    per_problem: int = Field(default=16, ge=1)  # pairs at most, drawn at random from those of different score


class FilePairs(Part):
    """Pairs of a file in the shapes of docs/preference-data.md; a prompt that is plain text is asked as the user."""

    type: Literal["file"] = "file"
    path: str
    held_out: float = Field(default=0.1, gt=0, lt=1)  # share of the prompts, chosen by hash: measured, never trained on


class Sampled(BaseModel):
    """The sampled answers to one problem; a score is None where the grader could not tell."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    problem: str
    texts: tuple[str, ...]
    scores: tuple[float | None, ...]


class Comparison(NamedTuple):
    """The different answers to one prompt as rows of ids, and its pairs (good, bad) as indices of rows."""

    rows: tuple[Ids, ...]
    pairs: tuple[tuple[int, int], ...]


class Material(NamedTuple):
    """The comparisons of a split, all rows that were answered there, and what is recorded of them."""

    comparisons: list[Comparison]
    rows: list[Ids]
    counts: dict[str, int]
    hash: str  # equal hashes mean the same texts in the same pairs


def compare(model: RewardModel, messages: chat.Messages, pairs: Iterable[tuple[str, str]]) -> Comparison:
    """Return the comparison of (good, bad) texts; pairs of equal or of too long answers are left out."""
    kept = []
    rows: dict[str, Ids] = {}
    for pair in pairs:
        ids = {text: tuple(model.encode(messages, text)) for text in pair if text not in rows}
        if len(set(pair)) == 2 and all(len(row) <= model.context for row in ids.values()):
            rows |= ids
            kept.append(pair)
    place = {text: i for i, text in enumerate(rows)}
    return Comparison(tuple(rows.values()), tuple((place[good], place[bad]) for good, bad in kept))


def from_file(model: RewardModel, spec: FilePairs) -> tuple[Material, Material]:
    """Return what is trained on and what is held out; all pairs of a prompt are on one side. Raises DataError."""
    groups: dict[str, tuple[chat.Messages, list[tuple[str, str]]]] = {}
    for example in read(PairFile(path=spec.path)).examples:
        prompt = example.prompt
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        assert example.good is not None and example.bad is not None  # a pair has both
        _, pairs = groups.setdefault(value_hash(messages), (messages, []))
        pairs.append((example.good, example.bad))
    made = []
    for held_out in (False, True):
        chosen = [
            group for key, group in groups.items() if (int(key, 16) % 10_000 < spec.held_out * 10_000) == held_out
        ]
        compared = [compare(model, messages, pairs) for messages, pairs in chosen]
        kept = _with_pairs(compared, "held-out" if held_out else "training", spec.path)
        counts = {
            "prompts": len(chosen),
            "compared": len(kept),
            "pairs": sum(len(c.pairs) for c in kept),
            "dropped_pairs": sum(len(pairs) for _, pairs in chosen) - sum(len(c.pairs) for c in kept),
        }
        rows = [row for c in kept for row in c.rows]
        made.append(Material(kept, rows, counts, value_hash([[m, p] for m, p in chosen])[:16]))
    return made[0], made[1]


def from_answers(
    model: RewardModel, task: TaskSpec, problems: Sequence[Problem], answers: Sequence[Sampled], spec: OwnPairs,
    seed: int, split: Split,
) -> Material:  # fmt: skip
    """Pair answers of higher with answers of lower score to the same problem; equal texts are one answer."""
    messages = {p.id: task.messages(p) for p in problems}
    compared = [compare(model, messages[a.problem], draw_pairs(a, spec.per_problem, seed)) for a in answers]
    kept = _with_pairs(compared, split, "the start model's answers")
    told = [[s for s in a.scores if s is not None] for a in answers]
    uniform = [scores for scores in told if len(set(scores)) <= 1]
    right = sum(bool(scores) and scores[0] > 0 for scores in uniform)
    counts = {
        "problems": len(answers),
        "compared": len(kept),
        "dropped_all_right": right,
        "dropped_all_wrong": len(uniform) - right,
        "pairs": sum(len(c.pairs) for c in kept),
    }
    encoded = (tuple(model.encode(messages[a.problem], text)) for a in answers for text in a.texts)
    rows = [row for row in encoded if len(row) <= model.context]
    return Material(kept, rows, counts, value_hash([a.model_dump(mode="json") for a in answers])[:16])


def draw_pairs(answers: Sampled, limit: int, seed: int) -> list[tuple[str, str]]:
    """Return (good, bad) texts: all pairs of different score, or `limit` of them drawn by problem and seed."""
    score = {t: s for t, s in zip(answers.texts, answers.scores, strict=True) if s is not None}
    pairs = [(a, b) for a, b in itertools.permutations(score, 2) if score[a] > score[b]]
    if len(pairs) <= limit:
        return pairs
    rng = np.random.Generator(np.random.Philox(Key(seed, "choose", problem=answers.problem).hash()))
    return [pairs[i] for i in sorted(rng.choice(len(pairs), limit, replace=False))]


def _with_pairs(comparisons: Sequence[Comparison], split: str, source: str) -> list[Comparison]:
    kept = [c for c in comparisons if c.pairs]
    if not kept:
        raise DataError(
            f"{source}: no {split} prompt has a good and a bad answer: take more problems or samples, or a task that "
            "the start model solves sometimes"
        )
    return kept


def choose_problems(task: TaskSpec, split: Split, count: int, key: str) -> list[Problem]:
    """Return the first `count` problems of a split. Raises ConfigError when there are fewer."""
    found = task.problems(split)
    if len(found) < count:
        raise ConfigError(f"{key} = {count}, but the task has only {len(found)} {split} problems: lower it")
    return found[:count]


def sample_answers(
    sampler: LocalSampler, task: TaskSpec, problems: Sequence[Problem], spec: OwnPairs, seed: int, folder: Path,
    progress: Progress,
) -> list[Sampled]:  # fmt: skip
    """Return graded answers in the order of `problems`; `folder` keeps a file per batch, so none is sampled twice."""
    done: dict[str, Sampled] = {}
    prompts = {p.id: _prompt(sampler, task, p, spec.max_response) for p in problems}
    order = sorted(problems, key=lambda p: (len(prompts[p.id].ids), p.id))  # alike lengths together: little is padded
    size = max(1, sampler.decode_rows // spec.samples)
    spoken = time.perf_counter()
    for start in range(0, len(order), size):
        asked = order[start : start + size]
        file = folder / f"{start:06}.jsonl.gz"
        answers = files.read_rows(file, Sampled)
        if [a.problem for a in answers] != [p.id for p in asked]:
            answers = _answer(sampler, task, asked, prompts, spec, seed)
            files.write_rows(file, answers)
        done |= {a.problem: a for a in answers}
        if time.perf_counter() - spoken >= HEARTBEAT:
            progress(f"{folder.name}: answers to {len(done)}/{len(order)} problems sampled")
            spoken = time.perf_counter()
    return [done[p.id] for p in problems]


def _prompt(sampler: LocalSampler, task: TaskSpec, problem: Problem, max_response: int) -> Prompt:
    room = sampler.model.config.max_position_embeddings - max_response
    prompt = chat.make_prompt(sampler.loaded.tokenizer, problem.id, task.messages(problem), room, "error")
    assert prompt is not None  # "error" drops nothing
    return prompt


def _answer(
    sampler: LocalSampler, task: TaskSpec, problems: Sequence[Problem], prompts: Mapping[str, Prompt], spec: OwnPairs,
    seed: int,
) -> list[Sampled]:  # fmt: skip
    plan = SamplingPlan(samples=spec.samples, max_tokens=spec.max_response)
    rollout = sampler.sample([prompts[p.id] for p in problems], plan, Key(seed, "pairs"))
    golds = [p.gold for p in problems for _ in range(spec.samples)]
    cut = (stop is not Stop.EOS for stop in rollout.stop)
    items = [Item(*row) for row in zip(rollout.text, golds, cut, strict=True)]
    scores = [v.score if v.status in ("ok", "unparsable") else None for v in task.grader.grade_many(items)]
    made = []
    for i, problem in enumerate(problems):
        rows = slice(i * spec.samples, (i + 1) * spec.samples)
        made.append(Sampled(problem=problem.id, texts=tuple(rollout.text[rows]), scores=tuple(scores[rows])))
    return made
