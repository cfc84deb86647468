"""The back-check: predictions of cost and of the outcome, held against made-up runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paribus.report.advice import advice_section, lines, message, score
from paribus.report.blocks import Prose, Table
from paribus.report.message import say
from paribus.store import Advice, ArmAdvice, FindingRow, MeasuredRow, SaidRow, SignalRow, read_experiment, write_advice

Write = Callable[..., Path]
RUNS = {"ppo": {0: "11110000", 1: "11110000", 2: "11110000"}, "grpo": {0: "11111110", 1: "11111110", 2: "11111110"}}


def near(value: float, half: float) -> MeasuredRow:
    return MeasuredRow(estimate=value, low=value - half, high=value + half, n=4)


def advice(**changes: Any) -> Advice:
    finding = FindingRow(
        rule=3,
        name="critic",
        signal=SaidRow(template="variance of credit x time"),
        value=MeasuredRow(estimate=1.5, low=1.2, high=None, n=256),
        boundary=1.0,
        outcome="above",
        effect=SaidRow(template="a group baseline gives more for the time than a critic"),
        source="a paper",
        favours=("group",),
    )
    arms = tuple(
        ArmAdvice(
            arm=name,
            base=None,
            votes=votes,
            dropped=False,
            training=near(seconds, 5),
            run=near(seconds + 9, 5),
            seeds=3,
        )
        for name, votes, seconds in (("ppo", 0, 44.0), ("grpo", 1, 30.0))
    )
    base = Advice(
        experiment="toy",
        prompts=256,
        samples=16,
        excluded=0,
        signals=(SignalRow(name=SaidRow(template="success rate"), value=near(0.5, 0.1)),),
        findings=(finding,),
        arms=arms,
        recommended=("grpo", "ppo"),
        ahead="grpo",
        whole=near(300.0, 50),
        price_per_hour=1.5,
    )
    return base.model_copy(update=changes)


def said(folder: Path) -> str:
    blocks = advice_section(read_experiment(folder))
    return " ".join(say(block.text) for block in blocks if isinstance(block, Prose))


def test_nothing_is_said_where_nobody_asked(write: Write) -> None:
    folder = write(RUNS)
    assert read_experiment(folder).advice is None
    assert advice_section(read_experiment(folder)) == []


def test_predicted_seconds_are_held_against_recorded_ones(write: Write) -> None:
    folder = write(RUNS)
    write_advice(folder, advice())
    exp = read_experiment(folder)
    assert exp.advice is not None and exp.advice.created
    found = {say(s.what): s for s in score(exp.advice, exp)}
    # four steps of 10 s (ppo) and 5 s (grpo), evaluations left out
    ppo, grpo = found["training of a run of ppo"], found["training of a run of grpo"]
    assert (ppo.measured, grpo.measured) == (40.0, 20.0)
    assert ppo.inside and ppo.error == pytest.approx(40 / 44 - 1)
    assert not grpo.inside and grpo.error == pytest.approx(20 / 30 - 1)


@pytest.mark.parametrize(
    ("ahead", "sentence"),
    [
        ("grpo", "It came true: grpo scored higher."),
        ("ppo", "It did not come true: grpo scored higher."),
        (None, "There is no prediction of the outcome to score."),
    ],
)
def test_the_outcome_is_scored_by_the_verdict(write: Write, ahead: str | None, sentence: str) -> None:
    wide = {arm: {seed: pattern * 40 for seed, pattern in found.items()} for arm, found in RUNS.items()}
    folder = write(wide, base="10010000" * 40)
    write_advice(folder, advice(ahead=ahead))
    assert sentence in said(folder)


def test_an_outcome_that_the_runs_do_not_decide_is_not_scored(write: Write) -> None:
    folder = write({"ppo": RUNS["ppo"], "grpo": {0: "11110000", 1: "11101000", 2: "11110000"}})
    write_advice(folder, advice())
    assert "The runs do not decide whether grpo is ahead" in said(folder)


def test_rules_and_signals_stand_in_tables_and_an_open_bound_is_infinite(write: Write) -> None:
    folder = write(RUNS)
    write_advice(folder, advice())
    tables = {b.name: b for b in advice_section(read_experiment(folder)) if isinstance(b, Table)}
    assert set(tables) == {"advice-rules", "advice-cost", "advice-signals"}
    (row,) = tables["advice-rules"].rows
    assert [say(cell) for cell in row] == [
        "3 critic",
        "variance of credit x time",
        "1.5",
        "1.2 – ∞",
        "1",
        "a group baseline gives more for the time than a critic",
        "a paper",
    ]


def test_the_terminal_shows_signal_rule_effect_source_and_two_arms() -> None:
    text = "\n".join(lines(advice()))
    for part in ("success rate", "3 critic", "1.5 (1.2 – ∞) against 1 ->", "source: a paper", "grpo and ppo"):
        assert part in text
    assert "$0.049" in text  # 3 runs of 39 s at 1.5 $ an hour
    assert say(message(SaidRow(template="{n} prompts", fields={"n": "3"}))) == "3 prompts"
