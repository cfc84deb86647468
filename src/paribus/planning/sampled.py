"""Sampling the starting model for a pilot: responses, rewards, hidden states; piece by piece, so that a stop loses
nothing but the piece at hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from paribus.batch import Rollout, move, select, trim
from paribus.engines.local import LocalSampler
from paribus.engines.machine import prepare_machine
from paribus.engines.protocols import SamplingPlan
from paribus.engines.scoring import before, micro_batches, token_scores
from paribus.errors import DataError
from paribus.experiment import Experiment, Setting
from paribus.models.hf import LoadedModel, load_model
from paribus.part import dump
from paribus.pipeline.order import problems_of_step
from paribus.pipeline.score import grade, responses
from paribus.pipeline.stop import StopRequest
from paribus.pipeline.worker import load_reward_models, questions
from paribus.planning.pilot import PILOT
from paribus.planning.signals import Sampled
from paribus.rewards import ModelScorer, Noisy, Response, TaskReward, counted, judge, step_scores
from paribus.store import value_hash
from paribus.store.files import replace_file
from paribus.tasks import Item
from paribus.tasks.references import grade_by, usual_references
from paribus.types import Key, Problem, Prompt, Stop, Verdict

PLACES = 8  # equal parts of a response, whose middles are probed
WIDTH = 256  # numbers kept of a hidden state: wider ones are projected onto so many random directions
AGAIN_EVERY = 10  # one prompt in so many is judged twice ...
AGAIN_LEAST = 32  # ... but at least so many
FIELDS = ("reward", "score", "again", "length", "cut", "rewarded", "units", "gap", "states")


class SampledPilot(NamedTuple):
    """Samples with what was measured beside them; prompts with a response that could not be judged are left out."""

    sampled: Sampled
    excluded: int  # prompts
    prefill: float  # seconds to read a prompt, once for all its samples
    second_look: str  # what judged a second time


class _Tools(NamedTuple):
    exp: Experiment
    loaded: LoadedModel
    sampler: LocalSampler
    models: dict[str, ModelScorer]
    problems: dict[str, Problem]

    @property
    def setting(self) -> Setting:
        return self.exp.setting


def sample(exp: Experiment, runs: Path | str, prompts: int, samples: int, say: Callable[[str], None]) -> SampledPilot:
    """Sample `samples` responses to each of `prompts` training prompts from the model that every run starts from.

    The prompts are the first of the first seed's order; draws and noise have streams of their own. Pieces lie in
    `runs/<experiment>/_pilot/`; those of an earlier call are taken up. Raises DataError when there are fewer prompts.
    """
    setting = exp.setting
    device = prepare_machine(setting.machine, setting.model)
    loaded = load_model(setting.model, device=device)
    asked, _ = questions(setting.task, "train", loaded, setting)
    if len(asked.prompts) < prompts:
        raise DataError(f"the training split has {len(asked.prompts)} problems: ask for at most so many with --prompts")
    chosen = [asked.prompts[i] for i in problems_of_step(len(asked.prompts), prompts, exp.seeds[0], 0)]
    tools = _Tools(
        exp,
        loaded,
        LocalSampler(loaded, decode_rows=setting.machine.decode_rows),
        load_reward_models(setting, device),
        {p.id: p for p in asked.problems},
    )
    shared = {k: dump(setting)[k] for k in ("model", "task", "reward", "steps", "rollout")}
    identity = value_hash([shared, setting.reward.version, prompts, samples, exp.seeds[0]])[:8]
    folder = Path(runs) / exp.name / PILOT / f"samples-{identity}"
    twice = {p.problem_id for p in chosen[:: max(1, min(AGAIN_EVERY, prompts // AGAIN_LEAST))]}
    per_piece = max(1, setting.machine.decode_rows // samples)
    pieces = []
    with StopRequest() as stop:
        for start in range(0, prompts, per_piece):
            path = folder / f"{start}.npz"
            if not path.exists():
                _write(path, _piece(tools, chosen[start : start + per_piece], samples, twice))
            pieces.append(_read(path))
            say(f"sampled {min(start + per_piece, prompts)} of {prompts} prompts, {samples} responses each")
            stop.check()
        prefill = _prefill(tools, chosen[:per_piece])
    joined = {name: np.concatenate([piece[name] for piece in pieces]) for name in FIELDS}
    known = np.isfinite(joined["reward"]).all(1) & np.isfinite(joined["score"]).all(1)
    if known.sum() < 2:
        raise DataError(f"{prompts - known.sum()} of {prompts} prompts hold a response that could not be judged")
    kept = Sampled(**{name: column[known] for name, column in joined.items()})
    return SampledPilot(kept, int((~known).sum()), prefill, _second_look(setting))


def _second_look(setting: Setting) -> str:
    if isinstance(setting.reward, TaskReward):
        return usual_references(setting.task)[0].name
    return "the same reward with fresh noise" if isinstance(setting.reward, Noisy) else "the same reward again"


def _piece(tools: _Tools, prompts: Sequence[Prompt], samples: int, twice: set[str]) -> dict[str, Any]:
    """Sample and judge some prompts; arrays [P, n, ...] by field."""
    setting, seed = tools.setting, tools.exp.seeds[0]
    spec = setting.rollout
    plan = SamplingPlan(samples=samples, max_tokens=spec.max_response, temperature=spec.temperature, top_p=spec.top_p)
    rollout = tools.sampler.sample(prompts, plan, Key(seed, "pilot"))
    verdicts = grade(setting.task.grader, rollout, tools.problems)
    rows = responses(rollout, verdicts, tools.problems, Key(seed, "pilot-noise"))
    reward = judge(setting.reward, rows, tools.models).total
    again = [i for i, name in enumerate(rollout.problem_id) if name in twice]
    second: list[float | None] = [None] * rollout.rows
    for i, value in zip(again, _judge_again(tools, rollout, verdicts, again), strict=True):
        second[i] = value
    rewarded, units = _density(tools, rows, reward, rollout)
    states, gap = _states(tools, rollout)
    columns = {
        "reward": _floats(reward),
        "score": _floats([counted(v) for v in verdicts]),
        "again": _floats(second),
        "length": rollout.response_length.numpy().astype(float),
        "cut": np.array([stop is not Stop.EOS for stop in rollout.stop], float),
        "rewarded": rewarded,
        "units": units,
        "gap": gap,
        "states": states,
    }
    return {name: column.reshape(len(prompts), samples, *column.shape[1:]) for name, column in columns.items()}


def _floats(values: Sequence[float | None]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values], float)


def _judge_again(
    tools: _Tools, rollout: Rollout, verdicts: Sequence[Verdict], rows: Sequence[int]
) -> list[float | None]:
    """Judge rows a second time: by the first reference grader where the reward is the grader's, else by the reward
    itself, with noise of another stream."""
    setting = tools.setting
    part, judged = select(rollout, torch.tensor(rows, dtype=torch.long)), [verdicts[i] for i in rows]
    if not rows:
        return []
    if isinstance(setting.reward, TaskReward):
        golds = [tools.problems[name].gold for name in part.problem_id]
        cut = [stop is not Stop.EOS for stop in part.stop]
        items = [Item(*row) for row in zip(part.text, golds, cut, strict=True)]
        return [counted(v) for v in grade_by(usual_references(setting.task)[0], setting.task.grader, items)]
    key = Key(tools.exp.seeds[0], "pilot-noise-again")
    return list(judge(setting.reward, responses(part, judged, tools.problems, key), tools.models).total)


def _density(
    tools: _Tools, rows: Sequence[Response], reward: Sequence[float | None], rollout: Rollout
) -> tuple[np.ndarray, np.ndarray]:
    """Count the rewards that are not 0 of each row, and its tokens: an outcome counts once, a step where it ends."""
    units = rollout.response_length.numpy().astype(float)
    rewarded = np.array([float(bool(value)) for value in reward])
    if tools.setting.steps is not None:
        for i, steps in enumerate(step_scores(tools.setting.steps, rows, tools.models)):
            rewarded[i] += sum(step.score != 0 for step in steps or [])
    return rewarded, units


@torch.no_grad()
def _states(tools: _Tools, rollout: Rollout) -> tuple[np.ndarray, np.ndarray]:
    """Return hidden states `[B, 1 + K, H]` at the prompt's end and in the middle of K parts of the response, and the
    mean absolute difference between the learner's and the sampler's log-probs of each row."""
    model: Any = tools.loaded.model
    head, temperature = model.get_output_embeddings(), tools.setting.rollout.temperature
    wide = head.weight.shape[1]
    # distances survive a random projection (Johnson & Lindenstrauss 1984), and a ridge probe sees little else
    onto = np.random.default_rng(0).normal(size=(wide, WIDTH)) / np.sqrt(WIDTH) if wide > WIDTH else np.eye(wide)
    states = np.zeros((rollout.rows, 1 + PLACES, onto.shape[1]), np.float32)
    gap = np.zeros(rollout.rows)
    middle = (np.arange(PLACES) + 0.5) / PLACES
    for rows in micro_batches(rollout, range(rollout.rows), tools.setting.machine.micro_tokens):
        index = torch.tensor(rows)
        width = int(rollout.length[index].max())
        part = move(trim(select(rollout, index), width), model.device)
        hidden = before(model.base_model, part, part.mask)
        logp, _ = token_scores(hidden, head, part.tokens[part.mask], temperature, "none")
        error = (logp - part.sampled_logp[part.mask]).abs().double().cpu().numpy()
        sizes = part.response_length.cpu().numpy()
        starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        for row, start, size in zip(rows, starts, sizes, strict=True):
            at = np.concatenate(([0], np.floor(middle * size).astype(int)))
            states[row] = hidden[torch.from_numpy(start + at).to(hidden.device)].float().cpu().numpy() @ onto
            gap[row] = error[start : start + size].mean()
    return states, gap


def _prefill(tools: _Tools, prompts: Sequence[Prompt]) -> float:
    """Seconds to read one prompt, by sampling a single token after each; the second of two trials."""
    plan = SamplingPlan(samples=1, max_tokens=1)
    seconds = 0.0
    for trial in range(2):
        began = time.perf_counter()
        tools.sampler.sample(prompts, plan, Key(trial, "pilot-prefill"))
        seconds = time.perf_counter() - began
    return seconds / len(prompts)


def _write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    import io

    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]  # its stub takes no mapping
    replace_file(path, buffer.getvalue())


def _read(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in FIELDS}
