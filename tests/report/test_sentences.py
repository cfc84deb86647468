"""What may be said of a pair, word by word."""

from __future__ import annotations

from typing import Literal

import pytest

from paribus.report.message import say
from paribus.report.sentences import p_value, pair_sentence, settle_sentence
from paribus.stats import Difference, Interval, Verdict
from paribus.stats.verdict import Settle

Scope = Literal["algorithms", "checkpoints"]


def verdict(kind: str, *, estimate: float = 0.03, scope: Scope = "algorithms", margin: float | None = 0.02,
            settle: Settle | None = None, seeds: tuple[int, int] = (3, 5)) -> Verdict:  # fmt: skip
    d = Difference(estimate, 0.01, 6.0, seeds, 1319, "two-way t", scope, 90, 51)
    better = None if kind not in ("better", "better_within") else "ppo" if estimate > 0 else "grpo"
    interval = Interval(estimate, estimate - 0.02, estimate + 0.02, 8, "two-way t")
    p = None if margin is None else 0.4
    return Verdict("ppo", "grpo", kind, better, d, interval, 0.012, p, margin, settle or Settle())  # type: ignore[arg-type]


def test_a_better_arm_is_named_first_whichever_it_is() -> None:
    numbers = "95 % interval +1.00 to +5.00, p = 0.012, over 3 + 5 runs and 1,319 problems."
    assert say(pair_sentence(verdict("better"))) == f"ppo is better than grpo: ppo minus grpo +3.00 points, {numbers}"
    assert say(pair_sentence(verdict("better", estimate=-0.03))).startswith("grpo is better than ppo: ppo minus grpo −")
    assert "p = 0.012 (Holm over 3 pairs)" in say(pair_sentence(verdict("better"), 3))
    within = say(pair_sentence(verdict("better_within")))
    assert within.startswith("ppo is better than grpo, but within the margin of 2 points: ")
    assert "p = 0.012 for a difference and p = 0.400 for equivalence" in within


def test_a_margin_is_written_without_needless_zeros() -> None:
    for margin, shown in ((0.02, "2"), (0.1, "10"), (0.005, "0.5"), (0.0125, "1.25")):
        assert f"within {shown} points" in say(pair_sentence(verdict("equivalent", margin=margin)))


@pytest.mark.parametrize("kind", ["better", "better_within", "equivalent", "inconclusive", "identical"])
@pytest.mark.parametrize("seeds", [(1, 1), (3, 1)])
def test_with_one_run_a_side_every_sentence_speaks_of_checkpoints(kind: str, seeds: tuple[int, int]) -> None:
    text = say(pair_sentence(verdict(kind, scope="checkpoints", seeds=seeds)))
    assert "checkpoint ppo" in text and "checkpoint grpo" in text and text.endswith("not of the algorithms.")
    assert "checkpoint" not in say(pair_sentence(verdict(kind)))


def test_what_would_settle_it() -> None:
    both = verdict("inconclusive", settle=Settle(21, 4000, 30, None))
    assert say(settle_sentence(both) or "") == (
        "To show a difference of +3.00 points, if that is the true one: about 21 runs of each on these problems, or "
        "about 4,000 problems with these runs. To show equivalence within 2 points, if there is no difference: about "
        "30 runs of each on these problems."
    )
    none = say(settle_sentence(verdict("inconclusive", margin=None)) or "")
    assert none.endswith("neither more problems nor more runs alone would do.")
    one = verdict("inconclusive", scope="checkpoints", seeds=(1, 1), settle=Settle(problems=9000), margin=None)
    assert say(settle_sentence(one) or "").endswith(
        "about 9,000 problems for these checkpoints. For the algorithms no number of problems is enough: that takes "
        "two or more runs of each."
    )
    zero = verdict("inconclusive", estimate=0.0, margin=None)
    assert say(settle_sentence(zero) or "").startswith("The observed difference is 0")
    assert settle_sentence(verdict("better")) is None and settle_sentence(verdict("equivalent")) is None


def test_a_p_value_is_never_written_as_zero() -> None:
    assert [p_value(p) for p in (0.5, 0.0005, 0.00049, 0.0, 1.0)] == [
        "p = 0.500", "p = 0.001", "p < 0.001", "p < 0.001", "p = 1.000"
    ]  # fmt: skip
