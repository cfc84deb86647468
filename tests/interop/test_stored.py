"""Runs, arms, the base and folders of `paribus eval` are read as they were stored, finished ones only."""

from __future__ import annotations

from pathlib import Path

import pytest

from paribus.errors import DataError
from paribus.interop import Choice, Outcomes, join, read
from paribus.store import EvalInfo, EvalPaths, SuiteInfo
from paribus.store.files import write_json, write_rows
from paribus.store.schema import DataInfo
from storedruns import eval_rows, write_experiment_of

PATTERNS = {"ppo": {0: "1100", 1: "1110"}, "grpo": {0: "1000", 1: "1111"}}


def outcomes(source: Path, **choice: str) -> Outcomes:
    found = read(str(source), Choice(**choice))
    assert isinstance(found, Outcomes)
    return found


def test_an_arm_a_run_and_the_base(tmp_path: Path) -> None:
    root = write_experiment_of(tmp_path / "toy", PATTERNS, base="1000", unfinished={("grpo", 1)})
    arm = outcomes(root / "ppo")
    assert arm.name == "ppo" and join([arm]).tables["ppo"].mean(1).tolist() == [0.5, 0.75]
    assert arm.judged == "grader 3f2a" and arm.source == "Paribus rows, test"
    one = outcomes(root / "ppo" / "seed-1")
    assert one.name == "ppo/seed-1" and [run.seed for run in one.runs] == [1]
    assert outcomes(root / "_base").name == "base"
    half = outcomes(root / "grpo")
    assert [run.seed for run in half.runs] == [0] and "seed 1 failed" in half.notes[0]
    odd = tmp_path / "my results"
    odd.mkdir()
    with pytest.raises(DataError, match=r"my results: neither a run, an arm nor .*: it is empty"):
        read(str(odd))
    with pytest.raises(DataError, match=r"give one of the things in it: _base, experiment.json, grpo, ppo"):
        read(str(root))
    with pytest.raises(DataError, match="no evaluation suite 'tset'; did you mean 'test'"):
        outcomes(root / "ppo", suite="tset")


def test_several_suites_are_a_choice_unless_one_was_declared(tmp_path: Path) -> None:
    root = write_experiment_of(tmp_path / "toy", PATTERNS, base="1000", suites=("test", "hard"))
    assert outcomes(root / "ppo").source == "Paribus rows, test"  # the primary one
    assert outcomes(root / "ppo", suite="hard").source == "Paribus rows, hard"
    (root / "experiment.json").unlink()
    with pytest.raises(DataError, match=r"holds 2 evaluation suites \(hard, test\): choose one with --suite"):
        outcomes(root / "ppo")


def test_a_folder_of_paribus_eval_and_a_bare_file_of_rows(tmp_path: Path) -> None:
    paths = EvalPaths(tmp_path / "mine")
    data = DataInfo(name="stories", split="test", n=4, hash="bb")
    info = EvalInfo(
        model={"path": "m"}, weights="w", seed=0, device="cpu", threads=1, code="c", packages={},
        suites={"test": SuiteInfo(spec={}, data=data)},
    )  # fmt: skip
    write_rows(paths.rows("test"), eval_rows("1010"))
    write_json(paths.info, info)
    found = outcomes(tmp_path / "mine")
    assert found.name == "mine" and join([found]).tables["mine"].mean() == 0.5
    bare = outcomes(paths.rows("test"))
    assert bare.name == "test" and join([found, bare]).tables["mine"].tolist() == [[1, 0, 1, 0]]
