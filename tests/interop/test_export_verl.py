"""`paribus export verl`: what is written for each release, and what is refused by name."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from pyarrow import parquet

from exports import QUESTIONS, experiment, one_arm, overrides, write_data
from paribus.errors import ConfigError
from paribus.interop.export import export_arms
from paribus.interop.export.mapping import Book
from paribus.interop.export.verl_versions import TARGETS
from paribus.store.provenance import file_sha256

ACTOR = "actor_rollout_ref.actor."


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_data(tmp_path / "data")


@pytest.mark.parametrize("version", TARGETS)
def test_the_founding_methods_are_written_for_every_release(data: Path, tmp_path: Path, version: str) -> None:
    """An update of one micro-batch on one GPU has the same means everywhere, so nothing has to be approximated."""
    ppo, grpo = export_arms(experiment(data), "verl", tmp_path / "out", version, micro_batch=16)
    one, other = overrides(ppo / "train.overrides"), overrides(grpo / "train.overrides")
    differing = {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)}
    assert one["algorithm.adv_estimator"] == "gae" and other["algorithm.adv_estimator"] == "grpo"
    assert one["critic.loss_agg_mode"] == "token-mean" and "critic.optim.lr" not in other
    shared = {"algorithm.adv_estimator", "algorithm.gamma", "algorithm.lam", "algorithm.norm_adv_by_std_in_grpo"}
    assert {key for key in differing if not key.startswith(("critic.", "trainer."))} == shared
    for lines in (one, other):
        assert [lines[f"{ACTOR}clip_ratio{end}"] for end in ("_low", "_high", "_c")] == ["0.2", "0.2", "3"]
        assert lines["trainer.total_training_steps"] == "6" and lines["data.seed"] == "$SEED"


@pytest.mark.parametrize(
    ("version", "key"),
    [("0.5.0", "custom_reward_function"), ("0.7.1", "reward.custom_reward_function"),
     ("0.8.0", "reward.custom_reward_function"), ("0.9.1", "reward.custom_reward_function")],
)  # fmt: skip
def test_the_scorer_stands_where_the_release_reads_it(data: Path, tmp_path: Path, version: str, key: str) -> None:
    """verl 0.9.1 takes `custom_reward_function.path`, ignores it and trains with its own scorer."""
    (folder,) = export_arms(experiment(data), "verl", tmp_path / "out", version, arms=["grpo"], micro_batch=16)
    lines = overrides(folder / "train.overrides")
    assert lines[f"{key}.path"] == "'$HERE/scorer.py'"
    assert [name for name in lines if name.endswith("custom_reward_function.path")] == [f"{key}.path"]


def test_evaluation_is_a_run_of_its_own_with_its_own_limit(data: Path, tmp_path: Path) -> None:
    exp = experiment(data, eval={"test": {"max_response": 40}, "many": {"max_response": 30, "samples": 4,
                                                                        "temperature": 0.6, "top_p": 0.9}})  # fmt: skip
    (folder,) = export_arms(exp, "verl", tmp_path / "out", arms=["grpo"], micro_batch=16)
    train, greedy, many = (overrides(folder / f"{name}.overrides") for name in ("train", "test", "many"))
    kwargs = "actor_rollout_ref.rollout.val_kwargs."
    assert (train["data.max_response_length"], greedy["data.max_response_length"]) == ("20", "40")
    assert greedy["trainer.val_only"] == "True" and train["trainer.test_freq"] == "-1"
    assert [greedy[kwargs + key] for key in ("do_sample", "temperature", "n")] == ["False", "0.0", "1"]
    assert [many[kwargs + key] for key in ("do_sample", "temperature", "top_p", "n")] == ["True", "0.6", "0.9", "4"]
    assert greedy["data.filter_overlong_prompts"] == "False"  # no problem of a test is dropped
    changed = {key for key in train if key not in greedy or train[key] != greedy[key]}
    assert not any(key.startswith(("algorithm.", ACTOR, "critic.", "reward.")) for key in changed)


def test_parquet_holds_the_messages_of_our_own_prompts(data: Path, tmp_path: Path) -> None:
    exp = experiment(data)
    (folder,) = export_arms(exp, "verl", tmp_path / "out", arms=["grpo"], micro_batch=16)
    for split in ("train", "test"):
        rows = parquet.read_table(folder / "data" / f"{split}.parquet").to_pylist()
        problems = exp.setting.task.problems(split)
        assert [row["extra_info"]["problem_id"] for row in rows] == [p.id for p in problems] and len(rows) == QUESTIONS
        assert [row["prompt"] for row in rows] == [exp.setting.task.messages(p) for p in problems]
        assert [row["reward_model"] for row in rows] == [{"style": "rule", "ground_truth": p.gold} for p in problems]
        assert {row["data_source"] for row in rows} == {split}


def test_the_manifest_hashes_every_file_and_the_report_covers_every_factor(data: Path, tmp_path: Path) -> None:
    (folder,) = export_arms(experiment(data), "verl", tmp_path / "out", arms=["ppo"], micro_batch=16)
    manifest = json.loads((folder / "manifest.json").read_text())
    written = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()} - {"manifest.json"}
    assert manifest["files"] == {name: file_sha256(folder / name) for name in written}
    again = export_arms(experiment(data), "verl", tmp_path / "again", arms=["ppo"], micro_batch=16)[0]
    assert json.loads((again / "manifest.json").read_text())["files"] == manifest["files"]
    entries = json.loads((folder / "mapping.json").read_text())
    assert {e["status"] for e in entries} == {"exact", "default", "random"}
    told = {line for e in entries for line in e["lines"]}
    assert {line for line in (folder / "train.overrides").read_text().splitlines()} - told == {
        "trainer.project_name='sums'", "trainer.experiment_name='ppo-seed-$SEED'"}  # fmt: skip


def test_a_factor_without_a_rule_is_refused() -> None:
    book = Book({"algorithm.new_slot": 3})
    book.close()
    with pytest.raises(ConfigError, match=r"algorithm.new_slot = 3: the exporter has no rule for it"):
        book.check("x", "verl", allow_approximate=True)


@pytest.mark.parametrize(
    ("version", "base", "reason"),
    [
        ("0.9.1", "cppo", "has no loss for it: prefix_budget"),
        ("0.5.0", "verl_gspo", "verl 0.5.0 has no loss_mode gspo"),
        ("0.8.0", "verl_gspo", "gspo of verl 0.8.0 averages over a row's tokens"),
        ("0.5.0", "verl_dr_grpo", "verl 0.5.0 adds the rows of a micro-batch up"),
        ("0.9.1", "bnpo", "no estimator of verl 0.9.1 computes bnpo"),
        ("0.9.1", "vc_ppo", "verl has one lambda for actor and critic"),
        ("0.8.0", "dapo", "verl 0.8.0 does not leave uniform groups out (refill)"),
        ("0.9.1", "ngrpo", "algorithm.explore"),
        ("0.9.1", "reinforce_batch", "no estimator of verl 0.9.1 computes batch_baseline"),
        ("0.9.1", "dpo", "verl has no such trainer: export to trl"),
    ],
)
def test_what_a_release_has_not_is_refused_by_name(
    data: Path, tmp_path: Path, version: str, base: str, reason: str
) -> None:
    with pytest.raises(ConfigError) as error:
        export_arms(one_arm(data, base), "verl", tmp_path / "out", version, micro_batch=16, allow_approximate=True)
    assert reason in str(error.value)
    assert not (tmp_path / "out").exists()


def test_an_approximation_needs_to_be_allowed_and_is_told(data: Path, tmp_path: Path) -> None:
    """verl 0.5.0 averages token means of micro-batches: exact only where an update is one micro-batch."""
    exp = experiment(data)
    with pytest.raises(ConfigError, match=r"algorithm.aggregate .* --micro-batch 16 on one GPU") as error:
        export_arms(exp, "verl", tmp_path / "out", "0.5.0", arms=["grpo"], micro_batch=8)
    assert "--allow-approx" in str(error.value)
    (folder,) = export_arms(
        exp, "verl", tmp_path / "out", "0.5.0", arms=["grpo"], micro_batch=8, allow_approximate=True
    )
    entries = json.loads((folder / "mapping.json").read_text())
    assert [e["factor"] for e in entries if e["status"] == "approximate"] == ["algorithm.aggregate"]
    assert "| approximate |" in (folder / "mapping.md").read_text()


def test_the_critic_of_0_8_0_adds_micro_batches_up(data: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"verl 0\.8\.0 adds the micro-batches' token means of it up"):
        export_arms(experiment(data), "verl", tmp_path / "out", "0.8.0", arms=["ppo"], micro_batch=8)
    assert export_arms(experiment(data), "verl", tmp_path / "out", "0.9.1", arms=["ppo"], micro_batch=8)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"reward": {"type": "sentiment"}}, "a reward of type 'sentiment' is not exported"),
        ({"budget": {"tokens": 1000}}, "setting.budget.tokens"),
        ({"model": {"path": "tiny"}}, "setting.model.path = tiny"),
        ({"optim": {"lr": 1e-6, "schedule": "linear"}}, "verl has the schedules constant and cosine"),
        ({"optim": {"lr": 1e-6, "eps": 1e-6}}, "verl leaves AdamW's eps at 1e-8"),
        ({"optim": {"lr": 1e-6, "warmup_steps": 2}}, "verl's first step has the learning rate 0"),
        ({"eval": {"test": {"max_response": 40, "short": 20}}}, "give the suite twice"),
    ],
)
def test_settings_that_verl_has_not_are_refused_by_name(
    data: Path, tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    with pytest.raises(ConfigError) as error:
        export_arms(experiment(data, **changes), "verl", tmp_path / "out", arms=["grpo"], micro_batch=16)
    assert reason in str(error.value)


def test_whitening_cannot_be_switched_off_in_gae_nor_on_elsewhere(data: Path, tmp_path: Path) -> None:
    for base, whiten, reason in (
        ("verl_ppo", "none", "verl whitens these advantages"),
        ("verl_ppo", {"over": "sequences"}, "verl whitens these advantages"),
        ("verl_grpo", {"over": "tokens"}, "of gae and of reinforce_plus_plus"),
    ):
        with pytest.raises(ConfigError, match=rf"algorithm.whiten = .*{reason}"):
            export_arms(one_arm(data, base, whiten=whiten), "verl", tmp_path / "out", micro_batch=16)
    (folder,) = export_arms(one_arm(data, "openrlhf_group_norm"), "verl", tmp_path / "near", allow_approximate=True)
    entries = json.loads((folder / "mapping.json").read_text())
    assert {e["factor"] for e in entries if e["status"] == "approximate"} == {
        "algorithm.advantage", "algorithm.shaping.kl_in_reward"}  # fmt: skip


def test_an_unknown_release_or_arm_is_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--target 0\.9\.0.*did you mean '0\.9\.1'"):
        export_arms(experiment(data), "verl", tmp_path / "out", "0.9.0")
    with pytest.raises(ConfigError, match=r"no arm 'gpro'.*did you mean 'grpo'"):
        export_arms(experiment(data), "verl", tmp_path / "out", arms=["gpro"])
    (tmp_path / "out" / "ppo").mkdir(parents=True)
    (tmp_path / "out" / "ppo" / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="holds something else than an export"):
        export_arms(experiment(data), "verl", tmp_path / "out", micro_batch=16)


def test_shaping_goes_into_the_scorer_and_the_reward_manager(data: Path, tmp_path: Path) -> None:
    exp = one_arm(data, "dapo_no_resampling", keep={"type": "all"})
    (folder,) = export_arms(exp, "verl", tmp_path / "out", micro_batch=16)
    lines = overrides(folder / "train.overrides")
    assert lines["reward.reward_manager.name"] == "dapo"
    assert lines["reward.reward_kwargs.overlong_buffer_cfg.len"] == "4"  # a fifth of 20 tokens
    assert (lines[f"{ACTOR}clip_ratio_high"], lines[f"{ACTOR}clip_ratio_c"]) == ("0.28", "1000000000")
    assert overrides(folder / "test.overrides")["reward.reward_manager.name"] == "naive"
    assert "OUTCOMES = {'train': (-1.0, 1.0, None, None)}" in (folder / "scorer.py").read_text()


@pytest.mark.parametrize(("warmup", "written"), [(0, "0"), (3, "4")])
def test_the_critic_trains_alone_for_as_many_steps(data: Path, tmp_path: Path, warmup: int, written: str) -> None:
    """verl updates the actor where `critic_warmup <= step`, with steps counted from 1."""
    exp = one_arm(data, "verl_05_ppo", critic={"warmup": warmup})
    (folder,) = export_arms(exp, "verl", tmp_path / "out", micro_batch=16)
    assert overrides(folder / "train.overrides")["trainer.critic_warmup"] == written


def test_the_scripts_hand_verl_the_lines_with_their_places_filled_in(data: Path, tmp_path: Path) -> None:
    (folder,) = export_arms(experiment(data), "verl", tmp_path / "a folder", arms=["grpo"], micro_batch=16)
    fake = tmp_path / "bin" / "python3"
    fake.parent.mkdir()
    fake.write_text('#!/bin/bash\nprintf "%s\\n" "$@"\n')
    fake.chmod(0o755)

    def run(*arguments: str) -> list[str]:
        done = subprocess.run(
            arguments, capture_output=True, text=True, env={"PATH": f"{fake.parent}:/usr/bin:/bin"}, timeout=30
        )
        return [str(done.returncode), *done.stdout.splitlines(), *done.stderr.splitlines()]

    training = run(str(folder / "train.sh"), "7", "trainer.nnodes=2")
    assert training[:3] == ["0", "-m", "verl.trainer.main_ppo"] and training[-1] == "trainer.nnodes=2"
    assert f"data.train_files='{folder}/data/train.parquet'" in training and "data.seed=7" in training
    assert not any("$" in line for line in training)
    assert run(str(folder / "train.sh"))[0] != "0"
    (folder / "runs/seed-7/checkpoints/global_step_6").mkdir(parents=True)
    evaluation = run(str(folder / "eval.sh"), "7", "test", "6")
    assert f"trainer.resume_from_path='{folder}/runs/seed-7/checkpoints/global_step_6'" in evaluation
    assert f"trainer.validation_data_dir='{folder}/runs/seed-7/validation/test'" in evaluation
    assert run(str(folder / "eval.sh"), "7", "test", "5")[0] == "2"
    assert "trainer.resume_mode=disable" in run(str(folder / "eval.sh"), "7", "test", "0")
