"""Answers of a file: each kind trains a run from end to end, and what cannot work is refused before it starts."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import fakehub
import toymodels
from paribus.algorithms import LabelFile, Offline, PairFile, find
from paribus.batch import Role
from paribus.errors import ConfigError, DataError
from paribus.models.pairs import read
from paribus.part import replace
from paribus.pipeline.given import GivenRows
from paribus.pipeline.worker import run_arm, run_base
from paribus.settings import RolloutSpec
from paribus.store import ExperimentPaths, HubInfo, RolloutRow
from paribus.store.files import read_rows
from paribus.store.reader import read_run_info
from pipeline_experiment import facts
from tinyruns import experiment, run, steps, write_materials

PAIRS = [{"prompt": f"say {w}.", "chosen": w, "rejected": w + w} for w in ("a", "bc", "def", "ghij", "klmno")]
LABELS = [{"prompt": f"say {w}.", "completion": w, "label": len(w) % 2 == 1} for w in ("a", "bc", "def", "ghij", "k")]
DEMONSTRATIONS = [{"messages": [{"role": "user", "content": w}, {"role": "assistant", "content": w}]} for w in "abcde"]
KINDS = {
    "dpo": ("pair_file", PAIRS, {"prompt": "say x.", "chosen": "", "rejected": "x"}),
    "kto": ("label_file", LABELS, {"prompt": "say x.", "completion": "", "label": True}),
    "sft": ("demonstration_file", DEMONSTRATIONS, {"prompt": "x", "completion": ""}),
}


@pytest.fixture(scope="module")
def materials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("given")
    write_materials(folder)
    return folder


def write(path: Path, rows: Sequence[Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def given_rows(source: Any, **limits: int) -> GivenRows:
    method = find("kto") if isinstance(source, LabelFile) else find("dpo")
    assert isinstance(method, Offline)
    spec = RolloutSpec(**({"prompts_per_step": 2, "samples_per_prompt": 1, "max_response": 8} | limits))
    return GivenRows.read(replace(method, source=source), toymodels.loaded(toymodels.llama()), spec)


@pytest.mark.parametrize("name", KINDS)
def test_a_file_trains_a_run(name: str, materials: Path, tmp_path: Path) -> None:
    kind, rows, empty = KINDS[name]
    path = write(tmp_path / "data.jsonl", [*rows, empty])
    tables = {"optim": {"epochs": 2, "minibatch_prompts": 1}, "eval": {"test": {"kl": True, "temperature": 1.0}}}
    exp = experiment(materials, {"arm": {"base": name, "source": {"type": kind, "path": path}}}, **tables)
    paths = run(exp, "arm", tmp_path / "a")
    stored = steps(paths)
    assert [row["stats"]["updates"]["sum"] for row in stored] == [4, 4]
    assert all(row["samples"] == row["tokens"] == 0 for row in stored)  # nothing is sampled, nothing is charged
    assert all(row["stats"]["rows"]["sum"] == 2 and row["stats"]["rows_dropped_in_file"]["sum"] == 1 for row in stored)
    start, end = (load_file(folder / "model.safetensors") for folder in (materials / "model", paths.final))
    assert any(not torch.equal(start[key], end[key]) for key in start)
    assert facts(run(exp, "arm", tmp_path / "b").root) == facts(paths.root)


def test_the_manifest_says_which_rows_a_run_was_trained_on(materials: Path, tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("prompt,chosen,rejected\n" + "".join(f"say {w}.,{w},{w}{w}\n" for w in "abcd"))
    said: list[str] = []
    arms = {"arm": {"base": "dpo", "source": {"type": "pair_file", "path": str(path)}}}
    run_arm(experiment(materials, arms), "arm", 0, tmp_path / "a", lambda kind, **f: said.append(f.get("text", "")))
    data = read_run_info(ExperimentPaths(tmp_path / "a").run("arm", 0)).data
    given = data["given"]
    assert (given.name, given.split, given.n, given.source, given.hub) == ("pair_file", "train", 4, str(path), None)
    assert given.hash == read(PairFile(path=str(path))).hash
    assert given.columns == {"prompt": "prompt", "chosen": "chosen", "rejected": "rejected"}
    assert data["train"].source == str(materials / "train.jsonl") and data["test"].columns["answer"] == "answer"
    assert [text for text in said if "pairs.csv" in text] == [
        f"arm/seed-0: {path}: preference pairs; prompt from 'prompt', chosen from 'chosen', rejected from 'rejected'"
    ]


def test_a_run_on_verl_rows_stores_what_it_asked_and_from_where(
    materials: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {
            "data_source": "sums",
            "prompt": [{"role": "system", "content": "hm."}, {"role": "user", "content": f"add {i}."}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": str(i)},
            "extra_info": {"index": i},
        }
        for i in range(3)
    ]
    fakehub.install(monkeypatch, {"team/sums": {"train": rows, "test": rows[:2]}})
    task = {"type": "jsonl", "path": "team/sums", "revision": fakehub.COMMIT}
    exp, said = experiment(materials, {"arm": {"base": "grpo"}}, task=task), list[str]()
    run_base(exp, tmp_path / "a", lambda kind, **fields: said.append(fields.get("text", "")))
    assert [text for text in said if text] == [
        f"team/sums (train), commit {fakehub.COMMIT}: verl's RLHF rows; question from 'prompt', answer from "
        "'reward_model.ground_truth'"
    ]
    paths = run(exp, "arm", tmp_path / "a")
    stored = read_run_info(paths).data["train"]
    assert stored.hub == HubInfo(id="team/sums", config="default", split="train", revision=fakehub.COMMIT)
    assert stored.columns == {"question": "prompt", "answer": "reward_model.ground_truth"}
    prompts = {row.prompt for row in read_rows(paths.rollouts(1), RolloutRow)}
    assert all(re.fullmatch(r"hm\.(<pad>){2}add \d\.", prompt) for prompt in prompts) and prompts


def test_an_epoch_takes_every_row_once_and_a_pair_is_a_unit(tmp_path: Path) -> None:
    rows = given_rows(PairFile(path=write(tmp_path / "pairs.jsonl", PAIRS[:4])))
    first, second = (rows.step(0, step, 2)[0] for step in (0, 1))
    assert sorted(first.rollout.problem_id + second.rollout.problem_id) == sorted(
        f"{rows.path}#{i}" for i in (0, 0, 1, 1, 2, 2, 3, 3)
    )
    assert first.role is not None and first.unit is not None
    assert first.role.tolist() == [Role.GOOD, Role.BAD] * 2 and torch.equal(first.unit, first.group)
    assert first.unit[0] == first.unit[1] != first.unit[2] == first.unit[3]
    lengths = [len(PAIRS[i][side]) + 1 for i in first.unit[::2].tolist() for side in ("chosen", "rejected")]
    assert first.rollout.response_length.tolist() == [min(n, 8) for n in lengths]  # the end marker, too; cut at 8


def test_rows_that_ask_the_same_are_not_mismatched_with_each_other(tmp_path: Path) -> None:
    """Label files repeat prompts: believed that another row is another prompt."""
    rows = [{"prompt": "same.", "completion": w, "label": True} for w in "abc"]
    rows.append({"prompt": "other.", "completion": "x", "label": False})
    made, _ = given_rows(LabelFile(path=write(tmp_path / "labels.jsonl", rows)), prompts_per_step=4).step(0, 0, 4)
    tokenizer = toymodels.tokenizer()
    said = [tokenizer.decode(row[:n]) for row, n in zip(made.rollout.tokens, made.rollout.length, strict=True)]
    assert made.role is not None and made.role[4:].tolist() == [Role.MISMATCHED] * 4
    assert set(said[4:]) <= {"same.x<eos>", "other.a<eos>", "other.b<eos>", "other.c<eos>"}
    assert said[4:].count("same.x<eos>") == 3


def test_too_few_rows_are_refused_by_the_name_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.jsonl", [*PAIRS, {"prompt": "p", "chosen": "", "rejected": "x"}])
    given_rows(PairFile(path=path), prompts_per_step=5)
    with pytest.raises(DataError, match=r"pairs\.jsonl: 5 rows can be used \(1 have no answer.*prompts_per_step = 6"):
        given_rows(PairFile(path=path), prompts_per_step=6)


def test_a_prompt_that_no_other_answer_fits_behind_is_refused(tmp_path: Path) -> None:
    """Every row fits the model by itself, and a mismatched one would not: a crash in the middle of the run."""
    rows = [
        {"prompt": "a" * 100, "completion": "b", "label": True},
        {"prompt": "a", "completion": "b" * 60, "label": True},
    ]
    path = write(tmp_path / "labels.jsonl", rows)
    with pytest.raises(DataError, match=r"labels\.jsonl.* 10[01] \+ 61 tokens.*128"):
        given_rows(LabelFile(path=path), max_response=64)
    given_rows(LabelFile(path=path), max_response=20)


@pytest.mark.parametrize("budget", ["samples", "tokens"])
def test_a_budget_that_a_file_never_uses_up_is_refused(budget: str, materials: Path, tmp_path: Path) -> None:
    arms = {"arm": {"base": "dpo", "source": {"type": "pair_file", "path": write(tmp_path / "pairs.jsonl", PAIRS)}}}
    with pytest.raises(ConfigError, match=r"samples nothing: give the budget in steps"):
        experiment(materials, arms, budget={"steps": None, budget: 100})
