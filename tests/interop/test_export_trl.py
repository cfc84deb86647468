"""`paribus export trl`: one script whose values are the arm's, and what is refused by name."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from exports import experiment, one_arm, write_data
from paribus.errors import ConfigError
from paribus.interop.export import export_arms


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_data(tmp_path / "data")


def config(script: Path) -> dict[str, Any]:
    """Return the keyword arguments of CONFIG in train.py."""
    for node in ast.parse(script.read_text(), feature_version=(3, 10)).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "CONFIG":
            assert isinstance(node.value, ast.Call)
            return {str(k.arg): ast.literal_eval(k.value) for k in node.value.keywords}
    raise AssertionError("no CONFIG")


def test_grpo_as_trl_runs_it_keeps_its_factors(data: Path, tmp_path: Path) -> None:
    exp = one_arm(data, "trl_grpo")
    setting = experiment(data, optim={"lr": 1e-6, "minibatch_prompts": 2}).setting
    exp = exp.model_copy(update={"setting": setting})
    (folder,) = export_arms(exp, "trl", tmp_path / "out", micro_batch=4, allow_approximate=True)
    values = config(folder / "train.py")
    assert values["loss_type"] == "dapo" and values["scale_rewards"] == "group"
    assert (values["epsilon"], values["epsilon_high"], values["delta"]) == (0.2, 0.2, None)
    assert values["beta"] == 0.0 and values["vllm_importance_sampling_correction"] is False
    # 16 rows a step in micro-batches of 4, an update every 8 rows, twice a step, for 6 steps
    assert (values["steps_per_generation"], values["gradient_accumulation_steps"], values["max_steps"]) == (4, 2, 12)
    assert (values["max_completion_length"], values["lr_scheduler_type"]) == (20, "constant")
    text = (folder / "train.py").read_text()
    assert "GRPOTrainer" in text and "scorer.reward" in text


def test_rloo_has_its_own_trainer(data: Path, tmp_path: Path) -> None:
    (folder,) = export_arms(one_arm(data, "trl_rloo"), "trl", tmp_path / "out", micro_batch=4, allow_approximate=True)
    values = config(folder / "train.py")
    assert values["beta"] == 0.05 and values["normalize_advantages"] is False and "loss_type" not in values
    assert "from trl import RLOOTrainer, RLOOConfig" in (folder / "train.py").read_text()


def test_the_ratio_on_the_kl_is_switched_off_where_the_method_has_none(data: Path, tmp_path: Path) -> None:
    """TRL 1.16 multiplies its KL by the ratio unless it is told not to."""
    exp = one_arm(data, "grpo", advantage={"eps": 1e-4})
    (folder,) = export_arms(exp, "trl", tmp_path / "out", micro_batch=4, allow_approximate=True)
    values = config(folder / "train.py")
    assert (values["beta"], values["use_bias_correction_kl"], values["loss_type"]) == (0.04, False, "grpo")
    entries = json.loads((folder / "mapping.json").read_text())
    assert not [e for e in entries if e["factor"] == "algorithm.kl" and e["status"] != "exact"]


@pytest.mark.parametrize(
    ("base", "reason"),
    [
        ("ppo", "PPO left it with 1.13"),
        ("dapo", "TRL leaves uniform groups in"),
        ("dppo_tv", "has no divergence_mask"),
        ("dpo", "rows of type own_pairs are not exported"),
        ("simpo", "TRL's DPOTrainer has no simpo"),
        ("ipo", "TRL's DPOTrainer has no ipo of these fields"),
        ("reinforce_pp", "TRL has no return_to_go"),
    ],
)
def test_what_trl_has_not_is_refused_by_name(data: Path, tmp_path: Path, base: str, reason: str) -> None:
    with pytest.raises(ConfigError) as error:
        export_arms(one_arm(data, base), "trl", tmp_path / "out", micro_batch=4, allow_approximate=True)
    assert reason in str(error.value)


@pytest.mark.parametrize(
    ("objective", "loss", "smoothing"),
    [
        ({"type": "dpo", "beta": 0.2}, "sigmoid", 0.0),
        ({"type": "dpo", "beta": 0.2, "robust": True, "label_smoothing": 0.1}, "robust", 0.1),
        ({"type": "ipo", "beta": 0.2, "over": "mean"}, "ipo", None),
        ({"type": "hinge", "beta": 0.2}, "hinge", None),
    ],
)
def test_pairs_of_a_file_go_to_the_dpo_trainer(
    data: Path, tmp_path: Path, objective: dict[str, Any], loss: str, smoothing: float | None
) -> None:
    rows = [{"prompt": f"What is {i}?", "chosen": f" {i}", "rejected": " none"} for i in range(8)]
    (data / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    exp = one_arm(data, "dpo", source={"type": "pair_file", "path": str(data / "pairs.jsonl")}, objective=objective)
    with pytest.raises(ConfigError, match=r"setting.rollout.max_response .* TRL cuts prompt and answer together"):
        export_arms(exp, "trl", tmp_path / "out", micro_batch=2)
    (folder,) = export_arms(exp, "trl", tmp_path / "out", micro_batch=2, allow_approximate=True)
    values = config(folder / "train.py")
    assert (values["loss_type"], values["beta"], values.get("label_smoothing")) == ([loss], 0.2, smoothing)
    # 4 pairs an update, one update a step, for 6 steps; nothing is sampled
    assert (values["gradient_accumulation_steps"], values["max_steps"]) == (2, 6)
    assert "use_vllm" not in values and "DPOTrainer" in (folder / "train.py").read_text()
    assert parquet.read_table(folder / "data" / "train.parquet").to_pylist() == rows


def test_rows_that_do_not_divide_are_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"16 rows a step, 16 an update: --gpus 1 times --micro-batch 5"):
        export_arms(one_arm(data, "trl_grpo"), "trl", tmp_path / "out", micro_batch=5, allow_approximate=True)


def test_only_the_known_release(data: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"knows TRL 1\.16\.0 only"):
        export_arms(one_arm(data, "trl_grpo"), "trl", tmp_path / "out", "1.12.0")
