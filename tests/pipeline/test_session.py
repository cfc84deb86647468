"""The loop around fakes: what is counted, recorded, saved and refused, without a model."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakeruns import questions, rows, sampler, session, setting
from paribus.batch import Max, Stats
from paribus.engines.scripted import ScriptedLearner
from paribus.errors import Interrupted, RunError
from paribus.part import replace
from paribus.pipeline.evaluate import evaluate
from paribus.pipeline.stop import StopRequest
from paribus.pipeline.train import train
from paribus.store import checkpoint
from paribus.suites import EvalSpec
from paribus.tasks import Answer


def test_steps_count_from_one_and_add_up(tmp_path: Path) -> None:
    run = session(tmp_path, setting())
    train(run)
    stored = rows(run)
    assert [r["step"] for r in stored] == [1, 2, 3, 4, 5]
    assert [r["samples"] for r in stored] == [12, 24, 36, 48, 60]
    tokens = [r["stats"]["response_tokens"]["sum"] for r in stored]
    assert stored[-1]["tokens"] == sum(tokens)
    for r in stored:
        stats = r["stats"]
        assert stats["score"]["count"] == 12 and stats["truncated"]["count"] == 12
        # a response without an end is worth 0, counted, and never "unscored"
        assert stats["unscored"]["sum"] == 0 and stats["unparsable"]["sum"] == stats["truncated"]["sum"]


@pytest.mark.parametrize(
    ("budget", "steps"), [({"steps": 3}, 3), ({"samples": 25}, 3), ({"tokens": 1}, 1), ({"seconds": 1e-9}, 1)]
)
def test_a_budget_ends_the_run_at_the_first_step_that_reaches_it(
    budget: dict[str, float], steps: int, tmp_path: Path
) -> None:
    run = session(tmp_path, setting(budget=budget))
    train(run)
    assert len(rows(run)) == steps


def test_arms_with_one_seed_ask_the_same_and_draw_the_same(tmp_path: Path) -> None:
    first, second = session(tmp_path / "a", setting()), session(tmp_path / "b", setting())
    train(first)
    train(second)
    assert first.paths.steps.read_bytes() == second.paths.steps.read_bytes()


def test_a_stop_request_ends_the_step_saves_it_and_the_resumed_run_is_the_same(tmp_path: Path) -> None:
    whole = session(tmp_path / "whole", setting())
    train(whole)
    with StopRequest() as stop:
        run = session(tmp_path / "cut", setting(), stop=stop)
        run.report = lambda kind, **fields: signal.raise_signal(signal.SIGINT) if kind == "step" else None
        with pytest.raises(Interrupted) as caught:
            train(run)
        run.writer.interrupted()
    assert caught.value.code == 130 and len(rows(run)) == 1
    assert checkpoint.latest_good(run.paths.checkpoints).step == 1
    learner = ScriptedLearner()
    again = session(tmp_path / "cut", setting(), learner)
    again.resume()
    train(again)
    assert again.paths.steps.read_bytes() == whole.paths.steps.read_bytes()
    assert learner.updated == [0, 1, 2, 3, 4]


def test_a_second_request_stops_at_once() -> None:
    with StopRequest(), pytest.raises(Interrupted):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)


def test_a_damaged_newest_checkpoint_falls_back_and_says_so(tmp_path: Path) -> None:
    whole = session(tmp_path / "whole", setting())
    train(whole)
    run = session(tmp_path / "cut", setting())
    train(run)
    run.writer.close()
    newest = run.paths.checkpoints / "step-5" / "learner.json"
    newest.write_text(newest.read_text()[:3])
    notes: list[str] = []
    again = session(tmp_path / "cut", setting())
    again.report = lambda kind, **fields: notes.append(fields.get("text", ""))
    again.resume()
    assert again.step == 4 and any("step-5" in note for note in notes)
    train(again)
    assert again.paths.steps.read_bytes() == whole.paths.steps.read_bytes()


def test_a_full_disk_while_saving_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = session(tmp_path, setting())
    real: Callable[[Path], None] = run.learner.save

    def save(path: Path) -> None:
        if run.step == 4:
            raise OSError(28, "No space left on device")
        real(path)

    monkeypatch.setattr(run.learner, "save", save)
    with pytest.raises(RunError, match=r"No space left on device.*step-2"):
        train(run)
    assert checkpoint.latest_good(run.paths.checkpoints).step == 2


def test_a_streak_of_non_finite_updates_ends_the_run(tmp_path: Path) -> None:
    run = session(tmp_path, setting())
    real = run.learner.update

    def update(*arguments: Any) -> Stats:
        return real(*arguments) | {"nonfinite_streak": Max(float(max(0, run.step - 1)))}

    run.learner.update = update  # type: ignore[method-assign]
    with pytest.raises(RunError, match=r"limit\.nonfinite_streak"):
        run.setting = replace(run.setting, **{"limit.nonfinite_streak": 3})
        train(run)
    assert len(rows(run)) == 5


@pytest.mark.parametrize("rows_at_once", [1, 7, 128, 1319, 2000])
def test_every_problem_is_evaluated_once_whatever_the_batch(rows_at_once: int) -> None:
    asked = questions(1319)
    out = evaluate(
        sampler(1319), asked.problems, asked.prompts, EvalSpec(max_response=4), Answer(), 0, rows_at_once=rows_at_once
    )
    assert [r.problem_id for r in out] == [p.id for p in asked.problems]
    assert all(r.score == 1.0 and not r.truncated for r in out)


def test_samples_of_a_problem_stay_with_it_and_in_order() -> None:
    asked = questions(40)
    spec = EvalSpec(max_response=4, samples=3, temperature=1.0)
    out = evaluate(sampler(40), asked.problems, asked.prompts, spec, Answer(), 0, rows_at_once=10)
    assert [(r.problem_id, r.sample) for r in out] == [(p.id, s) for p in asked.problems for s in range(3)]
    for r in out:
        gold = r.problem_id.split("/")[1]
        assert (r.score == 1.0) == (r.response == f"#### {gold}")
        assert r.truncated == (r.response == "no answer")


def test_a_grader_that_fails_too_often_stops_the_run(tmp_path: Path) -> None:
    from paribus.pipeline.score import refuse_failures
    from paribus.types import Verdict

    good, bad = Verdict(score=1.0, answer="1"), Verdict(score=0.0, answer=None, status="error")
    refuse_failures([good] * 19 + [bad], 0.05, 1)
    with pytest.raises(RunError, match="2 of 20 rows"):
        refuse_failures([good] * 18 + [bad] * 2, 0.05, 1)
