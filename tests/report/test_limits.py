"""What is written by rule: limits, protocol, what failed, where it came from and how to do it again."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from paribus.report.limits import limits
from paribus.report.protocol import protocol
from paribus.report.provenance import failures, provenance
from paribus.report.reproduction import experiment_file, reproduction
from paribus.report.results import primary
from paribus.report.verdict import judge
from paribus.store import StoredExperiment, read_experiment
from reading import prose, rows, said, tables

THREE = {
    "ppo": {0: "11110000", 1: "11100000", 2: "11111000"},
    "grpo": {0: "11110100", 1: "11000000", 2: "11101100"},
}


def so(exp: StoredExperiment) -> dict[str, str]:
    s = primary(exp)
    return dict(rows(tables(limits(exp, s, judge(exp.info, s)))["limits"]))


def test_limits_say_what_is_so_and_what_follows(write: Any) -> None:
    told = so(read_experiment(write(THREE)))
    assert told["3 seeds an arm at least"].startswith("the spread between runs is itself estimated")
    assert told["no margin was declared before the runs"] == "equivalence cannot be claimed"
    assert {
        "one starting model",
        "one training task",
        "one evaluation suite, test",
        "a verdict is inconclusive",
    } <= told.keys()
    assert not any(
        word in text for text in told for word in ("cut at the limit", "above 95", "resumed", "did not finish")
    )


def test_limits_follow_the_runs(write: Any) -> None:
    """ppo has every problem right and grpo none, two of eight of grpo's cut; one grpo run is missing, one resumed."""
    runs = {"ppo": {0: "11111111", 1: "11111111"}, "grpo": {0: "tt000000"}}
    setting = {"rollout": {"max_response": 256}, "eval": {"test": {"max_response": 512}}}
    exp = read_experiment(write(runs, "0000000x", seeds=[0, 1], margin=2.0, resolved={"setting": setting}))
    run = exp.runs["ppo"][0]
    data = json.loads(run.paths.run.read_bytes())
    data["attempts"].append(data["attempts"][0] | {"number": 2, "code": "other"})
    run.paths.run.write_text(json.dumps(data))
    told = so(read_experiment(exp.paths.root))
    assert told["ppo above 95 %"].startswith("ceiling") and told["grpo below 5 %"].startswith("floor")
    assert "up to 25.0 % of the responses were cut at the limit (grpo)" in told
    assert told["trained under a limit of 256 tokens, judged under 512"].startswith("training rewards brevity")
    assert told["planned runs that did not finish: grpo/seed-1"].endswith("that of the survivors")
    assert told["an arm has 1 finished run"].startswith("nothing is said of that algorithm")
    assert told["1 run resumed after a stop"].endswith("so not bit-exact")
    assert told["1 problem not counted"] == "scores are of the others"
    assert "no margin was declared before the runs" not in told


def test_missing_and_failed_runs_are_named_and_left_out(write: Any) -> None:
    exp = read_experiment(write({"ppo": THREE["ppo"], "grpo": {0: "11110100", 2: "11101100"}}, failing=[("grpo", 2)]))
    found = failures(exp, primary(exp))
    assert rows(tables(found)["failures"]) == [
        ["grpo", "1", "not begun", ""],
        ["grpo", "2", "failed", "after step 4; ValueError: loss is <b>not</b> finite"],
    ]


def test_problems_left_out_are_named(write: Any) -> None:
    exp = read_experiment(write({"ppo": {0: "1111000x"}, "grpo": {0: "11100110"}}, seeds=[0]))
    (text,) = prose(failures(exp, primary(exp)), "warning")
    assert text.startswith("1 problem could not be graded for at least one model: test-7. Left out of")


def test_the_protocol_of_a_suite(write: Any) -> None:
    setting = {
        "rollout": {"prompts_per_step": 4, "samples_per_prompt": 4, "temperature": 1.0},
        "optim": {"lr": 3e-5},
        "budget": {"steps": 4, "samples": None},
        "task": {"type": "stories", "prompt": "{question} Think."},
        "eval": {
            "test": {
                "samples": 4,
                "temperature": 0.6,
                "top_p": 0.95,
                "max_response": 512,
                "short": 256,
                "shots": 2,
                "every": 5,
            }
        },
    }
    found = tables(protocol(read_experiment(write(THREE, resolved={"setting": setting}, margin=1.5))))
    told = dict(rows(found["protocol"]))
    assert told["decoding"] == "sampled, temperature 0.6, top-p 0.95" and told["longest response, tokens"] == "512"
    assert told["second, shorter limit, tokens"] == "256" and told["worked examples in the prompt"] == "2"
    assert told["template of the prompt"] == "{question} Think." and told["evaluated"] == "every 5 steps"
    assert told["grader"] == "answer (boxed), version 3f2a" and told["status"] == "primary"
    training = dict(rows(found["training"]))
    assert training["budget of a run"] == "4 steps" and training["learning rate"] == "3e-05"
    assert training["margin of equivalence, declared before the runs"] == "1.5 points"


def test_old_runs_without_the_fields_have_a_protocol(write: Any) -> None:
    told = dict(rows(tables(protocol(read_experiment(write(THREE))))["protocol"]))
    assert told["decoding"] == "–" and told["prompts, hash"] == "–" and told["problems"].startswith("stories, test: 8")


def test_provenance_names_every_run(write: Any) -> None:
    found = tables(provenance(read_experiment(write(THREE))))
    assert [row[0] for row in rows(found["runs"])] == ["base", *(f"{a}/seed-{k}" for a in THREE for k in (0, 1, 2))]
    assert dict(rows(found["facts"]))["grader"] == "answer, policy boxed, version 3f2a"


def test_the_written_file_resolves_to_the_same_experiment(write: Any) -> None:
    """The round trip: resolve, store, write out, resolve again."""
    from paribus.experiment import resolve
    from paribus.part import dump, read_toml

    tables_of = {
        "name": "toy",
        "question": "Does a learned critic help?",
        "primary": "test:accuracy",
        "seeds": [0, 1],
        "differs": ["advantage", "whiten", "critic"],
        "task": {"type": "stories"},
        "rollout": {"prompts_per_step": 4, "samples_per_prompt": 4, "max_response": 32},
        "optim": {"lr": 1e-4},
        "budget": {"steps": 2},
        "eval": {"test": {"max_response": 32}},
        "arm": {"ppo": {"base": "verl_05_ppo", "critic": {"lr": 3e-4}}, "grpo": {"base": "verl_05_grpo"}},
    }
    first = resolve(tables_of)
    exp = read_experiment(write(THREE, resolved=dump(first)))
    (file,) = [b.text for b in reproduction(exp) if b.kind == "code" and "[rollout]" in b.text]
    path = exp.paths.root / "again.toml"
    path.write_text(file)
    again = resolve(read_toml(path))
    assert again.setting == first.setting and again.seeds == first.seeds
    assert {n: a.algorithm for n, a in again.arms.items()} == {n: a.algorithm for n, a in first.arms.items()}
    assert tomllib.loads(file)["arm"]["ppo"]["critic"]["lr"] == 3e-4
    assert experiment_file({"arms": {}})["arm"] == {}


def test_the_commands_name_versions(write: Any) -> None:
    blocks = reproduction(read_experiment(write(THREE)))
    commands = next(b.text for b in blocks if b.kind == "code").splitlines()
    assert commands[-2:] == ["paribus run toy.toml", "paribus report runs/toy"]
    assert said(row[0] for row in tables(blocks)["identities"].rows)[:2] == [
        "configuration of ppo, hash", "configuration of grpo, hash",
    ]  # fmt: skip
