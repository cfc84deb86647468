"""Cards of the methods that put another surrogate on the ratio to the old policy: GSPO, CISPO, SAPO, GMPO."""

from __future__ import annotations

from collections.abc import Mapping

from paribus.algorithms.cards.card import OUTCOME, RATIO_GUARD, Card

_GROUP = "group-normalised as in GRPO (2402.03300 section 4.1.2)"
_STD = "ddof and eps of the std are not stated: Bessel and 1e-6 (verl)"
_SECOND_HAND = "the paper was not read: formula and numbers are those on which verl and TRL agree"

CARDS: Mapping[str, Card] = {
    "gspo": Card(
        "GSPO: Group Sequence Policy Optimization",
        {
            "shaping.outcome_at_end": OUTCOME,
            "advantage": "2507.18071: " + _GROUP,
            "ratio": "2507.18071: length-normalised sequence likelihood ratio, exp of the mean log-ratio",
            "surrogate": "2507.18071 eq. 5; section 5.1: clipping ranges 3e-4 and 4e-4",
            "aggregate": "2507.18071 eq. 5: one term per response, mean over responses",
        },
        (
            _STD,
            "the clip ranges suit long responses: on short ones the mean log-ratio varies more, and more is clipped",
            "the row's mean log-ratio is held within +-20, so that exp stays finite; the paper has no bound",
        ),
    ),
    "cispo": Card(
        "CISPO: Clipped Importance Sampling Policy Optimization",
        {
            "shaping.outcome_at_end": OUTCOME,
            "advantage": "2506.13585: " + _GROUP,
            "ratio": "2506.13585: token-level weight, without gradient [via TRL, verl]",
            "surrogate": "2506.13585: clipped weight on the score function, no lower bound [via verl]; cap 5.0: "
            "ScaleRL (2510.13786) [via TRL]",
            "aggregate": "2506.13585: token-level mean [via TRL, verl]",
        },
        (
            "the paper's own cap is not published where we could read it: 5.0 is ScaleRL's",
            _STD,
            RATIO_GUARD,
        ),
    ),
    "sapo": Card(
        "SAPO: Soft Adaptive Policy Optimization",
        {
            "shaping.outcome_at_end": OUTCOME,
            "advantage": "2511.20347: " + _GROUP + " [via TRL, verl]",
            "ratio": "2511.20347: token-level [via TRL, verl]",
            "surrogate": "2511.20347: sigmoid gate, tau 1.0 for A > 0 and 1.05 otherwise [via TRL, verl]",
            "aggregate": "2511.20347: mean over a response's tokens, then over responses [via TRL, verl]",
        },
        (_SECOND_HAND, _STD, RATIO_GUARD),
    ),
    "gmpo": Card(
        "GMPO: Geometric-Mean Policy Optimization",
        {
            "shaping.outcome_at_end": OUTCOME,
            "advantage": "2507.20673: " + _GROUP + " [via TRL, verl]",
            "ratio": "2507.20673: token-level log-ratio [via TRL, verl]",
            "surrogate": "2507.20673: geometric mean of token ratios, clipped to exp(-0.4) and exp(0.4) [via TRL gmpo, "
            "verl geo_mean]",
            "aggregate": "2507.20673: one term per response, mean over responses [via TRL, verl]",
        },
        (_SECOND_HAND, _STD, RATIO_GUARD),
    ),
}
