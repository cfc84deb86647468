"""Cards: where each setting of a catalogue entry comes from, and where the entry departs from its source.

A source names the place in the paper or in the code; words in quotation marks are the source's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Card(NamedTuple):
    """`sources` by slot (see `PolicyGradient.slots`); `declared` are the fields that the source itself names as what
    sets the method apart from the one it is compared with."""

    title: str
    sources: Mapping[str, str]
    deviations: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()


_OUTCOME = "score of the whole response, on its last token"
_RATIO_GUARD = "the log-ratio is held within +-20, so that exp stays finite; the paper has no bound"
_K3_GUARD = "lp_ref - lp is capped at 20 inside k3, so that exp stays finite; the paper has no cap"
_NO_REWARD_MODEL = "the reward is the task's score; the paper trains a reward model"

_WILLIAMS = {
    "shaping.outcome_at_end": "the reinforcement r, one number per episode",
    "surrogate": 'Williams 1992, REINFORCE: step along (r - b) times the "characteristic eligibility" d ln g / d w',
    "aggregate": "Williams 1992, episodic REINFORCE: the eligibilities of an episode are summed",
}
_REINFORCE = "the paper leaves the baseline open"

_PPO_SOURCES = {
    "shaping.outcome_at_end": "InstructGPT (2203.02155) eq. 2: r(x, y) once per response",
    "critic": "1707.06347 section 5: actor and critic; InstructGPT App. C: critic lr 9e-6; zero value head: OpenAI's "
    "2019 code; value clip 0.2: OpenAI baselines, kept by TRL (cliprange_value)",
    "advantage": "1707.06347 eq. 11-12, lambda 0.95; InstructGPT App. C: no discount",
    "whiten": "not in the papers: OpenAI's 2019 code whitens advantages, and TRL, verl and OpenRLHF after it",
    "ratio": "1707.06347 section 3",
    "surrogate": "1707.06347 eq. 7; InstructGPT App. C: clip ratio 0.2",
    "aggregate": "1707.06347 eq. 7: the empirical mean over timesteps",
}
_PPO_DEVIATIONS = (
    _NO_REWARD_MODEL + "; so the critic starts from the policy, not from the reward model",
    "InstructGPT states no lambda: 0.95 is 1707.06347's and TRL's",
    "whitening is over the whole step with Bessel's correction (TRL, verl); OpenAI's code whitens each minibatch",
    "no pre-training gradient mixed in (PPO, not PPO-ptx)",
    _RATIO_GUARD,
)
_GRPO_SOURCES = {
    "shaping.outcome_at_end": "2402.03300 section 4.1.2: outcome supervision",
    "advantage": '2402.03300 section 4.1.2: "normalized by subtracting the group average and dividing by the group '
    'standard deviation"',
    "ratio": "2402.03300 eq. 3",
    "surrogate": "2402.03300 eq. 3, as in PPO",
    "kl": "2402.03300 eq. 4 (k3, added to the loss); section 4.2: coefficient 0.04",
    "aggregate": "2402.03300 eq. 3: 1/G sum_i 1/|o_i| sum_t",
}
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
            "shaping.outcome_at_end": _OUTCOME,
            "shaping.kl_in_reward": "2402.14740: the KL penalty is part of the reward R(x, y); beta 0.03",
            "advantage": "2402.14740, RLOO estimator: the baseline is the mean reward of the k - 1 other samples",
            "surrogate": "2402.14740: REINFORCE on the whole generation as one action, no clipping",
            "aggregate": "2402.14740: log-probability of the sequence (a sum), mean over samples",
        },
        (
            _NO_REWARD_MODEL,
            "beta 0.03 is taken from TRL's account of the paper, which tunes it per data set",
        ),
    ),
    "ppo": Card(
        "PPO for language models, KL in the reward",
        _PPO_SOURCES
        | {"shaping.kl_in_reward": "InstructGPT App. C: per-token KL to the SFT model in the reward, beta 0.02"},
        _PPO_DEVIATIONS,
    ),
    "ppo_kl_loss": Card(
        "PPO for language models, KL in the loss",
        _PPO_SOURCES | {"kl": "not in the papers: verl's use_kl_loss (low_var_kl = k3, coefficient 0.001)"},
        (*_PPO_DEVIATIONS, _K3_GUARD),
    ),
    "grpo": Card(
        "GRPO: Group Relative Policy Optimization",
        _GRPO_SOURCES,
        (
            _NO_REWARD_MODEL,
            "the paper states neither ddof nor eps nor the clip range: Bessel, 1e-6 and 0.2 are the open "
            "implementations' (verl; TRL has eps 1e-4)",
            _RATIO_GUARD,
            _K3_GUARD,
        ),
    ),
    "dr_grpo": Card(
        "Dr. GRPO: GRPO without its length and difficulty biases",
        {
            "shaping.outcome_at_end": _OUTCOME,
            "advantage": '2503.20783 section 3.2: "removing the length and std normalization terms"',
            "ratio": "2402.03300 eq. 3",
            "surrogate": "2503.20783 section 3.2: GRPO's",
            "aggregate": "2503.20783 section 3.2 and its code: token sum divided by the constant generation budget",
        },
        ("the clip range 0.2 is the code's default, not stated in the paper", _RATIO_GUARD),
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
            _RATIO_GUARD,
        ),
    ),
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
    ),
    "verl_05_grpo": Card(
        "GRPO as verl 0.5.0 runs it (founding experiment)",
        _VERL_SOURCES
        | {"advantage": _CORE + "compute_grpo_outcome_advantage: Bessel, eps 1e-6 (norm_adv_by_std_in_grpo=True)"},
        _VERL_DEVIATIONS,
        _VERL_DECLARED,
    ),
}
