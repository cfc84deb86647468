"""The catalogue: every method declared once, as data. Sources and deviations stand in `cards`."""

from __future__ import annotations

from paribus.algorithms.advantage import (
    BatchBaseline,
    EmaBaseline,
    FixedBaseline,
    Gae,
    GroupMean,
    GroupZScore,
    LeaveOneOut,
)
from paribus.algorithms.aggregate import Constant, SequenceMeanTokenMean, SequenceMeanTokenSum, TokenMean
from paribus.algorithms.critic import Critic
from paribus.algorithms.keep import DropUniform
from paribus.algorithms.kl import Kl
from paribus.algorithms.shaping import KlInReward, OutcomeAtEnd, SoftOverlong
from paribus.algorithms.spec import PolicyGradient
from paribus.algorithms.surrogate import Clip, Reinforce
from paribus.algorithms.whiten import Whiten
from paribus.errors import ConfigError, nearest
from paribus.part import replace

REINFORCE = PolicyGradient(
    name="reinforce",
    paper="Williams 1992",
    advantage=FixedBaseline(value=0.5),
    surrogate=Reinforce(),
    aggregate=SequenceMeanTokenSum(),
)
REINFORCE_BATCH = replace(REINFORCE, name="reinforce_batch", advantage=BatchBaseline())
REINFORCE_EMA = replace(REINFORCE, name="reinforce_ema", advantage=EmaBaseline(decay=0.9, bias_correction=True))

RLOO = PolicyGradient(
    name="rloo",
    paper="2402.14740",
    advantage=LeaveOneOut(),
    surrogate=Reinforce(),
    aggregate=SequenceMeanTokenSum(),
    shaping=(OutcomeAtEnd(), KlInReward(coef=0.03, estimator="k1", ceiling=None)),
)

PPO = PolicyGradient(
    name="ppo",
    paper="1707.06347, 2203.02155",
    advantage=Gae(gamma=1.0, lam=0.95),
    whiten=Whiten(over="tokens", eps=1e-8, ddof=1),
    surrogate=Clip(low=0.2, high=0.2),
    aggregate=TokenMean(),
    shaping=(OutcomeAtEnd(), KlInReward(coef=0.02, estimator="k1", ceiling=None)),
    critic=Critic(lr=9e-6, clip=0.2),
)
PPO_KL_LOSS = replace(PPO, name="ppo_kl_loss", shaping=(OutcomeAtEnd(),), kl=Kl(coef=0.001, estimator="k3"))

GRPO = PolicyGradient(
    name="grpo",
    paper="2402.03300",
    advantage=GroupZScore(eps=1e-6, ddof=1),
    surrogate=Clip(low=0.2, high=0.2),
    aggregate=SequenceMeanTokenMean(),
    kl=Kl(coef=0.04, estimator="k3"),
)
DR_GRPO = replace(GRPO, name="dr_grpo", paper="2503.20783", advantage=GroupMean(), aggregate=Constant(), kl=None)
DAPO_NO_RESAMPLING = replace(
    GRPO,
    name="dapo_no_resampling",
    paper="2503.14476",
    surrogate=Clip(low=0.2, high=0.28),
    aggregate=TokenMean(),
    shaping=(OutcomeAtEnd(wrong=-1.0, right=1.0), SoftOverlong(cache=0.2, penalty=1.0)),
    kl=None,
    keep=DropUniform(),
)

_VERL_05_KL = Kl(coef=0.001, estimator="k3", floor=-20.0, ceiling=20.0, clamp=10.0)
VERL_05_PPO = replace(
    PPO,
    name="verl_05_ppo",
    paper="verl 0.5.0",
    advantage=Gae(gamma=1.0, lam=1.0),
    surrogate=Clip(low=0.2, high=0.2, dual=3.0),
    shaping=(OutcomeAtEnd(),),
    kl=_VERL_05_KL,
    critic=Critic(lr=1e-5, clip=0.5, head="normal", head_std=0.02),
)
VERL_05_GRPO = replace(
    GRPO,
    name="verl_05_grpo",
    paper="verl 0.5.0",
    surrogate=Clip(low=0.2, high=0.2, dual=3.0),
    aggregate=TokenMean(),
    kl=_VERL_05_KL,
)

CATALOG: dict[str, PolicyGradient] = {
    entry.name: entry
    for entry in (
        REINFORCE,
        REINFORCE_BATCH,
        REINFORCE_EMA,
        RLOO,
        PPO,
        PPO_KL_LOSS,
        GRPO,
        DR_GRPO,
        DAPO_NO_RESAMPLING,
        VERL_05_PPO,
        VERL_05_GRPO,
    )
}


def find(name: str) -> PolicyGradient:
    """Return the catalogue entry of that name. Raises ConfigError with the nearest known name."""
    if name not in CATALOG:
        raise ConfigError(f"unknown method '{name}'{nearest(name, CATALOG)}")
    return CATALOG[name]
