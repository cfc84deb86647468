"""Whole runs on the embedded model: exact at the first update, and the folder they leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from paribus.experiment import load_experiment
from paribus.pipeline.compare import experiment_info
from paribus.pipeline.standalone import evaluate_model, suites_of
from paribus.pipeline.worker import run_arm, run_base
from paribus.store import ExperimentPaths, read_experiment, write_experiment

EXPERIMENT = """
name = "worker"
question = "q"
primary = "test:accuracy"
seeds = [0]
differs = ["advantage", "whiten", "critic"]
[task]
type = "stories"
train = 40
test = 24
[rollout]
prompts_per_step = 4
samples_per_prompt = 4
max_response = 64
[optim]
lr = 3e-4
minibatch_prompts = 2
[budget]
steps = 3
[eval.test]
max_response = 64
[machine]
device = "cpu"
threads = 1
[arm.ppo]
base = "verl_05_ppo"
[arm.grpo]
base = "verl_05_grpo"
"""
ARMS = ("ppo", "grpo")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The finished runs of both arms and the base."""
    folder = tmp_path_factory.mktemp("worker")
    (folder / "exp.toml").write_text(EXPERIMENT, encoding="utf-8")
    exp = load_experiment(folder / "exp.toml")

    def quiet(kind: str, **fields: Any) -> None:
        pass

    run_base(exp, folder / "runs", quiet)
    for arm in ARMS:
        run_arm(exp, arm, 0, folder / "runs", quiet)
    write_experiment(ExperimentPaths(folder / "runs"), experiment_info(exp))
    return folder / "runs"


def steps(root: Path, arm: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (root / arm / "seed-0" / "steps.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("arm", ARMS)
def test_the_first_update_of_every_step_is_on_policy(arm: str, root: Path) -> None:
    rows = steps(root, arm)
    assert len(rows) == 3
    for row in rows:
        assert row["stats"]["first_ratio_deviation"]["max"] < 1e-4
        assert row["stats"]["updates"]["sum"] == 2
    # the second update of a step is not on-policy any more: the first was no formality
    assert max(row["stats"]["ratio_deviation"]["max"] for row in rows) > 1e-3


@pytest.mark.parametrize("arm", ARMS)
def test_the_first_step_starts_at_the_reference_and_later_ones_do_not(arm: str, root: Path) -> None:
    gaps = [row["stats"]["reference_gap"]["max"] for row in steps(root, arm)]
    assert gaps[0] == 0.0 and gaps[2] > 1e-3


def test_both_arms_ask_and_draw_the_same_in_their_first_step(root: Path) -> None:
    stored = read_experiment(root)
    rows = {arm: stored.runs[arm][0].rollouts(1) for arm in ARMS}
    ppo, grpo = ([(r.problem_id, r.sample, r.response, r.score) for r in rows[arm]] for arm in ARMS)
    assert ppo == grpo and len(ppo) == 16


def test_evaluation_covers_every_problem_for_base_and_arms(root: Path) -> None:
    stored = read_experiment(root)
    ids = [[row.problem_id for row in run.eval("test")] for run in (stored.base, *(stored.runs[a][0] for a in ARMS))]
    assert ids[0] == ids[1] == ids[2] and len(set(ids[0])) == 24


@pytest.mark.parametrize("arm", ARMS)
def test_plain_transformers_reads_the_final_folder_and_says_the_same(arm: str, root: Path) -> None:
    folder = root / arm / "seed-0" / "final"
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    stored = read_experiment(root)
    questions = {name: problem.question for name, problem in stored.problems("test").items()}
    for row in stored.runs[arm][0].eval("test")[:6]:
        chat = [{"role": "user", "content": questions[row.problem_id]}]
        ids = torch.tensor([tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)])
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=64, do_sample=False)
        text = tokenizer.decode(out[0, ids.shape[1] :]).removesuffix(tokenizer.eos_token)
        assert text == row.response


def test_eval_of_a_model_folder_is_the_run_s_own_evaluation(root: Path, tmp_path: Path) -> None:
    exp = load_experiment(root.parent / "exp.toml", [f'model.path="{root / "grpo" / "seed-0" / "final"}"'])
    said: list[str] = []
    evaluate_model(suites_of(exp.setting, 0), ["test"], tmp_path, said.append, setting=exp.setting)
    own = (root / "grpo" / "seed-0" / "eval" / "test" / "3.jsonl.gz").read_bytes()
    assert (tmp_path / "test.jsonl.gz").read_bytes() == own
    assert said[0].startswith("test: accuracy")
