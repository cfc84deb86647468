"""Factors: what crossing does to arms, what it declares, and every way to write one wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest

from paribus.algorithms import PolicyGradient
from paribus.errors import ConfigError
from paribus.experiment import Experiment, Setting, controlled, differences, identity, load_experiment, run_config
from paribus.part import dump, load
from paribus.pipeline.compare import experiment_info, jobs
from paribus.planning.text import text

HEAD = """
name = "t"
question = "q"
primary = "test:accuracy"
seeds = [0, 1]
differs = ["advantage", "whiten", "critic", "shaping", "kl", "aggregate"]
[task]
type = "stories"
[rollout]
prompts_per_step = 8
samples_per_prompt = 4
max_response = 16
[optim]
lr = 1e-4
[budget]
steps = 3
[eval.test]
max_response = 16
[arm.a]
base = "ppo"
[arm.b]
base = "grpo"
"""
HEAT = '[factor.heat]\nkey = "rollout.temperature"\nvalues = [0.5, 1.0, 1.5]\n'
GROUP = """
[factor.group.levels.4]
[factor.group.levels.8]
rollout.samples_per_prompt = 8
rollout.prompts_per_step = 4
"""
MEAN = """
[factor.mean.levels.token]
aggregate.type = "token_mean"
[factor.mean.levels.constant]
aggregate = { type = "constant" }
"""


def read(tmp_path: Path, factors: str, head: str = HEAD, *overrides: str) -> Experiment:
    path = tmp_path / "exp.toml"
    path.write_text(head + factors, encoding="utf-8")
    return load_experiment(path, overrides)


def test_every_arm_is_run_at_every_level(tmp_path: Path) -> None:
    exp = read(tmp_path, HEAT + MEAN)
    assert list(exp.arms) == [f"{a}.{t}.{m}" for a in "ab" for t in ("0.5", "1", "1.5") for m in ("token", "constant")]
    arm = exp.arms["b.1.5.constant"]
    assert (arm.of, arm.levels) == ("b", {"heat": "1.5", "mean": "constant"})
    assert arm.setting(exp.setting).rollout.temperature == 1.5 and arm.algorithm.aggregate.type == "constant"
    assert exp.setting.rollout.temperature == 1.0
    assert [job.label for job in jobs(exp)][:2] == ["base", "a.0.5.token/seed-0"]


def test_a_cell_differs_from_its_arm_in_the_changes_of_its_levels_and_nothing_else(tmp_path: Path) -> None:
    plain, exp = read(tmp_path, ""), read(tmp_path, HEAT + GROUP)
    for arm in exp.arms.values():
        wanted = dump(plain.setting)
        wanted["rollout"]["temperature"] = float(arm.levels["heat"])
        if arm.levels["group"] == "8":
            wanted["rollout"] |= {"samples_per_prompt": 8, "prompts_per_step": 4}
        assert dump(arm.setting(exp.setting)) == wanted
        assert arm.algorithm == plain.arms[arm.of].algorithm
    ids = [str(identity(run_config(exp, name))) for name in exp.arms]
    assert len(set(ids)) == len(ids) == 12


def test_a_level_with_another_type_starts_afresh_and_the_same_type_keeps_its_other_fields(tmp_path: Path) -> None:
    factor = """
[factor.std.levels.sample]
[factor.std.levels.population]
advantage.ddof = 0
[factor.std.levels.mean]
advantage.type = "group_mean"
"""
    head = HEAD.replace('[arm.a]\nbase = "ppo"', '[arm.a]\nbase = "grpo"\nkl = "none"')
    exp = read(tmp_path, factor, head)
    found = [exp.arms[f"a.{level}"].algorithm.advantage for level in ("sample", "population", "mean")]
    assert [dump(part) for part in found] == [
        {"type": "group_z_score", "eps": 1e-6, "ddof": 1},
        {"type": "group_z_score", "eps": 1e-6, "ddof": 0},
        {"type": "group_mean"},
    ]


def test_what_a_factor_changes_is_declared_and_what_arms_hide_is_not(tmp_path: Path) -> None:
    exp = read(tmp_path, HEAT + MEAN)
    rows = {row.key: row.declared for row in differences(exp)}
    assert rows["setting.rollout.temperature"] and rows["aggregate.type"] and controlled(exp)
    undeclared = HEAD.replace(', "kl"', "").replace(', "aggregate"', "")
    exp = read(tmp_path, MEAN, undeclared)
    assert {row.key.split(".")[0] for row in differences(exp) if not row.declared} == {"kl"}
    free = MEAN.replace('aggregate.type = "token_mean"', "")  # at this level the arms keep means of their own
    exp = read(tmp_path, free, undeclared)
    assert {row.key.split(".")[0] for row in differences(exp) if not row.declared} == {"kl", "aggregate"}


def test_overrides_reach_into_factors(tmp_path: Path) -> None:
    exp = read(tmp_path, HEAT, HEAD, "factor.heat.values=[0.9, 1.1]", "budget.steps=2")
    assert list(exp.arms) == ["a.0.9", "a.1.1", "b.0.9", "b.1.1"] and exp.setting.budget.steps == 2


def test_it_is_stored_and_read_back(tmp_path: Path) -> None:
    exp = read(tmp_path, HEAT + GROUP)
    assert load(Experiment, dump(exp)) == exp
    info = experiment_info(exp)
    assert [(f.name, f.levels) for f in info.factors] == [("heat", ("0.5", "1", "1.5")), ("group", ("4", "8"))]
    assert info.factors[1].changes["8"] == {"rollout.samples_per_prompt": 8, "rollout.prompts_per_step": 4}
    assert [c.arm for c in info.cells] == list(exp.arms) and info.cells[-1].levels == ("1.5", "8")
    plain = experiment_info(read(tmp_path, ""))
    assert plain.factors == () and plain.cells == ()


def test_plan_shows_levels_and_every_combination(tmp_path: Path) -> None:
    lines = text(read(tmp_path, HEAT + GROUP)).splitlines()
    assert "heat    0.5    rollout.temperature = 0.5" in lines
    row = next(line for line in lines if line.startswith("b.1.5.8"))
    assert row.split()[1:8] == ["b", "1.5", "8", "no", "yes", "32", "1"]
    assert "Differences between the levels: setting.rollout.prompts_per_step" in "\n".join(lines)
    head = next(line for line in lines if line.startswith("key"))
    assert head.split() == ["key", "a", "b", "declared"]
    assert lines[-1] == "Controlled: every difference is declared."


def test_equal_samples_are_kept_by_a_budget_in_samples(tmp_path: Path) -> None:
    free = '[factor.group]\nkey = "rollout.samples_per_prompt"\nvalues = [2, 4]\n'
    exp = read(tmp_path, free, HEAD.replace("steps = 3", "samples = 64"))
    assert [arm.setting(exp.setting).total_steps for arm in exp.arms.values()] == [4, 2, 4, 2]
    with pytest.raises(ConfigError, match=r"arm.a would draw unequal samples in each step \(16 at 2, 32 at 4\)"):
        read(tmp_path, free)


def test_tables_of_the_setting_and_slots_have_different_names() -> None:
    """A factor's key needs no prefix only as long as this holds."""
    assert not set(Setting.model_fields) & set(PolicyGradient.model_fields)


FAULTS = {
    "no form": ("[factor.x]\n", "factor.x: write `key"),
    "half a form": ('[factor.x]\nkey = "rollout.temperature"\n', "factor.x: write `key"),
    "no list": ('[factor.x]\nkey = "rollout.temperature"\nvalues = 1.0\n', "`values` a list"),
    "no table": ("[factor]\nx = 3\n", "factor.x: write `key"),
    "one level": ('[factor.x]\nkey = "rollout.temperature"\nvalues = [1.0]\n', "at least two levels"),
    "twice the same": ('[factor.x]\nkey = "rollout.temperature"\nvalues = [1, 1.0]\n', "value 1 comes twice"),
    "levels alike": ("[factor.x.levels.p]\n[factor.x.levels.q]\n", "levels 'p' and 'q' are the same"),
    "bad level name": ('[factor.x]\nkey = "optim.schedule"\nvalues = ["a/b", "c"]\n', "level 'a/b' becomes part of"),
    "tables as values": ('[factor.x]\nkey = "kl"\nvalues = [{coef = 1.0}, "none"]\n', "name tables under `levels`"),
    "unknown table": ('[factor.x]\nkey = "rolout.temperature"\nvalues = [1, 2]\n', "did you mean 'rollout'?"),
    "unknown field": ('[factor.x]\nkey = "rollout.temprature"\nvalues = [1, 2]\n', "did you mean 'temperature'?"),
    "another model": ('[factor.x]\nkey = "model.path"\nvalues = ["tiny", "b"]\n', "the base is evaluated once"),
    "another task": ('[factor.x]\nkey = "task.type"\nvalues = ["stories", "gsm8k"]\n', "the base is evaluated once"),
    "another budget": ('[factor.x]\nkey = "budget.steps"\nvalues = [1, 2]\n', "makes the arms comparable"),
    "wrong value": ('[factor.x]\nkey = "rollout.temperature"\nvalues = [0.0, 1.0]\n', "arm.a at x = 0: rollout.temp"),
    "not for this arm": ('[factor.x]\nkey = "critic.lr"\nvalues = [0.1, 0.2]\n', "arm.b at x = 0.1: "),
    "two factors, one key": (HEAT + HEAT.replace("heat", "cold"), "factors 'heat' and 'cold' both change"),
    "an arm states it": (MEAN + '[arm.c]\nbase = "grpo"\naggregate.type = "constant"\n', "the arm states aggregate"),
    "an arm excepts it": (HEAT + '[arm.c]\nbase = "grpo"\ndiffers.rollout.temperature = 2.0\n', "the arm states roll"),
    "a group of one": ('[factor.x.levels.8]\n[factor.x.levels.1]\nrollout = {samples_per_prompt = 1, '
                       'prompts_per_step = 32}\n', "arm 'b.1': grpo compares the samples"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_faults_name_the_factor_and_the_fix(name: str, tmp_path: Path) -> None:
    factors, message = FAULTS[name]
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, factors)
    assert message in str(caught.value) and "exp.toml" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 12


def test_two_cells_of_one_name_are_refused(tmp_path: Path) -> None:
    factors = '[factor.x.levels.p]\n[factor.x.levels."q.p"]\noptim.lr = 1e-3\n[arm."a.q"]\nbase = "grpo"\n'
    with pytest.raises(ConfigError, match=r"two arms would be named 'a\.q\.p'"):
        read(tmp_path, factors)


def test_noise_and_kind_of_reward_are_factors(tmp_path: Path) -> None:
    noise = """
[reward]
type = "noisy"
inner = { type = "task" }
[factor.noise]
key = "reward.flip"
values = [0.0, 0.05, 0.15, 0.3]
"""
    exp = read(tmp_path, noise)
    flips = [dump(arm.setting(exp.setting))["reward"]["flip"] for arm in exp.arms.values()]
    assert flips == [0.0, 0.05, 0.15, 0.3] * 2 and list(exp.arms)[3] == "a.0.3"
    kinds = """
[factor.reward.levels.gold]
[factor.reward.levels.noisy]
reward = { type = "noisy", flip = 0.15, inner.type = "task" }
"""
    exp = read(tmp_path, kinds)
    assert [arm.setting(exp.setting).reward.type for arm in exp.arms.values()] == ["task", "noisy"] * 2
    assert load(Experiment, dump(exp)) == exp and controlled(exp)
    with pytest.raises(ConfigError, match=r"arm.a at noise = 0: unknown key 'reward.flip'"):
        read(tmp_path, noise[noise.index("[factor") :])
