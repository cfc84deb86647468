"""The whole page, from stored runs to files, and the summary in the terminal."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from paribus.report import build, figures, summary
from paribus.report.blocks import Block, Page
from paribus.report.examples import examples, natural
from paribus.report.message import say
from paribus.report.page import page
from paribus.report.results import primary
from paribus.report.text import duration, points
from paribus.store import DifferenceRow, read_experiment
from reading import rows, said, tables

THREE = {
    "ppo": {0: "11110000", 1: "11100000", 2: "11111000"},
    "grpo": {0: "11110100", 1: "11000000", 2: "11101100"},
}


@pytest.fixture(autouse=True)
def no_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what takes seconds and has tests of its own."""
    monkeypatch.setattr(figures, "_svg", lambda *_: "<svg></svg>")
    monkeypatch.setattr(figures, "_png", lambda *_: b"")


def content(folder: Path) -> Page:
    return page(read_experiment(folder), 1.5)


def blocks(found: Page, title: str) -> list[Block]:
    return [block for section in found.sections if say(section.title) == title for block in section.blocks]


def test_an_experiment_that_has_hardly_begun_still_has_a_report(write: Any, tmp_path: Path) -> None:
    folder = write({"ppo": {}, "grpo": {}}, None)
    assert build(folder, tmp_path / "out").exists()
    assert said(content(folder).verdict) == ["No run has finished yet: there is nothing to compare."]
    alone = write({"ppo": {0: "11110000"}, "grpo": {}}, name="alone")
    assert build(alone, tmp_path / "out").exists()
    assert said(content(alone).verdict)[-1] == "No finished run of grpo."


def test_an_undeclared_difference_is_in_the_title(write: Any) -> None:
    differ = [
        DifferenceRow(path="critic.lr", values={"ppo": 1e-5, "grpo": None}, declared=True),
        DifferenceRow(path="whiten", values={"ppo": {"over": "tokens"}, "grpo": None}, declared=False),
    ]
    found = content(write(THREE, differences=differ))
    assert say(found.title) == "toy (not controlled)" and not found.controlled
    assert say(content(write(THREE, name="fine")).title) == "fine"


def test_examples_follow_the_printed_rule(write: Any) -> None:
    exp = read_experiment(write({"ppo": {0: "11110000"}, "grpo": {0: "11100110"}}, seeds=[0]))
    found = examples(exp, primary(exp))
    shown = [b.problem if b.kind == "example" else say(b.text) for b in found if b.kind in ("example", "prose")][1:]
    assert shown == [
        "The base is wrong, all arms are right: 2 problems of 8.", "test-1", "test-2",
        "The arms disagree: 3 problems of 8.", "test-3", "test-5",
        "The base is right, all arms are wrong: 0 problems of 8.",
        "All are wrong: 2 problems of 8.", "test-4", "test-7",
    ]  # fmt: skip
    first = next(b for b in found if b.kind == "example")
    assert (first.question, first.gold) == ("How many?", "1")
    assert [(say(a.model), a.verdict, a.read) for a in first.answers] == [
        ("base", "wrong", "1"),
        ("ppo", "right", "1"),
        ("grpo", "right", "1"),
    ]
    assert sorted(["t-10", "t-9", "t-1", "a", "7"], key=natural) == ["7", "a", "t-1", "t-9", "t-10"]


def test_a_price_given_beats_the_stored_one(write: Any, tmp_path: Path) -> None:
    text = build(write(THREE), tmp_path / "out", price_per_hour=90.0).with_name("report.md").read_text()
    assert "price at \\$90.00 a device-hour | \\$1.000 | \\$0.500" in text


def test_numbers_read_well() -> None:
    assert [duration(x) for x in (9.74, 222, 8.47 * 3600)] == ["9.7 s", "3 min 42 s", "8.47 h"]
    assert points(-0.01364) == "−1.36" and points(0.1364) == "+13.64" and points(-1e-18) == "+0.00"
    assert not math.isnan(float(points(0.5)))


def test_the_terminal_summary_holds_the_report_s_own_numbers(write: Any) -> None:
    folder = write(THREE)
    lines = summary(folder)
    found = content(folder)
    assert lines[0].split()[:2] == ["ppo", "grpo"] and "grpo relative to ppo" in lines[0]
    assert "50.00 %  50.00 %" in lines[1] and "gain over base (25.00 %)" in lines[2] and "+25.00" in lines[2]
    wall = rows(tables(blocks(found, "Cost"))["cost"])[0]
    assert all(cell in lines[3] for cell in wall)
    assert lines[-len(found.verdict) :] == said(found.verdict)


def test_every_table_and_figure_of_the_page_has_a_name_of_its_own(write: Any) -> None:
    found = content(write(THREE))
    names = [b.name for section in found.sections for b in section.blocks if b.kind in ("table", "figure")]
    assert "" not in names
    for kind in ("table", "figure"):
        own = [b.name for section in found.sections for b in section.blocks if b.kind == kind]
        assert len(set(own)) == len(own)
