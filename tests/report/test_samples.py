"""pass@k and maj@k curves, by hand."""

from __future__ import annotations

from typing import Any

from paribus.report.results import primary, rescored
from paribus.report.samples import many_samples
from paribus.store import StoredExperiment, StoredRun, read_experiment
from paribus.store.files import write_rows
from paribus.store.layout import step_files
from reading import rows, tables


def sampled(run: StoredRun | None, *problems: str) -> None:
    """Write the last evaluation again: each problem's samples, 1 right, another letter a wrong answer, - none."""
    assert run is not None
    path = step_files(run.paths.evals / "test")[max(run.eval_steps("test"))]
    first = run.eval("test")[0]
    write_rows(
        path,
        [
            first.model_copy(
                update={
                    "problem_id": f"test-{i}",
                    "sample": j,
                    "answer": None if c == "-" else c,
                    "score": float(c == "1"),
                }
            )
            for i, answers in enumerate(problems)
            for j, c in enumerate(answers)
        ],
    )


def experiment(write: Any) -> StoredExperiment:
    exp: StoredExperiment = read_experiment(write({"ppo": {0: "11", 1: "11"}}, "00", seeds=[0, 1]))
    sampled(exp.base, "1abc", "----")
    for seed in (0, 1):
        sampled(exp.runs["ppo"][seed], "11ab", "aaaa")
    return exp


def test_the_curves_by_hand(write: Any) -> None:
    """2 of 4 right: pass@2 = 1 - 1/6; maj@2 = 1/6 + 4/6 * 1/2. 1 of 4 right, 4 answers: maj@k = 1/4 for every k."""
    exp = experiment(write)
    found = many_samples(exp, primary(exp))
    told = {row[0]: [cell.split(" (")[0] for cell in row[1:]] for row in rows(tables(found)["test-at-k"])}
    assert told == {
        "pass@1": ["12.50 %", "25.00 %"],
        "pass@2": ["25.00 %", "41.67 %"],
        "pass@4": ["50.00 %", "50.00 %"],
        "maj@1": ["12.50 %", "25.00 %"],
        "maj@2": ["12.50 %", "25.00 %"],
        "maj@4": ["12.50 %", "50.00 %"],
    }
    assert [b.name for b in found if b.kind == "figure"] == ["test-pass-at-k", "test-maj-at-k"]


def test_a_problem_with_too_few_samples_that_count_is_left_out(write: Any) -> None:
    exp = experiment(write)
    run = exp.runs["ppo"][0]
    path = step_files(run.paths.evals / "test")[4]
    write_rows(
        path,
        [
            r.model_copy(update={"score": None}) if r.sample and r.problem_id == "test-0" else r
            for r in run.eval("test")
        ],
    )
    s = primary(exp)
    assert s.excluded == [] and rescored(s, metric="pass@2").excluded == ["test-0"]


def test_right_answers_in_several_forms_are_one_vote(write: Any) -> None:
    """1, 1.0 and a, a: two votes for the right answer against two, a tie."""
    exp = experiment(write)
    for seed in (0, 1):
        run = exp.runs["ppo"][seed]
        sampled(run, "11aa", "aaaa")
        path = step_files(run.paths.evals / "test")[4]
        kept = run.eval("test")
        write_rows(path, [r.model_copy(update={"answer": "1.0"}) if (i == 1) else r for i, r in enumerate(kept)])
    assert rescored(primary(exp), metric="maj@4").table["ppo"].tolist() == [[0.5, 0.0], [0.5, 0.0]]
