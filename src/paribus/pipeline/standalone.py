"""Evaluate a model without a training run: suites one after another, each on disk as soon as it is finished."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from paribus.engines.local import LocalSampler
from paribus.engines.machine import prepare_machine
from paribus.errors import ConfigError, nearest
from paribus.experiment import Setting
from paribus.models.hf import LoadedModel, load_model
from paribus.part import dump
from paribus.pipeline.evaluate import evaluate_suite
from paribus.pipeline.progress import Watch
from paribus.pipeline.questions import Questions, suite_info, suite_questions
from paribus.pipeline.stop import StopRequest
from paribus.pipeline.summary import summary
from paribus.pipeline.worker import describe, load_reward_models
from paribus.rewards import TaskReward
from paribus.store import EvalInfo, EvalPaths, EvalRow, ProblemRow, SuiteInfo, read_eval
from paribus.store.files import write_json, write_rows
from paribus.store.provenance import code_version, package_versions
from paribus.suites import Suites


def suites_of(setting: Setting, seed: int) -> Suites:
    """Return the suites of an experiment, to be evaluated by themselves; a KL has no starting policy here."""
    suites = {name: spec.model_copy(update={"kl": False}) for name, spec in setting.eval.items()}
    return Suites(model=setting.model, task=setting.task, eval=suites, seed=seed, machine=setting.machine)


def evaluate_model(
    asked: Suites,
    names: Sequence[str],
    out: Path | None,
    say: Callable[[str], None],
    *,
    setting: Setting | None = None,
) -> None:
    """Evaluate a model on the suites of these names (none: all) and say the results.

    With `out`, rows go there, a file a suite; finished suites found there are not done again. `setting` is the
    experiment whose training reward is recorded beside the score. Raises ConfigError for an unknown suite and for a
    folder that holds the results of another model or configuration, Interrupted when stopped.
    """
    for name in names:
        if name not in asked.eval:
            raise ConfigError(f"no suite '{name}' in this file{nearest(name, asked.eval)}")
    device = prepare_machine(asked.machine, asked.model)
    loaded = load_model(asked.model, device=device)
    reward = TaskReward() if setting is None else setting.reward
    models = {} if setting is None else load_reward_models(setting, device)
    sampler = LocalSampler(loaded, decode_rows=asked.machine.decode_rows)
    folder = None if out is None else _Folder(EvalPaths(out), _info(asked, loaded, device))
    with StopRequest() as stop:
        for suite in names or asked.eval:
            spec, task = asked.eval[suite], asked.task_of(suite)
            questions = suite_questions(suite, spec, task, loaded)
            entry = SuiteInfo(spec=dump(spec), data=suite_info(spec, task, questions))
            rows = folder.finished(suite, entry) if folder is not None else None
            if rows is None:
                with Watch([suite]) as watch:
                    watch.start(suite)

                    def tick(done: int, total: int, watch: Watch = watch, suite: str = suite) -> None:
                        watch.advance(suite, "eval", done, total, "", done / total)
                        stop.check()

                    rows = evaluate_suite(
                        sampler, questions, spec, task, asked.seed,
                        tokenizer=loaded.tokenizer, rows_at_once=asked.machine.decode_rows, tick=tick,
                        reward=reward, models=models,
                    )  # fmt: skip
                if folder is not None:
                    folder.keep(suite, entry, questions, rows)
            for line in summary(suite, spec, rows):
                say(line)
    if folder is not None:
        say(str(folder.paths.root))


class _Folder:
    """The folder of one model's results: a suite stands in eval.json once its rows are complete."""

    def __init__(self, paths: EvalPaths, info: EvalInfo) -> None:
        self.paths, self.info = paths, info
        if paths.info.exists():
            then = read_eval(paths.root).info
            if (then.weights, then.seed) != (info.weights, info.seed):
                what = "another model" if then.weights != info.weights else "another seed"
                raise ConfigError(
                    f"{paths.root}: holds results of {what} ({then.model['path']}, seed {then.seed}): "
                    "give another --out, or remove the folder"
                )
            self.info = info.model_copy(update={"suites": then.suites})

    def finished(self, suite: str, entry: SuiteInfo) -> list[EvalRow] | None:
        """Return the rows of a suite that is done. Raises ConfigError if it was evaluated in another way."""
        then = self.info.suites.get(suite)
        if then is None:
            return None
        if _asked(then) != _asked(entry):
            raise ConfigError(
                f"{self.paths.root}: suite '{suite}' was evaluated there with other settings, problems, prompts or "
                "graders: give another --out, or remove the folder"
            )
        return read_eval(self.paths.root).rows(suite)

    def keep(self, suite: str, entry: SuiteInfo, asked: Questions, rows: Sequence[EvalRow]) -> None:
        problems = [ProblemRow(problem_id=p.id, question=p.question, gold=p.gold) for p in asked.problems]
        write_rows(self.paths.problems(suite), problems)
        write_rows(self.paths.rows(suite), rows)
        self.info = self.info.model_copy(update={"suites": {**self.info.suites, suite: entry}})
        write_json(self.paths.info, self.info)


def _asked(entry: SuiteInfo) -> SuiteInfo:
    """What decides a suite's numbers: not where the very same problems were read from."""
    plain: dict[str, Any] = {"source": None, "columns": {}, "hub": None}
    return entry.model_copy(update={"data": entry.data.model_copy(update=plain)})


def _info(asked: Suites, loaded: LoadedModel, device: torch.device) -> EvalInfo:
    return EvalInfo(
        model=dump(asked.model),
        weights=weights_hash(loaded),
        seed=asked.seed,
        device=describe(device)[0],
        threads=torch.get_num_threads(),
        code=code_version(),
        packages=package_versions(),
        suites={},
    )


def weights_hash(loaded: LoadedModel) -> str:
    """Return a short sha256 of a model's parameters: names, types, shapes and bytes, whatever files they came from."""
    digest = hashlib.sha256()
    for name, value in sorted(loaded.model.state_dict().items()):
        digest.update(f"{name}\0{value.dtype}\0{tuple(value.shape)}\n".encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()[:16]
