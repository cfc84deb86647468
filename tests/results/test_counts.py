"""Published numbers: what counts allow to be concluded, cost without intervals, impossible values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paribus.errors import ConfigError
from paribus.interop import Choice, Published, PublishedModel, read
from paribus.report.message import say
from paribus.results.counts import as_json, as_text, judge, pair_text
from paribus.results.sources import load
from paribus.stats import mcnemar

FOUNDING = Path(__file__).resolve().parents[2] / "experiments" / "published-gsm8k.toml"


def founding() -> Published:
    found = read(str(FOUNDING))
    assert isinstance(found, Published)
    return found


def test_the_founding_experiment_is_inconclusive_and_says_on_what_it_hangs() -> None:
    judged = judge(founding())
    (pair,) = judged.pairs
    assert (pair.a, pair.b, pair.settled) == ("ppo", "grpo", False)
    assert (pair.found.most_mid_p, pair.found.most_exact) == (82, 74)
    text = say(pair_text(pair))
    assert text.startswith("Inconclusive: neither a difference nor equivalence of checkpoint ppo and checkpoint grpo")
    assert "at most 82 by the mid-p test, 74 by the exact one" in text and "18 to 1,104 are possible" in text
    assert "+1.36 points, 95 % interval −2.40 to +5.12 (z = 0.71, p = 0.48)" in text
    assert "about 10,261 problems" in text and "about 20 runs of each" in text and "not of the algorithms" in text
    assert [(g.a, g.b, g.settled) for g in judged.gains] == [("ppo", "base", True), ("grpo", "base", True)]


def test_the_limits_of_discordance_are_those_of_the_tests() -> None:
    (pair,) = judge(founding()).pairs
    for most, mid in ((pair.found.most_mid_p, True), (pair.found.most_exact, False)):
        assert most is not None
        assert (
            mcnemar((most + 18) // 2, (most - 18) // 2, mid=mid)
            < 0.05
            <= mcnemar((most + 20) // 2, (most - 16) // 2, mid=mid)
        )


def test_cost_is_a_ratio_without_an_interval_and_memory_is_flagged() -> None:
    judged = judge(founding())
    ratios = {what: ratio.estimate for what, of, to, ratio in judged.costs if (of, to) == ("grpo", "ppo")}
    assert ratios["training time"] == pytest.approx(6.49 / 8.47) and ratios["price"] == pytest.approx(9.74 / 12.71)
    assert ratios["training tokens/s"] == pytest.approx(8192 / 6138)
    text = as_text(judged)
    assert "one run each: no interval" in text and "×0.77 (−23 %)" in text and "×1.33 (+33 %)" in text
    flagged = {name for name, _ in judged.flags}
    assert flagged == {"ppo"}
    told = " ".join(say(flag) for _, flag in judged.flags)
    assert "50.71 GB is more than the device's 48.00 GB" in told and "54.45 GB" in told and "47.36 GB" in told
    assert "tokens over time against tokens/s (3 models)" in text  # they agree, and that they were looked at is said


def test_a_rate_that_is_not_tokens_over_time_is_flagged() -> None:
    data = founding()
    ppo = data.model["ppo"].model_copy(update={"decode_tokens_per_second": 30000.0})
    flags = judge(data.model_copy(update={"model": {**data.model, "ppo": ppo}})).flags
    assert any("209,325 tokens in 10.4 s are 20,127 tokens/s, but 30,000 are stated" in say(flag) for _, flag in flags)


def test_counts_on_the_command_line_give_the_same_pair() -> None:
    data = load(["base=596/1319", "ppo=776/1319", "grpo=758/1319"], Choice())
    assert isinstance(data, Published)
    assert [p.found for p in judge(data).pairs] == [p.found for p in judge(founding()).pairs]
    assert json.loads(as_json(judge(data)))["verdicts"][0]["most_mid_p"] == 82
    with pytest.raises(ConfigError, match="equivalence needs the rows"):
        judge(data, margin=2)
    with pytest.raises(ConfigError, match="give this file alone"):
        load([str(FOUNDING), "x=1/1319"], Choice())


def test_three_arms_share_the_level() -> None:
    data = load(["a=500/1000", "b=510/1000", "c=700/1000"], Choice())
    assert isinstance(data, Published)
    judged = judge(data)
    assert [round(p.alpha, 6) for p in judged.pairs] == [round(0.05 / 3, 6)] * 3 and "1.67 %" in as_text(judged)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 60), st.data())
def test_a_settled_pair_is_significant_at_every_possible_discordance(total: int, data: st.DataObject) -> None:
    a, b = (data.draw(st.integers(0, total)) for _ in "ab")
    models = {"a": PublishedModel(correct=a), "b": PublishedModel(correct=b)}
    (pair,) = judge(Published(title="", problems=total, model=models)).pairs
    tables = [(n10, n10 - (a - b)) for n10 in range(total + 1)]
    possible = [
        mcnemar(x, y)
        for x, y in tables
        if y >= 0 and x <= a and y <= b and x + y <= total and a - x == b - y and a - x + x + y <= total
    ]
    assert pair.settled == (max(possible) < 0.05)
