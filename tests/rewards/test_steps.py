"""Step scores: where steps end, the rule for the embedded task on worked solutions, functions, models on prefixes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graded import SOLUTION, respond
from paribus.errors import ConfigError
from paribus.part import Part, dump, load
from paribus.rewards import FunctionSteps, Lines, ModelSteps, StepSpec, StoriesSteps, models_of, step_scores
from paribus.tasks import Stories
from paribus.tasks.stories import Mistakes
from paribus.types import Key

STORIES = StoriesSteps()


def scores(text: str, verdict: float = 1.0, solution: str = SOLUTION, spec: StoriesSteps = STORIES) -> list[float]:
    found = step_scores(spec, [respond(text, verdict, solution=solution)])[0]
    assert found is not None
    return [each.score for each in found]


@given(st.text("a#\n ", max_size=30), st.sampled_from(["\n", "\n\n"]), st.sampled_from(["own", "last"]))
def test_steps_are_the_whole_text_in_order_and_none_is_blank(text: str, separator: str, answer: str) -> None:
    ends = Lines(separator=separator, answer=answer).ends(text)  # type: ignore[arg-type]
    steps = [text[a:b] for a, b in pairwise([0, *ends])]
    assert "".join(steps) == (text if text.strip() else "")
    assert all(step.strip() for step in steps)
    assert all(step.endswith(separator) for step in steps[:-1])


def test_a_step_ends_after_its_newline_and_at_the_end_of_the_text() -> None:
    assert Lines().ends("ab\ncd") == [3, 5]
    assert Lines().ends("ab\ncd\n") == [3, 6]
    assert Lines().ends("\nab\n\ncd") == [5, 7]
    assert Lines().ends("") == Lines().ends(" \n ") == []


def test_the_answer_line_is_a_step_or_belongs_to_the_last_one_as_declared() -> None:
    assert Lines().ends("ab\n#### 3") == [3, 9]
    assert Lines(answer="last").ends("ab\n#### 3") == [9]
    assert Lines(answer="last").ends("#### 3") == [6]


def test_the_right_solution_scores_one_everywhere_and_ends_fit() -> None:
    found = step_scores(STORIES, [respond(SOLUTION)])[0]
    assert found == [(26, 1), (56, 1), (63, 1)]
    assert SOLUTION[:26] == "Ben has 22 + 6 = 28 toys.\n" and len(SOLUTION) == 63


def test_a_wrong_intermediate_and_what_follows_from_it_score_zero() -> None:
    assert scores("Ben has 22 + 6 = 27 toys.\nNow Ben has 27 + 5 = 32 toys.\n#### 32", 0) == [0, 0, 0]
    assert scores("Ben has 22 - 6 = 16 toys.\nNow Ben has 28 + 5 = 33 toys.\n#### 33") == [0, 1, 1]


def test_a_skipped_step_costs_its_own_score_only() -> None:
    assert scores("Ben has 22 + 6 = 28 toys.\n#### 28", 0) == [1, 0]
    assert scores("Now Ben has 28 + 5 = 33 toys.\n#### 33") == [1, 1]


def test_a_lucky_final_answer_scores_only_its_own_line() -> None:
    assert scores("Ben has 22 + 11 = 34 toys.\nNo, fewer.\n#### 33") == [0, 0, 1]


def test_right_arithmetic_that_leads_nowhere_scores_zero_and_nothing_pays_twice() -> None:
    assert scores("So 1 + 1 = 2.\n22 + 6 = 28\n22 + 6 = 28\n28 + 0 = 28\n28 + 5 = 33\n#### 33") == [0, 1, 0, 0, 1, 1]
    assert scores("#### 33\n#### 33\n#### 33") == [0, 0, 1]


def test_a_result_that_the_gold_has_twice_may_be_given_twice() -> None:
    gold = "8 + 2 = 10\n10 - 4 = 6\n6 + 4 = 10\n#### 10"
    assert scores(gold, solution=gold) == [1, 1, 1, 1]
    assert scores("8 + 2 = 10\n9 + 1 = 10\n5 + 5 = 10\n#### 10", solution=gold) == [1, 1, 0, 1]


@pytest.mark.parametrize(
    ("line", "score"),
    [
        ("28=22+6", 0),  # not the form that the task teaches
        ("22+6=28", 1),
        ("14 * 2 = 28.", 1),
        ("56 / 2 = 28", 1),
        ("57 / 2 = 28", 0),  # no rounding
        ("28 / 0 = 28", 0),
        ("5 - 33 = 28", 0),  # no distance
        ("61 - 33 = 28", 1),
        ("1 + 22 + 6 = 28", 0),  # `22 + 6 = 28` is not what it says
        ("22 + 6 = 28 + 5 = 33", 0),
        ("22 + 6 = 280", 0),
        ("22 + 6 = 28.5", 0),
        ("122 + 6 = 28", 0),
        ("22 + 6 = 28 and 28 + 5 = 33", 1),
        ("22 + 6 = 28 and 28 + 5 = 34", 0),
        ("22 + 6 = 28 and 22 + 6 = 28", 0),
        (f"{'9' * 5000} + 1 = 28", 0),
        ("", None),
    ],
)
def test_equations(line: str, score: float | None) -> None:
    assert scores(line, 0) == ([] if score is None else [score])


def test_a_step_of_several_lines_is_right_when_all_are() -> None:
    spec = StoriesSteps(split=Lines(answer="last"))
    assert scores(SOLUTION, spec=spec) == [1, 1]
    assert scores(SOLUTION, 0, spec=spec) == [1, 0]
    assert scores("22 + 6 = 28\n28 + 5 = 34\n#### 33", spec=spec) == [1, 0]


def test_what_cannot_be_told_is_none_and_not_zero() -> None:
    rows = [
        respond(SOLUTION, 0, status="ungradable"),
        respond(SOLUTION, solution=""),
        respond(SOLUTION, 0, status="error"),
    ]
    assert step_scores(STORIES, rows) == [None, None, None]
    assert step_scores(STORIES, [respond("")]) == [[]]


def test_demonstrations_score_as_their_mistakes_deserve() -> None:
    task = Stories(train=300)
    for problem in task.problems("train"):
        row = respond(problem.solution, solution=problem.solution)
        steps = int(problem.tags["steps"])
        assert step_scores(STORIES, [row]) == [[(end, 1) for end in STORIES.split.ends(problem.solution)]]
        assert len(STORIES.split.ends(problem.solution)) == steps + 1
        text = task.demonstration(problem, Key(0, "x"), Mistakes(skip=0.2, slip=0.2, trap=0.2))
        right = float(text.rpartition("#### ")[2] == problem.gold)
        found = scores(text, right, problem.solution)
        assert sum(found[:-1]) <= steps and found[-1] == right
        if text == problem.solution:
            assert found == [1] * (steps + 1)


def test_a_user_function_scores_steps(user_file: Callable[[str], str]) -> None:
    path = user_file("""
    def lengths(steps, answer, **kwargs):
        assert answer == "33"
        return [None if "?" in step else len(step) for step in steps]

    def wrong(steps, **kwargs):
        return [1.0]

    def closed(steps):
        return steps
    """)
    rows = [respond("ab\nc"), respond(""), respond("?\nab"), respond("abc")]
    assert step_scores(FunctionSteps(path=path, name="lengths"), rows) == [[(3, 3), (4, 1)], [], None, [(3, 3)]]
    assert step_scores(FunctionSteps(path=path, name="wrong"), rows) == [None, [], None, [(3, 1)]]
    with pytest.raises(ConfigError, match="function 'closed' must take every column by keyword"):
        load(FunctionSteps, {"path": path, "name": "closed"})


def test_a_process_reward_model_scores_the_prefix_up_to_each_step() -> None:
    seen = []

    def model(rows):  # type: ignore[no-untyped-def]
        seen.extend(row.text for row in rows)
        return [float("nan") if "?" in row.text else float(len(row.text)) for row in rows]

    spec = ModelSteps(path="prm", mean=1, std=2, high=1.25)
    found = step_scores(spec, [respond("ab\ncd"), respond(""), respond("ab\n?")], {"prm": model})
    assert seen == ["ab\n", "ab\ncd", "ab\n", "ab\n?"]
    assert found == [[(3, 1), (5, 1.25)], [], None]
    assert models_of(spec) == [spec]


def test_a_step_scorer_is_read_from_plain_data_and_rebuilt_from_its_dump() -> None:
    class Holder(Part):
        steps: StepSpec | None = None

    data = {"steps": {"type": "stories", "split": {"answer": "last"}}}
    holder = load(Holder, data)
    assert holder.steps == StoriesSteps(split=Lines(answer="last"))
    assert load(Holder, dump(holder)) == holder
    assert load(Holder, {"steps": "none"}).steps is None
