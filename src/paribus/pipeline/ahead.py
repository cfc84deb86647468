"""Grading ahead: rows that have ended are judged while others are still being sampled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

from paribus.batch import Rollout
from paribus.engines.protocols import Sampler, SamplingPlan
from paribus.part import Part
from paribus.rewards import RewardSpec, row_functions
from paribus.tasks import Grader, Item, Math
from paribus.tasks.references import grade_by
from paribus.types import Key, Problem, Prompt, Stop


class Judge(NamedTuple):
    """`ask(problem, response, truncated)` has one of `workers` processes do the work, and waits for it."""

    ask: Callable[[Problem, str, bool], Any]
    workers: int


def slow_judges(
    grader: Grader,
    *,
    reward: RewardSpec | None = None,
    references: Sequence[Grader] = (),
) -> dict[Part, Judge]:
    """Return the graders and user functions that judge row by row in processes of their own.

    What is judged in this process has nothing to gain: a thread of it would only take the sampler's time.
    """

    def judge(one: Math) -> Judge:
        def ask(problem: Problem, text: str, truncated: bool) -> Any:
            item = Item(text, problem.gold, truncated)
            return (one.grade_many([item]) if one is grader else grade_by(one, grader, [item]))[0]

        return Judge(ask, one.workers)

    found: dict[Part, Judge] = {one: judge(one) for one in (*references, grader) if isinstance(one, Math)}
    functions = [] if reward is None else row_functions(reward)
    return found | {function: Judge(function.ask, function.workers) for function in functions}


class Ahead:
    """What `judges` say of the rows of one request, begun for each row as soon as its sampler says that it has ended.

    The verdicts are those of judging all rows at the end: they are matched to the rollout by row, problem and text,
    and rows that were not announced are begun when the result is asked for.
    """

    def __init__(
        self,
        prompts: Sequence[Prompt],
        plan: SamplingPlan,
        problems: Mapping[str, Problem],
        judges: Mapping[Part, Judge],
    ) -> None:
        self._prompts, self._plan, self._problems, self._judges = prompts, plan, problems, judges
        self._threads = {who: ThreadPoolExecutor(judge.workers) for who, judge in judges.items()}
        self._begun: dict[tuple[Part, int, str, str, Stop], Future[Any]] = {}

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *unused: object) -> None:
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)

    def __contains__(self, judge: Part) -> bool:
        return judge in self._judges

    def sample(self, sampler: Sampler, key: Key) -> Rollout:
        """Return the rows of the request; nobody is told of them as they end where nobody would begin with them."""
        if not self._judges:
            return sampler.sample(self._prompts, self._plan, key)
        return sampler.sample(self._prompts, self._plan, key, finished=self._finished)

    def result(self, judge: Part, rollout: Rollout) -> list[Any]:
        """Return what a judge says of every row, in row order; waits for it."""
        rows = list(zip(range(rollout.rows), rollout.problem_id, rollout.text, rollout.stop, strict=True))
        for row in rows:
            if (judge, *row) not in self._begun:
                self._begin(judge, *row)
        return [self._begun[judge, *row].result() for row in rows]

    def _finished(self, rows: Sequence[tuple[int, str, Stop]]) -> None:
        for place, text, stop in rows:
            for judge in self._judges:
                self._begin(judge, place, self._prompts[place // self._plan.samples].problem_id, text, stop)

    def _begin(self, judge: Part, place: int, problem: str, text: str, stop: Stop) -> None:
        asked = self._problems[problem], text, stop is not Stop.EOS
        self._begun[judge, place, problem, text, stop] = self._threads[judge].submit(self._judges[judge].ask, *asked)
