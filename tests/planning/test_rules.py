"""The written rules: break-even numbers, both sides of every boundary, abstention, and two arms always."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from paribus.algorithms import CATALOG, find
from paribus.planning import rules, weigh
from paribus.planning.rules import RULES, Signals, break_even, traits
from paribus.report.advice import message
from paribus.report.message import msg, say
from paribus.stats import Interval


def near(value: float, half: float = 0.01, n: int = 256) -> Interval:
    return Interval(value, value - half, value + half, n, "made up")


def signals(**changes: Any) -> Signals:
    """A pilot that speaks for nothing in particular."""
    quiet = Signals(
        group=8,
        informative={4: near(0.6), 8: near(0.7), 16: near(0.9)},
        rates={4: near(1.4), 8: Interval(1, 1, 1, 256, "made up"), 16: near(0.6)},
        critic_factor=near(1.2),
        reliability=near(0.98),
        length_credit=near(0.0),
        extremes=near(0.2),
        drift=near(0.0),
    )
    return dataclasses.replace(quiet, **changes)


def found(name: str, **changes: Any) -> Any:
    return next(f for f in weigh.apply(signals(**changes)) if f.name == name)


@pytest.mark.parametrize(
    ("group", "ratio", "percent"),
    [(4, 1.1, 21), (4, 1.3, 3), (4, 1.6, None), (8, 1.1, 4), (8, 1.3, None), (8, 1.6, None)],
)
def test_the_value_error_at_which_a_critic_breaks_even(group: int, ratio: float, percent: int | None) -> None:
    m0 = break_even(ratio, group)
    assert m0 < 0 if percent is None else round(100 * m0) == percent


def test_the_founding_experiment_needs_a_near_perfect_critic() -> None:
    assert 0.02 < break_even(8.47 / 6.49, 4) < 0.0225


def test_the_list_holds_ten_rules() -> None:
    assert {rule.number for rule in RULES} == set(range(1, 11))
    assert all(rule.source for rule in RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_speaks_on_either_side_and_abstains_between(rule: rules.Rule) -> None:
    for shift, outcome, effect in ((0.2, "above", rule.above), (-0.2, "below", rule.below)):
        finding = weigh.judge(rule, near(rule.boundary + shift, 0.1))
        assert finding.outcome == outcome and say(message(finding.effect)) == say(effect.text)
        assert finding.favours == ((effect.favours,) if effect.favours else ())
        assert finding.more is None
    finding = weigh.judge(rule, near(rule.boundary + 0.2, 0.4, n=100))
    assert finding.outcome == "straddles" and finding.favours == ()
    # half the distance is needed: four times the units, and one more to be past the boundary (300 by rounding)
    assert finding.more in (300, 301)
    assert "the pilot cannot separate them" in say(message(finding.effect))
    assert f"{finding.more} further" in say(message(finding.effect))


@pytest.mark.parametrize(("low", "high"), [(0.5, 0.9), (0.71, 0.83), (-2.0, 1.0)])
def test_the_further_units_would_part_interval_and_boundary(low: float, high: float) -> None:
    value, boundary, n = Interval((low + high) / 2, low, high, 64, ""), 0.72, 64
    more = weigh.further(value, boundary)
    assert more is not None

    def parted(units: int) -> bool:
        half = (high - low) / 2 * math.sqrt(n / units)
        return abs(value.estimate - boundary) > half

    assert parted(n + more) and not parted(n + more - 1)


def test_no_number_of_units_settles_an_estimate_on_the_boundary() -> None:
    assert weigh.further(near(0.5), 0.5) is None
    assert weigh.further(Interval(0.6, -math.inf, math.inf, 2, ""), 0.5) is None
    assert weigh.further(near(0.5000001, 0.1), 0.5) is None


def test_what_was_not_measured_says_so_and_votes_for_nothing() -> None:
    finding = found("critic")
    assert finding.outcome == "not measured" and finding.value is None and finding.favours == ()


def test_the_critic_rule_weighs_variance_against_time() -> None:
    # G = 8: 8/7 for the group; 0.8 x 1.3 = 1.04 is less, 1.2 x 1.3 = 1.56 more
    cheap = found("critic", critic_factor=near(0.8), time_ratio=near(1.3))
    assert cheap.value.estimate == pytest.approx(0.8 * 1.3 * 7 / 8) and cheap.favours == ("critic",)
    dear = found("critic", critic_factor=near(1.2), time_ratio=near(1.3))
    assert dear.favours == ("group",)
    unsure = found("critic", critic_factor=near(0.85, 0.2), time_ratio=near(1.3, 0.2))
    assert unsure.outcome == "straddles"


def test_the_best_group_is_the_fastest_whose_mean_is_a_fair_baseline() -> None:
    assert rules.best_group(signals()) == 8  # 4 would be faster, but adds a third to the variance
    assert found("group-size").outcome == "below"
    assert found("group-size", rates={8: near(1.0, 0), 16: near(1.5)}).outcome == "above"
    assert found("group-variance", group=4).outcome == "above"
    assert found("group-variance", group=5).outcome == "below"


def test_the_size_of_a_correlation_counts_whatever_its_sign() -> None:
    assert found("length", length_credit=near(-0.3)).favours == ("dr_grpo",)
    assert found("length", length_credit=near(0.3)).favours == ("dr_grpo",)
    assert found("length", length_credit=near(0.02, 0.05)).outcome == "below"
    assert found("length", length_credit=near(-0.02, 0.2)).outcome == "straddles"


def test_offline_pairs_need_both_costly_sampling_and_informative_groups() -> None:
    assert found("offline", rollout_share=near(0.7), informative={8: near(0.9)}).favours == ("dpo",)
    assert found("offline", rollout_share=near(0.7), informative={8: near(0.6)}).favours == ()
    assert found("offline", rollout_share=near(0.3), informative={8: near(0.9)}).favours == ()


def test_memory_is_judged_arm_by_arm() -> None:
    shares = {"ppo": near(0.97), "grpo": near(0.6)}
    outcome = {f.arm: f.outcome for f in weigh.apply(signals(memory=shares)) if f.name == "memory"}
    assert outcome == {"ppo": "above", "grpo": "below"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ppo", {"critic"}),
        ("grpo", {"group"}),
        ("rloo", {"group"}),
        ("dr_grpo", {"group", "dr_grpo"}),
        ("dapo", {"group", "dapo"}),
        ("gspo", {"group", "gspo"}),
        ("cppo", {"group", "gspo"}),
        ("dpo", {"dpo"}),
        ("sft", set()),
    ],
)
def test_traits_of_catalogue_entries(name: str, expected: set[str]) -> None:
    assert traits(find(name)) == expected


def test_every_variant_is_a_catalogue_entry_with_its_trait() -> None:
    for name in rules.VARIANTS:
        assert name in traits(CATALOG[name])


ARMS = {name: find(name) for name in ("ppo", "grpo", "dr_grpo")}
SECONDS = {"ppo": 3.0, "grpo": 2.0, "dr_grpo": 2.5}


def test_two_arms_are_recommended_by_votes_and_then_by_cost() -> None:
    assert weigh.recommend(weigh.apply(signals()), ARMS, SECONDS) == ("grpo", "dr_grpo")
    called = weigh.apply(signals(length_credit=near(0.3)))
    assert weigh.recommend(called, ARMS, SECONDS) == ("dr_grpo", "grpo")
    critic = weigh.apply(signals(critic_factor=near(0.5), time_ratio=near(1.3)))
    assert weigh.recommend(critic, ARMS, SECONDS) == ("ppo", "grpo")


def test_where_the_critic_rule_abstains_one_arm_of_each_kind_is_run() -> None:
    unsure = weigh.apply(signals(critic_factor=near(0.85, 0.2), time_ratio=near(1.3, 0.2)))
    assert set(weigh.recommend(unsure, ARMS, SECONDS)) == {"ppo", "grpo"}


def test_votes_put_no_arm_ahead_of_one_that_the_critic_rule_cannot_tell_it_from() -> None:
    unsure = {"critic_factor": near(0.85, 0.2), "time_ratio": near(1.3, 0.2), "length_credit": near(0.3)}
    findings = weigh.apply(signals(**unsure))
    assert weigh.votes(findings, ARMS["dr_grpo"]) == 1
    assert not weigh.ahead(findings, ARMS["dr_grpo"], ARMS["ppo"])
    assert weigh.ahead(findings, ARMS["dr_grpo"], ARMS["grpo"])
    assert not weigh.ahead(findings, ARMS["grpo"], ARMS["dr_grpo"])


def test_more_prompts_are_asked_for_where_prompts_are_the_units() -> None:
    timed = Interval(1.3, 1.0, 1.7, 4, "four timed steps")
    assert found("critic", critic_factor=near(0.85, 0.2, n=256), time_ratio=timed).value.n == 256


def test_an_arm_that_does_not_fit_is_left_out_unless_only_one_would_remain() -> None:
    shares = {"grpo": near(0.97), "ppo": near(0.5), "dr_grpo": near(0.5)}
    dropped = weigh.apply(signals(memory=shares))
    assert set(weigh.recommend(dropped, ARMS, SECONDS)) == {"ppo", "dr_grpo"}
    two = {name: ARMS[name] for name in ("ppo", "grpo")}
    assert weigh.recommend(dropped, two, SECONDS) == ("ppo", "grpo")


def test_a_stored_sentence_is_the_sentence() -> None:
    text = msg("about {more} further prompts would", more=1200)
    assert message(weigh.said(text)) == text
