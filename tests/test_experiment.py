"""Experiments: what is shared, what differs, and every way to write one wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest

from paribus.errors import ConfigError
from paribus.experiment import controlled, differences, load_experiment
from paribus.part import dump, load

ROOT = Path(__file__).resolve().parents[1]
# the recipes beside them (`paribus sft`, `paribus reward-model`) have no arms
EXPERIMENTS = sorted(p for p in (ROOT / "experiments").glob("*.toml") if "[arm." in p.read_text(encoding="utf-8"))
FILE = """
name = "t"
question = "q"
primary = "test:accuracy"
seeds = [0, 1]
differs = ["advantage", "whiten", "critic", "shaping", "kl", "aggregate", "surrogate"]
[task]
type = "stories"
[rollout]
prompts_per_step = 4
samples_per_prompt = 2
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


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "exp.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda p: p.name)
def test_shipped_experiments_are_controlled(path: Path) -> None:
    exp = load_experiment(path)
    assert controlled(exp), [row for row in differences(exp) if not row.declared]
    groups: dict[tuple[str, ...], set[int]] = {}  # group sizes, by the levels of the experiment's factors
    for arm in exp.arms.values():
        groups.setdefault(tuple(arm.levels.values()), set()).add(arm.setting(exp.setting).rollout.samples_per_prompt)
    assert all(len(sizes) == 1 for sizes in groups.values())


def test_the_founding_experiment_holds_the_settings_of_the_article() -> None:
    exp = load_experiment(ROOT / "experiments" / "gsm8k-qwen05b.toml")
    s = exp.setting
    assert (s.model.path, s.task.type, s.task.grader.policy) == ("Qwen/Qwen2.5-0.5B-Instruct", "gsm8k", "boxed")
    assert (s.rollout.prompts_per_step, s.rollout.samples_per_prompt, s.optim.minibatch_prompts) == (128, 4, 64)
    assert (s.rollout.max_prompt, s.rollout.max_response, s.eval["test"].max_response) == (512, 256, 512)
    assert (s.optim.lr, s.optim.clip_norm, s.optim.weight_decay, s.budget.steps) == (1e-6, 1.0, 0.01, 1160)
    assert s.budget.steps == 7473 // 128 * 20
    assert s.updates_per_rollout == 2
    ppo, grpo = exp.arms["ppo"].algorithm, exp.arms["grpo"].algorithm
    for algorithm in (ppo, grpo):
        assert (algorithm.kl.coef, algorithm.kl.estimator) == (0.001, "k3")
        assert (algorithm.surrogate.low, algorithm.surrogate.high, algorithm.surrogate.dual) == (0.2, 0.2, 3.0)
        assert algorithm.aggregate.type == "token_mean" and algorithm.entropy == 0
    assert (ppo.advantage.gamma, ppo.advantage.lam, ppo.critic.lr, ppo.critic.clip) == (1.0, 1.0, 1e-5, 0.5)
    assert ppo.whiten is not None and grpo.whiten is None and grpo.critic is None


def test_an_undeclared_difference_is_found(tmp_path: Path) -> None:
    text = FILE.replace('base = "ppo"', 'base = "verl_05_ppo"').replace('base = "grpo"', 'base = "verl_05_grpo"')
    exp = load_experiment(write(tmp_path, text.replace('"whiten", ', "")))
    hidden = {row.key.split(".")[0] for row in differences(exp) if not row.declared}
    assert hidden == {"whiten"} and not controlled(exp)
    assert controlled(load_experiment(write(tmp_path, text)))


def test_what_an_arm_states_is_declared_and_only_the_stated_field_changes(tmp_path: Path) -> None:
    text = FILE.replace('base = "ppo"', 'base = "grpo"\nsurrogate.high = 0.28')
    exp = load_experiment(write(tmp_path, text.replace(', "surrogate"', "")))
    rows = differences(exp)
    assert [(r.key, r.values, r.declared) for r in rows] == [("surrogate.high", (0.28, 0.2), True)]


def test_an_exception_from_the_shared_setting_is_printed_as_a_difference(tmp_path: Path) -> None:
    text = FILE.replace('base = "ppo"', 'base = "grpo"\ndiffers.optim.lr = 3e-4')
    exp = load_experiment(write(tmp_path, text))
    assert [(r.key, r.values, r.declared) for r in differences(exp)] == [("setting.optim.lr", (3e-4, 1e-4), True)]
    assert exp.arms["a"].setting(exp.setting).optim.lr == 3e-4 and exp.setting.optim.lr == 1e-4


def test_overrides_come_last_and_are_typed(tmp_path: Path) -> None:
    path = write(tmp_path, FILE)
    exp = load_experiment(path, ["budget.steps=7", "arm.b.surrogate.high=0.3", "model.path=some/model", "seeds=[5]"])
    assert exp.setting.budget.steps == 7 and exp.arms["b"].algorithm.surrogate.high == 0.3
    assert exp.setting.model.path == "some/model" and exp.seeds == (5,)


def test_a_stored_experiment_reads_back_equal(tmp_path: Path) -> None:
    exp = load_experiment(write(tmp_path, FILE))
    assert load(type(exp), dump(exp)) == exp


FAULTS = {
    "unknown top key": ("[optim]", "[optimm]", "unknown key 'optimm'; did you mean 'optim'?"),
    "unknown inner key": ("lr = 1e-4", "lrr = 1e-4", "unknown key 'optim.lrr'; did you mean 'lr'?"),
    "unknown slot field": (
        'base = "grpo"', 'base = "grpo"\nsurrogate.hihg = 0.3',
        "unknown key 'arm.b.surrogate.hihg'; did you mean 'high'?",
    ),
    "unknown slot": ('base = "grpo"', 'base = "grpo"\nsurogate.high = 0.3', "did you mean 'surrogate'?"),
    "unknown method": ('base = "grpo"', 'base = "grop"', "did you mean 'grpo'?"),
    "unknown part type": (
        'base = "grpo"', 'base = "grpo"\nadvantage.type = "gea"', "unknown type 'gea'; did you mean 'gae'?"
    ),
    "unknown declared slot": ('"kl", ', '"kll", ', "differs: unknown slot 'kll'; did you mean 'kl'?"),
    "no base": ('base = "grpo"', "", "arm.b: missing key 'base'"),
    "wrong type": ("steps = 3", 'steps = "three"', "budget.steps"),
    "two budgets": ("steps = 3", "steps = 3\nsamples = 9", "give exactly one of steps, samples, tokens, seconds"),
    "missing key": ("lr = 1e-4", "", "missing key 'optim.lr'"),
    "unmeasured primary": ('primary = "test:accuracy"', 'primary = "dev:accuracy"', "known: test:accuracy"),
    "repeated seeds": ("[0, 1]", "[1, 1]", "repeat"),
    "minibatch": ("lr = 1e-4", "lr = 1e-4\nminibatch_prompts = 9", "more than rollout.prompts_per_step"),
    "group of one": ("samples_per_prompt = 2", "samples_per_prompt = 1", "samples_per_prompt"),
    "gae without critic": ('base = "ppo"', 'base = "ppo"\ncritic = "none"', "critic"),
    "truncated sampling": ("max_response = 16\n[optim]", "max_response = 16\ntop_p = 0.9\n[optim]", "rollout.top_p"),
    "exception in evaluation": ('base = "ppo"', 'base = "ppo"\ndiffers.eval.test.limit = 3', "shared"),
    "schedule without end": ("lr = 1e-4", 'lr = 1e-4\nschedule = "linear"', None),
    "syntax": ("[budget]", "[budget", "not valid TOML"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_named_with_file_key_and_fix(fault: str, tmp_path: Path) -> None:
    old, new, message = FAULTS[fault]
    assert old in FILE
    text = FILE.replace(old, new, 1) if fault != "schedule without end" else FILE.replace(
        old, new, 1).replace("steps = 3", "tokens = 100")  # fmt: skip
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_experiment(path)
    assert str(path) in str(caught.value)
    assert (message or "needs a budget of steps or samples") in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 12


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load_experiment(tmp_path / "absent.toml")
