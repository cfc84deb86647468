"""The list of what a machine can check of a comparison's fairness: each line ok, not ok or not known, with a reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paribus.report.blocks import Check
from paribus.report.fairness import checks, uncontrolled
from paribus.report.message import say
from paribus.report.protocol import protocol
from paribus.report.provenance import differences
from paribus.store import (
    CellRow,
    DifferenceRow,
    FactorRow,
    RolloutRow,
    StoredRun,
    TrialRow,
    TuningInfo,
    read_experiment,
    write_tuning,
)
from paribus.store.files import write_rows
from paribus.store.layout import ExperimentPaths
from reading import rows, said, tables

THREE = {
    "ppo": {0: "11110000", 1: "11100000", 2: "11111000"},
    "grpo": {0: "11110100", 1: "11000000", 2: "11101100"},
}
SETTINGS = "every setting in which the arms differ was declared"
ORDER = "the same prompts at the same steps"
TUNING = "the same tuning effort"


def found(folder: Path) -> dict[str, tuple[bool | None, str]]:
    return {say(c.text): (c.ok, say(c.detail)) for c in checks(read_experiment(folder)) if isinstance(c, Check)}


def _edit(run: StoredRun, attempt: Mapping[str, Any] | None = None, **changes: Any) -> None:
    data = json.loads(run.paths.run.read_bytes())
    data["attempts"][-1] |= attempt or {}
    run.paths.run.write_text(json.dumps(data | changes))


def test_a_fair_experiment_passes_and_what_is_not_stored_is_not_known(write: Any) -> None:
    told = found(write(THREE, resolved={"setting": {"budget": {"steps": 4, "samples": None}}}))
    assert [text for text, (ok, _) in told.items() if ok is None] == [ORDER, TUNING]
    assert not [text for text, (ok, _) in told.items() if ok is False]
    assert told["the same budget, counted in steps"][1] == (
        "drawn, mean of runs: ppo 64 samples and 3,600 tokens a run; grpo 64 samples and 3,600 tokens a run"
    )
    assert told["the same training problems"] == (True, "stories, train, 4000, aa11")
    assert told["the same seeds in every arm"] == (True, "0, 1 and 2")


def test_an_undeclared_difference_is_named(write: Any) -> None:
    differ = [
        DifferenceRow(path="critic.lr", values={"ppo": 1e-5, "grpo": None}, declared=True),
        DifferenceRow(path="whiten", values={"ppo": {"over": "tokens"}, "grpo": None}, declared=False),
    ]
    exp = read_experiment(write(THREE, differences=differ))
    assert found(exp.paths.root)[SETTINGS] == (False, "undeclared: whiten")
    assert said(uncontrolled(exp)) == ["undeclared difference in whiten"]
    table = tables(differences(exp))["arms"]
    assert rows(table) == [
        ["critic.lr", "1e-05", "none", "declared"],
        ["whiten", "over = tokens", "none", "UNDECLARED"],
    ]
    assert table.marked == {1}


def test_another_grader_or_other_data_is_not_controlled(write: Any) -> None:
    folder = write(THREE)
    run = read_experiment(folder).runs["grpo"][1]
    own = json.loads(run.paths.run.read_bytes())["grader"]
    _edit(run, grader={"name": "answer", "policy": "flexible", "version": "9"})
    assert said(uncontrolled(read_experiment(folder))) == ["runs were scored by different graders"]
    assert found(folder)["the same grader and version, the base included"] == (False, "hashes differ: 3f2a and 9")
    _edit(run, grader=own, data={"train": {"name": "stories", "split": "train", "n": 4000, "hash": "zz"}})
    assert said(uncontrolled(read_experiment(folder))) == ["runs used different data for train"]
    assert found(folder)["the same training problems"] == (False, "hashes differ: aa11 and zz")


def rollouts(run: StoredRun, step: int, *problems: str) -> None:
    row = {"sample": 0, "prompt": "?", "response": "!", "score": 1.0, "advantage": 0.5, "tokens": 9, "stop": "eos"}
    write_rows(run.paths.rollouts(step), [RolloutRow.model_validate({"problem_id": p, **row}) for p in problems])


def test_the_order_of_prompts_is_confirmed_on_what_runs_stored(write: Any) -> None:
    folder = write(THREE)
    runs = read_experiment(folder).runs
    for arm in THREE:
        for seed in (0, 1):
            rollouts(runs[arm][seed], 1, f"a{seed}", "b")
    assert found(folder)[ORDER] == (True, "the order is a function of the seed; confirmed on 2 stored steps")
    rollouts(runs["grpo"][1], 1, "b", "a1")
    assert found(folder)[ORDER] == (False, "they differ at seed 1, step 1")


def test_budgets_machines_code_and_turns(write: Any) -> None:
    folder = write(THREE, resolved={"setting": {"budget": {"steps": 4}}})
    exp = read_experiment(folder)
    run = exp.runs["ppo"][2]
    lines = run.paths.steps.read_text().splitlines()
    run.paths.steps.write_text("\n".join(lines[:3]) + "\n")
    _edit(exp.runs["grpo"][0], {"code": "other"})
    _edit(exp.runs["grpo"][1], {"threads": 1, "ended": exp.runs["grpo"][2].info.attempts[0].ended})
    told = found(folder)
    assert told["the same budget, counted in steps"][0] is False
    assert told["same code and packages"] == (False, "2 different ones")
    assert told["same machine, device and threads"] == (False, "2 different ones")
    assert told["runs alone on the machine, arms taking turns"][0] is False


def test_missing_seeds_are_named(write: Any) -> None:
    folder = write({"ppo": THREE["ppo"], "grpo": {0: "11110100", 2: "11101100"}}, failing=[("grpo", 2)])
    assert found(folder)["the same seeds in every arm"] == (False, "not finished: grpo/seed-1 and grpo/seed-2")
    empty = write({"ppo": {}, "grpo": {}}, None, name="empty")
    assert found(empty) == {"finished runs": (None, "none yet")}


def test_the_tuning_effort_is_that_of_the_stored_trials(write: Any) -> None:
    folder = write(THREE)
    trials = [
        TrialRow(arm=a, trial=f"{a}.{i}", values={"optim.lr": i}, score=0.5, chosen=not i)
        for a in THREE
        for i in (0, 1)
    ]
    paths = ExperimentPaths(folder / "_tune")

    def told(kept: list[TrialRow]) -> tuple[bool | None, str]:
        write_tuning(paths, TuningInfo(by="validation:accuracy", seeds=(100, 101), trials=tuple(kept)))
        return found(folder)[TUNING]

    paths.root.mkdir()
    assert told(trials) == (
        True, "ppo 2 trials and grpo 2 trials, each over seeds 100 and 101, chosen by validation:accuracy",
    )  # fmt: skip
    table = rows(tables(protocol(read_experiment(folder)))["tuning"])
    assert table[:2] == [["ppo", "optim.lr = 0", "50.00 %", "chosen"], ["ppo", "optim.lr = 1", "50.00 %", ""]]
    assert told(trials[:3])[0] is False


def test_prompts_count_among_the_runs_that_stored_their_hash(write: Any) -> None:
    folder, text = write(THREE), "the same evaluation problems and prompts, the base included"
    runs = read_experiment(folder).runs
    data = json.loads(runs["ppo"][0].paths.run.read_bytes())["data"]
    _edit(runs["ppo"][0], data=data | {"test": data["test"] | {"prompts": "p1"}})
    assert found(folder)[text][0] is True  # runs of earlier versions have stored none
    _edit(runs["grpo"][0], data=data | {"test": data["test"] | {"prompts": "p2"}})
    assert found(folder)[text] == (False, "the prompts of test differ")


def test_arms_are_held_against_those_at_the_same_levels(write: Any) -> None:
    """A factor that changes the prompts of a step is no unfairness between arms at one level."""
    arms = {f"{a}.{k}": {0: THREE[a][0]} for a in THREE for k in ("4", "8")}
    cells = [CellRow(arm=name, of=name.split(".")[0], levels=(name.split(".")[1],)) for name in arms]
    factor = FactorRow(name="groups", levels=("4", "8"), changes={"4": {}, "8": {"rollout.prompts_per_step": 2}})
    folder = write(arms, seeds=[0], factors=(factor,), cells=cells)
    for name, by_seed in read_experiment(folder).runs.items():
        rollouts(by_seed[0], 1, "a" if name.endswith("4") else "b")
    assert found(folder)[ORDER] == (True, "the order is a function of the seed; confirmed on 2 stored steps")


def test_given_answers_belong_to_an_arm_and_are_the_same_in_all_its_runs(write: Any) -> None:
    """Two methods train on files of their own: believed to be different data for the same use."""
    folder = write(THREE)
    exp = read_experiment(folder)

    def give(arm: str, seed: int, digest: str) -> None:
        run = exp.runs[arm][seed]
        data = json.loads(run.paths.run.read_bytes())["data"]
        _edit(run, data=data | {"given": {"name": "pair_file", "split": "train", "n": 4, "hash": digest}})

    for arm, digest in (("ppo", "p"), ("grpo", "g")):
        for seed in range(3):
            give(arm, seed, digest)
    assert uncontrolled(read_experiment(folder)) == []
    give("ppo", 1, "other")
    assert said(uncontrolled(read_experiment(folder))) == ["runs used different data for given"]
