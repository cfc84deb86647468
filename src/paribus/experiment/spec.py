"""What an experiment is: one shared setting, named arms, seeds and a budget, checked as a whole."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from paribus.algorithms import Algorithm, Need, Offline
from paribus.errors import ConfigError, nearest
from paribus.factors import Factor
from paribus.part import Part, replace
from paribus.rewards import RewardSpec, StepSpec, StoriesSteps, TaskReward
from paribus.settings import Budget, LimitSpec, MachineSpec, ModelSpec, OptimSpec, RolloutSpec, SaveSpec
from paribus.suites import EvalSpec
from paribus.tasks import TaskSpec
from paribus.tuning import Tune

IDENTITY = ("kind", "name", "paper")  # fields of an algorithm that name it and change no number
EXCEPTIONS = ("rollout", "optim", "model")  # tables of the setting that an arm may declare an exception in
NOT_IDENTITY = ("machine", "save")  # tables that may change between attempts of one run


class Setting(Part):
    """Everything the arms share; whatever is not in an arm is shared by construction."""

    model: ModelSpec = ModelSpec()
    task: TaskSpec
    reward: RewardSpec = TaskReward()  # what training optimises; evaluation is by the task's grader
    steps: StepSpec | None = None  # what single steps of a response are worth, for methods that ask
    rollout: RolloutSpec
    optim: OptimSpec
    budget: Budget
    eval: dict[str, EvalSpec] = Field(min_length=1)
    save: SaveSpec = SaveSpec()
    limit: LimitSpec = LimitSpec()
    machine: MachineSpec = MachineSpec()

    @property
    def updates_per_rollout(self) -> int:
        """Optimizer updates of one step: epochs times minibatches."""
        per = self.optim.minibatch_prompts or self.rollout.prompts_per_step
        return self.optim.epochs * -(-self.rollout.prompts_per_step // per)

    @property
    def total_steps(self) -> int | None:
        """Steps of the budget where it fixes them (steps, samples); None for tokens and seconds."""
        if self.budget.samples is not None:
            per_step = self.rollout.prompts_per_step * self.rollout.samples_per_prompt
            return -(-self.budget.samples // per_step)
        return self.budget.steps

    @model_validator(mode="after")
    def _consistent(self) -> Setting:
        per = self.optim.minibatch_prompts
        if per is not None and per > self.rollout.prompts_per_step:
            raise ValueError(
                f"optim.minibatch_prompts = {per} is more than rollout.prompts_per_step = "
                f"{self.rollout.prompts_per_step}: lower it, or leave it out for one update per epoch"
            )
        if self.optim.schedule != "constant" and self.total_steps is None:
            raise ValueError(
                f"optim.schedule = '{self.optim.schedule}' needs a budget of steps or samples, to know where it ends"
            )
        for name, suite in self.eval.items():
            if suite.kl and (suite.temperature, suite.top_p) != (self.rollout.temperature, 1):
                raise ValueError(
                    f"eval.{name}.kl = true estimates the KL from samples of the policy as it is trained: set "
                    f"eval.{name}.temperature = {self.rollout.temperature} and top_p = 1"
                )
        if isinstance(self.steps, StoriesSteps) and self.task.type != "stories":
            raise ValueError(
                f"steps.type = 'stories' compares with worked solutions, which task '{self.task.type}' does not have: "
                'take "function" or "model"'
            )
        return self


class Arm(Part):
    """One algorithm under comparison, with the exceptions it declares from the shared setting."""

    algorithm: Algorithm
    differs: dict[str, Any] = Field(default_factory=dict)  # dotted setting key -> value
    stated: tuple[str, ...] = ()  # algorithm fields that the file writes out for this arm
    of: str = ""  # the arm of the file that this one is, at its levels; empty without factors
    levels: dict[str, str] = Field(default_factory=dict)  # factor -> level

    def setting(self, shared: Setting) -> Setting:
        """Return the shared setting with this arm's declared exceptions."""
        return replace(shared, **self.differs) if self.differs else shared

    def changed(self, values: Mapping[str, Any]) -> Arm:
        """Return the arm with other values, by dotted key: of its algorithm, or declared exceptions of its setting."""
        setting = {k: v for k, v in values.items() if k.split(".")[0] in EXCEPTIONS}
        own = {k: v for k, v in values.items() if k not in setting}
        return self.model_copy(
            update={
                "algorithm": replace(self.algorithm, **own) if own else self.algorithm,
                "differs": self.differs | setting,
                "stated": tuple(dict.fromkeys([*self.stated, *own])),
            }
        )


class Experiment(Part):
    """A comparison: the same question asked of every arm, all else equal.

    With factors, `arms` holds every arm of the file at every combination of levels.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    question: str
    primary: str  # "<suite>:<metric>" with accuracy, pass@k or maj@k: the headline, declared before running
    margin: float | None = Field(default=None, gt=0)  # points within which arms count as equivalent
    seeds: tuple[int, ...] = Field(min_length=1)
    differs: tuple[str, ...] = ()  # algorithm slots that are meant to differ between arms
    setting: Setting
    factors: dict[str, Factor] = Field(default_factory=dict)
    arms: dict[str, Arm] = Field(min_length=1)
    tune: Tune | None = None  # a search before the runs, the same effort for every arm

    @model_validator(mode="after")
    def _checked(self) -> Experiment:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds {list(self.seeds)} repeat: every seed is one independent run")
        known = [f"{name}:{metric}" for name, suite in self.setting.eval.items() for metric in suite.metrics]
        if self.primary not in known:
            raise ValueError(f"primary = '{self.primary}' is not measured here; known: {', '.join(known)}")
        for name in self.arms:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
                raise ValueError(f"arm name '{name}': use letters, digits, '.', '_' and '-'")
        for name, arm in self.arms.items():
            setting = arm.setting(self.setting)
            try:
                arm.algorithm.check(setting.rollout.samples_per_prompt, setting.updates_per_rollout)
            except ConfigError as error:
                raise ValueError(f"arm '{name}': {error}") from None
            counted = self.setting.budget.samples is not None or self.setting.budget.tokens is not None
            if counted and isinstance(arm.algorithm, Offline) and not arm.algorithm.source.samples:
                raise ValueError(f"arm '{name}' trains on a file and samples nothing: give the budget in steps")
            if arm.algorithm.explore is not None and setting.rollout.engine.type != "local":
                raise ValueError(
                    f"arm '{name}': {arm.algorithm.name} mixes embeddings while it samples, which only "
                    'rollout.engine.type = "local" can'
                )
            if Need.STEPS in arm.algorithm.needs and setting.steps is None:
                raise ValueError(f"arm '{name}': {arm.algorithm.name} needs rewards of steps: add a table [steps]")
        return self

    @model_validator(mode="after")
    def _tuned_apart(self) -> Experiment:
        if self.tune is None:
            return self
        suites, (suite, _, metric) = self.setting.eval, self.tune.by.partition(":")
        if suite not in suites or metric not in suites[suite].metrics:
            raise ValueError(f"tune.by = '{self.tune.by}' is not measured here: name a suite and its metric")
        primary = suites[self.primary.partition(":")[0]]
        if suites[suite].split in ("test", primary.split):
            raise ValueError(f"tune.by = '{self.tune.by}' would choose on problems that the verdict is about")
        if set(self.tune.seeds) & set(self.seeds):
            raise ValueError("tune.seeds must not hold a seed of the comparison: its run would be chosen, not new")
        names = {arm.of or name for name, arm in self.arms.items()}
        for name in self.tune.arm:
            if name not in names:
                raise ValueError(f"tune.arm: no arm '{name}'{nearest(name, names)}")
        for name, arm in self.arms.items():
            for values in self.tune.values(arm.of or name):
                try:
                    arm.changed(values).setting(self.setting)
                except ConfigError as error:
                    raise ValueError(f"tune: arm '{name}': {error}") from None
        return self
