"""Timed pilots: what is run, what is read from stored rows, and what whole runs are predicted to take, by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from paribus.experiment import Experiment, resolve
from paribus.part import merge
from paribus.pipeline.compare import experiment_info
from paribus.planning.pilot import ArmTimes, Times, shortened, times
from paribus.planning.predict import predict, relative_spread, steps_of, text
from paribus.store import (
    DataInfo,
    EvalRow,
    ExperimentPaths,
    GraderInfo,
    RunFacts,
    RunPaths,
    RunWriter,
    StepRow,
    TimingRow,
    read_experiment,
    write_experiment,
)

MINUTE = "2026-01-01T00:0{}:{:02d}.000+00:00"


def experiment(**tables: Any) -> Experiment:
    data: dict[str, Any] = {
        "name": "timed",
        "question": "?",
        "primary": "test:accuracy",
        "seeds": [0, 1, 2],
        "differs": ["advantage", "whiten", "critic", "shaping", "kl", "aggregate", "surrogate", "imitation"],
        "task": {"type": "stories", "train": 40, "test": 40},
        "rollout": {"prompts_per_step": 4, "samples_per_prompt": 4, "max_response": 40},
        "optim": {"lr": 1e-3},
        "budget": {"steps": 25},
        "eval": {"test": {"max_response": 40}},
        "machine": {"decode_rows": 20},
        "arm": {"ppo": {"base": "ppo"}, "grpo": {"base": "grpo"}},
    }
    return resolve(merge(data, tables), where="timed")


def arm(**changes: Any) -> ArmTimes:
    base = ArmTimes(
        first=3.0,
        steps=(2.0, 2.0),
        scaling=1.5,
        policy_update=0.5,
        rollouts=(1.0, 1.0),
        save=0.25,
        evals={"test": 4.0},
        tokens=100.0,
        samples=16.0,
        fill=0.5,
        peaks=(10, 12),
        device_bytes=100,
        upper_clip=(),
        entropy_fall=(),
    )
    return base._replace(**changes)


def measured(**changes: Any) -> Times:
    return Times(arms={"ppo": arm(**changes), "grpo": arm()}, base=5.0, around=2.0)


def test_the_pilot_runs_the_real_shapes_for_a_few_steps() -> None:
    exp = experiment(eval={"test": {"every": 5}, "many": {"max_response": 40, "samples": 4, "temperature": 1.0}})
    short = shortened(exp, 2)
    assert short.setting.rollout == exp.setting.rollout and short.setting.optim == exp.setting.optim
    assert short.setting.budget.steps == 4 and short.seeds == (0, 1)
    assert {n: (s.limit, s.every) for n, s in short.setting.eval.items()} == {"test": (20, None), "many": (5, None)}


def test_a_pilot_of_another_configuration_has_another_folder() -> None:
    names = {
        shortened(exp).name
        for exp in (experiment(), experiment(optim={"lr": 2e-3}), experiment(machine={"threads": 1}))
    }
    assert len(names) == 3 and shortened(experiment()).name in names


def test_the_warm_up_of_a_critic_is_timed_without_and_predicted_with() -> None:
    exp = experiment(arm={"ppo": {"base": "vc_ppo", "critic": {"warmup": 10}}})
    critic = shortened(exp).arms["ppo"].algorithm.critic  # type: ignore[union-attr]
    assert critic is not None and critic.warmup == 0
    plain = predict(experiment(), measured()).arms["ppo"].training.estimate
    assert predict(exp, measured()).arms["ppo"].training.estimate == pytest.approx(plain - 10 * 0.5)


def test_what_a_run_and_the_experiment_take_by_hand() -> None:
    cost = predict(experiment(), measured(steps=(1.9, 2.1)))
    run = cost.arms["ppo"]
    # first + 24 steps + saves after 10, 20 and 25
    assert run.steps == 25 and run.training.estimate == pytest.approx(3 + 24 * 2.0 + 3 * 0.25)
    assert run.wall.estimate == pytest.approx(51.75 + 4.0 + 2.0)
    # half the limit is filled: twice as long responses double what grows with them
    assert run.longest == pytest.approx(51.75 + 25 * 1.5)
    assert cost.whole.estimate == pytest.approx(2 + 5 + 3 * (57.75 + 57.75))
    assert cost.dollars(3600) == 1.5


def test_the_interval_covers_the_spread_of_the_timed_steps() -> None:
    spread, df = relative_spread([(1.0, math.e), (5.0, 5.0)])
    assert (spread, df) == (pytest.approx(math.sqrt(0.5 / 2)), 2)
    run = predict(experiment(), measured(steps=(1.0, math.e))).arms["grpo"].training
    factor = math.exp(4.30265273 * 0.5 * math.sqrt(1 / 2 + 1 / 25))
    assert run.high / run.estimate == pytest.approx(factor) and run.estimate / run.low == pytest.approx(factor)


def test_one_step_an_arm_gives_no_interval() -> None:
    single = Times(arms={name: arm(steps=(2.0,)) for name in ("ppo", "grpo")}, base=5.0, around=2.0)
    run = predict(experiment(), single).arms["ppo"].training
    assert (run.low, run.high) == (0.0, math.inf)
    assert any("unknown from one step" in line for line in text(experiment(), predict(experiment(), single)))


@pytest.mark.parametrize(
    ("budget", "steps"), [({"samples": 170}, 11), ({"tokens": 1001}, 11), ({"seconds": 21.0}, 10), ({"steps": 7}, 7)]
)
def test_budgets_of_every_kind_are_counted_in_steps(budget: dict[str, Any], steps: int) -> None:
    exp = experiment()
    setting = exp.setting.model_copy(update={"budget": type(exp.setting.budget)(**budget)})
    assert steps_of(setting, arm()) == steps


def test_evaluations_on_the_way_are_counted_and_the_last_one_once() -> None:
    cost = predict(experiment(eval={"test": {"every": 5}}), measured())
    # after 5, 10, 15 and 20; the one after 25 is the final one
    assert cost.arms["ppo"].evaluation == pytest.approx(5 * 4.0)


def write_run(paths: RunPaths, seconds: list[float], *, started: int, took: int) -> None:
    facts = RunFacts(
        config_hash="c",
        grader=GraderInfo(name="answer", policy="strict", version="v"),
        data={"test": DataInfo(name="stories", split="test", n=20, hash="h")},
        device="cpu",
        device_bytes=1000,
        threads=1,
        determinism="bitwise",
    )
    run = RunWriter.create(paths, facts, {})
    for step, wall in enumerate(seconds, start=1):
        stats = {
            "response_tokens": {"sum": 160.0, "count": 16.0},
            "entropy": {"sum": 0.9**step, "count": 1.0},
            "clip_high": {"sum": step / 100, "count": 1.0},
        }
        run.append_step(StepRow(step=step, samples=16 * step, tokens=160 * step, stats=stats))
        split = {"rollout": wall / 2, "policy_update": wall / 4, "other": wall / 4}
        run.append_timing(TimingRow(step=step, seconds=split, tokens=160, rss_peak={"rollout": 100 + step}))
    rows = [
        EvalRow(
            problem_id=f"p{i}", response="", answer=None, score=0.0, status="ok", format=True, truncated=False,
            tokens=1, prompt_tokens=1, grader="v",
        )
        for i in range(20)
    ]  # fmt: skip
    step = len(seconds)
    run.write_eval("test", step, rows)
    run.append_timing(TimingRow(step=step, suite="test", seconds={"eval": 3.0, "save": 0.5}, tokens=20))
    run.done({})
    info = json.loads(paths.run.read_text())
    for attempt in info["attempts"]:
        attempt["started"], attempt["ended"] = (
            MINUTE.format(*divmod(started, 60)),
            MINUTE.format(*divmod(started + took, 60)),
        )
    paths.run.write_text(json.dumps(info))


def test_stored_rows_of_a_pilot_are_read_as_written(tmp_path: Path) -> None:
    exp = experiment()
    paths = ExperimentPaths(tmp_path / "steps")
    write_experiment(paths, experiment_info(shortened(exp)))
    # rows of 3.5 s (base) and 14.5 s (arms); each run takes 1 s beside its rows, and 5 s pass between two runs
    write_run(paths.base, [], started=0, took=4)
    write_run(paths.run("ppo", 0), [3.0, 3.0, 2.0, 3.0], started=9, took=15)
    write_run(paths.run("grpo", 0), [3.0, 4.0, 2.0, 2.0], started=29, took=15)
    found = times(read_experiment(paths.root), exp)
    ppo = found.arms["ppo"]
    assert ppo.first == 3.0 and ppo.steps == (2.0, 3.0)
    assert ppo.rollouts == (1.0, 1.5) and ppo.policy_update == pytest.approx(0.625)
    assert ppo.scaling == pytest.approx(2.5 * 3 / 4)
    assert ppo.save == 0.5 and ppo.tokens == 160 and ppo.samples == 16
    assert ppo.fill == pytest.approx(10 / 40)
    assert ppo.evals == {"test": pytest.approx(6.0)}  # 20 of the 40 problems took 3 s
    assert found.base == pytest.approx(6.0)
    assert ppo.peaks == (104,) and ppo.device_bytes == 1000
    assert ppo.upper_clip == pytest.approx((0.03, 0.04))
    assert ppo.entropy_fall == pytest.approx((0.1, 0.1, 0.1))
    assert found.around == pytest.approx(5.0 + 0.5)


def test_a_night_between_two_attempts_is_no_loading_time(tmp_path: Path) -> None:
    exp = experiment()
    paths = ExperimentPaths(tmp_path / "steps")
    write_experiment(paths, experiment_info(shortened(exp)))
    write_run(paths.base, [], started=0, took=4)
    write_run(paths.run("ppo", 0), [3.0, 3.0, 2.0, 3.0], started=9, took=15)
    write_run(paths.run("grpo", 0), [3.0, 4.0, 2.0, 2.0], started=29, took=15)
    run = paths.run("ppo", 0).run
    info = json.loads(run.read_text())
    first, second = dict(info["attempts"][0]), dict(info["attempts"][0])
    first["ended"], second["started"], second["number"] = MINUTE.format(0, 10), MINUTE.format(0, 22), 2
    info["attempts"] = [first, second]
    run.write_text(json.dumps(info))
    # 12 s passed between the two attempts of one run: not a gap between runs, which are 5 s
    assert times(read_experiment(paths.root), exp).around < 6.0
