"""Evaluation suites: which problems are asked how, and how the answers are judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from paribus.part import Part, load, override, read_toml, without_defaults
from paribus.settings import MachineSpec, ModelSpec
from paribus.tasks import Grader, Split, TaskSpec
from paribus.tasks.references import usual_references
from paribus.tasks.shots import Example, Messages, Shots, opening, written
from paribus.types import Problem

KS = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # numbers of samples at which pass@k and maj@k are told
LATER = ("task", "shots", "shots_split", "examples", "short", "references")  # keys that stored runs may lack


class EvalSpec(Part):
    """One evaluation suite: the same harness for the base and for every arm.

    A suite without a `task` of its own asks the training task's problems. Its prompts hold `shots` worked examples,
    drawn from `shots_split` by `tasks.shots.Shots`, or the `examples` written out here. `short` is a second length
    limit at which the same responses are cut and graded again. `references` are graders that run beside the task's.
    """

    task: TaskSpec | None = None
    split: Split = "test"
    limit: int | None = Field(default=None, ge=1)  # first n problems; None: all
    shots: int = Field(default=0, ge=0)
    shots_split: Split = "train"
    examples: tuple[Example, ...] = ()
    samples: int = Field(default=1, ge=1)
    temperature: float = Field(default=0.0, ge=0)  # 0: greedy
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_response: int = Field(ge=1)
    short: int | None = Field(default=None, ge=1)  # tokens
    references: tuple[Grader, ...] | Literal["usual"] = "usual"  # `[]`: none
    every: int | None = Field(default=None, ge=1)  # steps between evaluations of an arm; None: after the last step only
    kl: bool = False  # measure each response's KL to the starting policy; needs the rollout's temperature

    @model_validator(mode="after")
    def _consistent(self) -> EvalSpec:
        if self.samples > 1 and self.temperature == 0:
            raise ValueError(
                f"samples = {self.samples} of greedy decoding are {self.samples} copies of one response: "
                "set a temperature above 0, or samples = 1"
            )
        if self.short is not None and self.short >= self.max_response:
            raise ValueError(f"short = {self.short} must be below max_response = {self.max_response}")
        if self.shots and self.shots_split == self.split:
            raise ValueError(f"shots_split = '{self.split}' is the evaluated split: take the shots from another one")
        if self.shots and self.examples:
            raise ValueError("give either 'shots' or 'examples'")
        names = [] if self.references == "usual" else [grader.name for grader in self.references]
        if len(set(names)) < len(names):
            raise ValueError(f"references: {', '.join(names)}: each grader once")
        return self

    @model_serializer(mode="wrap")
    def _as_stored(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the later keys where they are at their defaults: configurations from before them stay the same."""
        return without_defaults(self, fields(self), LATER)

    @property
    def metrics(self) -> list[str]:
        """What can be a headline: accuracy (the mean over samples), and pass@k and maj@k for k up to `samples`."""
        ks = [k for k in KS if k <= self.samples] if self.samples > 1 else []
        return ["accuracy", *(f"pass@{k}" for k in ks), *(f"maj@{k}" for k in ks)]

    def asks(self, training: TaskSpec) -> TaskSpec:
        """Return the task whose problems are asked and whose grader judges: its own, else the training task."""
        return self.task or training

    def problems(self, training: TaskSpec) -> list[Problem]:
        """Return the problems that are asked, in the order of the data. Raises DataError."""
        return self.asks(training).problems(self.split)[: self.limit]

    def messages(self, training: TaskSpec) -> Callable[[Problem], Messages]:
        """Return what turns a problem into chat messages: system, worked examples, question. Raises DataError."""
        task = self.asks(training)
        fixed = written(task, self.examples, self.problems(training)) if self.examples else []
        shots = Shots(task, task.problems(self.shots_split), self.shots) if self.shots else None

        def ask(problem: Problem) -> Messages:
            system, turns = opening(task.messages(problem))
            return [*system, *(shots.turns(problem) if shots is not None else fixed), *turns]

        return ask

    def reference_graders(self, training: TaskSpec) -> tuple[Grader, ...]:
        """Return the graders that run beside the declared one."""
        return usual_references(self.asks(training)) if self.references == "usual" else self.references


class Suites(Part):
    """What a model is evaluated on without an experiment: `[task]` for suites that name none, and `[eval.NAME]`."""

    model: ModelSpec = ModelSpec()
    task: TaskSpec | None = None
    eval: dict[str, EvalSpec] = Field(min_length=1)
    seed: int = 0  # of sampled decoding
    machine: MachineSpec = MachineSpec()

    @model_validator(mode="after")
    def _every_suite_has_data(self) -> Suites:
        for name, spec in self.eval.items():
            if self.task is None and spec.task is None:
                raise ValueError(f"eval.{name} names no data: add a table [eval.{name}.task], or [task] for all suites")
            if spec.kl:
                raise ValueError(f"eval.{name}.kl = true needs a policy that training started from: an experiment")
        return self

    def task_of(self, suite: str) -> TaskSpec:
        """Return the task that a suite asks."""
        task = self.eval[suite].task or self.task
        assert task is not None
        return task


def load_suites(path: str | Path, overrides: Iterable[str] = ()) -> Suites:
    """Read a file of suites, then `a.b=c` overrides. Raises ConfigError."""
    data = read_toml(path)
    for text in overrides:
        override(data, text)
    return load(Suites, data, where=str(path))
