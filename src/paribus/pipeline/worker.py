"""One run from start to end: load, resume, train, evaluate, save; in this process, which then ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import torch

from paribus.algorithms import Algorithm, Need, OwnSource, PolicyGradient
from paribus.engines.learner import TorchLearner
from paribus.engines.local import LocalSampler
from paribus.engines.machine import prepare_machine
from paribus.engines.protocols import Sampler
from paribus.engines.vllm import VllmSampler
from paribus.errors import DataError, Interrupted
from paribus.experiment import Experiment, Setting, base_config, identity, run_config
from paribus.models.chat import make_prompts
from paribus.models.hf import LoadedModel, frozen, load_model, save_model
from paribus.models.reward import RewardScorer, load_reward_model
from paribus.pipeline.clock import Clock
from paribus.pipeline.evaluate import evaluate_suite
from paribus.pipeline.given import GivenRows
from paribus.pipeline.questions import Questions, data_info, evaluation_questions, grader_info, suite_info
from paribus.pipeline.session import Report, Session
from paribus.pipeline.sources import GivenData, OnPolicy, OwnData, Source
from paribus.pipeline.stop import StopRequest
from paribus.pipeline.train import train
from paribus.rewards import ModelScorer, models_of
from paribus.settings import VllmEngine
from paribus.store import (
    DataInfo,
    ExperimentPaths,
    ProblemRow,
    RunFacts,
    RunPaths,
    RunWriter,
    TimingRow,
    status,
    value_hash,
    write_problems,
)
from paribus.store.provenance import processor
from paribus.tasks import Split, TaskSpec
from paribus.types import Key


def run_arm(exp: Experiment, arm: str, seed: int, root: Path, report: Report) -> None:
    """Train and evaluate one arm with one seed under `root`, or go on where an earlier attempt was stopped."""
    setting, algorithm = exp.arms[arm].setting(exp.setting), exp.arms[arm].algorithm
    device, idle = prepare_machine(setting.machine, setting.model), resident_bytes()
    loaded = load_model(setting.model, device=device)
    training, dropped = questions(setting.task, "train", loaded, setting)
    suites = evaluation_questions(setting, loaded)
    source, reward_models = make_source(algorithm, loaded, setting), load_reward_models(setting, device)
    data = {"train": data_info(setting.task, "train", training), **suite_data(setting, suites)}
    if isinstance(source, GivenData):
        data["given"] = source.rows.info
        report("note", text=f"{arm}/seed-{seed}: {source.rows.origin}")
    config = run_config(exp, arm)
    paths = ExperimentPaths(root).run(arm, seed)
    writer = open_run(paths, run_facts(setting, data, device, config, idle), config)
    if dropped:
        report(
            "note", text=f"{arm}/seed-{seed}: {dropped} training prompts longer than rollout.max_prompt are left out"
        )
    clock = Clock(cuda=device.type == "cuda")
    needs = algorithm.needs
    measured = any(spec.kl for spec in setting.eval.values())
    start = frozen(loaded) if measured or needs & {Need.REFERENCE, Need.START} else None
    learner = TorchLearner(
        loaded,
        optim=setting.optim,
        rollout=setting.rollout,
        machine=setting.machine,
        key=Key(seed, "critic"),
        critic=algorithm.critic,
        reference=None if start is None else start.model,
        total_steps=setting.total_steps,
        timer=clock,
        note=lambda text: report("note", text=f"{arm}/seed-{seed}: {text}"),
    )
    with StopRequest() as stop:
        session = Session(
            paths=paths,
            writer=writer,
            setting=setting,
            algorithm=algorithm,
            source=source,
            train=training,
            suites=suites,
            sampler=make_sampler(loaded, setting),
            start_sampler=None if start is None else LocalSampler(start, decode_rows=setting.machine.decode_rows),
            reward_models=reward_models,
            tokenizer=loaded.tokenizer,
            learner=learner,
            clock=clock,
            stop=stop,
            report=report,
        )
        finish(session, loaded, report)
    clock.close()


def make_source(algorithm: Algorithm, loaded: LoadedModel, setting: Setting) -> Source:
    """Return where this algorithm's rows come from."""
    if isinstance(algorithm, PolicyGradient):
        return OnPolicy(algorithm)
    if isinstance(algorithm.source, OwnSource):
        return OwnData(algorithm)
    return GivenData(algorithm, GivenRows.read(algorithm, loaded, setting.rollout))


def make_sampler(loaded: LoadedModel, setting: Setting) -> Sampler:
    """Return what samples from the model in training and evaluation."""
    engine, suites = setting.rollout.engine, setting.eval.values()
    if isinstance(engine, VllmEngine):
        response = max(setting.rollout.max_response, *(suite.max_response for suite in suites))
        context = loaded.model.config.max_position_embeddings
        return VllmSampler(loaded, engine, length=min(context, setting.rollout.max_prompt + response))
    return LocalSampler(loaded, decode_rows=setting.machine.decode_rows)


def load_reward_models(setting: Setting, device: torch.device) -> dict[str, ModelScorer]:
    """Load every reward model that the setting names, by its path."""
    specs = models_of(setting.reward) + (models_of(setting.steps) if setting.steps is not None else [])
    tokens = setting.machine.micro_tokens
    return {
        path: _scorer(RewardScorer(load_reward_model(path, device=device), tokens), setting.task)
        for path in dict.fromkeys(spec.path for spec in specs)
    }


def _scorer(score: RewardScorer, task: TaskSpec) -> ModelScorer:
    return lambda rows: score([(task.messages(row.problem), row.text) for row in rows])


def finish(session: Session, loaded: LoadedModel, report: Report) -> None:
    """Run a session to its end and leave the marker that says how it ended."""
    writer = session.writer
    try:
        session.resume()
        if session.step:
            report("note", text=f"{session.paths.arm}/seed-{session.seed}: goes on after step {session.step}")
        train(session)
        for suite in session.suites:
            session.evaluate(suite)
        writer.write_final(lambda path: save_model(loaded.model, loaded.tokenizer, path))
        writer.done({"steps": session.step, "samples": session.samples, "tokens": session.tokens})
    except Interrupted:
        writer.interrupted()
        raise
    except Exception as error:
        writer.failed(error)
        raise


def run_base(exp: Experiment, root: Path, report: Report) -> None:
    """Evaluate the untrained model once per experiment, through the path that every arm's evaluation takes."""
    setting = exp.setting
    device, idle = prepare_machine(setting.machine, setting.model), resident_bytes()
    loaded = load_model(setting.model, device=device)
    sampler = make_sampler(loaded, setting)
    suites, models = evaluation_questions(setting, loaded), load_reward_models(setting, device)
    if (origin := setting.task.origin("train")) is not None:
        report("note", text=str(origin))  # here, and not in every run: the base runs once per experiment
    paths = ExperimentPaths(root)
    config = base_config(exp)
    writer = open_run(paths.base, run_facts(setting, suite_data(setting, suites), device, config, idle), config)
    clock = Clock(cuda=device.type == "cuda")
    with StopRequest() as stop:
        try:
            for suite, asked in suites.items():
                rows = [ProblemRow(problem_id=p.id, question=p.question, gold=p.gold) for p in asked.problems]
                write_problems(paths, suite, rows)
                with clock("eval"):
                    results = evaluate_suite(
                        sampler, asked, setting.eval[suite], setting.task, exp.seeds[0],
                        tokenizer=loaded.tokenizer, rows_at_once=setting.machine.decode_rows,
                        tick=_tick(report, stop, suite), reward=setting.reward, models=models,
                        divergence=lambda rollout: [0.0] * rollout.rows,
                    )  # fmt: skip
                    writer.write_eval(suite, 0, results)
                timing = TimingRow(step=0, suite=suite, tokens=sum(r.tokens for r in results), **clock.take())
                writer.append_timing(timing)
                scores = [r.score for r in results if r.score is not None]
                report("evaluated", suite=suite, step=0, correct=sum(scores), total=len(scores))
            writer.done({"suites": sorted(suites)})
        except Interrupted:
            writer.interrupted()
            raise
        except Exception as error:
            writer.failed(error)
            raise
    clock.close()


def open_run(paths: RunPaths, facts: RunFacts, config: dict[str, Any]) -> RunWriter:
    """Start the run, or take up what an earlier attempt left."""
    return RunWriter.create(paths, facts, config) if status(paths) == "new" else RunWriter.resume(paths, facts)


def questions(task: TaskSpec, split: Split, loaded: LoadedModel, setting: Setting) -> tuple[Questions, int]:
    """Return the training questions of a split, and how many were dropped for their length."""
    spec = setting.rollout
    problems, prompts = [], []
    everything = task.problems(split)
    asked = [(problem.id, task.messages(problem)) for problem in everything]
    found = make_prompts(loaded.tokenizer, asked, spec.max_prompt, spec.overlong)
    for problem, prompt in zip(everything, found, strict=True):
        if prompt is not None:
            problems.append(problem)
            prompts.append(prompt)
    if not problems:
        raise DataError(
            f"all {len(everything)} training prompts exceed rollout.max_prompt = {spec.max_prompt}: raise it"
        )
    return Questions(problems, prompts), len(everything) - len(problems)


def suite_data(setting: Setting, suites: dict[str, Questions]) -> dict[str, DataInfo]:
    return {suite: suite_info(setting.eval[suite], setting.task, asked) for suite, asked in suites.items()}


def run_facts(
    setting: Setting, data: dict[str, DataInfo], device: torch.device, config: dict[str, Any], idle: int
) -> RunFacts:
    """Return what is stored of configuration, grader, data and machine; `idle` is the process before its models."""
    name, capacity, level = describe(device)
    return RunFacts(
        config_hash=value_hash(identity(config)),
        grader=grader_info(setting.task.grader),
        data=data,
        device=name,
        device_bytes=capacity,
        threads=torch.get_num_threads(),
        parallel=1 if setting.machine.parallel == "auto" else setting.machine.parallel,
        determinism=level,
        idle_rss=idle,
    )


def describe(device: torch.device) -> tuple[str, int, str]:
    """Return a device's name, its memory in bytes, and the level of determinism that holds on it."""
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        level = "seeded: draws are keyed, but CUDA kernels may differ in the last bits between runs"
        return f"cuda: {properties.name}", properties.total_memory, level
    level = "bitwise: the same machine, thread count and batch layout give the same bits"
    return f"cpu: {processor()}", psutil.virtual_memory().total, level


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    return int(psutil.Process().memory_info().rss)


def _tick(report: Report, stop: StopRequest, suite: str) -> Callable[[int, int], None]:
    def tick(done: int, total: int) -> None:
        report("eval", suite=suite, done=done, total=total)
        stop.check()

    return tick
