"""SmolLM2-135M-Instruct with vLLM on the CPU: its tokens, its log-probs, and a run whose weights it follows
(`make test-vllm`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from paribus.engines.local import LocalSampler
from paribus.engines.protocols import SamplingPlan
from paribus.engines.vllm import VllmSampler
from paribus.experiment import load_experiment
from paribus.models.chat import make_prompts
from paribus.models.hf import LoadedModel, load_model
from paribus.pipeline import run_experiment
from paribus.settings import ModelSpec, VllmEngine
from paribus.tasks import Stories
from paribus.types import Key, Prompt

pytestmark = pytest.mark.vllm

GREEDY = SamplingPlan(samples=1, max_tokens=48, temperature=0)
NEAR_TIE = 1e-3  # nats between the two likeliest tokens, below which float rounding may decide
EXPERIMENT = """
name = "vllm"
question = "do rollouts of vLLM train?"
primary = "test:accuracy"
seeds = [0]
[model]
path = "{model}"
[task]
type = "stories"
[rollout]
prompts_per_step = 8
samples_per_prompt = 4
max_response = 64
engine = {{type = "vllm", eager = true}}
[optim]
lr = 1e-4
[budget]
steps = 2
[eval.test]
limit = 16
max_response = 64
[arm.grpo]
base = "verl_05_grpo"
entropy = 0.05
"""


@pytest.fixture(scope="module")
def model(smollm2: Path) -> LoadedModel:
    return load_model(ModelSpec(path=str(smollm2)))


@pytest.fixture(scope="module")
def prompts(model: LoadedModel) -> list[Prompt]:
    task = Stories()
    asked = [(p.id, task.messages(p)) for p in task.problems("test")[:20]]
    return make_prompts(model.tokenizer, asked, 512, "error")


def differences(left: Any, right: Any, model: LoadedModel) -> list[float]:
    """Return, for every row that differs, the gap between the two likeliest tokens where it first does."""
    gaps = []
    for row in range(left.rows):
        a, b = (x.tokens[row, : x.length[row]].tolist() for x in (left, right))
        if a != b:
            first = next(i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
            with torch.no_grad():
                top = model.model(input_ids=torch.tensor([a[:first]])).logits[0, -1].topk(2).values
            gaps.append(float(top[0] - top[1]))
    return gaps


def test_greedy_tokens_and_log_probs_follow_the_weights(model: LoadedModel, prompts: list[Prompt]) -> None:
    local, other = LocalSampler(model), VllmSampler(model, VllmEngine(eager=True), length=512)
    for version in (0, 1):
        if version:
            with torch.no_grad():
                for parameter in model.model.parameters():
                    parameter.mul_(1 + 0.02 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
        for sampler in (local, other):
            sampler.load(None, version)
        ours, theirs = (sampler.sample(prompts, GREEDY, Key(0, "eval")) for sampler in (local, other))
        gaps = differences(ours, theirs, model)
        assert all(gap < NEAR_TIE for gap in gaps), gaps
        print(f"version {version}: {len(gaps)} of {ours.rows} rows differ, gaps {gaps}")


def test_a_run_with_its_rollouts(smollm2: Path, tmp_path: Path) -> None:
    """The entropy bonus moves the weights whatever the rewards are: the second rollout has to be of the new ones."""
    file = tmp_path / "vllm.toml"
    file.write_text(EXPERIMENT.format(model=smollm2), encoding="utf-8")
    paths = run_experiment(load_experiment(file), tmp_path / "runs")
    rows = [json.loads(line) for line in (paths.run("grpo", 0).steps).read_text(encoding="utf-8").splitlines()]
    gaps = [row["stats"]["sampler_gap"]["sum"] / row["stats"]["sampler_gap"]["count"] for row in rows]
    print(f"mean gap of log-probs by step: {gaps}")
    assert len(gaps) == 2 and max(gaps) < 1e-3
    assert rows[0]["stats"]["grad_norm"]["sum"] > 0
