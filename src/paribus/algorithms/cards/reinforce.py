"""Cards of REINFORCE and its relatives: one action is the whole response."""

from __future__ import annotations

from collections.abc import Mapping

from paribus.algorithms.cards.card import NO_REWARD_MODEL, OUTCOME, Card

_WILLIAMS = {
    "shaping.outcome_at_end": "the reinforcement r, one number per episode",
    "surrogate": 'Williams 1992, REINFORCE: step along (r - b) times the "characteristic eligibility" d ln g / d w',
    "aggregate": "Williams 1992, episodic REINFORCE: the eligibilities of an episode are summed",
}
_REINFORCE = "the paper leaves the baseline open"

CARDS: Mapping[str, Card] = {
    "reinforce": Card(
        "REINFORCE with a fixed baseline",
        _WILLIAMS | {"advantage": 'Williams 1992: b, the "reinforcement baseline", a constant'},
        (_REINFORCE + ": 0.5 is the middle of scores 0 and 1",),
    ),
    "reinforce_batch": Card(
        "REINFORCE with the batch mean as baseline",
        _WILLIAMS | {"advantage": "Williams 1992: b; here the mean over the step, own row included"},
        (_REINFORCE + "; a baseline that includes the row itself shrinks the expected gradient by (B-1)/B",),
    ),
    "reinforce_ema": Card(
        "REINFORCE with a moving-average baseline",
        _WILLIAMS | {"advantage": "Williams 1992: b as a running average of past r (reinforcement comparison)"},
        (_REINFORCE + ": decay 0.9 with bias correction is our choice",),
    ),
    "rloo": Card(
        "RLOO: REINFORCE Leave-One-Out",
        {
            "shaping.outcome_at_end": OUTCOME,
            "shaping.kl_in_reward": "2402.14740: the KL penalty is part of the reward R(x, y); beta 0.03",
            "advantage": "2402.14740, RLOO estimator: the baseline is the mean reward of the k - 1 other samples",
            "surrogate": "2402.14740: REINFORCE on the whole generation as one action, no clipping",
            "aggregate": "2402.14740: log-probability of the sequence (a sum), mean over samples",
        },
        (
            NO_REWARD_MODEL,
            "beta 0.03 is taken from TRL's account of the paper, which tunes it per data set",
        ),
    ),
}
