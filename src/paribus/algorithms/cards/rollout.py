"""Cards of GRPO with another rollout, or with a correction of the engine that made it."""

from __future__ import annotations

from collections.abc import Mapping

from paribus.algorithms.cards.card import Card
from paribus.algorithms.cards.grpo import CARDS as GRPO
from paribus.algorithms.cards.grpo import GRPO_SOURCES

_SUMMED = "the log of a row's product of ratios is held within +-20, so that exp stays finite"

CARDS: Mapping[str, Card] = {
    "ngrpo": Card(
        "N-GRPO: GRPO on neighbour-mixed rollouts",
        GRPO_SOURCES
        | {
            "explore": "2606.10768: with probability 0.1 the anchor and its 2 nearest neighbours are mixed",
            "kl": "2606.10768: KL coefficient 0.001; the estimator (k3) is GRPO's (2402.03300 eq. 4)",
        },
        (
            *GRPO["grpo"].deviations,
            "the policy loss acts on the anchor of a mixed step, which the policy did not draw; so does the paper's "
            "code; explore.train = false leaves those positions out",
            "the paper's code differs from the paper: it mixes 2 tokens, and records the sampled token, not the anchor",
        ),
    ),
    "grpo_tis": Card(
        "GRPO with truncated importance sampling (TIS)",
        GRPO_SOURCES | {"correction": "not in GRPO's paper: truncation at 2.0 [via verl, rollout_is_threshold]"},
        GRPO["grpo"].deviations,
    ),
    "grpo_icepop": Card(
        "GRPO with masked importance sampling per token (IcePop)",
        GRPO_SOURCES | {"correction": "not in GRPO's paper: zero outside [0.5, 5] [via prime-rl, rllm]"},
        (
            *GRPO["grpo"].deviations,
            "sources disagree on IcePop's bounds ([0.2, 5] and [0.5, 2] are in use too); the original was not readable",
        ),
    ),
    "grpo_mis": Card(
        "GRPO with masked importance sampling per sequence (MIS)",
        GRPO_SOURCES | {"correction": "not in GRPO's paper: zero where the product exceeds 3 [via TRL, sequence_mask]"},
        (*GRPO["grpo"].deviations, _SUMMED),
    ),
}
