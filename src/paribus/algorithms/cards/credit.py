"""Cards of the methods that take credit from elsewhere: returns, greedy baselines, steps, entropies, densities."""

from __future__ import annotations

from collections.abc import Mapping

from paribus.algorithms.cards.card import NO_REWARD_MODEL, OUTCOME, RATIO_GUARD, Card
from paribus.algorithms.cards.grpo import CARDS as GRPO
from paribus.algorithms.cards.ppo import CARDS as PPO

_NOTES = "the paper was read through detailed notes and the authors' code (OpenRLHF), not itself"
_POPULATION = (
    "the whitening's ddof is not stated: the population's, as in the authors' code, which holds the variance at 1e-8 "
    "or more where we add 1e-8 (verl: Bessel)"
)
_GRPO_UPDATE = {name: GRPO["grpo"].sources[name] for name in ("ratio", "surrogate", "aggregate")}
_SUMMARY = "the paper was read through summaries, which give no learning rate; the critic's lr and value clip are PPO's"

_REINFORCE_PP = {
    "shaping.outcome_at_end": OUTCOME,
    "whiten": "2501.03262 v9: normalised over all tokens of the global batch; 1e-8: OpenRLHF",
    "ratio": "2501.03262: PPO's",
    "surrogate": "2501.03262 v1: PPO clip, 0.2",
    "aggregate": "OpenRLHF policy loss: mean over tokens",
}
_VC_PPO = {name: text for name, text in PPO["ppo"].sources.items() if name != "shaping.kl_in_reward"} | {
    "shaping.outcome_at_end": "2503.01491: reward +1 or -1, no KL",
    "critic": "2503.01491: value pre-training, the policy frozen and V fitted to Monte-Carlo returns; 50 steps: "
    "2504.05118",
    "advantage": "2503.01491: decoupled GAE, lambda 1.0 for the critic's target and 0.95 for the policy",
}

CARDS: Mapping[str, Card] = {
    "remax": Card(
        "ReMax: REINFORCE with the greedy response's reward as baseline",
        {
            "shaping.outcome_at_end": OUTCOME,
            "shaping.kl_in_reward": "official code (remax_trainer.py): kl_ctl 0.05",
            "advantage": "2310.10505: R(x, y) - R(x, greedy y), the greedy response of the current policy",
            "surrogate": "2310.10505: REINFORCE, no ratio and no clipping",
            "aggregate": "2310.10505: log-probability of the sequence (a sum), mean over samples: the unbiased form",
        },
        (
            NO_REWARD_MODEL,
            "the paper was read through its official code, which differs from the paper's formula: reward differences "
            "held within +-5, gamma 0.99 with the last token discounted too, only the token's own KL, token mean",
        ),
    ),
    "reinforce_pp": Card(
        "REINFORCE++: returns whitened over the batch, PPO clip, no critic",
        _REINFORCE_PP
        | {
            "shaping.kl_in_reward": "2501.03262 v1: per-token k1 KL in the reward, beta 0.01 (OpenRLHF's too)",
            "advantage": "2501.03262: return to go, gamma 1",
        },
        (
            _NOTES,
            _POPULATION,
            "the authors advise rewards of -1 and +1 for one sample a prompt; whitening takes the difference out",
            RATIO_GUARD,
        ),
    ),
    "reinforce_pp_baseline": Card(
        "REINFORCE++-baseline: group mean, then whitening over the batch",
        _REINFORCE_PP
        | {
            "advantage": "2501.03262: reward less the group mean, then normalised over the global batch",
            "kl": "2501.03262 v9: a k2 term of the loss; coefficient 0.001: v1's for mathematics",
        },
        (_NOTES, _POPULATION, "whitening over tokens does not centre rows: long rows weigh more", RATIO_GUARD),
    ),
    "ppo_adaptive_kl": Card(
        "PPO for language models, adaptive KL in the reward",
        {
            **PPO["ppo"].sources,
            "shaping.kl_in_reward": "1909.08593 section 2.2: proportional controller, error held within +-0.2; "
            "target 6 nats a response and horizon 10,000: OpenAI's 2019 code [via TRL]; start 0.02: InstructGPT",
        },
        (*PPO["ppo"].deviations, "the controller was read in two implementations (TRL, verl), not in the paper"),
    ),
    "ppo_process": Card(
        "PPO for language models with a reward for each step",
        {
            **PPO["ppo"].sources,
            "shaping.step_rewards": "2312.08935 (Math-Shepherd): step-by-step PPO, the step's score at its end",
        },
        (
            *PPO["ppo"].deviations,
            "2312.08935 was not read: that the outcome is paid beside the steps, and coefficient 1, are our choice",
        ),
    ),
    "rlhf": Card(
        "RLHF: PPO on a learned reward with a KL to the reference",
        {
            **PPO["ppo"].sources,
            "shaping.outcome_at_end": "InstructGPT (2203.02155) eq. 2: r(x, y) once per response; held within +-10: "
            "OpenRLHF's reward clip",
        },
        (
            "the recipe that goes with a reward model in the setting; some texts call this pair (reward model and "
            'reference KL) "RPO", which is no standard name: published RPOs are Reward-aware, Regularized or Relative '
            "Preference Optimization",
            "the critic starts from the policy, not from the reward model",
            *PPO["ppo"].deviations[1:],
        ),
        reward_model=True,
    ),
    "vc_ppo": Card(
        "VC-PPO: value-calibrated PPO",
        _VC_PPO,
        (
            _SUMMARY,
            "value pre-training ends after 50 steps (VAPO's number), not when the value loss has settled",
            *PPO["ppo"].deviations[2:],
        ),
    ),
    "vapo": Card(
        "VAPO: value-based augmented PPO",
        _VC_PPO
        | {
            "shaping.outcome_at_end": "2503.01491: reward +1 or -1, no KL (VAPO builds on it)",
            "critic": "2504.05118: 50 steps of value pre-training (2503.01491)",
            "advantage": "2504.05118: lambda = 1 - 1/(0.05 L) for the policy, 1.0 for the critic's target",
            "surrogate": "2504.05118: clip-higher, 0.2 and 0.28",
            "aggregate": "2504.05118: token-level loss",
        },
        (
            _SUMMARY,
            "lambda is held at 0 or more: the formula is negative for responses under 20 tokens",
            "the imitation term 0.1 is the paper's positive-example loss; its 16 samples a prompt are the setting's",
            *PPO["ppo"].deviations[2:],
        ),
    ),
    "grpo_process": Card(
        "GRPO with process supervision",
        _GRPO_UPDATE
        | {
            "shaping.step_rewards": "2402.03300 section 4.1.3: a process reward model scores the end of each step",
            "advantage": "2402.03300 section 4.1.3: step rewards normalised over the group, summed over the following "
            "steps",
            "kl": GRPO["grpo"].sources["kl"],
        },
        ("the step scores are a rule's or a model's, as the setting says", *GRPO["grpo"].deviations[1:]),
    ),
    "grpo_entropy": Card(
        "GRPO on its high-entropy tokens",
        {
            **GRPO["grpo"].sources,
            "select": "2506.01939: policy gradient on the top 20 % of tokens by entropy [via TRL top_entropy_quantile]",
        },
        (
            *GRPO["grpo"].deviations,
            "the paper was not read; its runs put the selection on DAPO, here it is GRPO's only change",
            "the threshold is the step's (TRL), unselected tokens stay in the denominators",
        ),
    ),
    "dapo": Card(
        "DAPO: Decoupled Clip and Dynamic Sampling Policy Optimization",
        {
            **GRPO["dapo_no_resampling"].sources,
            "keep": "2503.14476 eq. 11 and section 3.2: sample until the batch is full of groups with 0 < correct < G; "
            "at most 10 draws in all: verl's recipe (max_num_gen_batches)",
        },
        (
            "the paper draws without limit; a step that is not full after 10 draws trains on what it has",
            *GRPO["dapo_no_resampling"].deviations[1:],
        ),
    ),
    "bnpo": Card(
        "BNPO: Beta normalization policy optimization",
        _GRPO_UPDATE
        | {
            "shaping.outcome_at_end": OUTCOME + ": binary",
            "advantage": "official code (changyi7231/BNPO): Beta density fitted to the batch's success rates, its "
            "parameters at least 1, 1/f at most 1e6",
        },
        (
            "the paper was read through its official code; equal rates (v = 0), where that divides by zero, give f = 1",
            "no KL; clip, ratio and aggregation are GRPO's",
            "TRL's loss_type bnpo is another thing: a token mean over the local micro-batch",
            RATIO_GUARD,
        ),
    ),
    "lite_ppo": Card(
        "Lite PPO: group mean, batch std, token-level loss",
        _GRPO_UPDATE
        | {
            "shaping.outcome_at_end": OUTCOME,
            "advantage": "2508.08221: group-level mean, batch-level std [via TRL scale_rewards batch: Bessel, 1e-4]",
            "aggregate": "2508.08221: token-level loss [via TRL]",
        },
        ("the paper was not read; it states no clip range that we could reach: 0.2", RATIO_GUARD),
    ),
}
