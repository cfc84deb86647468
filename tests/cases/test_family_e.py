"""Family e: what several samples of a problem are worth, in votes, in bests and in error bars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paribus.report.results import Scores, scores
from paribus.stats import average, best_of, bootstrap, crossed_bootstrap, majority, mcnemar, paired, verdicts
from paribus.store import (
    EvalRow,
    ExperimentInfo,
    ExperimentPaths,
    GraderInfo,
    RunFacts,
    RunWriter,
    read_experiment,
    write_experiment,
)


def normal(answer: str | None) -> str | None:
    """Return the number that stands in an answer of the case: "18", "18.0" and "$18" are one."""
    return None if answer is None else f"{float(answer.removeprefix('$')):g}"


def test_e05_majority_votes_on_normal_forms(cases: dict[str, Any]) -> None:
    """Ties are shared, order does not matter, missing answers do not vote; where one alone votes, it wins."""
    case = cases["e05"]
    gold = normal(case["input"]["gold"])
    for raw, expected in zip(case["input"]["answers"], case["expected"]["maj"], strict=True):
        answers = [normal(answer) for answer in raw]
        right = [float(answer == gold) for answer in answers]
        got = majority(answers, right, len(answers))
        assert got == pytest.approx(1.0 if expected is None else expected, abs=1e-12)
        for turn in range(len(answers)):
            turned = answers[turn:] + answers[:turn]
            assert majority(turned[::-1], [float(a == gold) for a in turned[::-1]], len(answers)) == got
    # the undecided one under the other rule: three missing answers outvote one right one
    missing = [normal(answer) for answer in case["input"]["answers"][3]]
    assert majority(missing, [1, 0, 0, 0], 4, missing_votes=True) == 0.0


def test_e06_best_of_n_names_its_estimator(cases: dict[str, Any]) -> None:
    case = cases["e06"]
    scores, n, expected = case["input"]["scores"], case["input"]["n"], case["expected"]
    got = best_of(scores, n)
    assert got.bootstrap == pytest.approx(expected["bootstrap_best_with_replacement"], abs=1e-12)
    assert got.exact == pytest.approx(expected["exact_best_of_2"], abs=1e-12)
    drawn = np.random.default_rng(0).choice(scores, (100_000, n)).max(1).mean()
    assert got.bootstrap == pytest.approx(drawn, abs=0.01)
    one = best_of(scores[:1], 1)
    assert one.exact == one.bootstrap == 0
    with pytest.raises(ValueError, match="with one only mean@1"):
        best_of(scores[:1], 2)


def stored(folder: Path, answers: Mapping[str, Sequence[Sequence[float]]], repeats: int) -> Scores:
    """Write runs whose every answer is given `repeats` times, and read back their scores by problem."""
    exp = ExperimentPaths(folder)
    info = {
        "name": "e08",
        "question": "?",
        "primary": "test:accuracy",
        "seeds": tuple(range(max(map(len, answers.values())))),
        "arms": tuple(answers),
        "differences": (),
        "price_per_hour": 1.0,
        "resolved": {},
    }
    write_experiment(exp, ExperimentInfo.model_validate(info))
    grader = GraderInfo(name="answer", policy="boxed", version="g")
    facts = RunFacts(
        config_hash="c", grader=grader, data={}, device="cpu", device_bytes=None, threads=1, determinism="bitwise"
    )
    for arm, runs in answers.items():
        for seed, scored in enumerate(runs):
            run = RunWriter.create(exp.run(arm, seed), facts, {})
            run.write_eval("test", 0, [row(i, k, score) for i, score in enumerate(scored) for k in range(repeats)])
            run.done({"steps": 0})
    return scores(read_experiment(folder), "test")


def row(problem: int, sample: int, score: float) -> EvalRow:
    return EvalRow(
        problem_id=f"p{problem}",
        sample=sample,
        response="",
        answer="1",
        score=score,
        status="ok",
        format=True,
        truncated=False,
        tokens=1,
        prompt_tokens=1,
        grader="g",
    )


@pytest.mark.parametrize("seeds", [1, 3])
def test_e08_repeats_of_a_problem_add_nothing(cases: dict[str, Any], tmp_path: Path, seeds: int) -> None:
    """Each of 100 problems answered 8 times alike: every p and interval is that of 100 answers, not of 800."""
    case = cases["e08"]
    items, repeats = case["input"]["items"], case["input"]["repeats"]
    rng = np.random.default_rng(0)
    answers = {arm: rng.integers(0, 2, (seeds, items)).astype(float).tolist() for arm in "ab"}
    one, many = (stored(tmp_path / str(k), answers, k).table for k in (1, repeats))
    assert many["a"].shape == (seeds, case["expected"]["effective_n"])
    once, often = (verdicts(table, [("a", "b")], margin=0.05) for table in (one, many))
    assert often == once
    first, again = (paired(table["a"][0], table["b"][0]) for table in (one, many))
    assert again == first
    for check in (bootstrap, lambda d, rng: crossed_bootstrap(d[None], 0 * d[None], rng, 500)):
        assert len({check(t["a"][0] - t["b"][0], np.random.default_rng(1)) for t in (one, many)}) == 1
    alone, pooled = (average(np.repeat(one["a"][0], k)[:, None]) for k in (1, repeats))
    assert average(np.repeat(one["a"][0][:, None], repeats, 1)).se == pytest.approx(alone.se, abs=1e-12)
    # what pooled rows would have claimed
    assert pooled.se / alone.se == pytest.approx(case["expected"]["se_ratio_wrong"], abs=1e-4)
    assert mcnemar(repeats * first.wins, repeats * first.losses) < first.p


def test_e09_one_run_of_thirty_questions_is_no_exact_number(cases: dict[str, Any]) -> None:
    case = cases["e09"]
    n, right, expected = case["input"]["n"], case["input"]["runs"], case["expected"]
    one = average([[1.0]] * round(n * case["input"]["p"]) + [[0.0]] * round(n * (1 - case["input"]["p"])))
    assert one.se == pytest.approx(math.sqrt(0.1 * 0.9 / n), abs=1e-12)
    assert round(one.se, 4) == expected["se_one_run"]
    assert one.between is None and one.high - one.low > 0.2
    # which questions the five runs had right is not told; that moves the interval over questions, not mean and spread
    table = np.array([[float(question < k) for k in right] for question in range(n)])
    got = average(table)
    assert round(got.estimate, 4) == expected["mean"]
    assert got.between is not None and round(got.between, 4) == expected["sd_between_runs"]
    assert got.low < got.estimate < got.high and (got.problems, got.samples) == (30, 5)
