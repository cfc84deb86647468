"""The plan of an experiment: memory of each arm, what it can show, whether it is fair; made and stored before runs."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import NormalDist

from paribus.errors import DataError, ModelError
from paribus.experiment import Arm, Experiment, Setting
from paribus.planning.fairness import checks
from paribus.planning.memory import TRAIN, Memory, memory
from paribus.planning.prompts import longest
from paribus.planning.shapes import ModelShape, find_shape
from paribus.report.results import primary
from paribus.rewards import models_of
from paribus.settings import ModelSpec
from paribus.stats import (
    Spread,
    detectable,
    equivalence_margin,
    equivalence_power,
    seeds_for_equivalence,
    seeds_needed,
    spread,
)
from paribus.store import ExperimentPaths, read_experiment
from paribus.store.files import write_json
from paribus.store.plan import ArmPlan, PlanInfo, PowerRow, SpreadRow
from paribus.suites import EvalSpec
from paribus.tasks import Gsm8k, Split
from paribus.tasks.shots import Messages

ALPHA = 0.05
POWER = 0.8
SEED_SPREADS = (0.005, 0.01, 0.015, 0.03)  # of a run's true accuracy, for orientation
EFFECTS = (1, 2, 3, 5)  # points
GSM8K: dict[Split, int] = {"train": 7473, "test": 1319}  # where its files are not at hand
# Where no runs are stored: arms disagree on a fifth of the problems, half of that lasting and half by the run
# (reference table of two 0.5B models on GSM8K), and runs vary by 1.5 points
ASSUMED = Spread(seed=0.015, item=0.1**0.5, residual=0.05**0.5)
DISAGREEMENT = 0.2

Asked = Mapping[str, Sequence[Messages]]  # by use: "train", and the names of the suites


def make_plan(exp: Experiment, runs: Path) -> PlanInfo:
    """Return the plan of an experiment; the spread between runs is that of its finished ones, where there are two."""
    asked = asked_of(exp.setting)
    suite = exp.primary.partition(":")[0]
    problems = _count(exp.setting, suite, asked)
    device = planned_device(exp.setting)
    model, arms = _arms(exp, asked, device)
    assumed = _spread(exp, runs)
    pairs = max(1, _pairs(exp))
    spreads = dict.fromkeys([assumed.seed, *SEED_SPREADS])
    power = (
        [_power(Spread(s, assumed.item, assumed.residual), exp, problems, pairs) for s in spreads] if problems else []
    )
    return PlanInfo(
        model=model,
        device=device,
        arms=arms,
        seeds=len(exp.seeds),
        problems=problems,
        pairs=pairs,
        spread=assumed,
        power=tuple(power),
        declared_margin=None if exp.margin is None else exp.margin / 100,
        checks=tuple(checks(exp)),
    )


def write_plan(exp: Experiment, runs: Path) -> None:
    """Store the plan of an experiment, unless there is one: what was planned first is what is held against results.

    Seconds and dollars are those that an earlier pilot predicts, if there was one.
    """
    from paribus.planning.predict import timed

    paths = ExperimentPaths(runs / exp.name)
    if not paths.plan.exists():
        paths.root.mkdir(parents=True, exist_ok=True)
        write_json(paths.plan, timed(make_plan(exp, runs), exp, runs))


def planned_device(setting: Setting) -> str:
    """Return "cuda" or "cpu": as `machine.device` says, and under "auto" by whether there is an NVIDIA device."""
    name = setting.machine.device
    if name == "auto":
        return "cuda" if Path("/dev/nvidiactl").exists() else "cpu"
    return name.partition(":")[0]


def checkpoint_detectable(problems: int, power: float = POWER, alpha: float = ALPHA) -> float:
    """Return the difference between two single checkpoints that is found with `power`, if they disagree as assumed."""
    reach = NormalDist().inv_cdf(1 - alpha / 2) + NormalDist().inv_cdf(power)
    return reach * (DISAGREEMENT / problems) ** 0.5


def arm_memory(exp: Experiment, arm: Arm, asked: Asked, lengths: Mapping[str, int], device: str) -> tuple[Memory, str]:
    """Return the memory of an arm's runs, and where its model's shape was found.

    `lengths` are tokens of the longest prompts under the experiment's own model. Raises ModelError.
    """
    setting = arm.setting(exp.setting)
    found = find_shape(setting.model)
    scorers = [*models_of(setting.reward), *(models_of(setting.steps) if setting.steps is not None else [])]
    shapes: dict[str, ModelShape] = {s.path: find_shape(ModelSpec(path=s.path)).shape for s in scorers}
    counts = {name: _count(setting, name, asked) for name in setting.eval}
    held = memory(
        found.shape,
        setting,
        arm.algorithm,
        scorers=list(shapes.values()),
        heap=device == "cpu",
        problems={name: n for name, n in counts.items() if n is not None},
        prompts=lengths if setting.model == exp.setting.model else {},
    )
    return held, found.source


def _arms(exp: Experiment, asked: Asked, device: str) -> tuple[str, tuple[ArmPlan, ...]]:
    """Return the arms' plans, and where the shape of the model was found or why it was not."""
    plans, sources, lengths = [], [], prompt_lengths(exp, asked)
    for name, arm in exp.arms.items():
        plan = ArmPlan(arm=name, tokens=_most_tokens(arm.setting(exp.setting)))
        try:
            held, source = arm_memory(exp, arm, asked, lengths, device)
        except ModelError as error:
            source = str(error)
        else:
            plan = plan.model_copy(
                update={
                    "memory": held.components,
                    "at_peak": held.live[held.peak_phase],
                    "phases": held.phases,
                    "peak": held.peak,
                    "peak_phase": held.peak_phase,
                }
            )
        plans.append(plan)
        sources.append(source)
    return "; ".join(dict.fromkeys(sources)), tuple(plans)


def prompt_lengths(exp: Experiment, asked: Asked) -> dict[str, int]:
    """Return the tokens of the longest prompt of each use, as far as the model's tokenizer is at hand."""
    try:
        folder = find_shape(exp.setting.model).folder
    except ModelError:
        folder = None
    found = {} if folder is None else {name: longest(folder, asks) for name, asks in asked.items()}
    return {name: n for name, n in found.items() if n is not None}


def _most_tokens(setting: Setting) -> int | None:
    if setting.budget.tokens is not None:
        return setting.budget.tokens
    steps, spec = setting.total_steps, setting.rollout
    return None if steps is None else steps * spec.prompts_per_step * spec.samples_per_prompt * spec.max_response


def asked_of(setting: Setting) -> Asked:
    """Return what is asked in training and by each suite, without a network; what is not at hand is left out."""
    found: dict[str, Sequence[Messages]] = {}
    asks = [(TRAIN, setting.task, lambda: list(map(setting.task.messages, setting.task.problems("train"))))]
    for name, suite in setting.eval.items():
        asks.append((name, suite.asks(setting.task), partial(_suite_messages, setting, suite)))
    for name, task, read in asks:
        if task.hub_id is None:  # else it would be fetched
            with contextlib.suppress(DataError):
                found[name] = read()
    return found


def _suite_messages(setting: Setting, suite: EvalSpec) -> list[Messages]:
    return list(map(suite.messages(setting.task), suite.problems(setting.task)))


def _count(setting: Setting, name: str, asked: Asked) -> int | None:
    """Count the problems of a suite; None where its data is not at hand."""
    if name in asked:
        return len(asked[name])
    suite = setting.eval[name]
    found = GSM8K.get(suite.split) if isinstance(suite.asks(setting.task), Gsm8k) else None
    return found if suite.limit is None or found is None else min(found, suite.limit)


def _pairs(exp: Experiment) -> int:
    """Comparisons of which the verdict corrects the p-values: every two arms at the same levels."""
    cells: dict[tuple[str, ...], int] = {}
    for arm in exp.arms.values():
        key = tuple(arm.levels.values())
        cells[key] = cells.get(key, 0) + 1
    return sum(n * (n - 1) // 2 for n in cells.values())


def _spread(exp: Experiment, runs: Path) -> SpreadRow:
    """Return the spread of the experiment's stored runs, or the assumed one."""
    folder = runs / exp.name
    if ExperimentPaths(folder).info.exists():
        tables = {arm: table for arm, table in primary(read_experiment(folder)).table.items() if len(table) >= 2}
        if tables:
            found = spread(tables)
            source = f"{sum(map(len, tables.values()))} finished runs in {folder}"
            return SpreadRow(seed=found.seed, item=found.item, residual=found.residual, source=source)
    return SpreadRow(**ASSUMED._asdict(), source="assumed: no arm has two finished runs")


def _power(parts: Spread, exp: Experiment, problems: int, pairs: int) -> PowerRow:
    seeds, margin, alpha = len(exp.seeds), None if exp.margin is None else exp.margin / 100, ALPHA / pairs
    several = seeds > 1
    close = several and margin is not None
    return PowerRow(
        seed=parts.seed,
        detectable=detectable(parts, seeds, problems, POWER, alpha) if several else None,
        seeds_for={str(e): seeds_needed(parts, e / 100, problems, POWER, alpha) for e in EFFECTS},
        margin=equivalence_margin(parts, seeds, problems, POWER, alpha) if several else None,
        equivalence=equivalence_power(parts, margin, seeds, problems, alpha=alpha) if close and margin else None,
        seeds_equivalent=seeds_for_equivalence(parts, margin, problems, POWER, alpha) if margin else None,
    )
