"""Walks and ablations: their ends, one slot a rung, valid at every rung, and files that plan as controlled."""

from __future__ import annotations

import itertools
import tomllib
from pathlib import Path

import pytest

from paribus.algorithms import CATALOG, PolicyGradient
from paribus.errors import ConfigError
from paribus.experiment import IDENTITY, Experiment, controlled, load_experiment, resolve
from paribus.ladder import SETTING, ablation, inline, ladder, options, rungs, slots
from paribus.part import dump, replace

ROOT = Path(__file__).resolve().parents[1]
METHODS = [name for name, method in CATALOG.items() if isinstance(method, PolicyGradient)]


def content(method: PolicyGradient) -> dict[str, object]:
    return {key: value for key, value in dump(method).items() if key not in IDENTITY}


def changed(one: PolicyGradient, other: PolicyGradient) -> set[str]:
    a, b = content(one), content(other)
    return {slot for slot in a if a[slot] != b[slot]}


def valid(method: PolicyGradient, goal: PolicyGradient, names: tuple[str, ...]) -> bool:
    try:
        replace(method, **{name: getattr(goal, name) for name in names})
    except ConfigError:
        return False
    return True


def planned(text: str) -> Experiment:
    exp = resolve(tomllib.loads(text))
    assert controlled(exp)
    return exp


@pytest.mark.parametrize("left", METHODS)
def test_a_walk_begins_and_ends_at_its_ends_and_moves_the_fewest_slots_at_a_time(left: str) -> None:
    for right in METHODS:
        start, goal = CATALOG[left], CATALOG[right]
        if not changed(start, goal):
            continue
        walk = rungs(start, goal)
        assert content(walk[0].algorithm) == content(start) and content(walk[-1].algorithm) == content(goal)
        for one, other in itertools.pairwise(walk):
            assert changed(one.algorithm, other.algorithm) == set(other.changed)
            parts = [p for n in range(1, len(other.changed)) for p in itertools.combinations(other.changed, n)]
            assert not any(valid(one.algorithm, goal, part) for part in parts), "these need not move together"
        moved = [slot for rung in walk for slot in rung.changed]
        assert len(moved) == len(set(moved)) and set(moved) == changed(start, goal)


def test_ppo_to_grpo_in_the_order_of_a_lecture() -> None:
    walk = rungs(CATALOG["ppo"], CATALOG["grpo"])
    assert [rung.changed for rung in walk] == [
        (), ("advantage", "critic"), ("whiten",), ("shaping",), ("kl",), ("aggregate",)
    ]  # fmt: skip


def test_what_must_change_first_changes_first() -> None:
    """A surrogate without a ratio refuses a sequence ratio, so the ratio goes back before the surrogate comes."""
    gspo = replace(CATALOG["grpo"], ratio={"type": "sequence_ratio", "normalise": True})
    goal = replace(CATALOG["grpo"], surrogate={"type": "reinforce"})
    assert [rung.changed for rung in rungs(gspo, goal)] == [(), ("ratio",), ("surrogate",)]
    assert [rung.changed for rung in rungs(goal, gspo)] == [(), ("surrogate",), ("ratio",)]


@pytest.mark.parametrize(("left", "right"), [("ppo", "grpo"), ("grpo", "ppo"), ("reinforce", "dapo_no_resampling")])
def test_the_written_walk_is_the_walk(left: str, right: str) -> None:
    exp = planned(ladder(left, right))
    walk = rungs(CATALOG[left], CATALOG[right])
    assert [content(arm.algorithm) for arm in exp.arms.values()] == [content(rung.algorithm) for rung in walk]
    assert next(iter(exp.arms)) == f"0-{left}" and list(exp.arms)[-1] == f"{len(walk) - 1}-{right}"
    assert not any(arm.differs for arm in exp.arms.values())


def test_the_setting_is_the_quickstarts_or_that_of_a_file(tmp_path: Path) -> None:
    with open(ROOT / "experiments" / "quickstart.toml", "rb") as file:
        quickstart = tomllib.load(file)
    assert tomllib.loads(SETTING) == {
        key: value for key, value in quickstart.items() if key not in ("name", "question", "differs", "arm")
    }
    base = ROOT / "experiments" / "gsm8k-smollm2.toml"
    assert planned(ladder("ppo", "grpo", base)).setting == load_experiment(base).setting
    crossed = tmp_path / "crossed.toml"
    factor = '[factor.heat]\nkey = "rollout.temperature"\nvalues = [0.5, 1.0]\n'
    crossed.write_text(base.read_text(encoding="utf-8") + factor, encoding="utf-8")
    assert next(iter(planned(ablation("grpo", "aggregate", crossed)).arms)) == "grpo"


def test_a_setting_that_does_not_suit_a_rung_is_refused(tmp_path: Path) -> None:
    text = (ROOT / "experiments" / "quickstart.toml").read_text(encoding="utf-8")
    path = tmp_path / "two.toml"
    path.write_text(text.replace("[optim]", "[optim]\nepochs = 2"), encoding="utf-8")
    with pytest.raises(ConfigError, match="arm '0-reinforce'"):
        ladder("reinforce", "grpo", path)
    assert "[arm.grpo-reinforce]" in ablation("grpo", "surrogate")
    try:
        told = ablation("grpo", "surrogate", path)
    except ConfigError as error:  # as long as clip is the only other surrogate
        told = str(error)
    assert "reinforce: grpo has surrogate reinforce, which holds for the policy that sampled" in told


@pytest.mark.parametrize("slot", slots())
@pytest.mark.parametrize("name", ["grpo", "ppo"])
def test_an_ablation_holds_every_option_of_the_slot_once_or_says_why_not(name: str, slot: str) -> None:
    method = CATALOG[name]
    found = options(method, slot)
    try:
        text = ablation(name, slot)
    except ConfigError as error:
        assert all(f"  {option.name}: " in str(error) for option in found)
        return
    exp = planned(text)
    for option in found:
        left_out = f"\n# left out: {option.name}: " in text
        assert left_out != (f"{name}-{option.name}" in exp.arms)
    assert exp.arms[name].algorithm == method and len(exp.arms) > 1
    for arm in list(exp.arms.values())[1:]:
        assert changed(method, arm.algorithm) == {slot}


def test_options_by_hand() -> None:
    def names(method: str, slot: str) -> set[str]:
        return {option.name for option in options(CATALOG[method], slot)}

    assert {"token_mean", "sequence_mean_token_sum", "constant"} <= names("grpo", "aggregate")
    assert "sequence_mean_token_mean" not in names("grpo", "aggregate")
    assert names("grpo", "whiten") == {"whiten"} and names("ppo", "whiten") == {"none"}
    assert names("grpo", "old") == {"sampler"}
    assert {"without-kl_in_reward", "with-soft_overlong", "without-outcome_at_end"} <= names("ppo", "shaping")
    kl = next(option for option in options(CATALOG["ppo"], "kl") if option.name == "kl")
    first = next(method for method in CATALOG.values() if isinstance(method, PolicyGradient) and method.kl is not None)
    assert kl.source == f"as in {first.name}" and kl.value == dump(first.kl)
    text = ablation("grpo", "advantage")
    assert "# left out: gae: advantage gae needs values: give a critic" in text


def test_what_cannot_be_written_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError, match="do not differ in any slot"):
        ladder("ppo", "ppo")
    with pytest.raises(ConfigError, match="did you mean 'grpo'"):
        ladder("ppo", "grop")
    with pytest.raises(ConfigError, match="unknown slot 'agregate'; did you mean 'aggregate'"):
        ablation("grpo", "agregate")
    with pytest.raises(ConfigError, match=r"no other choice of entropy:\n.*\[factor.entropy\]"):
        ablation("grpo", "entropy")
    with pytest.raises(ConfigError, match=r"no other choice of critic:\n.*advantage gae needs values"):
        ablation("ppo", "critic")


def test_inline_values_read_back() -> None:
    value = {"a": 1e-8, "b": [True, -2, 'quo"te\\ü'], "c": {"type": "x", "d": [{"e": 0.1}]}, "f": "none"}
    assert tomllib.loads(f"v = {inline({**value, 'f': None})}")["v"] == value
