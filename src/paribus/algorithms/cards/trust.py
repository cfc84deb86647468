"""Cards of the methods whose trust region is a divergence: DPPO and CPPO."""

from __future__ import annotations

from collections.abc import Mapping

from paribus.algorithms.cards.card import OUTCOME, RATIO_GUARD, Card

_DPPO = {
    "shaping.outcome_at_end": OUTCOME,
    "advantage": "2602.04879, experiments: reward minus group mean, not divided by a std",
    "ratio": "2602.04879: token-level, to the rollout policy as its engine reported it",
    "aggregate": "verl's DPPO example script: token sum divided by a constant (seq-mean-token-sum-norm)",
}
_DPPO_DEVIATIONS = (
    "a ratio above the cap of 5 keeps the gradient of 5 log r, as in the paper's code (Stable-RL)",
    RATIO_GUARD,
)
_KL_FLOOR = "probabilities below 1e-12 count as 1e-12, as in Stable-RL's top-k code; the paper has no floor"
_MASK = "2602.04879: mask where the update moves away and D > delta; ratio truncated at 5; "

_CPPO_SURROGATE = (
    "2606.10968: D over the top 20, position weights down to w_min 0.8, delta 0.15 (dense models), prefix budget "
)
_CPPO = {
    "keep": "2606.10968, experiments: prompts whose rewards have no spread are dropped",
    "shaping.outcome_at_end": OUTCOME,
    "advantage": "2606.10968, experiments: group-normalised",
    "ratio": "2606.10968: token-level, to the rollout policy",
    "surrogate": _CPPO_SURROGATE + "0.015 (its post-trained 1.7B model)",
    "aggregate": "2606.10968's code (UniRL): token sum divided by a constant; the paper's objective is the sum itself",
}
_CPPO_DEVIATIONS = (
    "the paper's code differs from the paper: binary TV, delta 0.2, a budget that is always adaptive, and rewards less "
    "the group mean only; this is the paper",
    "positions count trained tokens only; the paper does not speak of tokens that the policy did not sample",
    "ddof and eps of the std are not stated: Bessel and 1e-6 (verl)",
    "groups without spread are dropped but the batch is not filled up again",
    RATIO_GUARD + "; its code has this one",
)

CARDS: Mapping[str, Card] = {
    "dppo_tv": Card(
        "DPPO: Divergence Proximal Policy Optimization, binary total variation",
        _DPPO | {"surrogate": _MASK + "delta 0.2 for total variation"},
        _DPPO_DEVIATIONS,
    ),
    "dppo_kl": Card(
        "DPPO: Divergence Proximal Policy Optimization, binary KL",
        _DPPO | {"surrogate": _MASK + "delta 0.05 for KL"},
        (*_DPPO_DEVIATIONS, _KL_FLOOR),
    ),
    "dppo_topk_tv": Card(
        "DPPO: Divergence Proximal Policy Optimization, top-k total variation",
        _DPPO | {"surrogate": _MASK + "delta 0.2 for total variation, K = 20 with the sampled token added"},
        _DPPO_DEVIATIONS,
    ),
    "dppo_topk_kl": Card(
        "DPPO: Divergence Proximal Policy Optimization, top-k KL",
        _DPPO | {"surrogate": _MASK + "delta 0.05 for KL, K = 20 with the sampled token added"},
        (*_DPPO_DEVIATIONS, _KL_FLOOR),
    ),
    "cppo": Card("CPPO: prefix-constrained PPO, fixed budget", _CPPO, _CPPO_DEVIATIONS),
    "cppo_adaptive": Card(
        "CPPO: prefix-constrained PPO, adaptive budget",
        _CPPO | {"surrogate": _CPPO_SURROGATE + "clip(P90 of the row's D, 0.02, 0.04) (base models)"},
        _CPPO_DEVIATIONS,
    ),
    "cppo_soft": Card(
        "CPPO: prefix-constrained PPO, soft gate",
        _CPPO | {"surrogate": _CPPO_SURROGATE + "0.015; gate min(1, 1/x) in the place of the mask: appendix C"},
        _CPPO_DEVIATIONS,
    ),
}
