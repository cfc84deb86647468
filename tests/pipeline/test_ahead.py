"""Grading ahead: rows are judged while others are sampled, and nothing but the order of events tells."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from fakeruns import EOS, questions, session, setting
from paribus.batch import Rollout
from paribus.engines.protocols import Finished, SamplingPlan
from paribus.engines.scripted import ScriptedSampler
from paribus.errors import ConfigError, RunError
from paribus.pipeline.ahead import Ahead, slow_judges
from paribus.pipeline.collect import Graded, collect
from paribus.pipeline.evaluate import evaluate
from paribus.rewards import Composite, Function, Noisy, Term
from paribus.suites import EvalSpec
from paribus.tasks import Answer, Math
from paribus.types import Key, Prompt

USER = """
    import os
    from pathlib import Path

    def told(data_source, solution_str, ground_truth, extra_info):
        with open(Path(__file__).with_suffix(".log"), "a") as log:
            log.write(extra_info["problem_id"] + "\\n")
        if "raise" in solution_str: raise KeyError("gold")
        if "exit" in solution_str: os._exit(1)
        return len(solution_str) + extra_info["truncated"] / 2

    def trl(completions, **columns):
        return [0.0] * len(completions)
    """
TEXTS = ["#### {i}", "raise", "\\boxed{{\\sqrt{{{i}}}}}", "exit", "\\boxed{{{i}}} of ten", "nothing at all"]
WAIT = 60.0  # seconds; what does not happen until then is taken never to happen


@dataclass
class Telling(ScriptedSampler):
    """Tells of rows by `tell(place, text)`, and after each row waits for `seen`."""

    tell: Callable[[int, str], str | None] = lambda place, text: text
    seen: Callable[[int], bool] = lambda rows: True
    told: list[int] = field(default_factory=list)

    def sample(
        self, prompts: Sequence[Prompt], plan: SamplingPlan, key: Key, finished: Finished | None = None
    ) -> Rollout:
        rollout = super().sample(prompts, plan, key)
        # rows end in another order than they were asked for
        for place in sorted(range(rollout.rows), key=lambda i: (i % plan.samples, -i)):
            text = self.tell(place, rollout.text[place])
            if finished is not None and text is not None:
                finished([(place, text, rollout.stop[place])])
                self.told.append(place)
                until = time.monotonic() + WAIT
                while not self.seen(len(self.told)):
                    assert time.monotonic() < until, "no row was judged before all were sampled"
                    time.sleep(0.001)
        return rollout


def telling(n: int = 7, **how: Any) -> Telling:
    ends = [(7, EOS), (7, 7, 7, 7)]
    table = {f"p/{i}": [(ends[k % 2], text.format(i=i)) for k, text in enumerate(TEXTS)] for i in range(n)}
    return Telling(table, stop_ids=(EOS,), **how)


@pytest.fixture
def user(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(textwrap.dedent(USER))
    return path


def reward(path: Path, **how: Any) -> dict[str, Any]:
    mine = {"type": "function", "path": str(path), "name": "told", **how}
    return {"type": "noisy", "inner": {"type": "composite", "terms": {"a": {"reward": mine}}}, "sigma": 1.0}


def collected(folder: Path, samples: Telling, **changes: Any) -> Graded:
    spec = {"limit": {"grader_errors": 1.0}} | changes
    return collect(session(folder, setting(**spec), samples=samples, asked=questions(7)), 0, samples)


def lines(path: Path) -> int:
    log = path.with_suffix(".log")
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_a_row_is_judged_before_the_next_has_ended(user: Path, tmp_path: Path) -> None:
    """The sampler goes on only when the function has been called for every row that it told of."""
    samples = telling(seen=lambda rows: lines(user) >= rows)
    collected(tmp_path, samples, reward=reward(user))
    assert len(samples.told) == 12 == lines(user), "each row once"


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    "tell",
    [lambda i, text: text, lambda i, text: text if i % 3 else None, lambda i, text: text if i % 3 else "partial"],
    ids=["all", "some", "other text"],
)
def test_verdicts_and_rewards_are_those_of_judging_at_the_end(
    tell: Callable[[int, str], str | None], workers: int, user: Path, tmp_path: Path
) -> None:
    changes = {"reward": reward(user, workers=workers), "task.grader": {"type": "math", "workers": workers}}
    at_end = collected(tmp_path / "end", telling(tell=lambda i, text: None), **changes)
    ahead = collected(tmp_path / "ahead", telling(tell=tell), **changes)
    assert ahead.verdicts == at_end.verdicts and ahead.stats == at_end.stats
    assert {v.status for v in ahead.verdicts} == {"ok", "unparsable"} and ahead.stats["reward_failed"].row()["sum"]
    assert torch.equal(ahead.score.nan_to_num(-9), at_end.score.nan_to_num(-9)) and ahead.score.isnan().any()
    for name, values in at_end.parts.items():
        assert torch.equal(ahead.parts[name].nan_to_num(-9), values.nan_to_num(-9))


def test_an_evaluation_has_the_same_rows() -> None:
    asked, spec = questions(7), EvalSpec(max_response=4, samples=3, temperature=1.0, short=2)
    found = []
    for tell in (lambda i, text: text, lambda i, text: None):
        samples = telling(tell=tell)
        rows = evaluate(
            samples, asked.problems, asked.prompts, spec, Answer(), 0,
            references=[Math(), Answer(policy="flexible")], rows_at_once=6,
            decode=lambda ids: ["#### 1"] * len(ids),
        )  # fmt: skip
        found.append((rows, len(samples.told)))
    assert found[0][0] == found[1][0] and (found[0][1], found[1][1]) == (21, 0)
    assert {row.references["math/math-verify"] for row in found[0][0]} == {0.0, 1.0}


def test_what_is_judged_in_this_process_is_left_for_the_end(user: Path) -> None:
    told, trl = (Function(path=str(user), name=name) for name in ("told", "trl"))
    nested = Composite(terms={"x": Term(reward=Noisy(inner=told)), "y": Term(weight=0, reward=trl)})
    assert not slow_judges(Answer(), reward=trl, references=[Answer(policy="flexible")])
    assert set(slow_judges(Math(workers=3), reward=nested, references=[Answer()])) == {Math(workers=3), told}
    samples = telling()
    plan = SamplingPlan(samples=2, max_tokens=4)
    with Ahead(questions(2).prompts, plan, {p.id: p for p in questions(2).problems}, slow_judges(Answer())) as ahead:
        ahead.sample(samples, Key(0, "sample"))
    assert not samples.told


def test_the_limit_and_a_file_that_cannot_be_loaded_say_what_they_said(user: Path, tmp_path: Path) -> None:
    errors = []
    for name, tell in (("ahead", lambda i, text: text), ("end", lambda i, text: None)):
        with pytest.raises(RunError, match=r"rows have no reward.*calls of reward functions failed") as found:
            collected(tmp_path / name, telling(tell=tell), reward=reward(user), limit={"grader_errors": 0.0})
        errors.append(str(found.value).split("the last one")[0])
    assert errors[0] == errors[1]
    other = user.with_name("other.py")
    other.write_text(user.read_text())
    broken, samples = setting(reward=reward(other)), telling()
    other.write_text(other.read_text() + "\n# another file\n")
    with pytest.raises(ConfigError, match="changed since the experiment was loaded"):
        collect(session(tmp_path / "broken", broken, samples=samples, asked=questions(7)), 0, samples)


def test_a_sampler_that_fails_is_not_kept_waiting(user: Path, tmp_path: Path) -> None:
    """Calls that have not begun are dropped, so that an error or a stop comes through at once."""

    def tell(place: int, text: str) -> str:
        if lines(user) >= 2:
            raise RuntimeError("boom")
        return text

    samples = telling(tell=tell, seen=lambda rows: lines(user) >= min(rows, 2))
    with pytest.raises(RuntimeError, match="boom"):
        collected(tmp_path, samples, reward=reward(user))
    assert lines(user) < 12
