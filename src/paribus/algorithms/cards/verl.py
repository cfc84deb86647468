"""Cards of methods as verl runs them: 0.5.0, of the founding experiment, and the defaults of 0.9.1."""

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

_ACTOR = "verl 0.9.1 actor.yaml, "  # verl/trainer/config/actor/actor.yaml
_CORE_09 = "verl 0.9.1 core_algos.py, "  # verl/trainer/ppo/core_algos.py
_DEFAULTS = {
    "shaping.outcome_at_end": "verl 0.9.1 ppo_trainer.yaml, algorithm.use_kl_in_reward False: the score, last token",
    "advantage": _CORE_09 + "compute_grpo_outcome_advantage: Bessel, eps 1e-6; norm_adv_by_std_in_grpo True",
    "ratio": _CORE_09 + "compute_policy_loss_vanilla: the log-ratio within +-20",
    "surrogate": _ACTOR + "clip_ratio_low and clip_ratio_high 0.2, clip_ratio_c 3.0 (the dual clip has no switch)",
    "aggregate": _ACTOR + "loss_agg_mode token-mean, over the tokens of the whole mini-batch (agg_loss)",
}
_KL_OFF = "no KL: actor.use_kl_loss is False too; switched on, it is kl_loss_coef 0.001, low_var_kl"
_LONE = "a group of one keeps its bare reward in verl; here it gets no credit"
_WHITE = _CORE_09 + "masked_whiten over all tokens: Bessel, 1e-8 added to the variance"
_MODE = (
    _KL_OFF,
    _LONE,
    "what policy_loss.loss_mode alone changes; the advantage is adv_estimator grpo, as in verl's examples (the "
    "default, gae, goes with a critic)",
)
_DPPO_09 = (
    *_MODE,
    "the loss is -A r lp with r detached, here -A r: the gradients are equal, the values are not",
    "old log-probs are the learner's, not the sampler's as in the paper: rollout_correction.bypass_mode is False",
)

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
    "verl_ppo": Card(
        "PPO by verl 0.9.1's defaults",
        _DEFAULTS
        | {
            "critic": "verl 0.9.1 critic.yaml: optim.lr 1e-5, cliprange_value 0.5; core_algos.compute_value_loss: the "
            "1/2; token-classification head, initialised N(0, 0.02^2) by transformers",
            "advantage": "verl 0.9.1 ppo_trainer.yaml: algorithm.gamma 1.0 and lam 1.0",
            "whiten": _WHITE + " (compute_gae_advantage_return)",
        },
        (_KL_OFF, "0.02 is transformers' initializer_range of most models; the head takes the model's own"),
        flavour_of="ppo",
    ),
    "verl_grpo": Card("GRPO by verl 0.9.1's defaults", _DEFAULTS, (_KL_OFF, _LONE), flavour_of="grpo"),
    "verl_dr_grpo": Card(
        "Dr. GRPO in verl 0.9.1",
        _DEFAULTS
        | {
            "advantage": "verl 0.9.1 ppo_trainer.yaml, algorithm.norm_adv_by_std_in_grpo, to be set to False",
            "aggregate": _ACTOR + "loss_agg_mode, to be set to seq-mean-token-sum-norm",
        },
        (
            "no default: neither setting implies the other, and both have to be made",
            "with loss_scale_factor null the sum is divided by the width of the padded responses, here by the "
            "response limit",
            _KL_OFF,
            _LONE,
        ),
        flavour_of="dr_grpo",
    ),
    "verl_rloo": Card(
        "RLOO in verl 0.9.1",
        _DEFAULTS | {"advantage": _CORE_09 + "compute_rloo_outcome_advantage (adv_estimator rloo)"},
        (_KL_OFF, _LONE, "adv_estimator changes the advantage only: the loss stays PPO's, with both clips"),
        flavour_of="rloo",
    ),
    "verl_remax": Card(
        "ReMax in verl 0.9.1",
        _DEFAULTS | {"advantage": _CORE_09 + "compute_remax_outcome_advantage (adv_estimator remax): no discount"},
        (_KL_OFF, "adv_estimator changes the advantage only: the loss stays PPO's, with both clips"),
        flavour_of="remax",
    ),
    "verl_reinforce_pp": Card(
        "REINFORCE++ in verl 0.9.1",
        _DEFAULTS
        | {
            "advantage": _CORE_09 + "compute_reinforce_plus_plus_outcome_advantage; algorithm.gamma 1.0",
            "whiten": _WHITE,
        },
        (_KL_OFF,),
        flavour_of="reinforce_pp",
    ),
    "verl_reinforce_pp_baseline": Card(
        "REINFORCE++-baseline in verl 0.9.1",
        _DEFAULTS
        | {
            "advantage": _CORE_09 + "compute_reinforce_plus_plus_baseline_outcome_advantage: less the group mean",
            "whiten": _WHITE,
        },
        (_KL_OFF, _LONE),
        flavour_of="reinforce_pp_baseline",
    ),
    "verl_gspo": Card(
        "GSPO in verl 0.9.1",
        _DEFAULTS
        | {
            "ratio": _CORE_09 + "compute_policy_loss_gspo: mean log-ratio of the row, held below 10",
            "surrogate": _ACTOR
            + "clip_ratio_low and clip_ratio_high 0.2, about 670 and 500 times the paper's; no dual clip",
        },
        (
            *_MODE,
            "the row's log-ratio is held at -10 from below too, which verl does not: a ratio under e^-10 is nothing",
            "seq-mean-token-mean, which its docstring recommends, is not the default",
        ),
        flavour_of="gspo",
    ),
    "verl_cispo": Card(
        "CISPO in verl 0.9.1",
        _DEFAULTS
        | {"surrogate": _CORE_09 + "compute_policy_loss_cispo: weight within [0.8, 1.2] (clip_ratio_low, _high 0.2)"},
        _MODE,
        flavour_of="cispo",
    ),
    "verl_sapo": Card(
        "SAPO in verl 0.9.1",
        _DEFAULTS
        | {
            "surrogate": _ACTOR + "tau_pos 1.0, tau_neg 1.05",
            "aggregate": _CORE_09 + "compute_policy_loss_sapo: seq-mean-token-mean, whatever loss_agg_mode says",
        },
        _MODE,
        flavour_of="sapo",
    ),
    "verl_gmpo": Card(
        "GMPO in verl 0.9.1",
        _DEFAULTS
        | {
            "ratio": _CORE_09 + "compute_policy_loss_geo_mean: its clamp of the log-ratio is commented out",
            "surrogate": _ACTOR + "clip_ratio_low and clip_ratio_high 0.2, as bounds of the log-ratio",
            "aggregate": _CORE_09 + "compute_policy_loss_geo_mean: mean over rows, whatever loss_agg_mode says",
        },
        (*_MODE, "the mean is over the rows of a micro-batch in verl, here over those of the update"),
        flavour_of="gmpo",
    ),
    "verl_dppo_tv": Card(
        "DPPO, binary total variation, in verl 0.9.1",
        _DEFAULTS
        | {
            "surrogate": _CORE_09 + "compute_policy_loss_dppo_tv: delta is clip_ratio_low and _high 0.2, the cap "
            "clip_ratio_c 3.0",
        },
        _DPPO_09,
        flavour_of="dppo_tv",
    ),
    "verl_dppo_kl": Card(
        "DPPO, binary KL, in verl 0.9.1",
        _DEFAULTS
        | {
            "surrogate": _CORE_09 + "compute_policy_loss_dppo_kl: delta is clip_ratio_low and _high 0.2, the cap "
            "clip_ratio_c 3.0",
        },
        (*_DPPO_09, "verl adds 1e-8 to 1 - p and leaves p as it is; here neither counts as less than 1e-8"),
        flavour_of="dppo_kl",
    ),
}
