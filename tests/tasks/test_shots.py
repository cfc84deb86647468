"""Worked examples in prompts, reference graders and votes: laws that hold for every problem and every grader."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paribus.errors import DataError
from paribus.tasks import BOXED_PROMPT, MARKER_PROMPT, Answer, Gsm8k, Item, Math, Stories, Task
from paribus.tasks.references import grade_by, usual_references
from paribus.tasks.shots import Example, Shots, demonstration, written
from paribus.tasks.votes import votes
from paribus.types import Problem, Verdict

STORIES = Stories(train=300, test=60, validation=1)
BOXED = Stories(train=300, test=60, validation=1, prompt=BOXED_PROMPT, grader=Answer(policy="boxed"))


def shown(turns: list[dict[str, str]]) -> list[str]:
    return [turn["content"] for turn in turns if turn["role"] == "user"]


def test_a_shot_is_never_the_problem_itself_nor_shown_twice() -> None:
    # the worst pool there is: the evaluated problems themselves, some of them again under another id
    pool = STORIES.problems("test")[:6]
    doubled = [Problem(id=f"again-{p.id}", question=f" {p.question.upper()}  ", gold=p.gold) for p in pool]
    shots = Shots(STORIES, [*pool, *doubled], 5)
    for problem in pool:
        asked = [" ".join(text.split()).casefold() for text in shown(shots.turns(problem))]
        assert len(set(asked)) == 5 and " ".join(problem.question.split()).casefold() not in asked
    with pytest.raises(DataError, match="too few to show 6 other ones"):
        Shots(STORIES, [*pool, *doubled], 6).turns(pool[0])


def test_shots_hang_on_the_problem_alone() -> None:
    train, test = STORIES.problems("train"), STORIES.problems("test")
    forward, backward = Shots(STORIES, train, 3), Shots(STORIES, train[::-1], 3)
    drawn = [forward.turns(p) for p in test]
    assert [backward.turns(p) for p in test[::-1]] == drawn[::-1]
    # uniform: 180 draws out of 300 leave about 300 exp(-0.6) = 165 unseen
    assert len({text for turns in drawn for text in shown(turns)}) == pytest.approx(135, abs=20)


@pytest.mark.parametrize(
    "task", [STORIES, BOXED, BOXED.model_copy(update={"grader": Math()})], ids=lambda t: t.grader.name
)
def test_what_is_shown_is_right_and_well_formed_to_the_task_s_own_grader(task: Task) -> None:
    for problem in task.problems("train")[:40]:
        bare = Problem(id="bare", question=problem.question, gold=problem.gold)
        for text in (demonstration(task, problem), demonstration(task, bare)):
            assert text is not None
            verdict = task.grader.grade(text, problem.gold)
            assert verdict.score == 1 and verdict.format
        first = problem.solution.splitlines()[0]
        assert (demonstration(task, problem) or "").startswith(first), "the work is shown where there is some"
    assert demonstration(task, Problem(id="x", question="?", gold="several words of prose")) is None


def test_turns_alternate_and_the_question_comes_last_in_its_own_prompt() -> None:
    task = STORIES.model_copy(update={"prompt": MARKER_PROMPT, "system": "Be brief."})
    problem = task.problems("test")[0]
    turns = Shots(task, task.problems("train"), 2).turns(problem)
    assert [turn["role"] for turn in turns] == ["user", "assistant"] * 2
    assert all(text.endswith('write the final answer after "####".') for text in shown(turns))
    examples = (Example(question="1 + 1?", answer="#### 2"),)
    assert [t["content"] for t in written(task, examples, [problem])] == [
        MARKER_PROMPT.format(question="1 + 1?"),
        "#### 2",
    ]
    with pytest.raises(DataError, match=rf"examples\[0\] is the evaluated problem {problem.id}"):
        written(task, (Example(question=problem.question + " ", answer="2"),), [problem])


def test_gsm8k_solutions_are_shown_as_they_are(shared: Path) -> None:
    task = Gsm8k(path=str(shared / "data" / "gsm8k"))
    problem = task.problems("train")[0]
    assert demonstration(task, problem) == problem.solution and problem.solution.endswith("#### 72")
    boxed = Gsm8k(path=task.path, prompt=BOXED_PROMPT, grader=Answer(policy="boxed"))
    assert (demonstration(boxed, problem) or "").endswith("altogether in April and May.\n\\boxed{72}")


@pytest.mark.parametrize(
    ("task", "names"),
    [
        (STORIES, ["answer/official-gsm8k", "answer/flexible"]),
        (STORIES.model_copy(update={"grader": Answer(policy="official-gsm8k")}), ["answer/strict", "answer/flexible"]),
        (STORIES.model_copy(update={"grader": Answer(policy="flexible")}), ["answer/strict", "answer/official-gsm8k"]),
        (BOXED, ["answer/flexible", "math/math-verify"]),
        (BOXED.model_copy(update={"grader": Answer(policy="flexible")}), ["answer/boxed", "math/math-verify"]),
        (BOXED.model_copy(update={"grader": Math()}), ["answer/boxed", "answer/flexible"]),
    ],
)
def test_two_references_that_read_the_same_form(task: Task, names: list[str]) -> None:
    assert [grader.name for grader in usual_references(task)] == names


def test_references_read_the_part_that_the_declared_grader_reads() -> None:
    declared = Answer(policy="boxed", stop=("\nQ:",))
    item = Item("\\boxed{7}\nQ: and then? \\boxed{9}", "7")
    scores = [
        grade_by(r, declared, [item])[0].score for r in usual_references(BOXED.model_copy(update={"grader": declared}))
    ]
    assert scores == [1.0, 1.0] and Math().grade(*item[:2]).score == 0.0


def answers(grader: Answer | Math, gold: str, *texts: str) -> list[str | None]:
    return votes(grader, [grader.grade(text, gold) for text in texts])


def test_equal_answers_are_one_vote() -> None:
    plain = ("#### 18", "#### 18.0", "#### $18", "so\n#### 18 dollars", "#### 36/2", "#### 1,8")
    assert answers(Answer(), "18", *plain) == ["18"] * 5 + [None]
    assert answers(Answer(policy="official-gsm8k"), "18", "#### 18", "#### 18.0") == ["18", "18.0"]
    half = (r"\boxed{\frac{1}{2}}", r"\boxed{0.5}", r"\boxed{\dfrac12}", r"\boxed{.50}", r"\boxed{2}")
    assert answers(Math(), "0.5", *half) == ["0.5"] * 4 + ["2"]
    pair = (r"\boxed{(1/2, 3)}", r"\boxed{\left(\frac12,3.0\right)}", r"\boxed{[0.5,3]}", r"\boxed{(3,0.5)}")
    assert answers(Math(), "(0.5,3)", *pair) == ["(0.5,3)", "(0.5,3)", "[0.5,3]", "(3,0.5)"]
    assert answers(Math(), "East", r"\boxed{east}", r"\boxed{\text{EAST}}") == ["east", "east"]


def test_answers_judged_differently_are_never_one_vote() -> None:
    based = (r"\boxed{52}", r"\boxed{52.0}")  # to the base-8 gold, one is its digits and the other is not
    grader = Math()
    assert [grader.grade(text, "52_8").score for text in based] == [1.0, 0.0]
    assert answers(grader, "52_8", *based) == ["52", "52.0"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["1/2", "0.5", "(1,2)", "1,2", "x", "1,000", "1000"]), st.booleans())))
def test_a_vote_has_one_score_and_missing_answers_stay_missing(given: list[tuple[str, bool]]) -> None:
    # scores by the text, as a grader's are: any grader, even one that finds 1/2 right and 0.5 wrong
    right = dict(given)
    verdicts = [Verdict(score=float(right[text]), answer=text) for text, _ in given]
    found: dict[str | None, set[float]] = {}
    for vote, verdict in zip(votes(Math(), [*verdicts, Verdict(score=0.0, answer=None)]), verdicts, strict=False):
        found.setdefault(vote, set()).add(verdict.score)
    assert all(len(scores) == 1 for scores in found.values())
    assert votes(Math(), [Verdict(score=0.0, answer=None)]) == [None]
