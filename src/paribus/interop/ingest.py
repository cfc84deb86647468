"""Runs of another trainer as runs here: its dumped responses, graded again, in the folder that `report` reads.

What verl and TRL write down holds responses and rewards, and neither token counts nor how a response ended. Both are
told from the text by the model's tokenizer: a response of as many tokens as the limit counts as cut. Seconds and memory
are not there at all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from paribus.errors import ConfigError, DataError
from paribus.experiment import Experiment, Setting, run_config
from paribus.interop.announce import announce
from paribus.interop.responses import Answered, Asked, numbered, of_trl, of_verl
from paribus.rewards import counted
from paribus.settings import ModelSpec
from paribus.store import (
    DataInfo,
    EvalRow,
    ExperimentPaths,
    GraderInfo,
    ProblemRow,
    RolloutRow,
    RunFacts,
    RunWriter,
    StepRow,
    status,
    value_hash,
    write_problems,
)
from paribus.store.schema import ExperimentInfo, StatRow
from paribus.suites import EvalSpec
from paribus.tasks import Answer, Grader, TaskSpec, content_hash
from paribus.types import Stop

Tool = Literal["verl", "trl"]
Length = Callable[[str], int]  # tokens of a text


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose responses they are: the trainer and its release, the arm's name here, and the arm that it is like."""

    tool: Tool
    version: str
    arm: str
    like: str

    @property
    def engine(self) -> str:
        return f"{self.tool} {self.version}"


def ingest(
    exp: Experiment,
    origin: Origin,
    folder: Path,
    out: Path,
    *,
    length: Length,
    describe: Callable[[Experiment], ExperimentInfo],
    seed: int | None = None,
) -> list[str]:
    """Write a run for every `runs/seed-K` of an exported folder, or for `folder` itself as the run of `seed`.

    Returns a line about each. Raises ConfigError, DataError; a run that is there already is refused.
    """
    if origin.like not in exp.arms:
        raise ConfigError(f"no arm '{origin.like}' in this experiment; arms: {', '.join(exp.arms)}")
    runs = {int(path.name.removeprefix("seed-")): path for path in sorted((folder / "runs").glob("seed-*"))}
    if seed is not None:
        runs = {seed: runs.get(seed, folder)}
    if not runs:
        raise DataError(f"{folder}: no runs/seed-K in it; give the seed of the run that it holds with --seed")
    paths = ExperimentPaths(out)
    for number in runs:
        if status(paths.run(origin.arm, number)) != "new":
            raise ConfigError(f"{paths.run(origin.arm, number).root}: already holds a run; remove it, or choose --arm")
    setting = exp.arms[origin.like].setting(exp.setting)
    found = {number: _found(origin.tool, path, setting) for number, path in runs.items()}
    for number, path in runs.items():
        if not any(found[number].values()):
            raise DataError(f"{path}: no responses of {origin.tool} in it: expected {EXPECTED[origin.tool]}")
    graded = {number: _evaluations(setting, dumps, length) for number, dumps in found.items()}  # before any writing
    announce(paths, exp, origin.like, origin.arm, origin.engine, tuple(runs), describe)
    return [_write(exp, origin, paths, n, found[n].get(TRAINING, {}), graded[n], length) for n in runs]


EXPECTED = {
    "verl": "validation/SUITE/STEP.jsonl or rollouts/STEP.jsonl",
    "trl": "completions/completions_STEP.parquet",
}
TRAINING = ""  # among the names of suites: responses that were trained on
Dumps = dict[str, dict[int, list[Answered]]]  # by suite and step


def _found(tool: Tool, path: Path, setting: Setting) -> Dumps:
    """Return what a run's folder holds, by suite (or training) and step of ours."""
    if tool == "verl":
        places = {TRAINING: path / "rollouts"} | {name: path / "validation" / name for name in setting.eval}
        return {name: {k: of_verl(file) for k, file in numbered(place, ".jsonl")} for name, place in places.items()}
    updates = setting.updates_per_rollout
    suites = {name: Asked(*_asked(spec, setting.task)) for name, spec in setting.eval.items()}
    found: Dumps = defaultdict(lambda: defaultdict(list))
    for update, file in numbered(path / "completions", ".parquet"):
        step = -(-update // updates)
        for row in of_trl(file):
            name = next((n for n, asked in suites.items() if asked.holds(row)), TRAINING)
            found[name][step].append(row)
    return {name: dict(steps) for name, steps in found.items()}


def _asked(spec: EvalSpec, training: TaskSpec) -> tuple[list[Any], list[str]]:
    """Return a suite's problems and the text that asks each."""
    problems, ask = spec.problems(training), spec.messages(training)
    return problems, [ask(p)[-1]["content"] for p in problems]


Evaluations = dict[str, dict[int, list[EvalRow]]]  # by suite and step


def _evaluations(setting: Setting, found: Dumps, length: Length) -> Evaluations:
    """Return every evaluation, graded. Raises DataError where one is not whole."""
    out: Evaluations = {}
    for name, spec in setting.eval.items():
        asked = Asked(*_asked(spec, setting.task))
        steps = found.get(name, {})
        out[name] = {step: _graded(rows, asked, spec, setting.task, length) for step, rows in steps.items()}
    return out


def _write(
    exp: Experiment,
    origin: Origin,
    paths: ExperimentPaths,
    seed: int,
    training: dict[int, list[Answered]],
    graded: Evaluations,
    length: Length,
) -> str:
    setting = exp.arms[origin.like].setting(exp.setting)
    config = run_config(exp, origin.like) | {"engine": origin.engine}
    problems = setting.task.problems("train")
    data = {"train": _info(setting.task, "train", problems, ())}
    for name, spec in setting.eval.items():
        asked = _asked(spec, setting.task)[0]
        data[name] = _info(spec.asks(setting.task), spec.split, asked, _references(spec, setting.task))
        if graded[name] and not paths.problems(name).exists():
            rows = [ProblemRow(problem_id=p.id, question=p.question, gold=p.gold) for p in asked]
            write_problems(paths, name, rows)
    facts = RunFacts(
        config_hash=value_hash(config),
        grader=_grader(setting.task.grader),
        data=data,
        device=f"{origin.engine}, elsewhere",
        device_bytes=None,
        threads=0,
        determinism=f"none is known of {origin.engine}",
    )
    run = RunWriter.create(paths.run(origin.arm, seed), facts, config)
    if training:
        contents = [setting.task.messages(p)[-1]["content"] for p in problems]
        _write_training(run, setting, Asked(problems, contents), training, length)
    told = []
    for name, steps in graded.items():
        for step, found in steps.items():
            run.write_eval(name, step, found)
            told.append(f"{name} at step {step}")
    run.done({"ingested": origin.engine})
    return f"{run.paths.root}: {len(training)} steps of training, evaluations: {', '.join(told) or 'none'}"


def _info(task: TaskSpec, split: str, problems: Sequence[Any], references: Sequence[Grader]) -> DataInfo:
    graders = tuple(_grader(grader) for grader in (task.grader, *references))
    return DataInfo(name=task.type, split=split, n=len(problems), hash=content_hash(problems), graders=graders)


def _grader(grader: Grader) -> GraderInfo:
    return GraderInfo(name=grader.type, policy=grader.name, version=grader.version)


def _references(spec: EvalSpec, training: TaskSpec) -> list[Answer]:
    """Return the reference graders that run at once: those that need other processes are left out."""
    return [grader for grader in spec.reference_graders(training) if isinstance(grader, Answer)]


def _graded(
    rows: Sequence[Answered], asked: Asked, spec: EvalSpec, training: TaskSpec, length: Length
) -> list[EvalRow]:
    """Return evaluation rows in the order of the problems, each graded here. Raises DataError where one is missing."""
    grader, references = spec.asks(training).grader, _references(spec, training)
    seen: Counter[str] = Counter()
    out: dict[str, list[EvalRow]] = {name: [] for name in asked.problems}
    for row in rows:
        problem, tokens = asked.find(row), length(row.response)
        cut = tokens >= spec.max_response
        verdict = grader.grade(row.response, problem.gold, truncated=cut)
        out[problem.id].append(
            EvalRow(
                problem_id=problem.id,
                sample=seen[problem.id],
                response=row.response,
                answer=verdict.answer,
                score=counted(verdict),
                status=verdict.status,
                format=verdict.format,
                truncated=cut,
                tokens=min(tokens, spec.max_response),
                prompt_tokens=length(row.prompt),
                grader=grader.version,
                references={
                    other.name: counted(other.grade(row.response, problem.gold, truncated=cut)) for other in references
                },
            )
        )
        seen[problem.id] += 1
    lacking = [name for name, found in out.items() if len(found) != spec.samples]
    if lacking:
        raise DataError(
            f"{rows[0].place}: {len(lacking)} of {len(out)} problems do not have {spec.samples} responses, for example "
            f"'{lacking[0]}' with {len(out[lacking[0]])}: evaluate all of the suite in one run"
        )
    return [row for found in out.values() for row in found]


def _write_training(
    run: RunWriter, setting: Setting, asked: Asked, steps: dict[int, list[Answered]], length: Length
) -> None:
    """Write a row for each step, and the responses of those whose rollouts are kept."""
    samples = tokens = 0
    every, limit = setting.save.rollouts_every, setting.rollout.max_response
    for step, rows in sorted(steps.items()):
        graded, scores = [], defaultdict(list)
        for row in rows:
            problem, size = asked.find(row), min(length(row.response), limit)
            verdict = setting.task.grader.grade(row.response, problem.gold, truncated=size >= limit)
            scores[problem.id].append(counted(verdict))
            graded.append(
                RolloutRow(
                    problem_id=problem.id,
                    sample=len(scores[problem.id]) - 1,
                    prompt=row.prompt,
                    response=row.response,
                    score=counted(verdict),
                    advantage=row.advantage,
                    tokens=size,
                    stop=Stop.LENGTH if size >= limit else Stop.EOS,
                )
            )
        samples, tokens = samples + len(rows), tokens + sum(row.tokens for row in graded)
        run.append_step(StepRow(step=step, samples=samples, tokens=tokens, stats=_stats(rows, graded, scores)))
        if every and step % every == 0:
            kept = set(list(scores)[: setting.save.rollout_groups])
            run.write_rollouts(step, [row for row in graded if row.problem_id in kept])


def _stats(
    rows: Sequence[Answered], graded: Sequence[RolloutRow], scores: dict[str, list[float | None]]
) -> dict[str, StatRow]:
    rewards = [row.reward for row in rows if row.reward is not None]
    known = [row.score for row in graded if row.score is not None]
    groups = [group for group in scores.values() if len(group) > 1]
    cut = sum(row.stop is Stop.LENGTH for row in graded)
    return {
        "reward": {"sum": sum(rewards), "square": sum(r * r for r in rewards), "count": len(rewards)},
        "score": {"sum": sum(known), "square": sum(s * s for s in known), "count": len(known)},
        "response_tokens": {"sum": sum(row.tokens for row in graded), "count": len(graded)},
        "truncated": {"sum": cut, "count": len(graded)},
        "uniform_groups": {"sum": sum(len(set(group)) == 1 for group in groups), "count": len(groups)},
    }


def tokenizer_length(model: ModelSpec, source: str | None = None) -> Length:
    """Return how many tokens of the model a text has. Raises ModelError where its tokenizer is not at hand."""
    from paribus.models.hf import load_tokenizer, resolve

    spec = model if source is None else ModelSpec(path=source)
    tokenizer = load_tokenizer(resolve(spec, None), spec)
    return lambda text: len(tokenizer(text, add_special_tokens=False).input_ids)
