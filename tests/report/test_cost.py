"""Seconds, money, memory and the price of an answer, with numbers that a hand can check."""

from __future__ import annotations

import json
from typing import Any

import pytest

from paribus.report import cost as costs
from paribus.report.cost import cost, cost_sentences
from paribus.report.inference import inference
from paribus.report.memory import memory
from paribus.report.results import finished, primary, schedule, training_seconds
from paribus.store import StoredRun, TimingRow, read_experiment
from reading import prose, rows, said, tables

THREE = {
    "ppo": {0: "11110000", 1: "11100000", 2: "11111000"},
    "grpo": {0: "11110100", 1: "11000000", 2: "11101100"},
}


def section(folder: Any) -> Any:
    exp = read_experiment(folder)
    return cost(exp, primary(exp), 1.5)


def _edit(run: StoredRun, **attempt: Any) -> None:
    data = json.loads(run.paths.run.read_bytes())
    data["attempts"][-1] |= attempt
    run.paths.run.write_text(json.dumps(data))


def test_cost_by_hand(write: Any) -> None:
    """PPO takes 4 steps of 10 s, GRPO 4 of 5 s: half the cost; 900 tokens a step are 90 and 180 a second."""
    found = section(write(THREE))
    totals, phases = tables(found)["cost"], tables(found)["phases"]
    assert said(totals.columns) == ["mean over seeds", "ppo", "grpo", "grpo relative to ppo"]
    assert rows(totals)[:5] == [
        ["training, wall-clock", "40.0 s", "20.0 s", "×0.50 (−50 %), 0.50 to 0.50"],
        ["training, device-hours", "0.011", "0.006", ""],
        ["price at $1.50 a device-hour", "$0.017", "$0.008", ""],
        ["median tokens/s", "90", "180", "×2.00 (+100 %), 2.00 to 2.00"],
        ["evaluation, wall-clock", "2.0 s", "2.0 s", ""],
    ]
    assert rows(phases) == [
        ["rollout", "24.0 s", "60.0 %", "20.0 s", "100.0 %"],
        ["critic update", "12.0 s", "30.0 %", "–", ""],
        ["other", "4.0 s", "10.0 %", "–", ""],
        ["all", "40.0 s", "", "20.0 s", ""],
    ]
    assert any("took turns, seed by seed" in text for text in prose(found))


def test_accuracy_against_money_by_hand(write: Any) -> None:
    """The base costs nothing; a PPO run 40 s at $1.50 an hour."""
    figures = {b.name: b for b in section(write(THREE)) if b.kind == "figure"}
    data = rows(figures["accuracy-per-dollar"].drawings[0].data)
    assert data[:2] == [["base", "mean", "0", "25"], ["ppo", "mean", "0.0166667", "50"]]
    assert [row[3] for row in data[2:5]] == ["50", "37.5", "62.5"] and data[2][1] == "run"


def test_the_ratio_of_costs_is_a_sentence_with_its_interval(write: Any) -> None:
    three = read_experiment(write(THREE))
    assert said(cost_sentences(three)) == [
        "Training grpo took ×0.50 of the wall-clock of ppo (95 % interval 0.50 to 0.50, 3 pairs of runs)."
    ]
    one = read_experiment(write({"ppo": {0: "11110000"}, "grpo": {0: "11100110"}}, seeds=[0], name="one"))
    assert said(cost_sentences(one)) == ["Training grpo took ×0.50 of the wall-clock of ppo, from one run of each."]
    assert rows(tables(section(one.paths.root))["cost"])[0][-1] == "×0.50 (−50 %)"  # no interval from one pair


def test_runs_side_by_side_or_on_other_machines_print_no_cost_ratio(write: Any) -> None:
    folder = write(THREE)
    exp = read_experiment(folder)
    plan = schedule(finished(exp))
    assert plan.comparable and plan.interleaved
    first, last = exp.runs["ppo"][0], exp.runs["grpo"][2]
    _edit(first, ended=last.info.attempts[0].ended)
    found = section(folder)
    assert rows(tables(found)["cost"])[0][-1] == "–" and cost_sentences(read_experiment(folder)) == []
    assert any("No cost ratios: runs overlapped in time" in text for text in prose(found))
    assert "accuracy-per-dollar" not in [b.name for b in found if b.kind == "figure"]
    _edit(first, ended=first.info.attempts[0].started, threads=1)
    assert any("different machines or thread counts" in text for text in prose(section(folder)))


def test_runs_that_were_meant_to_share_the_machine_are_compared_and_the_page_says_so(write: Any) -> None:
    folder = write(THREE)
    runs = sorted((run for found in read_experiment(folder).runs.values() for run in found.values()), key=_began)
    for run, after in zip(runs, [*runs[1:], None], strict=True):
        _edit(run, parallel=2, **({} if after is None else {"ended": after.info.attempts[0].ended}))
    plan = schedule(finished(read_experiment(folder)))
    assert plan.comparable and plan.interleaved and plan.at_once == 2
    found = section(folder)
    assert rows(tables(found)["cost"])[0][-1].startswith("×0.50")
    assert any(text.startswith("2 runs worked at a time, on cores of their own") for text in prose(found))
    _edit(runs[0], ended=runs[2].info.attempts[0].ended)  # a third one beside the two
    assert any("runs overlapped in time" in text for text in prose(section(folder)))
    _edit(runs[0], ended=runs[1].info.attempts[0].ended, parallel=1)
    assert any("unlike numbers of runs worked at a time" in text for text in prose(section(folder)))


def test_runs_that_begin_together_may_be_recorded_in_either_order(write: Any) -> None:
    """Seeds a a b b, as 0 0 1 1, 0 1 0 1 and 0 1 1 0: two at a time may swap neighbours, not more."""
    for order, turns in (((0, 0, 1, 1), True), ((0, 1, 0, 1), True), ((0, 1, 1, 0), False)):
        folder = write({arm: {0: "1", 1: "1"} for arm in ("a", "b")}, seeds=[0, 1], name="".join(map(str, order)))
        exp = read_experiment(folder)
        arms = {0: iter(("a", "b")), 1: iter(("a", "b"))}
        for minute, seed in enumerate(order):
            at = f"2026-01-01T00:{minute:02}:00+00:00"
            _edit(exp.runs[next(arms[seed])][seed], parallel=2, started=at, ended=at)
        assert schedule(finished(read_experiment(folder))).interleaved == turns


def _began(run: StoredRun) -> str:
    return run.info.attempts[0].started


def test_work_done_twice_is_counted_apart(write: Any) -> None:
    folder = write(THREE)
    run = read_experiment(folder).runs["grpo"][0]
    lines = run.paths.timing.read_text().splitlines()
    again = [json.dumps(json.loads(line) | {"attempt": 2, "seconds": {"rollout": 7.0}}) for line in lines[2:4]]
    run.paths.timing.write_text("\n".join([*lines[:4], *again, lines[4]]) + "\n")
    run = read_experiment(folder).runs["grpo"][0]
    assert training_seconds(run) == pytest.approx(5 + 5 + 7 + 7) and run.lost_seconds == pytest.approx(10)
    assert costs.evaluation_seconds(run) == 2.0


def test_memory_by_hand(write: Any) -> None:
    found = memory(read_experiment(write(THREE)))
    assert rows(tables(found)["memory"])[:3] == [
        ["process, resident (RSS)", "whole run", "0.64 GB", "0.54 GB"],
        ["", "rollout", "0.54 GB", "0.54 GB"],
        ["", "critic update", "0.64 GB", "–"],
    ]
    assert rows(tables(found)["memory"])[-1][2] == "8.59 GB (8.0 GiB)"
    assert prose(found, "warning") == []


def test_a_peak_beyond_the_device_is_flagged(write: Any) -> None:
    """The founding experiment's 50.71 GB on a card of 48 GB."""
    folder = write(THREE)
    run = read_experiment(folder).runs["ppo"][0]
    _edit(run, device="cuda: made up", device_bytes=48 * 10**9)
    for other in (r for by_seed in read_experiment(folder).runs.values() for r in by_seed.values()):
        _edit(other, device="cuda: made up", device_bytes=48 * 10**9)
    row = TimingRow(step=1, seconds={"policy_update": 1.0}, allocated_peak={"policy_update": 50_710_000_000})
    run.paths.timing.write_text(row.model_dump_json() + "\n" + run.paths.timing.read_text())
    (warned,) = prose(memory(read_experiment(folder)), "warning")
    assert warned.startswith("ppo: Impossible as resident memory: the allocator's peak of 50.71 GB is more than")


def test_inference_by_hand(write: Any) -> None:
    exp = read_experiment(write(THREE | {"grpo": {0: "1111t0u0", 1: "11000000", 2: "11101100"}}))
    found = inference(exp, primary(exp))
    base, _, grpo = rows(tables(found)["inference"])
    # 8 answers of 100 tokens in 4 s, 2 of them right; 24 of 50 tokens in 6 s, 11 right, 1 cut, 1 without answer
    assert base == ["base", "100.0", "100.0", "100.0", "400.0", "4.0 s", "200", "0.0 %", "0.0 %", "100.0 %", "25.0 %"]
    assert grpo[4:] == ["109.1", "2.0 s", "200", "4.2 %", "4.2 %", "91.7 %", "47.8 %"]
    assert prose(found, "warning") == []


def test_a_rate_that_is_not_tokens_over_time_is_flagged(write: Any) -> None:
    folder = write(THREE)
    run = read_experiment(folder).runs["ppo"][1]
    text = run.paths.timing.read_text()
    assert '"tokens":400' in text
    run.paths.timing.write_text(text.replace('"tokens":400', '"tokens":800'))
    exp = read_experiment(folder)
    (warned,) = prose(inference(exp, primary(exp)), "warning")
    assert warned.startswith("ppo, seed 1: Contradiction: 400 tokens in 2.0 s are 200 tokens/s, but 400 are stated")
