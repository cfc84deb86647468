"""Problems of a split with the prompts that ask them, and what is stored of both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from paribus.errors import ModelError
from paribus.experiment import Setting
from paribus.models.chat import make_prompts
from paribus.models.hf import LoadedModel
from paribus.store import DataInfo, GraderInfo, HubInfo
from paribus.suites import EvalSpec
from paribus.tasks import Grader, Split, TaskSpec, content_hash
from paribus.tasks.base import texts_hash
from paribus.tasks.shapes import Origin
from paribus.types import Problem, Prompt

ANY_LENGTH = 2**31


@dataclass(frozen=True)
class Questions:
    """Problems of one split with the prompts that ask them, in the same order."""

    problems: Sequence[Problem]
    prompts: Sequence[Prompt]

    def __post_init__(self) -> None:
        assert len(self.problems) == len(self.prompts)


def suite_questions(suite: str, spec: EvalSpec, training: TaskSpec, loaded: LoadedModel) -> Questions:
    """Return the questions of a suite: whole prompts, so that no problem is lost.

    Raises ModelError where a prompt and a response of `max_response` tokens do not fit the model's context.
    """
    problems, ask = spec.problems(training), spec.messages(training)
    found = make_prompts(loaded.tokenizer, [(p.id, ask(p)) for p in problems], ANY_LENGTH, "error")
    prompts = [prompt for prompt in found if prompt is not None]
    longest = max(prompts, key=lambda prompt: len(prompt.ids))
    context = loaded.model.config.max_position_embeddings
    if len(longest.ids) + spec.max_response > context:
        shown = spec.shots or len(spec.examples)
        raise ModelError(
            f"eval.{suite}: the prompt of {longest.problem_id} has {len(longest.ids)} tokens, which with max_response "
            f"= {spec.max_response} do not fit the model's context of {context}: lower max_response"
            + (f", or show fewer than {shown} examples" if shown else "")
        )
    return Questions(problems, prompts)


def evaluation_questions(setting: Setting, loaded: LoadedModel) -> dict[str, Questions]:
    """Return the questions of every suite of an experiment."""
    return {suite: suite_questions(suite, spec, setting.task, loaded) for suite, spec in setting.eval.items()}


def data_info(task: TaskSpec, split: Split, asked: Questions, references: Sequence[Grader] = ()) -> DataInfo:
    """Return what is stored of the questions that were asked and of who judged the answers."""
    return DataInfo(
        name=task.type,
        split=split,
        n=len(asked.problems),
        hash=content_hash(asked.problems),
        prompts=prompts_hash(asked.prompts),
        graders=tuple(map(grader_info, (task.grader, *references))),
        **read_from(task.origin(split)),
    )


def read_from(origin: Origin | None) -> dict[str, Any]:
    """Return the fields of a DataInfo that say where data was read from; none for data that is generated."""
    if origin is None:
        return {}
    hub = None if origin.hub is None else HubInfo(**origin.hub._asdict())
    return {"source": origin.where, "columns": origin.columns, "hub": hub}


def suite_info(spec: EvalSpec, training: TaskSpec, asked: Questions) -> DataInfo:
    """Return what is stored of a suite's questions and graders."""
    return data_info(spec.asks(training), spec.split, asked, spec.reference_graders(training))


def grader_info(grader: Grader) -> GraderInfo:
    """Return what is stored of a grader."""
    return GraderInfo(name=grader.type, policy=grader.name, version=grader.version)


def prompts_hash(prompts: Iterable[Prompt]) -> str:
    """Return a short sha256 of ids and rendered texts in order: equal hashes mean that the same was asked."""
    return texts_hash(text for prompt in prompts for text in (prompt.problem_id, prompt.text))
