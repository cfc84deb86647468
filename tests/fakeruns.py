"""Runs without a model: questions, a scripted sampler and the session around them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from paribus.algorithms import Algorithm, GroupMean, Offline, find
from paribus.engines.protocols import Sampler
from paribus.engines.scripted import ScriptedLearner, ScriptedSampler
from paribus.experiment import Setting
from paribus.part import load, replace
from paribus.pipeline.clock import Clock
from paribus.pipeline.questions import Questions
from paribus.pipeline.session import Session
from paribus.pipeline.sources import OnPolicy, OwnData
from paribus.pipeline.stop import StopRequest
from paribus.store import DataInfo, ExperimentPaths, GraderInfo, RunFacts, RunWriter
from paribus.tasks import Answer
from paribus.types import Problem, Prompt

EOS = 2
ALGORITHM = replace(find("dr_grpo"), advantage=GroupMean())


def problems(n: int) -> list[Problem]:
    return [Problem(id=f"p/{i}", question=f"What is {i}?", gold=str(i)) for i in range(n)]


def questions(n: int) -> Questions:
    asked = problems(n)
    return Questions(asked, [Prompt(problem_id=p.id, ids=(5, 6 + i % 3), text=p.question) for i, p in enumerate(asked)])


def sampler(n: int) -> ScriptedSampler:
    """Answers right, wrong, or without an end, by the row's key; greedily always right."""
    table = {
        p.id: [((7, EOS), f"#### {p.gold}"), ((8, EOS), "#### -1"), ((9, 9, 9, 9), "no answer")] for p in problems(n)
    }
    return ScriptedSampler(table, stop_ids=(EOS,))


def setting(**changes: Any) -> Setting:
    base = load(
        Setting,
        {
            "task": {"type": "stories"},
            "rollout": {"prompts_per_step": 3, "samples_per_prompt": 4, "max_response": 4},
            "optim": {"lr": 1e-3},
            "budget": {"steps": 5},
            "eval": {"test": {"max_response": 4}},
            "save": {"every": 2},
        },
    )
    return replace(base, **changes)


def session(
    folder: Path,
    spec: Setting,
    learner: ScriptedLearner | None = None,
    stop: StopRequest | None = None,
    *,
    algorithm: Algorithm = ALGORITHM,
    samples: Sampler | None = None,
    tokenizer: Any = None,
    asked: Questions | None = None,
) -> Session:
    grader = Answer()
    facts = RunFacts(
        config_hash="c",
        grader=GraderInfo(name="answer", policy=grader.policy, version=grader.version),
        data={"train": DataInfo(name="t", split="train", n=7, hash="h")},
        device="cpu",
        device_bytes=None,
        threads=1,
        determinism="bitwise",
    )
    paths = ExperimentPaths(folder).run("arm", 0)
    new = not paths.run.exists()
    return Session(
        paths=paths,
        writer=RunWriter.create(paths, facts, {}) if new else RunWriter.resume(paths, facts),
        setting=spec,
        algorithm=algorithm,
        source=OwnData(algorithm) if isinstance(algorithm, Offline) else OnPolicy(algorithm),
        train=asked or questions(7),
        suites={"test": questions(5)},
        sampler=samples or sampler(7),
        learner=learner or ScriptedLearner(),
        clock=Clock(),
        stop=stop or StopRequest(),
        report=lambda kind, **fields: None,
        tokenizer=tokenizer,
    )


def rows(run: Session) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run.paths.steps.read_text().splitlines()]
