"""Cards of methods as TRL, OpenRLHF, NeMo-RL, prime-rl and open-instruct run them by default; verl's are in `verl`."""

from __future__ import annotations

from collections.abc import Mapping

from paribus.algorithms.cards.card import Card

_GRPO_CONFIG = "TRL 1.16.0 grpo_config.py, "
_GRPO_LOSS = "TRL 1.16.0 grpo_trainer.py, _compute_loss: "
_TRL = {
    "shaping.outcome_at_end": "TRL 1.16.0 grpo_trainer.py: the reward functions' sum, one number a response",
    "advantage": _GRPO_CONFIG + 'scale_rewards "group"; grpo_trainer.py: Bessel, eps 1e-4',
    "ratio": _GRPO_CONFIG + 'importance_sampling_level "token"; no bound on the log-ratio',
    "surrogate": _GRPO_CONFIG + "epsilon 0.2, epsilon_high None: the same; delta None: no two-sided clip",
    "aggregate": _GRPO_CONFIG + 'loss_type "dapo": over the tokens of all processes and accumulated batches',
}
_ROW_MEAN = _GRPO_LOSS + "mean over a row's tokens, then over rows"
_TRL_DEVIATIONS = (
    "no KL: beta is 0.0, and no reference model is loaded; switched on, it is k3 times the ratio to the old policy",
    "use_vllm, off by default, brings a correction: sequence_mask at 3.0, which is grpo_mis's",
)
_PER_MICRO_BATCH = (
    "TRL averages over each micro-batch, and then over micro-batches; here the update is averaged as a whole, whatever "
    "its split"
)
_TRL_PAIRS = "TRL 1.16.0 takes a data set of pairs; here they are own samples ranked by the task's score (pair_file "
_TRL_PAIRS += "reads one)"
_TRL_SOURCE = "TRL 1.16.0: pairs of a chosen and a rejected answer"

_CLI = "OpenRLHF 0.11.2 train_ppo_ray.py, "
_MAKER = "OpenRLHF 0.11.2 experience_maker.py: "
_OPENRLHF = {
    "shaping.outcome_at_end": _CLI + "reward.clip_range (-10, 10), on the last token",
    "shaping.kl_in_reward": _CLI + "algo.kl.init_coef 0.01, algo.kl.estimator k1, use_loss False; models/utils.py, "
    "compute_approx_kl: the estimate within +-10",
    "ratio": "OpenRLHF 0.11.2 models/loss.py, PolicyLoss: the log-ratio within +-20",
    "surrogate": _CLI + "actor.eps_clip 0.2, eps_clip_low_high None: the same; dual_clip None",
    "aggregate": _CLI + "actor.loss_agg_mode token-mean, over the tokens of the whole step",
}
_WHITE = _MAKER + "mean and population variance over all tokens; algo.advantage.no_std_norm False"
_FLOORED = "OpenRLHF holds the variance at 1e-8 or more, where we add 1e-8"
_OPENRLHF_GROUP = {**_OPENRLHF, "shaping.outcome_at_end": "OpenRLHF 0.11.2 models/utils.py: compute_reward, last token"}
_KL_AFTER = (
    "OpenRLHF takes the baseline from the bare rewards, and each token pays for its own and later tokens' KL; here the "
    "KL of the whole row is part of the reward that the group compares, and all its tokens share it",
    "reward.clip_range +-10 acts after the group's baseline there; scores within 0 and 1 do not reach it, and it is "
    "left out here",
)

CARDS: Mapping[str, Card] = {
    "trl_grpo": Card("GRPO by TRL 1.16.0's defaults", _TRL, _TRL_DEVIATIONS, flavour_of="grpo"),
    "trl_dr_grpo": Card(
        "Dr. GRPO by TRL 1.16.0's loss_type",
        _TRL | {"aggregate": _GRPO_LOSS + 'loss_type "dr_grpo": token sum over rows times max_completion_length'},
        (
            'loss_type "dr_grpo" alone: the std stays in the advantage until scale_rewards is set to "none"',
            *_TRL_DEVIATIONS,
        ),
        flavour_of="dr_grpo",
    ),
    "trl_bnpo": Card(
        "BNPO by TRL 1.16.0's loss_type",
        _TRL | {"aggregate": _GRPO_LOSS + 'loss_type "bnpo": mean over the tokens of the local micro-batch'},
        (
            _PER_MICRO_BATCH + ": the token mean of the update, so that nothing is left that is not trl_grpo",
            "the paper of that name (2506.02864) is about another advantage, which TRL does not have",
            *_TRL_DEVIATIONS,
        ),
        flavour_of="bnpo",
    ),
    "trl_gspo": Card(
        "GSPO by TRL 1.16.0's importance_sampling_level",
        _TRL
        | {
            "ratio": _GRPO_LOSS + 'importance_sampling_level "sequence": exp of the row\'s mean log-ratio, no bound',
            "surrogate": _GRPO_CONFIG + "epsilon 0.2, about 670 and 500 times the paper's bounds",
        },
        (
            "the level alone: TRL warns that the token mean weighs rows by their length, and advises loss_type "
            '"grpo" and epsilon 3e-4 and 4e-4',
            *_TRL_DEVIATIONS,
        ),
        flavour_of="gspo",
    ),
    "trl_cispo": Card(
        "CISPO by TRL 1.16.0's loss_type",
        _TRL
        | {
            "surrogate": _GRPO_CONFIG + "epsilon_high is the cap itself; 5.0 is what its docstring recommends",
            "aggregate": _GRPO_LOSS + 'loss_type "cispo": over the tokens of all processes and accumulated batches',
        },
        (
            "left as it is, epsilon_high None becomes epsilon, and the cap 0.2: nearly every weight is then 0.2, a "
            "fifth of the policy gradient; a cap below 1 cannot be declared here",
            *_TRL_DEVIATIONS,
        ),
        flavour_of="cispo",
    ),
    "trl_sapo": Card(
        "SAPO by TRL 1.16.0's loss_type",
        _TRL
        | {
            "surrogate": _GRPO_CONFIG + "sapo_temperature_pos 1.0, sapo_temperature_neg 1.05",
            "aggregate": _ROW_MEAN,
        },
        (_PER_MICRO_BATCH, *_TRL_DEVIATIONS),
        flavour_of="sapo",
    ),
    "trl_gmpo": Card(
        "GMPO by TRL 1.16.0's defaults",
        _TRL
        | {
            "surrogate": "TRL 1.16.0 experimental/gmpo/gmpo_config.py, epsilon 0.4, of the log-ratio",
            "aggregate": "TRL 1.16.0 experimental/gmpo/gmpo_trainer.py: one term per row, mean over rows",
        },
        (_PER_MICRO_BATCH, *_TRL_DEVIATIONS),
        flavour_of="gmpo",
    ),
    "trl_rloo": Card(
        "RLOO by TRL 1.16.0's defaults",
        {
            "shaping.outcome_at_end": "TRL 1.16.0 rloo_config.py, reward_clip_range None",
            "shaping.kl_in_reward": "TRL 1.16.0 rloo_config.py, beta 0.05; rloo_trainer.py: k1, summed over the row",
            "advantage": "TRL 1.16.0 rloo_trainer.py: leave-one-out; rloo_config.py, normalize_advantages False",
            "ratio": "TRL 1.16.0 rloo_trainer.py, _compute_loss: product over the row, no bound",
            "surrogate": "TRL 1.16.0 rloo_config.py, epsilon 0.2, epsilon_high None: the same",
            "aggregate": "TRL 1.16.0 rloo_trainer.py, _compute_loss: one term per row, mean over rows",
        },
        (_PER_MICRO_BATCH,),
        flavour_of="rloo",
    ),
    "trl_dpo": Card(
        "DPO by TRL 1.16.0's defaults",
        {"source": _TRL_SOURCE, "objective": 'TRL 1.16.0 dpo_config.py, loss_type "sigmoid", beta 0.1'},
        (_TRL_PAIRS, _PER_MICRO_BATCH),
        flavour_of="dpo",
    ),
    "trl_ipo": Card(
        "IPO by TRL 1.16.0's loss_type",
        {"source": _TRL_SOURCE, "objective": 'TRL 1.16.0 dpo_trainer.py, loss_type "ipo": means per token; beta 0.1'},
        (_TRL_PAIRS, _PER_MICRO_BATCH),
        flavour_of="ipo",
    ),
    "trl_kto": Card(
        "KTO by TRL 1.16.0's defaults",
        {
            "source": "TRL 1.16.0 kto_trainer.py: a label per answer; z0 from mismatched answers",
            "objective": 'TRL 1.16.0 kto_config.py, loss_type "kto", beta 0.1, both weights 1.0',
        },
        (
            "TRL measures z0 in every micro-batch under the current policy, here it is measured once a step",
            "TRL takes a data set of labels; here they are the task's verdicts on own samples (label_file reads one)",
            _PER_MICRO_BATCH,
        ),
        flavour_of="kto",
    ),
    "trl_orpo": Card(
        "ORPO by TRL 1.16.0's defaults",
        {"source": _TRL_SOURCE, "objective": "TRL 1.16.0 experimental/orpo/orpo_config.py, beta 0.1: our coef"},
        (
            "TRL's likelihood term is a mean over all tokens of a micro-batch's good answers, prompts included; here "
            "over each answer's own, then over pairs",
            "no bound on the mean log-prob inside the odds there: a certain answer has infinite odds",
            _TRL_PAIRS,
        ),
        flavour_of="orpo",
    ),
    "trl_simpo": Card(
        "SimPO by TRL 1.16.0's loss_type",
        {
            "source": _TRL_SOURCE,
            "objective": "TRL 1.16.0 experimental/cpo/cpo_config.py, beta 0.1 (a twentieth of the paper's), "
            "simpo_gamma 0.5, cpo_alpha 1.0: a likelihood term that SimPO does not have",
        },
        ("TRL's likelihood term is a mean over tokens, here over answers", _TRL_PAIRS, _PER_MICRO_BATCH),
        flavour_of="simpo",
    ),
    "openrlhf_ppo": Card(
        "PPO by OpenRLHF 0.11.2's defaults",
        _OPENRLHF
        | {
            "critic": _CLI + "critic.adam.lr 9e-6, critic.value_clip 0.5; models/loss.py, ValueLoss: the 1/2, token "
            "mean",
            "advantage": _CLI + "algo.advantage.estimator gae, gamma 1, lambd 1",
            "whiten": _WHITE,
        },
        (
            _FLOORED,
            "a critic that starts from the policy's path gets a head of N(0, 1 / (d + 1)^2), d the hidden size; here 0",
            "tokens inside a row that the policy did not sample count as states of value 0 there; here they are passed",
        ),
        flavour_of="ppo",
    ),
    "openrlhf_reinforce": Card(
        "REINFORCE++ by OpenRLHF 0.11.2 (estimator reinforce)",
        _OPENRLHF | {"advantage": _MAKER + "get_cumulative_returns, gamma 1", "whiten": _WHITE},
        (_FLOORED,),
        flavour_of="reinforce_pp",
    ),
    "openrlhf_reinforce_baseline": Card(
        "REINFORCE++-baseline by OpenRLHF 0.11.2 (estimator reinforce_baseline)",
        _OPENRLHF_GROUP | {"advantage": _MAKER + "reward less the group mean", "whiten": _WHITE},
        (*_KL_AFTER, _FLOORED),
        flavour_of="reinforce_pp_baseline",
    ),
    "openrlhf_rloo": Card(
        "RLOO by OpenRLHF 0.11.2 (estimator rloo)",
        _OPENRLHF_GROUP | {"advantage": _MAKER + "reward less the mean of the group's others; not whitened"},
        _KL_AFTER,
        flavour_of="rloo",
    ),
    "openrlhf_group_norm": Card(
        "GRPO by OpenRLHF 0.11.2 (estimator group_norm)",
        _OPENRLHF_GROUP | {"advantage": _MAKER + "group mean and std, Bessel, eps 1e-9; not whitened"},
        _KL_AFTER,
        flavour_of="grpo",
    ),
    "openrlhf_dr_grpo": Card(
        "Dr. GRPO by OpenRLHF 0.11.2 (estimator dr_grpo)",
        _OPENRLHF_GROUP | {"advantage": _MAKER + "reward less the group mean; not whitened"},
        (*_KL_AFTER, "the estimator leaves the std out and no more: the length bias of the token mean stays"),
        flavour_of="dr_grpo",
    ),
    "openrlhf_dpo": Card(
        "DPO by OpenRLHF 0.11.2's defaults",
        {
            "source": "OpenRLHF 0.11.2 reward_dataset.py: pairs of a chosen and a rejected answer",
            "objective": "OpenRLHF 0.11.2 train_dpo.py, model.beta 0.1, label_smoothing 0.0, nll_loss_coef 0",
        },
        ("the pairs are own samples ranked by the task's score, not a data set (pair_file reads one)",),
        flavour_of="dpo",
    ),
    "nemo_rl_grpo": Card(
        "GRPO by NeMo-RL's grpo_math_1B.yaml",
        {
            "shaping.outcome_at_end": "NeMo-RL examples/configs/grpo_math_1B.yaml, the environment's reward",
            "advantage": "NeMo-RL examples/configs/grpo_math_1B.yaml, normalize_rewards; eps 1e-6: "
            "advantage_estimator.py",
            "ratio": "NeMo-RL loss_functions.py, ClippedPGLossFn: token level, no bound on the log-ratio",
            "surrogate": "NeMo-RL examples/configs/grpo_math_1B.yaml, ratio_clip_min and _max 0.2, ratio_clip_c null",
            "kl": "NeMo-RL examples/configs/grpo_math_1B.yaml, reference_policy_kl_penalty 0.01; loss_functions.py: "
            "k3, kl_input_clamp_value 20, kl_output_clamp_value 10, times exp(lp - lp), the second without gradient",
            "aggregate": "NeMo-RL examples/configs/grpo_math_1B.yaml, token_level_loss: over the tokens of the update",
        },
        (
            "use_leave_one_out_baseline: mean and std (Bessel) are those of the group's other rows, and an others' std "
            "of 0 does not divide; no Part has that. The one right answer of 16 gets 1.0 there and 3.75 here, a wrong "
            "one beside it -0.26 and -0.25",
            "the factor on the KL has the value 1 and the gradient of the log-prob; here it is the ratio to the old "
            "policy, which is the same in the first update of a step, and that configuration makes one; releases "
            "before it (pull request 2506) have no factor: kl.unbiased = false",
        ),
        flavour_of="grpo",
    ),
    "prime_rl_grpo": Card(
        "GRPO by prime-rl 0.8.0's defaults",
        {
            "shaping.outcome_at_end": "prime-rl 0.8.0: the rubric's reward",
            "advantage": 'prime-rl 0.8.0 orchestrator.algo type "grpo": reward less the group mean',
            "ratio": "prime-rl 0.8.0 trainer/rl/loss.py: to the inference engine's log-probs, no bound",
            "surrogate": "prime-rl 0.8.0 configs/trainer.py, DefaultLossConfig, dppo_mask_low and dppo_mask_high 0.2; "
            "loss.py: no cap on the ratio",
            "aggregate": "prime-rl 0.8.0 trainer/rl/loss.py: sum over tokens, over the tokens of the update",
        },
        (
            "kl_tau 1e-3 times the squared log-ratio to the sampler, masked tokens included, has no place here: our KL "
            "is to the reference",
            "rollouts are up to several updates old there (max_off_policy_steps); here a step trains on its own",
        ),
        flavour_of="grpo",
    ),
    "open_instruct_grpo": Card(
        "GRPO by open-instruct's defaults",
        {
            "keep": "open-instruct data_loader.py, StreamingDataLoaderConfig, filter_zero_std_samples True, "
            "active_sampling False: dropped and not drawn anew",
            "shaping.outcome_at_end": "open-instruct data_loader.py, verification_reward 10.0",
            "advantage": 'open-instruct data_loader.py, advantage_normalization_type "centered"',
            "ratio": "open-instruct grpo_utils.py: no bound on the log-ratio",
            "surrogate": 'open-instruct grpo_utils.py, loss_fn "dapo", clip_lower 0.2, clip_higher 0.272',
            "correction": "open-instruct grpo_utils.py, truncated_importance_sampling_ratio_cap 2.0; "
            "compute_tis_weights: the log-ratio within +-10",
            "kl": "open-instruct grpo_utils.py, beta 0.05, kl_estimator 2 (model_utils.py, estimate_kl: k3); the "
            "difference within +-40",
            "aggregate": 'open-instruct grpo_utils.py, loss_denominator "token"',
        },
        (
            'earlier versions have advantage_normalization_type "standard" (population std, eps 1e-8), where the '
            "reward's scale of 10 cancels",
            "rollouts are up to async_steps 8 old there; here a step trains on its own",
        ),
        flavour_of="grpo",
    ),
}
