"""The problems to leaf through follow the printed rule, whatever the models wrote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paribus.report import browser as module
from paribus.report.blocks import Browser, Code, Table
from paribus.report.browser import browser, kinds
from paribus.report.message import say
from paribus.report.results import primary
from paribus.store import EvalRow, read_experiment

TWO = {"ppo": {0: "11110000", 1: "11100000"}, "grpo": {0: "11100110", 1: "00000000"}}


def row(problem: str, score: float | None, tokens: int = 5, response: str = "so") -> EvalRow:
    return EvalRow(
        problem_id=problem,
        response=response,
        answer="1",
        score=score,
        status="ok",
        format=True,
        truncated=False,
        tokens=tokens,
        prompt_tokens=1,
        grader="g",
    )


def rows(pattern: str, tokens: Mapping[int, int] | None = None) -> dict[str, EvalRow]:
    """One response per character: 1 right, 0 wrong, x not counted."""
    marks = {"1": 1.0, "0": 0.0, "x": None}
    return {f"t-{i}": row(f"t-{i}", marks[c], (tokens or {}).get(i, 5)) for i, c in enumerate(pattern)}


def found(folder: Path) -> Browser:
    exp = read_experiment(folder)
    (block,) = (b for b in browser(exp, primary(exp)) if isinstance(b, Browser))
    return block


def table(folder: Path) -> list[list[str]]:
    exp = read_experiment(folder)
    (block,) = (b for b in browser(exp, primary(exp)) if isinstance(b, Table))
    return [[say(cell) for cell in cells] for cells in block.rows]


def test_every_problem_is_of_the_first_kind_that_holds() -> None:
    arms = {"ppo": rows("1100110x", {4: 10}), "grpo": rows("10100100")}
    sorted_ = {say(kind.text): sorted(kind.problems) for kind in kinds(arms, rows("01101011"), "test")}
    assert sorted_ == {
        "ppo is right, grpo is wrong": ["t-1", "t-4"],
        "grpo is right, ppo is wrong": ["t-2"],
        "the base is right, no arm is": ["t-6"],
        "all arms are right, in answers of different length": [],
        "any other problem": ["t-0", "t-3", "t-5"],
    }


def test_right_answers_whose_lengths_differ_most_come_first() -> None:
    arms = {"ppo": rows("1111", {0: 10, 1: 40, 3: 0}), "grpo": rows("1111", {0: 20, 1: 10, 2: 5, 3: 3})}
    kind = next(k for k in kinds(arms, None, "test") if "different length" in say(k.text))
    assert list(kind.problems) == ["t-1", "t-3", "t-0"]  # 4, 3 (no token counts as one) and 2 times as long


def test_one_arm_is_held_against_the_base_and_three_share_a_kind() -> None:
    alone = [say(k.text) for k in kinds({"ppo": rows("10")}, rows("01"), "test")]
    assert alone == ["the base is right, no arm is", "the base is wrong, ppo is right", "any other problem"]
    three = {"a": rows("110"), "b": rows("100"), "c": rows("100")}
    first = kinds(three, None, "test")[0]
    assert (say(first.text), list(first.problems)) == ("some arms are right, others wrong", ["t-1"])


@given(st.text("01x", min_size=1, max_size=30), st.text("01x", min_size=1, max_size=30))
def test_the_kinds_share_out_all_counted_problems(a: str, b: str) -> None:
    n = min(len(a), len(b))
    arms = {"ppo": rows(a[:n]), "grpo": rows(b[:n])}
    taken = [problem for kind in kinds(arms, None, "test") for problem in kind.problems]
    assert sorted(taken) == sorted(f"t-{i}" for i in range(n) if "x" not in (a[i], b[i]))


def test_the_order_within_a_kind_depends_on_ids_and_suite_alone() -> None:
    arms = {"ppo": rows("0" * 50), "grpo": rows("0" * 50)}
    turned = {name: dict(reversed(found.items())) for name, found in arms.items()}
    orders = [list(kinds(a, None, suite)[-1].problems) for a, suite in ((arms, "x"), (turned, "x"), (arms, "y"))]
    assert orders[0] == orders[1] != orders[2] and sorted(orders[0]) == sorted(orders[2])
    assert orders[0] != sorted(orders[0])


def test_the_table_counts_what_there_is_and_what_the_page_holds(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PLACES", 4)
    folder = write(TWO, seeds=[0, 1])
    assert table(folder) == [
        ["ppo is right, grpo is wrong", "1", "1"],
        ["grpo is right, ppo is wrong", "2", "2"],
        ["the base is right, no arm is", "0", "0"],
        ["all arms are right, in answers of different length", "0", "0"],
        ["any other problem", "5", "1"],
        ["all", "8", "4"],
    ]
    cases = found(folder).cases
    assert [case.kind for case in cases] == [0, 1, 1, 4] and cases[0].problem == "test-3"


def test_every_model_is_there_and_the_lowest_common_seed_is_shown(write: Any) -> None:
    block = found(write(TWO | {"ppo": {1: "11110000", 2: "11100000"}}, seeds=[0, 1, 2]))
    assert [f"{say(name)} {say(run)}".strip() for name, run in block.models] == [
        "base", "ppo seed 1", "ppo seed 2", "grpo seed 0", "grpo seed 1",
    ]  # fmt: skip
    assert block.shown == (1, 4)
    verdicts = {case.problem: [s.verdict for s in case.samples if s] for case in block.cases}
    assert verdicts["test-0"] == ["right", "right", "right", "right", "wrong"]
    alone = found(write({"ppo": {0: "11110000"}}, seeds=[0], name="alone"))
    assert alone.shown == (1, 0) and len(alone.models) == 2


def test_long_and_hostile_text_is_cut_and_spelt_out(write: Any) -> None:
    text = "\x1b[31m\u202e" + "a" * 100_000
    block = found(write(TWO, seeds=[0, 1], text=text, question="?" * 5000))
    case = block.cases[0]
    sample = case.samples[0]
    assert sample is not None and sample.text.startswith("⟨U+001B⟩[31m⟨U+202E⟩aaa")
    assert sample.text.count("a") == module.LONGEST - 6 and sample.left_out == 100_000 + 6 + 10 - module.LONGEST
    assert len(case.question) == module.LONGEST and case.left_out == 1000


def test_the_text_of_a_page_has_room_for_so_much(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROOM", 5 * 350 * 3)
    block = found(write(TWO, seeds=[0, 1], text="雪" * 100))
    held = sum(len(s.text.encode()) for case in block.cases for s in case.samples if s)
    assert 0 < len(block.cases) < 8 and held <= module.ROOM
    assert [case.kind for case in block.cases] == sorted(case.kind for case in block.cases)


def test_without_a_common_seed_there_is_nothing_to_leaf_through(write: Any) -> None:
    exp = read_experiment(write({"ppo": {0: "11110000"}, "grpo": {1: "11110000"}}, seeds=[0, 1]))
    assert browser(exp, primary(exp)) == []


def test_the_rest_is_asked_for_by_a_command_that_the_terminal_takes(write: Any) -> None:
    from paribus.results.samples import search

    folder = write({"ppo": {0: "11110000"}, "grpo-2": {0: "11100110"}}, seeds=[0])
    exp = read_experiment(folder)
    (code,) = (b for b in browser(exp, primary(exp)) if isinstance(b, Code))
    assert code.text == """paribus samples runs/toy --where 'ppo and not models["grpo-2"]'"""
    assert search(folder, 'ppo and not models["grpo-2"]').total == 1
