"""The embedded task: right answers by independent arithmetic, disjoint splits, mistakes at their declared rates."""

from __future__ import annotations

import re
import subprocess
import sys
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paribus.errors import ConfigError
from paribus.part import load
from paribus.tasks.base import SPLITS, content_hash
from paribus.tasks.stories import Mistakes, Stories, split_of
from paribus.tasks.stories.kinds import SHAPES
from paribus.tasks.stories.worked import Draws, Ref, Step, Story, demonstrate, solve
from paribus.types import Key, Problem

EQUATION = re.compile(r"(\d+) ([-+*/]) (\d+) = (\d+)")
GAINS = ("buys", "finds", "picks up", "more")
LOSSES = ("gives", "loses", "sells", "takes", "gives away", "gets")
TASK = Stories()


def true(left: str, sign: str, right: str, result: str) -> bool:
    a, b = Fraction(left), Fraction(right)
    return {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else None}[sign] == Fraction(result)


def test_every_line_of_every_solution_is_true_and_the_last_result_is_the_answer() -> None:
    for split in SPLITS:
        for problem in TASK.problems(split):
            equations = EQUATION.findall(problem.solution)
            assert len(equations) == int(problem.tags["steps"])
            assert all(true(*e) for e in equations), problem.solution
            assert problem.gold == equations[-1][3]
            assert problem.solution.endswith(f"\n#### {problem.gold}")


def test_a_chain_read_as_english_gives_the_answer() -> None:
    """An oracle that never sees the program: it reads the sentences as a child would."""
    read = 0
    for problem in TASK.problems("test"):
        if problem.tags["kind"] != "chain":
            continue
        first, *events, _ = re.split(r"(?<=\.) ", problem.question)
        have = int(re.search(r"\d+", first)[0])  # type: ignore[index]
        for event in events:
            k = int(re.search(r"\d+", event)[0])  # type: ignore[index]
            have += k if "more" in event or "buys" in event else -k
        assert str(have) == problem.gold, problem.question
        read += 1
    assert read > 100


def test_numbers_stay_within_the_knob() -> None:
    small = Stories(largest=25, train=300)
    for problem in small.problems("train"):
        assert max(map(int, re.findall(r"\d+", problem.question + problem.solution))) <= 25


def test_no_question_is_in_two_splits_whatever_the_knobs() -> None:
    splits: dict[str, set[str]] = {split: set() for split in SPLITS}
    for task in (TASK, Stories(largest=30, train=3000), Stories(kinds=("chain", "compare"), max_steps=2, train=1500)):
        for split in SPLITS:
            questions = [p.question for p in task.problems(split)]
            assert len(set(questions)) == len(questions)
            splits[split] |= set(questions)
    assert not splits["train"] & splits["test"]
    assert not splits["train"] & splits["validation"]
    assert not splits["validation"] & splits["test"]


def test_sizes_are_as_declared_and_a_larger_split_only_goes_on() -> None:
    assert [len(TASK.problems(split)) for split in SPLITS] == [7473, 1000, 1319]
    assert Stories(train=200).problems("train") == TASK.problems("train")[:200]


def test_the_test_split_is_the_same_on_every_machine() -> None:
    """A change of this hash changes the benchmark: the shipped model must then be made again."""
    assert content_hash(TASK.problems("test")) == "d12a96caea54697b"
    code = "from paribus.tasks.stories import Stories; print(Stories(test=40).problems('test')[-1].question)"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == TASK.problems("test")[39].question


def test_every_kind_and_number_of_steps_occurs() -> None:
    seen = {(p.tags["kind"], int(p.tags["steps"])) for p in TASK.problems("train")}
    assert seen == {(kind, n) for kind, shape in SHAPES.items() for n in range(shape.least, shape.most + 1)}
    pairs = Stories(kinds=("chain", "money"), min_steps=2, max_steps=2, train=300).problems("train")
    assert {p.tags["steps"] for p in pairs} == {"2"}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"kinds": ["two"], "max_steps": 2}, ("two", "3 to 3 steps")),
        ({"kinds": []}, ("kinds",)),
        ({"kind": ["two"]}, ("unknown key 'kind'", "kinds")),
        ({"largest": 5}, ("largest",)),
    ],
)
def test_impossible_knobs_are_refused(data: dict[str, object], words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as error:
        load(Stories, data)
    assert all(word in str(error.value) for word in words)


def test_the_grader_accepts_the_solution_and_refuses_another_number() -> None:
    problem = TASK.problems("test")[0]
    wrong = problem.solution.replace(f"#### {problem.gold}", f"#### {int(problem.gold) + 1}")
    verdicts = [TASK.grader.grade(text, problem.gold) for text in (problem.solution, wrong)]
    assert [v.score for v in verdicts] == [1.0, 0.0]


def story() -> Story:
    """Ann has 4 bags of 6, loses 5, buys 3: 24, 19, 22."""
    steps = (
        Step("*", 4, 6, "Ann has {} pens.", "+"),
        Step("-", Ref(0), 5, "Now Ann has {} pens."),
        Step("+", Ref(1), 3, "Now Ann has {} pens.", "skip"),
    )
    return Story("groups", "", steps)


def test_a_mistake_carries_through() -> None:
    assert solve(story()).split("\n") == [
        "Ann has 4 * 6 = 24 pens.", "Now Ann has 24 - 5 = 19 pens.", "Now Ann has 19 + 3 = 22 pens.", "#### 22",
    ]  # fmt: skip
    trapped = demonstrate(story(), Draws(), Mistakes(trap=1))  # 4 + 6, and the last step left out
    assert trapped == "Ann has 4 + 6 = 10 pens.\nNow Ann has 10 - 5 = 5 pens.\n#### 5"
    skipped = demonstrate(story(), Draws(), Mistakes(skip=1))  # the first step has nothing to continue from: it stays
    assert skipped == "Ann has 4 * 6 = 24 pens.\n#### 24"
    assert demonstrate(story(), Draws(), Mistakes(trap=1, hard={"groups": 0})) == solve(story())


def test_mistakes_come_at_their_rates() -> None:
    """Right: no trap in two steps, no skip in two steps, no slip in four numbers."""
    rates = Mistakes(trap=0.3, skip=0.2, slip=0.05)
    n = 4000
    texts = [demonstrate(story(), Draws("rates", i), rates) for i in range(n)]
    right = sum(text == solve(story()) for text in texts) / n
    expected = 0.7**2 * 0.8**2 * 0.95**4
    assert right == pytest.approx(expected, abs=4 * (expected * (1 - expected) / n) ** 0.5)
    first = sum(text.startswith("Ann has 4 + 6") for text in texts) / n
    assert first == pytest.approx(0.3 * 0.95**2, abs=0.03)


def test_a_demonstration_depends_on_its_key_alone() -> None:
    problem = TASK.problems("train")[5]
    rates = Mistakes(trap=0.5, skip=0.3, slip=0.2)
    texts = [TASK.demonstration(problem, Key(0, "demonstration", epoch, problem.id), rates) for epoch in range(30)]
    again = [TASK.demonstration(problem, Key(0, "demonstration", epoch, problem.id), rates) for epoch in range(30)]
    assert texts == again
    assert len(set(texts)) > 3
    assert TASK.demonstration(problem, Key(1, "x"), Mistakes()) == problem.solution


@settings(max_examples=200, deadline=None)
@given(index=st.integers(0, 7472), seed=st.integers(0, 10**6))
def test_even_wrong_demonstrations_are_true_to_their_own_arithmetic(index: int, seed: int) -> None:
    """The errors are of choice, not of arithmetic: what is left to learn is what to do, not how to add."""
    problem: Problem = TASK.problems("train")[index]
    text = TASK.demonstration(problem, Key(seed, "demonstration"), Mistakes(trap=0.5, skip=0.3, slip=0.2))
    for left, sign, right, result in EQUATION.findall(text):
        a, b, c = int(left), int(right), int(result)
        assert c == {"+": a + b, "-": abs(a - b), "*": a * b, "/": a // max(b, 1)}[sign]
    assert re.fullmatch(r"#### \d+", text.split("\n")[-1])


def test_the_shares_of_the_splits() -> None:
    counts = {split: 0 for split in SPLITS}
    for n in range(20_000):
        counts[split_of(f"question {n}")] += 1
    assert counts["test"] / 20_000 == pytest.approx(0.15, abs=0.01)
    assert counts["validation"] / 20_000 == pytest.approx(0.10, abs=0.01)


def test_draws_are_uniform_and_pairs_differ() -> None:
    draws = Draws("uniform")
    counts = [0] * 7
    for _ in range(14_000):
        counts[draws.below(7)] += 1
    assert all(abs(c - 2000) < 200 for c in counts)
    pairs = {draws.pair("abc") for _ in range(300)}
    assert pairs == {(x, y) for x in "abc" for y in "abc" if x != y}
