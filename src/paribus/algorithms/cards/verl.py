"""Cards of Methods as verl 0.5.0 runs them."""

from __future__ import annotations

from collections.abc import Mapping

from paribus.algorithms.cards.card import Card

_CORE = "core_algos."  # verl/trainer/ppo/core_algos.py at tag v0.5.0
_VERL_SOURCES = {
    "shaping.outcome_at_end": "use_kl_in_reward=False: the score on the last valid token",
    "ratio": _CORE + "compute_policy_loss: clamps the log-ratio to +-20",
    "surrogate": _CORE + "compute_policy_loss: clip_ratio_low and _high 0.2, clip_ratio_c 3.0 (always on)",
    "kl": _CORE + "kl_penalty, low_var_kl: difference clamped to +-20, result to +-10; kl_loss_coef 0.001",
    "aggregate": _CORE + "agg_loss: token-mean (loss_agg_mode's default)",
}
_VERL_DEVIATIONS = (
    "verl 0.5 took the token mean of each micro-batch and averaged those, so its micro-batch size changed the "
    "objective; here it is the token mean of the whole update",
)
_VERL_DECLARED = ("advantage", "critic")

CARDS: Mapping[str, Card] = {
    "verl_05_ppo": Card(
        "PPO as verl 0.5.0 runs it (founding experiment)",
        _VERL_SOURCES
        | {
            "critic": _CORE + "compute_value_loss: cliprange_value 0.5 and the 1/2; critic.optim.lr 1e-5; "
            "critic_warmup 0; token-classification head, initialised N(0, 0.02^2) by transformers",
            "advantage": _CORE + "compute_gae_advantage_return: algorithm.gamma 1.0 and lam 1.0 (defaults)",
            "whiten": _CORE + "compute_gae_advantage_return: ends in masked_whiten (Bessel, eps 1e-8): for GAE only",
        },
        _VERL_DEVIATIONS,
        _VERL_DECLARED,
        flavour_of="ppo",
    ),
    "verl_05_grpo": Card(
        "GRPO as verl 0.5.0 runs it (founding experiment)",
        _VERL_SOURCES
        | {"advantage": _CORE + "compute_grpo_outcome_advantage: Bessel, eps 1e-6 (norm_adv_by_std_in_grpo=True)"},
        _VERL_DEVIATIONS,
        _VERL_DECLARED,
        flavour_of="grpo",
    ),
}
