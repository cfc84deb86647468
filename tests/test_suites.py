"""Suites: what a file may say, what is refused, and that configurations from before a key stay what they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paribus.errors import ConfigError
from paribus.part import dump, load
from paribus.settings import MachineSpec
from paribus.suites import LATER, EvalSpec, Suites, load_suites
from paribus.tasks import Answer, Stories, Svamp

FILE = """
[task]
type = "stories"
[eval.own]
max_response = 96
short = 48
shots = 2
[eval.other]
max_response = 64
samples = 4
temperature = 0.7
task = {type = "jsonl", path = "aime.jsonl", prompt = "{question} Use \\\\boxed{}.", grader = {type = "math"}}
examples = [{question = "1 + 1?", answer = "\\\\boxed{2}"}]
references = []
"""
# as an experiment stored it before suites had data, shots and limits of their own
STORED = (
    '{"split":"test","limit":null,"samples":1,"temperature":0.0,"top_p":1.0,"max_response":96,"every":null,"kl":false}'
)


def write(folder: Path, text: str) -> Path:
    path = folder / "suites.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_of_suites_needs_no_experiment(tmp_path: Path) -> None:
    asked = load_suites(write(tmp_path, FILE), ["model.path=some/folder", "seed=3"])
    assert (asked.model.path, asked.seed, asked.machine) == ("some/folder", 3, MachineSpec())
    assert asked.task_of("own") == Stories() and asked.task_of("other").grader.name == "math/math-verify"
    assert asked.eval["other"].reference_graders(Stories()) == ()
    assert asked.eval["other"].metrics == ["accuracy", "pass@1", "pass@2", "pass@4", "maj@1", "maj@2", "maj@4"]
    assert load(Suites, dump(asked)) == asked


FAULTS = {
    "greedy copies": ("temperature = 0.7", "", "eval.other: samples = 4 of greedy decoding are 4 copies"),
    "short is long": ("short = 48", "short = 96", "eval.own: short = 96 must be below max_response = 96"),
    "shots of the test": ("shots = 2", 'shots = 2\nshots_split = "test"', "'test' is the evaluated split"),
    "train on train": ("shots = 2", 'shots = 2\nsplit = "train"', "'train' is the evaluated split"),
    "two kinds of shots": ("examples", "shots = 1\nexamples", "either 'shots' or 'examples'"),
    "a grader twice": ("references = []", 'references = [{type = "math"}, {type = "math"}]', "each grader once"),
    "no data": ('[task]\ntype = "stories"', "", "eval.own names no data"),
    "kl": ("short = 48", "kl = true", "eval.own.kl = true needs"),
    "misspelt": ("short = 48", "shortt = 48", "unknown key 'eval.own.shortt'; did you mean 'short'?"),
    "misspelt inside": ('path = "aime', 'paht = "aime', "unknown key 'eval.other.task.paht'; did you mean 'path'?"),
    "no suites": ("[eval.own]\nmax_response = 96\nshort = 48\nshots = 2", "[evl.own]", "did you mean 'eval'?"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_named_with_file_key_and_fix(fault: str, tmp_path: Path) -> None:
    old, new, message = FAULTS[fault]
    assert old in FILE
    path = write(tmp_path, FILE.replace(old, new, 1))
    with pytest.raises(ConfigError) as caught:
        load_suites(path)
    assert str(path) in str(caught.value) and message in str(caught.value)


def test_later_keys_are_stored_only_where_they_are_used() -> None:
    """Or every run from before them would be one of another configuration, by its hash."""
    before = json.loads(STORED)
    assert dump(load(EvalSpec, before)) == before and not set(LATER) & set(before)
    used = EvalSpec(
        max_response=96, task=Svamp(path="x"), shots=1, shots_split="validation", short=9, references=(Answer(),)
    )
    assert set(dump(used)) - set(before) == set(LATER) - {"examples"}
    assert load(EvalSpec, dump(used)) == used
    assert dump(EvalSpec(max_response=96, references=()))["references"] == []


def test_the_shipped_file_of_suites() -> None:
    asked = load_suites(Path(__file__).resolve().parents[1] / "experiments" / "suites-tiny.toml")
    assert list(asked.eval) == ["test", "shown", "sampled"] and asked.model.path == "tiny"
