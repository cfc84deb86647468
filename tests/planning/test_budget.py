"""Micro-batches that fit a budget of memory: the largest that do, the same for every arm, and what is said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from paribus.cli import app
from paribus.errors import ConfigError
from paribus.experiment import Experiment, load_experiment
from paribus.planning import budget
from paribus.planning.budget import GB, PROCESS, Limit, fitted, limit_of
from paribus.planning.plan import make_plan
from paribus.settings import MachineSpec

ROOT = Path(__file__).parents[2]
FILE = ROOT / "experiments" / "gsm8k-qwen05b.toml"


def founding(memory: float | None, device: str = "cuda", **machine: Any) -> Experiment:
    given = {"device": f'"{device}"', "decode_rows": 16, **({} if memory is None else {"memory": memory}), **machine}
    return load_experiment(FILE, [f"machine.{key}={value}" for key, value in given.items()])


def peaks(exp: Experiment, size: int, folder: Path) -> dict[str, int]:
    """Planned bytes of each arm with micro-batches of `size`."""
    machine = exp.setting.machine.model_copy(update={"micro_tokens": size})
    sized = exp.model_copy(update={"setting": exp.setting.model_copy(update={"machine": machine})})
    return {arm.arm: arm.peak or 0 for arm in make_plan(sized, folder).arms}


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_the_largest_that_fits_every_arm(device: str, tmp_path: Path) -> None:
    exp, beside = founding(None, device), PROCESS if device == "cpu" else 0
    declared = exp.setting.machine.micro_tokens
    most, least = (max(peaks(exp, size, tmp_path).values()) for size in (declared, 1))
    chosen = set()
    for share in (0.0, 0.02, 0.1, 0.3, 0.7, 0.999):
        room = least + share * (most - least)
        small, told = fitted(founding((room + beside) / GB + 1e-9, device))
        size = small.setting.machine.micro_tokens
        assert max(peaks(exp, size, tmp_path).values()) <= room + 2
        assert max(peaks(exp, 2 * size, tmp_path).values()) > room, "twice as much would have fitted"
        assert f"micro_tokens = {size} instead of {declared}, for every arm: ppo" in told
        assert all(arm.setting(small.setting).machine.micro_tokens == size for arm in small.arms.values())
        chosen.add(size)
    assert len(chosen) >= 3 and max(chosen) < declared


def test_what_fits_stays_as_declared(tmp_path: Path) -> None:
    exp = founding(1000)
    same, told = fitted(exp)
    peak = max(peaks(exp, exp.setting.machine.micro_tokens, tmp_path).values())
    assert same == exp
    assert f"fits: ppo is planned to peak at {peak / GB:.2f} GB of 1000.00 GB (machine.memory)" in told


def test_without_a_budget_a_machine_that_is_large_enough_is_passed_over_in_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read(*unused: Any) -> Any:
        raise AssertionError("the data were read although the longest prompts allowed fit")

    monkeypatch.setattr(budget, "asked_of", read)
    exp = founding(None)
    assert fitted(exp, Limit(1000 * GB, "a large machine")) == (exp, "")


def test_what_does_not_fit_row_by_row_names_its_parts_and_the_fix() -> None:
    with pytest.raises(ConfigError) as found:
        fitted(founding(12.0))
    text = str(found.value)
    again = "with one row at a time, its layers computed again, ppo"
    for words in (again, "of 12.00 GB (machine.memory)", "policy optimizer 3.95", "critic opt"):
        assert words in text
    with pytest.raises(ConfigError, match=r"in (rollout|eval): .*KV cache .* GB; lower machine.decode_rows"):
        fitted(founding(30.0, decode_rows=4096))


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_where_one_row_is_too_much_layers_are_computed_again(device: str, tmp_path: Path) -> None:
    """With micro-batches as large as then fit, and only where single rows do not fit without."""
    long = dict(device=f'"{device}"', decode_rows=1)
    exp = load_experiment(FILE, ["rollout.max_response=8000", *(f"machine.{k}={v}" for k, v in long.items())])

    def at(memory: float) -> tuple[Experiment, str]:
        return fitted(exp, Limit(round(memory * GB), "a machine"))

    def peak(again: bool, size: int) -> float:
        machine = exp.setting.machine.model_copy(update={"recompute": again, "micro_tokens": size})
        sized = exp.model_copy(update={"setting": exp.setting.model_copy(update={"machine": machine})})
        return max(arm.peak or 0 for arm in make_plan(sized, tmp_path).arms) / GB + beside

    beside, declared = (PROCESS / GB if device == "cpu" else 0.0), exp.setting.machine.micro_tokens
    least, single = peak(True, 1), peak(False, 1)
    assert least < single, "else there is nothing to gain"
    with pytest.raises(ConfigError, match="its layers computed again"):
        at(0.99 * least)
    for share in (0.01, 0.3, 0.6, 0.99):
        memory = least + share * (single - least)
        small, told = at(memory)
        machine = small.setting.machine
        assert machine.recompute and ", and layers computed again in the backward pass, for every" in told
        assert peak(True, machine.micro_tokens) <= memory
        assert machine.micro_tokens == declared or peak(True, 2 * machine.micro_tokens) > memory, "twice as much fits"
        kept = exp.model_copy(update={"setting": exp.setting.model_copy(update={"machine": machine})})
        assert fitted(kept, Limit(1000 * GB, "a large machine")) == (kept, ""), "a declared switch is kept"
    assert not at(1.01 * single)[0].setting.machine.recompute, "single rows fit without"


def test_a_shape_that_is_unknown_changes_nothing() -> None:
    exp = load_experiment(FILE, ['model.path="nobody/knows"', "machine.memory=4"])
    same, told = fitted(exp)
    assert same == exp and "not planned, machine.micro_tokens stays" in told


def test_the_limit_is_the_declared_one_or_a_part_of_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limit_of(MachineSpec(memory=2.5), "cuda") == Limit(2_500_000_000, "machine.memory")
    monkeypatch.setattr(budget, "_available", lambda: 100 * GB)
    assert limit_of(MachineSpec(), "cpu") == Limit(92 * GB, "92 % of the memory that is free")
    assert limit_of(MachineSpec(parallel=4), "cpu") == Limit(
        23 * GB, "92 % of the memory that is free, for 4 runs at once"
    )
    monkeypatch.setattr(budget, "_cuda_total", lambda device: None)
    assert limit_of(MachineSpec(device="cuda:1"), "cuda") is None


def test_the_plan_shows_what_would_run() -> None:
    given = ["plan", str(FILE), "--set", 'machine.device="cuda"', "--set", "machine.decode_rows=16"]
    done = CliRunner().invoke(app, [*given, "--set", "machine.memory=25"])
    assert done.exit_code == 0, done.output
    assert "memory: machine.micro_tokens = " in done.output and "instead of 8192" in done.output
    done = CliRunner().invoke(app, [*given, "--set", "machine.memory=1"])
    assert "its layers computed again, ppo" in done.output and "policy optimizer" in done.output
