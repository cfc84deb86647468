"""The catalogue: every method declared once, as data. Sources and deviations stand in `cards`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from paribus.algorithms.advantage import (
    BatchBaseline,
    Bnpo,
    EmaBaseline,
    FixedBaseline,
    GroupMean,
    GroupMeanBatchStd,
    GroupStepZScore,
    GroupZScore,
    LeaveOneOut,
)
from paribus.algorithms.aggregate import Constant, SequenceMeanTokenMean, SequenceMeanTokenSum, TokenMean
from paribus.algorithms.catalog_flavours import FLAVOURS
from paribus.algorithms.catalog_offline import OFFLINE
from paribus.algorithms.correction import MaskedSequence, MaskedToken, TruncatedToken
from paribus.algorithms.critic import Critic
from paribus.algorithms.divergence import BinaryKl, BinaryTv, TopkKl, TopkTv
from paribus.algorithms.explore import NeighbourMix
from paribus.algorithms.keep import DropUniform, Refill
from paribus.algorithms.kl import Kl
from paribus.algorithms.offline import Offline
from paribus.algorithms.returns import Gae, GreedyBaseline, ReturnToGo
from paribus.algorithms.selection import TopEntropy
from paribus.algorithms.shaping import AdaptiveKl, KlInReward, OutcomeAtEnd, SoftOverlong, StepRewards
from paribus.algorithms.soft import Cispo, Gmpo, Sapo
from paribus.algorithms.spec import PolicyGradient
from paribus.algorithms.surrogate import Clip, Reinforce, SequenceRatio
from paribus.algorithms.trust import AdaptiveBudget, DivergenceMask, FixedBudget, PrefixBudget
from paribus.algorithms.whiten import Whiten
from paribus.errors import ConfigError, nearest
from paribus.part import replace

Algorithm = Annotated[PolicyGradient | Offline, Field(discriminator="kind")]

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
REMAX = replace(
    RLOO,
    name="remax",
    paper="2310.10505",
    advantage=GreedyBaseline(gamma=1.0),
    shaping=(OutcomeAtEnd(), KlInReward(coef=0.05, estimator="k1", ceiling=None)),
)
REINFORCE_PP = PolicyGradient(
    name="reinforce_pp",
    paper="2501.03262",
    advantage=ReturnToGo(gamma=1.0),
    whiten=Whiten(over="tokens", eps=1e-8, ddof=0),
    surrogate=Clip(low=0.2, high=0.2),
    aggregate=TokenMean(),
    shaping=(OutcomeAtEnd(), KlInReward(coef=0.01, estimator="k1", ceiling=None)),
)
REINFORCE_PP_BASELINE = replace(
    REINFORCE_PP,
    name="reinforce_pp_baseline",
    advantage=GroupMean(),
    shaping=(OutcomeAtEnd(),),
    kl=Kl(coef=0.001, estimator="k2", ceiling=None),
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
PPO_ADAPTIVE_KL = replace(
    PPO,
    name="ppo_adaptive_kl",
    paper="1909.08593, 2203.02155",
    shaping=(
        OutcomeAtEnd(),
        KlInReward(coef=0.02, estimator="k1", ceiling=None, adaptive=AdaptiveKl(target=6.0, horizon=10_000.0)),
    ),
)
PPO_PROCESS = replace(
    PPO, name="ppo_process", paper="2312.08935, 2203.02155", shaping=(OutcomeAtEnd(), StepRewards(), PPO.shaping[1])
)
RLHF = replace(PPO, name="rlhf", paper="2203.02155", shaping=(OutcomeAtEnd(low=-10.0, high=10.0), PPO.shaping[1]))
VC_PPO = replace(
    PPO,
    name="vc_ppo",
    paper="2503.01491",
    advantage=Gae(gamma=1.0, lam=0.95, critic_lam=1.0),
    shaping=(OutcomeAtEnd(wrong=-1.0, right=1.0),),
    **{"critic.warmup": 50},
)
VAPO = replace(
    VC_PPO,
    name="vapo",
    paper="2504.05118",
    surrogate=Clip(low=0.2, high=0.28),
    imitation=0.1,
    **{"advantage.length_adaptive": 0.05},
)

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
DAPO = replace(DAPO_NO_RESAMPLING, name="dapo", keep=Refill(rounds=9))
BNPO = replace(GRPO, name="bnpo", paper="2506.02864", advantage=Bnpo(low=1.0, ceiling=1e6), kl=None)
LITE_PPO = replace(
    GRPO,
    name="lite_ppo",
    paper="2508.08221",
    advantage=GroupMeanBatchStd(eps=1e-4, ddof=1),
    aggregate=TokenMean(),
    kl=None,
)
GRPO_PROCESS = replace(GRPO, name="grpo_process", advantage=GroupStepZScore(eps=1e-6, ddof=1), shaping=(StepRewards(),))
GRPO_ENTROPY = replace(GRPO, name="grpo_entropy", paper="2506.01939", select=TopEntropy(share=0.2))

GSPO = replace(
    GRPO,
    name="gspo",
    paper="2507.18071",
    ratio=SequenceRatio(normalise=True),
    surrogate=Clip(low=3e-4, high=4e-4),
    kl=None,
)
CISPO = replace(
    GRPO, name="cispo", paper="2506.13585", surrogate=Cispo(low=None, high=5.0), aggregate=TokenMean(), kl=None
)
SAPO = replace(GRPO, name="sapo", paper="2511.20347", surrogate=Sapo(tau_pos=1.0, tau_neg=1.05), kl=None)
GMPO = replace(GRPO, name="gmpo", paper="2507.20673", surrogate=Gmpo(low=0.4, high=0.4), kl=None)

DPPO_TV = replace(
    DR_GRPO,
    name="dppo_tv",
    paper="2602.04879",
    surrogate=DivergenceMask(divergence=BinaryTv(), delta=0.2, cap=5.0),
    old="sampler",
)
DPPO_KL = replace(DPPO_TV, name="dppo_kl", surrogate=DivergenceMask(divergence=BinaryKl(), delta=0.05, cap=5.0))
DPPO_TOPK_TV = replace(
    DPPO_TV, name="dppo_topk_tv", surrogate=DivergenceMask(divergence=TopkTv(k=20), delta=0.2, cap=5.0)
)
DPPO_TOPK_KL = replace(
    DPPO_TV, name="dppo_topk_kl", surrogate=DivergenceMask(divergence=TopkKl(k=20), delta=0.05, cap=5.0)
)
CPPO = replace(
    GRPO,
    name="cppo",
    paper="2606.10968",
    surrogate=PrefixBudget(divergence=TopkTv(k=20), delta=0.15, budget=FixedBudget(value=0.015), w_min=0.8),
    aggregate=Constant(),
    kl=None,
    keep=DropUniform(),
    old="sampler",
)
CPPO_ADAPTIVE = replace(
    CPPO, name="cppo_adaptive", **{"surrogate.budget": AdaptiveBudget(quantile=0.9, low=0.02, high=0.04)}
)
CPPO_SOFT = replace(CPPO, name="cppo_soft", **{"surrogate.soft": True})

NGRPO = replace(
    GRPO,
    name="ngrpo",
    paper="2606.10768",
    explore=NeighbourMix(rate=0.1, neighbours=3),
    kl=Kl(coef=0.001, estimator="k3"),
)
GRPO_TIS = replace(GRPO, name="grpo_tis", correction=TruncatedToken(low=None, high=2.0))
GRPO_ICEPOP = replace(GRPO, name="grpo_icepop", correction=MaskedToken(low=0.5, high=5.0))
GRPO_MIS = replace(GRPO, name="grpo_mis", correction=MaskedSequence(low=None, high=3.0))

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

_ENTRIES: tuple[Algorithm, ...] = (
    REINFORCE,
    REINFORCE_BATCH,
    REINFORCE_EMA,
    RLOO,
    REMAX,
    REINFORCE_PP,
    REINFORCE_PP_BASELINE,
    PPO,
    PPO_KL_LOSS,
    PPO_ADAPTIVE_KL,
    PPO_PROCESS,
    RLHF,
    VC_PPO,
    VAPO,
    GRPO,
    GRPO_PROCESS,
    GRPO_ENTROPY,
    DR_GRPO,
    DAPO_NO_RESAMPLING,
    DAPO,
    BNPO,
    LITE_PPO,
    GSPO,
    CISPO,
    SAPO,
    GMPO,
    DPPO_TV,
    DPPO_KL,
    DPPO_TOPK_TV,
    DPPO_TOPK_KL,
    CPPO,
    CPPO_ADAPTIVE,
    CPPO_SOFT,
    NGRPO,
    GRPO_TIS,
    GRPO_ICEPOP,
    GRPO_MIS,
    VERL_05_PPO,
    VERL_05_GRPO,
    *OFFLINE,
    *FLAVOURS,
)
CATALOG: dict[str, Algorithm] = {entry.name: entry for entry in _ENTRIES}


def find(name: str) -> Algorithm:
    """Return the catalogue entry of that name. Raises ConfigError with the nearest known name."""
    if name not in CATALOG:
        raise ConfigError(f"unknown method '{name}'{nearest(name, CATALOG)}")
    return CATALOG[name]
