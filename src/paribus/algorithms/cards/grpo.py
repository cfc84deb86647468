"""Cards of GRPO and the methods that change its advantage, aggregation or rows."""

from __future__ import annotations

from collections.abc import Mapping

from paribus.algorithms.cards.card import K3_GUARD, NO_REWARD_MODEL, OUTCOME, RATIO_GUARD, Card

GRPO_SOURCES = {
    "shaping.outcome_at_end": "2402.03300 section 4.1.2: outcome supervision",
    "advantage": '2402.03300 section 4.1.2: "normalized by subtracting the group average and dividing by the group '
    'standard deviation"',
    "ratio": "2402.03300 eq. 3",
    "surrogate": "2402.03300 eq. 3, as in PPO",
    "kl": "2402.03300 eq. 4 (k3, added to the loss); section 4.2: coefficient 0.04",
    "aggregate": "2402.03300 eq. 3: 1/G sum_i 1/|o_i| sum_t",
}

CARDS: Mapping[str, Card] = {
    "grpo": Card(
        "GRPO: Group Relative Policy Optimization",
        GRPO_SOURCES,
        (
            NO_REWARD_MODEL,
            "the paper states neither ddof nor eps nor the clip range: Bessel, 1e-6 and 0.2 are the open "
            "implementations' (verl; TRL has eps 1e-4)",
            RATIO_GUARD,
            K3_GUARD,
        ),
    ),
    "dr_grpo": Card(
        "Dr. GRPO: GRPO without its length and difficulty biases",
        {
            "shaping.outcome_at_end": OUTCOME,
            "advantage": '2503.20783 section 3.2: "removing the length and std normalization terms"',
            "ratio": "2402.03300 eq. 3",
            "surrogate": "2503.20783 section 3.2: GRPO's",
            "aggregate": "2503.20783 section 3.2 and its code: token sum divided by the constant generation budget",
        },
        ("the clip range 0.2 is the code's default, not stated in the paper", RATIO_GUARD),
    ),
    "dapo_no_resampling": Card(
        "DAPO without resampling",
        {
            "keep": "2503.14476 eq. 11: only groups with 0 < correct < G count",
            "shaping.outcome_at_end": "2503.14476 eq. 7: 1 for a right answer, -1 for a wrong one",
            "shaping.soft_overlong": "2503.14476 eq. 13; section 4.1: the last 4,096 of 20,480 tokens",
            "advantage": "2503.14476 eq. 9: group-normalised",
            "ratio": "2503.14476 eq. 9",
            "surrogate": "2503.14476 eq. 10 and section 4.1: clip-higher, 0.2 and 0.28",
            "aggregate": "2503.14476 eq. 12: token-level loss, 1 / sum |o_i|",
        },
        (
            "uniform groups are dropped but the batch is not filled up again, so updates see fewer rows",
            "ddof and eps of the std are not stated: Bessel and 1e-6 (verl)",
            RATIO_GUARD,
        ),
    ),
}
