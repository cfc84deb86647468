"""Cards of PPO with a critic."""

from __future__ import annotations

from collections.abc import Mapping

from paribus.algorithms.cards.card import K3_GUARD, NO_REWARD_MODEL, RATIO_GUARD, Card

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
    NO_REWARD_MODEL + "; so the critic starts from the policy, not from the reward model",
    "InstructGPT states no lambda: 0.95 is 1707.06347's and TRL's",
    "whitening is over the whole step with Bessel's correction (TRL, verl); OpenAI's code whitens each minibatch",
    "no pre-training gradient mixed in (PPO, not PPO-ptx)",
    RATIO_GUARD,
)

CARDS: Mapping[str, Card] = {
    "ppo": Card(
        "PPO for language models, KL in the reward",
        _PPO_SOURCES
        | {"shaping.kl_in_reward": "InstructGPT App. C: per-token KL to the SFT model in the reward, beta 0.02"},
        _PPO_DEVIATIONS,
    ),
    "ppo_kl_loss": Card(
        "PPO for language models, KL in the loss",
        _PPO_SOURCES | {"kl": "not in the papers: verl's use_kl_loss (low_var_kl = k3, coefficient 0.001)"},
        (*_PPO_DEVIATIONS, K3_GUARD),
    ),
}
