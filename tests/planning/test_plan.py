"""`paribus plan`: memory, power and fairness of whole experiments, and the plan that `paribus run` stores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from paribus.cli import app
from paribus.experiment import Experiment, load_experiment
from paribus.part import replace
from paribus.pipeline.compare import experiment_info
from paribus.planning.fairness import checks
from paribus.planning.plan import ASSUMED, checkpoint_detectable, make_plan, planned_device, write_plan
from paribus.planning.screen import screen, theory_lines
from paribus.stats import detectable
from paribus.store import ExperimentPaths, PlanInfo, read_experiment, write_experiment
from pipeline_experiment import write_experiment_file

ROOT = Path(__file__).parents[2]


def founding(*overrides: str) -> Experiment:
    return load_experiment(ROOT / "experiments" / "gsm8k-qwen05b.toml", overrides)


def told(exp: Experiment) -> dict[str, bool | None]:
    return {row.check: row.holds for row in checks(exp)}


def test_the_founding_experiment_prints_its_memory_without_its_weights(tmp_path: Path) -> None:
    exp = founding('machine.device="cuda"')
    plan = make_plan(exp, tmp_path)
    ppo, grpo = plan.arms
    assert ppo.memory["critic optimizer"] > 0 and "critic optimizer" not in grpo.memory
    assert ppo.memory["policy weights"] == 4 * 494_032_768
    assert plan.problems == 1319 and plan.seeds == 1
    page = screen(exp, plan)
    for words in ("published shape", "critic weights", "KV cache", "policy_update", "One seed", "Is it fair?"):
        assert words in page


def test_two_single_checkpoints_differ_visibly_from_three_and_a_half_points_on() -> None:
    # the reference's 10.4: SE 1.231, 80 % power at 3.45 points
    assert 100 * checkpoint_detectable(1319) == pytest.approx(3.45, abs=0.01)


def test_what_can_be_shown_is_what_the_statistics_say(tmp_path: Path) -> None:
    exp = replace(founding("seeds=[0, 1, 2, 3, 4]"), margin=2.0)
    first = make_plan(exp, tmp_path).power[0]
    assert first.detectable == pytest.approx(detectable(ASSUMED, 5, 1319))
    assert first.seeds_for["3"] is not None and first.seeds_for["3"] > 5 > first.seeds_for["5"]
    assert first.equivalence is not None and first.equivalence < 0.2


def test_a_fair_file_passes_every_check_that_a_file_can() -> None:
    found = told(founding())
    assert found.pop("the same tuning effort") is None
    assert all(found.values())


@pytest.mark.parametrize(
    ("overrides", "check"),
    [
        (['arm.grpo.aggregate.type="constant"'], "every difference is declared"),
        (["arm.grpo.differs.rollout.max_prompt=256"], "the same prompts"),
        (["arm.grpo.differs.rollout.prompts_per_step=64"], "in the same order"),
        (["arm.grpo.differs.rollout.samples_per_prompt=8"], "the same sampling budget"),
        (['arm.grpo.base="dapo"'], "the same sampling budget"),
        (["arm.grpo.differs.rollout.max_response=128"], "the same limit of tokens"),
        (["arm.grpo.differs.optim.lr=1e-5"], "the same optimizer and updates"),
    ],
)
def test_what_is_unfair_is_said(overrides: list[str], check: str) -> None:
    if check == "every difference is declared":
        exp = replace(founding(*overrides), differs=("advantage", "whiten", "critic"))
        arms = {name: arm.model_copy(update={"stated": ()}) for name, arm in exp.arms.items()}
        assert told(exp.model_copy(update={"arms": arms}))[check] is False
    else:
        assert told(founding(*overrides))[check] is False


def test_a_budget_in_samples_is_fair_to_a_method_that_refills() -> None:
    exp = load_experiment(ROOT / "experiments" / "quickstart.toml", ['arm.grpo.base="dapo"', "budget.samples=2048",
                                                                    'budget.steps="none"'])  # fmt: skip
    assert told(exp)["the same sampling budget"] is True


def test_an_unknown_model_is_no_reason_not_to_plan_the_rest(tmp_path: Path) -> None:
    exp = founding('model.path="someone/unknown"')
    plan = make_plan(exp, tmp_path)
    assert plan.arms[0].peak is None and "config.json" in plan.model
    assert "Memory: not planned" in screen(exp, plan)


def test_the_device_is_the_file_s() -> None:
    assert planned_device(founding('machine.device="cuda:1"').setting) == "cuda"
    assert planned_device(founding('machine.device="cpu"').setting) == "cpu"


def test_the_first_plan_stays(tmp_path: Path) -> None:
    exp = load_experiment(write_experiment_file(tmp_path, 2))
    write_plan(exp, tmp_path)
    file = tmp_path / exp.name / "plan.json"
    before = file.read_bytes()
    assert PlanInfo.model_validate_json(before) == make_plan(exp, tmp_path)
    write_plan(replace(exp, margin=1.0), tmp_path)
    assert file.read_bytes() == before


def test_a_stored_experiment_has_its_plan_or_none(tmp_path: Path) -> None:
    exp = load_experiment(write_experiment_file(tmp_path, 2))
    paths = ExperimentPaths(tmp_path / exp.name)
    write_experiment(paths, experiment_info(exp))
    assert read_experiment(paths.root).plan is None
    write_plan(exp, tmp_path)
    assert read_experiment(paths.root).plan == make_plan(exp, tmp_path)


def test_json_is_what_is_stored() -> None:
    file = str(ROOT / "experiments" / "gsm8k-qwen05b.toml")
    found = CliRunner().invoke(app, ["plan", file, "--json"])
    assert found.exit_code == 0
    assert json.loads(found.stdout)["arms"][0]["arm"] == "ppo"


def test_the_theory_explains_each_reading() -> None:
    text = "\n".join(theory_lines())
    for share in ("33 % less", "25 % less", "47 % less", "44 % less"):
        assert share in text
