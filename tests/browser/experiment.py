"""A made-up experiment of full size: 2 arms x 5 seeds x 1,319 problems, with answers that try to break the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from paribus.store import (
    PHASES,
    DataInfo,
    DifferenceRow,
    EvalRow,
    ExperimentInfo,
    ExperimentPaths,
    GraderInfo,
    ProblemRow,
    RunFacts,
    RunWriter,
    StepRow,
    TimingRow,
    write_experiment,
    write_problems,
)

ARMS = {"ppo": 0.588, "grpo": 0.575}
BASE = 0.452
SEEDS = range(5)
PROBLEMS = 1319
STEPS = 58
GRADER = GraderInfo(name="answer", policy="boxed", version="3f2a9c41d0b7")
MARKUP = "<script>window.broken = true</script><img src=x onerror='window.broken = true'></pre><!-- --> ]]> {{ 7*7 }}"
HOSTILE = {
    "test-0000": f"Markup: {MARKUP} </script>",
    "test-0001": "Terminal: \x1b[31mred\x1b[0m \x07 \x9b2J and a NUL \x00 and a line separator \u2028 here",
    "test-0002": "Right to left: \u202e007 sdrawkcab\u202c \u2067\u05d0\u05d1\u05d2\u2069 وهذا نص عربي, then English",
    "test-0003": "Without a break: " + "x" * 100_000,
}
FACTS = RunFacts(
    config_hash="c0ffee0123456789",
    grader=GRADER,
    data={
        "train": DataInfo(name="word-problems", split="train", n=7473, hash="aa11bb22cc33dd44", prompts="71e0f3"),
        "test": DataInfo(name="word-problems", split="test", n=PROBLEMS, hash="ee55ff66aa77bb88", prompts="98d1c4"),
    },
    device="cuda: NVIDIA L40S",
    device_bytes=48 << 30,
    threads=8,
    determinism="bit-exact at equal layout and threads",
)


def write(root: Path) -> Path:
    """Write the experiment into a folder; the same bytes but for times and machine."""
    exp = ExperimentPaths(root)
    arms = tuple(ARMS)
    changed = {"advantage.type": ("gae", "group_z_score"), "critic.lr": (1e-5, None), "critic.coef": (0.5, None)}
    rows = [DifferenceRow(path=k, values=dict(zip(arms, v, strict=True)), declared=True) for k, v in changed.items()]
    setting = {
        "model": {"path": "small-instruct-0.5b", "dtype": "bfloat16"},
        "task": {"type": "word_problems", "prompt": "{question}"},
        "rollout": {"prompts_per_step": 128, "samples_per_prompt": 5, "max_response": 512, "temperature": 1.0},
        "optim": {"lr": 1e-6, "clip_norm": 1.0},
        "budget": {"steps": STEPS},
        "eval": {"test": {"max_response": 512, "samples": 1, "temperature": 0.0}},
    }
    info = ExperimentInfo(
        name="word-problems",
        question="At equal samples, does a learned critic (PPO) beat the group mean (GRPO)?",
        primary="test:accuracy",
        seeds=tuple(SEEDS),
        arms=arms,
        differences=tuple(rows),
        margin=2.0,
        price_per_hour=1.8,
        resolved={"setting": setting, "arms": {}},
    )
    write_experiment(exp, info)
    rng = np.random.default_rng(7)
    questions = [_problem(i) for i in range(PROBLEMS)]
    write_problems(exp, "test", questions)
    hardness = rng.normal(0, 1.6, PROBLEMS)
    base = RunWriter.create(exp.base, FACTS, {})
    _evaluated(base, 0, 61.0, list(_answers(rng, questions, hardness, BASE, base=True)))
    base.done({})
    for seed in SEEDS:
        for arm, mean in ARMS.items():
            run = RunWriter.create(exp.run(arm, seed), FACTS, {"arm": arm})
            for row, timing in _training(rng, arm):
                run.append_step(row)
                run.append_timing(timing)
            _evaluated(run, STEPS, 54.0, list(_answers(rng, questions, hardness, mean + rng.normal(0, 0.008))))
            run.done({"steps": STEPS})
    return root


def _evaluated(run: RunWriter, step: int, seconds: float, rows: list[EvalRow]) -> None:
    run.write_eval("test", step, rows)
    run.append_timing(_timing(step, {"eval": seconds}, sum(row.tokens for row in rows), "test"))


def _problem(i: int) -> ProblemRow:
    a, b, c = 3 + i % 17, 2 + i % 7, 5 + i % 23
    question = (
        f"A shop packs {a} boxes of {b} pens on Monday and {c} more boxes of {b} pens on Tuesday. It sells half of all "
        "the pens, rounded down, before the end of the week. How many pens are left?"
    )
    problem = f"test-{i:04d}"
    return ProblemRow(problem_id=problem, question=f"{question} {MARKUP}" if i == 0 else question, gold=str(_gold(i)))


def _gold(i: int) -> int:
    pens = (3 + i % 17 + 5 + i % 23) * (2 + i % 7)
    return pens - pens // 2


def _answers(
    rng: np.random.Generator, asked: list[ProblemRow], hardness: np.ndarray, mean: float, *, base: bool = False
) -> Iterator[EvalRow]:
    """Answer every problem; only the base gets the hostile ones right, a kind so rare that the page holds all of it."""
    lead = _lead(hardness, mean)
    right = rng.random(len(asked)) < 1 / (1 + np.exp(hardness - lead))
    off, words, cut = rng.integers(1, 9, len(asked)), rng.integers(0, 3, len(asked)), rng.random(len(asked)) < 0.03
    for i, problem in enumerate(asked):
        hostile = problem.problem_id in HOSTILE
        good, short = (base, False) if hostile else (bool(right[i]), bool(cut[i]))
        value = _gold(i) + (0 if good else int(off[i]))
        text = f"{_reasoning(i, int(words[i]))}{'' if short else f' #### {value}'}"
        yield EvalRow(
            problem_id=problem.problem_id,
            response=HOSTILE.get(problem.problem_id, text),
            answer=None if short else MARKUP if i == 0 else str(value),
            score=float(good and not short),
            status="unparsable" if short else "ok",
            format=not short,
            truncated=short,
            tokens=512 if short else 70 + 12 * int(words[i]) + i % 9,
            prompt_tokens=90,
            grader=GRADER.version,
        )


def _lead(hardness: np.ndarray, mean: float) -> float:
    """Return how far above the problems a model must be for its mean accuracy."""
    low, high = -9.0, 9.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if (1 / (1 + np.exp(hardness - middle))).mean() < mean else (low, middle)
    return low


def _reasoning(i: int, more: int) -> str:
    a, b, c = 3 + i % 17, 2 + i % 7, 5 + i % 23
    lines = [
        f"On Monday the shop packs {a} boxes of {b} pens, that is {a} × {b} = {a * b} pens.",
        f"On Tuesday it packs {c} more boxes of {b} pens, that is {c} × {b} = {c * b} pens.",
        f"Together that is {a * b} + {c * b} = {(a + c) * b} pens, of which half are sold, rounded down.",
        *["Let me check that once more, step by step, before the answer is written down."] * more,
    ]
    return "\n".join(lines)


def _training(rng: np.random.Generator, arm: str) -> Iterator[tuple[StepRow, TimingRow]]:
    critic = arm == "ppo"
    samples = tokens = 0
    for step in range(1, STEPS + 1):
        grown = 1 - np.exp(-step / 18)
        reward = 0.36 + 0.26 * grown + rng.normal(0, 0.02)
        length = 130 - 34 * grown + rng.normal(0, 3)
        samples, tokens = samples + 640, tokens + int(640 * length)
        stats = {
            "score": {"sum": 640 * reward, "square": 640 * reward, "count": 640.0},
            "response_tokens": {"sum": 640 * length, "count": 640.0},
            "truncated": {"sum": 640 * max(0, 0.06 - 0.05 * grown), "count": 640.0},
            "kl_k3": {"sum": 0.08 * grown + rng.normal(0, 0.003), "count": 1.0},
            "entropy": {"sum": 0.42 - 0.2 * grown + rng.normal(0, 0.01), "count": 1.0},
            "grad_norm": {"sum": 0.9 + rng.gamma(2, 0.08), "count": 1.0},
            "clip_low": {"sum": 0.4, "count": 1000.0},
            "clip_high": {"sum": 1.0 + rng.random(), "count": 1000.0},
        }
        stats |= (
            {"value_loss": {"sum": 0.2 - 0.1 * grown + rng.normal(0, 0.01), "count": 1.0}}
            if critic
            else {"uniform_groups": {"sum": 128 * (0.3 + 0.2 * grown + rng.normal(0, 0.02)), "count": 128.0}}
        )
        seconds = {"rollout": 9.0, "grade": 0.2, "old_logp": 2.1, "policy_update": 7.4, "other": 0.4}
        seconds |= {"values": 1.8, "critic_update": 6.9} if critic else {}
        slow = {phase: value * (1 + rng.normal(0, 0.02)) for phase, value in seconds.items()}
        yield (
            StepRow(step=step, samples=samples, tokens=tokens, stats=stats),
            _timing(step, slow, int(640 * length), critic=critic),
        )


def _timing(
    step: int, seconds: Mapping[str, float], tokens: int, suite: str | None = None, *, critic: bool = False
) -> TimingRow:
    size = {phase: (36 if critic else 27) * 10**9 + 10**8 * PHASES.index(phase) for phase in seconds}  # type: ignore[arg-type]
    return TimingRow(
        step=step,
        suite=suite,
        seconds={phase: float(value) for phase, value in seconds.items()},  # type: ignore[misc]
        tokens=tokens,
        rss=4 * 10**9,
        rss_peak=dict.fromkeys(seconds, 4 * 10**9),  # type: ignore[arg-type]
        allocated_peak=size,  # type: ignore[arg-type]
        reserved_peak={phase: value + 10**9 for phase, value in size.items()},  # type: ignore[misc]
    )
