"""Advice from end to end on a toy model, and the file that it writes."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paribus.errors import ConfigError, DataError
from paribus.experiment import controlled, load_experiment
from paribus.part import read_toml
from paribus.planning import advise as module
from paribus.planning.advise import advise, document, store
from paribus.planning.pilot import PILOT
from paribus.planning.plan import make_plan
from paribus.planning.predict import timed
from paribus.planning.sampled import sample
from paribus.store import Advice, read_experiment
from paribus.store.reader import read_versioned
from tinyruns import write_materials

EXPERIMENT = """
name = "tiny"
question = "?"
primary = "test:accuracy"
seeds = [0]
differs = ["advantage"]
[model]
path = "{folder}/model"
[task]
type = "jsonl"
path = "{folder}"
[reward]
type = "noisy"
flip = 0.3
[reward.inner]
type = "task"
[rollout]
prompts_per_step = 2
samples_per_prompt = 4
max_prompt = 120
max_response = 8
[optim]
lr = 1e-3
[budget]
steps = 5
[eval.test]
max_response = 8
limit = 2
[machine]
device = "cpu"
threads = 1
[arm.mean]
base = "dr_grpo"
[arm.plain]
base = "dr_grpo"
advantage.type = "leave_one_out"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy model, four problems, and the experiment file."""
    found = tmp_path_factory.mktemp("advise")
    write_materials(found)
    (found / "exp.toml").write_text(EXPERIMENT.format(folder=found), encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def advised(folder: Path) -> tuple[Advice, list[Path]]:
    return store(folder / "exp.toml", [], folder / "runs", 4, 4, folder / "both.toml", lambda text: None)


def test_two_arms_are_recommended_and_the_advice_is_kept(folder: Path, advised: tuple[Advice, list[Path]]) -> None:
    advice, written = advised
    assert len(set(advice.recommended)) == 2
    kept, again, file = written
    assert kept == folder / "runs" / "tiny" / "advice.json" and file == folder / "both.toml"
    assert again == folder / "runs" / "tiny-advised" / "advice.json"
    assert read_versioned(kept, Advice).model_copy(update={"created": ""}) == advice
    assert {f.rule for f in advice.findings} == set(range(1, 10))
    assert advice.prompts + advice.excluded == 4 and advice.samples == 4


def test_every_cost_has_an_interval(advised: tuple[Advice, list[Path]]) -> None:
    for cost in [advised[0].whole, *(arm.run for arm in advised[0].arms)]:
        assert cost.low is not None and cost.high is not None and 0 < cost.low < cost.estimate < cost.high


def test_the_noise_of_the_reward_shows_in_its_second_look(advised: tuple[Advice, list[Path]]) -> None:
    """The toy model is never right, so all that a flip rate of 0.3 gives is noise."""
    rows = {row.name.template: row.value for row in advised[0].signals}
    reliability = next(value for name, value in rows.items() if name.startswith("reliability"))
    assert reliability.estimate < 0.85
    assert rows["success rate"].estimate == 0


def test_the_written_experiment_can_be_run(folder: Path, advised: tuple[Advice, list[Path]]) -> None:
    exp = load_experiment(folder / "both.toml")
    assert tuple(exp.arms) == advised[0].recommended and exp.name == "tiny-advised"
    assert controlled(exp) and exp.setting == load_experiment(folder / "exp.toml").setting


def test_the_pilot_keeps_its_rows_and_no_weights(folder: Path, advised: tuple[Advice, list[Path]]) -> None:
    (steps,) = (folder / "runs" / "tiny" / PILOT).glob("steps-*")
    stored = read_experiment(steps)
    assert [len(runs[0].steps) for runs in stored.runs.values()] == [4, 4]
    assert not list(steps.rglob("*.safetensors"))


def test_a_finished_pilot_fills_the_plan_and_one_of_another_configuration_does_not(
    folder: Path, advised: tuple[Advice, list[Path]]
) -> None:
    exp = load_experiment(folder / "exp.toml")
    plan = make_plan(exp, folder / "elsewhere")
    assert all(arm.seconds is None for arm in plan.arms)
    known = {arm.arm: arm for arm in timed(plan, exp, folder / "runs").arms}
    for row in advised[0].arms:
        if row.base is None:
            arm = known[row.arm]
            assert arm.seconds == pytest.approx(row.training.estimate)
            assert arm.dollars == pytest.approx(row.training.estimate / 3600 * exp.setting.machine.price_per_hour)
    other = load_experiment(folder / "exp.toml", ["optim.lr=2e-3"])
    assert timed(plan, other, folder / "runs") == plan


def test_samples_once_drawn_are_not_drawn_again(folder: Path, advised: tuple[Advice, list[Path]]) -> None:
    exp = load_experiment(folder / "exp.toml")
    pieces = sorted((folder / "runs" / "tiny" / PILOT).rglob("*.npz"))
    before = [piece.stat().st_mtime_ns for piece in pieces]
    first = sample(exp, folder / "runs", 4, 4, lambda text: None)
    assert [piece.stat().st_mtime_ns for piece in pieces] == before
    fresh = sample(exp, folder / "elsewhere", 4, 4, lambda text: None)
    for field in dataclasses.fields(fresh.sampled):
        np.testing.assert_array_equal(getattr(first.sampled, field.name), getattr(fresh.sampled, field.name))


def test_a_lone_arm_gets_company_and_a_called_variant_an_arm(folder: Path) -> None:
    exp = load_experiment(folder / "exp.toml")
    lone = exp.model_copy(update={"arms": {"mean": exp.arms["mean"]}})
    assert list(module._with_second(lone).arms) == ["mean", "ppo"]
    said: list[str] = []
    wider = module._with_variants(exp, ["dr_grpo", "dapo", "dpo"], said.append)
    assert list(wider.arms) == ["mean", "plain", "dapo", "dpo"] and not said


def test_a_variant_that_the_setting_refuses_is_said_and_left_out(folder: Path) -> None:
    """One sample a prompt is enough for a batch baseline, and for no group method."""
    exp = load_experiment(
        folder / "exp.toml",
        ["rollout.samples_per_prompt=1", 'arm={only={base="reinforce_batch"}}'],
    )
    said: list[str] = []
    assert list(module._with_variants(exp, ["dapo"], said.append).arms) == ["only"]
    assert len(said) == 1 and said[0].startswith("dapo is called for, but the setting refuses it")


def test_a_catalogue_arm_is_written_by_its_name(folder: Path, advised: tuple[Advice, list[Path]]) -> None:
    advice = advised[0]
    raw = read_toml(folder / "exp.toml")
    exp = module._with_variants(load_experiment(folder / "exp.toml"), ["dapo"], print)
    arms = (advice.arms[0], advice.arms[0].model_copy(update={"arm": "dapo", "base": "dapo"}))
    changed = advice.model_copy(update={"arms": arms, "recommended": ("mean", "dapo")})
    both = exp.model_copy(update={"arms": {name: exp.arms[name] for name in ("mean", "dapo")}})
    data: dict[str, Any] = tomllib.loads(document(raw, both, changed))
    assert data["arm"] == {"mean": {"base": "dr_grpo"}, "dapo": {"base": "dapo"}}
    assert {"advantage", "aggregate", "surrogate", "shaping", "keep"} <= set(data["differs"])


def test_too_few_samples_prompts_and_factors_are_refused(folder: Path) -> None:
    exp = load_experiment(folder / "exp.toml")
    with pytest.raises(ConfigError, match="--samples 2 is less than"):
        advise(exp, folder / "runs", 4, 2, lambda text: None)
    with pytest.raises(DataError, match="4 problems"):
        advise(exp, folder / "runs", 5, 4, lambda text: None)
    crossed = load_experiment(
        folder / "exp.toml", ['factor.heat.key="rollout.temperature"', "factor.heat.values=[0.8, 1.0]"]
    )
    with pytest.raises(ConfigError, match="factors"):
        advise(crossed, folder / "runs", 4, 4, lambda text: None)
