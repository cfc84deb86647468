"""A learner's state: restored to the bit, damage named, a missing head and another format refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from learners import KEY, CriticPart, TokenMeanObjective, graded, make, moved, roll, weights
from paribus.engines.learner import TorchLearner
from paribus.engines.local import LocalSampler
from paribus.engines.protocols import SamplingPlan
from paribus.errors import CheckpointError, ConfigError
from paribus.settings import MachineSpec, OptimSpec, RolloutSpec
from paribus.types import Key
from toymodels import llama, loaded, prompts


@pytest.mark.parametrize("critic", [None, CriticPart(), CriticPart(shared=True)], ids=["none", "own", "shared"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_restore_is_bit_exact(critic: CriticPart | None, dtype: torch.dtype, tmp_path: Path) -> None:
    """Updates after a restore are those of the uninterrupted run, to the bit (d02, d03): no state lies elsewhere."""

    def step(learner: TorchLearner, k: int) -> None:
        batch, signal = graded(roll(learner.model, k), learner)
        learner.update(batch, signal, TokenMeanObjective(critic), Key(3, "shuffle", step=k))

    options: dict[str, Any] = {"epochs": 2, "minibatch_prompts": 2}
    straight = make(llama().to(dtype), critic, **options)
    for k in range(2):
        step(straight, k)
    straight.save(tmp_path)
    for k in range(2, 4):
        step(straight, k)
    torch.manual_seed(999)
    resumed = make(llama().to(dtype), critic, **options)
    resumed.restore(tmp_path)
    for k in range(2, 4):
        step(resumed, k)
    assert not any(moved(resumed, weights(straight)))
    assert {f.suffix for f in tmp_path.iterdir()} == {".safetensors", ".json"}


def test_a_shared_module_is_restored_in_place(tmp_path: Path) -> None:
    """The sampler decodes with the restored weights, since they are copied into the module it shares."""
    trained = make(llama(1))
    trained.save(tmp_path)
    model = llama(0)
    sampler = LocalSampler(loaded(model))
    make(model).restore(tmp_path)
    rollout = sampler.sample(prompts([4]), SamplingPlan(samples=2, max_tokens=8), Key(0, "sample"))
    assert (trained.logp(rollout) - rollout.sampled_logp).abs().max() < 1e-4


def test_damaged_checkpoints_are_named(tmp_path: Path) -> None:
    critic = CriticPart()
    learner = make(llama(), critic)
    batch, signal = graded(roll(learner.model), learner)
    learner.update(batch, signal, TokenMeanObjective(critic), KEY)
    learner.save(tmp_path)
    files = sorted(f.name for f in tmp_path.iterdir())
    assert len(files) == 5
    for name in files:
        file = tmp_path / name
        whole = file.read_bytes()
        for damaged in (whole[: len(whole) // 2], b""):
            file.write_bytes(damaged)
            with pytest.raises(CheckpointError, match=name):
                make(llama(), critic).restore(tmp_path)
        file.unlink()
        with pytest.raises(CheckpointError, match=name):
            make(llama(), critic).restore(tmp_path)
        file.write_bytes(whole)
    make(llama(), critic).restore(tmp_path)
    with pytest.raises(CheckpointError, match=r"policy.safetensors: 'model.embed_tokens.weight' is \(61, 32\)"):
        make(llama(hidden_size=16), critic).restore(tmp_path)
    with pytest.raises(CheckpointError, match=r"policy.safetensors: lacks 'model.layers.2"):
        make(llama(num_hidden_layers=3), critic).restore(tmp_path)


def test_a_missing_value_head_is_an_error(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    make(llama(), CriticPart()).save(tmp_path)
    tensors = load_file(tmp_path / "critic.safetensors")
    del tensors["head.weight"]
    save_file(tensors, tmp_path / "critic.safetensors")
    with pytest.raises(CheckpointError, match=r"critic.safetensors: lacks 'head.weight'"):
        make(llama(), CriticPart()).restore(tmp_path)


def test_another_format_is_refused(tmp_path: Path) -> None:
    learner = make(llama())
    learner.save(tmp_path)
    (tmp_path / "learner.json").write_text(json.dumps({"format": 99, "nonfinite_streak": 0}))
    with pytest.raises(CheckpointError, match="format 1"):
        learner.restore(tmp_path)


def test_a_schedule_needs_its_end() -> None:
    with pytest.raises(ConfigError, match=r"budget\.steps"):
        TorchLearner(
            loaded(llama()),
            optim=OptimSpec(lr=1e-3, schedule="linear"),
            rollout=RolloutSpec(prompts_per_step=1, samples_per_prompt=1, max_response=4),
            machine=MachineSpec(),
            key=Key(0, "critic"),
        )
