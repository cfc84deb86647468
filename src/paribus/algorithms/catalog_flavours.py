"""The catalogue's flavours: what other libraries run under the same names by default. Sources stand in `cards`."""

from __future__ import annotations

from paribus.algorithms.advantage import GroupMean, GroupZScore, LeaveOneOut
from paribus.algorithms.aggregate import Constant, SequenceMeanTokenMean, TokenMean
from paribus.algorithms.catalog_offline import DPO, KTO, ORPO
from paribus.algorithms.correction import TruncatedToken
from paribus.algorithms.critic import Critic
from paribus.algorithms.divergence import BinaryKl, BinaryTv
from paribus.algorithms.keep import DropUniform
from paribus.algorithms.kl import Kl
from paribus.algorithms.offline import Offline
from paribus.algorithms.preference import Ipo, SimPo
from paribus.algorithms.returns import Gae, GreedyBaseline, ReturnToGo
from paribus.algorithms.shaping import KlInReward, OutcomeAtEnd
from paribus.algorithms.soft import Cispo, Gmpo, Sapo
from paribus.algorithms.spec import PolicyGradient
from paribus.algorithms.surrogate import Clip, SequenceRatio, TokenRatio
from paribus.algorithms.trust import DivergenceMask
from paribus.algorithms.whiten import Whiten
from paribus.part import replace

VERL_GRPO = PolicyGradient(
    name="verl_grpo",
    paper="verl 0.9.1",
    advantage=GroupZScore(eps=1e-6, ddof=1),
    surrogate=Clip(low=0.2, high=0.2, dual=3.0),
    aggregate=TokenMean(),
)
VERL_PPO = replace(
    VERL_GRPO,
    name="verl_ppo",
    advantage=Gae(gamma=1.0, lam=1.0),
    whiten=Whiten(over="tokens", eps=1e-8, ddof=1),
    critic=Critic(lr=1e-5, clip=0.5, head="normal", head_std=0.02),
)
VERL_DR_GRPO = replace(VERL_GRPO, name="verl_dr_grpo", advantage=GroupMean(), aggregate=Constant())
VERL_RLOO = replace(VERL_GRPO, name="verl_rloo", advantage=LeaveOneOut())
VERL_REMAX = replace(VERL_GRPO, name="verl_remax", advantage=GreedyBaseline(gamma=1.0))
VERL_REINFORCE_PP = replace(
    VERL_GRPO, name="verl_reinforce_pp", advantage=ReturnToGo(gamma=1.0), whiten=Whiten(over="tokens", eps=1e-8, ddof=1)
)
VERL_REINFORCE_PP_BASELINE = replace(VERL_REINFORCE_PP, name="verl_reinforce_pp_baseline", advantage=GroupMean())
VERL_GSPO = replace(
    VERL_GRPO,
    name="verl_gspo",
    ratio=SequenceRatio(normalise=True, clamp=10.0),
    surrogate=Clip(low=0.2, high=0.2),
)
VERL_CISPO = replace(VERL_GRPO, name="verl_cispo", surrogate=Cispo(low=0.8, high=1.2))
VERL_SAPO = replace(
    VERL_GRPO, name="verl_sapo", surrogate=Sapo(tau_pos=1.0, tau_neg=1.05), aggregate=SequenceMeanTokenMean()
)
VERL_GMPO = replace(
    VERL_GRPO,
    name="verl_gmpo",
    ratio=TokenRatio(clamp=None),
    surrogate=Gmpo(low=0.2, high=0.2),
    aggregate=SequenceMeanTokenMean(),
)
VERL_DPPO_TV = replace(
    VERL_GRPO, name="verl_dppo_tv", surrogate=DivergenceMask(divergence=BinaryTv(), delta=0.2, cap=3.0)
)
VERL_DPPO_KL = replace(
    VERL_GRPO, name="verl_dppo_kl", surrogate=DivergenceMask(divergence=BinaryKl(eps=1e-8), delta=0.2, cap=3.0)
)

TRL_GRPO = PolicyGradient(
    name="trl_grpo",
    paper="TRL 1.16.0",
    advantage=GroupZScore(eps=1e-4, ddof=1),
    ratio=TokenRatio(clamp=None),
    surrogate=Clip(low=0.2, high=0.2),
    aggregate=TokenMean(),
)
TRL_DR_GRPO = replace(TRL_GRPO, name="trl_dr_grpo", aggregate=Constant())
TRL_BNPO = replace(TRL_GRPO, name="trl_bnpo")
TRL_GSPO = replace(TRL_GRPO, name="trl_gspo", ratio=SequenceRatio(normalise=True, clamp=None))
TRL_CISPO = replace(TRL_GRPO, name="trl_cispo", surrogate=Cispo(low=None, high=5.0))
TRL_SAPO = replace(
    TRL_GRPO, name="trl_sapo", surrogate=Sapo(tau_pos=1.0, tau_neg=1.05), aggregate=SequenceMeanTokenMean()
)
TRL_GMPO = replace(TRL_GRPO, name="trl_gmpo", surrogate=Gmpo(low=0.4, high=0.4), aggregate=SequenceMeanTokenMean())
TRL_RLOO = replace(
    TRL_GRPO,
    name="trl_rloo",
    advantage=LeaveOneOut(),
    ratio=SequenceRatio(normalise=False, clamp=None),
    aggregate=SequenceMeanTokenMean(),
    shaping=(OutcomeAtEnd(), KlInReward(coef=0.05, estimator="k1", ceiling=None)),
)
TRL_DPO = replace(DPO, name="trl_dpo", paper="TRL 1.16.0")
TRL_IPO = replace(TRL_DPO, name="trl_ipo", objective=Ipo(beta=0.1, over="mean"))
TRL_KTO = replace(KTO, name="trl_kto", paper="TRL 1.16.0")
TRL_ORPO = replace(ORPO, name="trl_orpo", paper="TRL 1.16.0")
TRL_SIMPO = replace(TRL_DPO, name="trl_simpo", objective=SimPo(beta=0.1, gamma=0.5, nll=1.0))

_OPENRLHF_KL = KlInReward(coef=0.01, estimator="k1", ceiling=None, clamp=10.0)
OPENRLHF_PPO = PolicyGradient(
    name="openrlhf_ppo",
    paper="OpenRLHF 0.11.2",
    advantage=Gae(gamma=1.0, lam=1.0),
    whiten=Whiten(over="tokens", eps=1e-8, ddof=0),
    surrogate=Clip(low=0.2, high=0.2),
    aggregate=TokenMean(),
    shaping=(OutcomeAtEnd(low=-10.0, high=10.0), _OPENRLHF_KL),
    critic=Critic(lr=9e-6, clip=0.5),
)
OPENRLHF_REINFORCE = replace(OPENRLHF_PPO, name="openrlhf_reinforce", advantage=ReturnToGo(gamma=1.0), critic=None)
OPENRLHF_REINFORCE_BASELINE = replace(
    OPENRLHF_REINFORCE,
    name="openrlhf_reinforce_baseline",
    advantage=GroupMean(),
    shaping=(OutcomeAtEnd(), _OPENRLHF_KL),
)
OPENRLHF_RLOO = replace(OPENRLHF_REINFORCE_BASELINE, name="openrlhf_rloo", advantage=LeaveOneOut(), whiten=None)
OPENRLHF_DR_GRPO = replace(OPENRLHF_RLOO, name="openrlhf_dr_grpo", advantage=GroupMean())
OPENRLHF_GROUP_NORM = replace(OPENRLHF_RLOO, name="openrlhf_group_norm", advantage=GroupZScore(eps=1e-9, ddof=1))
OPENRLHF_DPO = replace(DPO, name="openrlhf_dpo", paper="OpenRLHF 0.11.2")

NEMO_RL_GRPO = PolicyGradient(
    name="nemo_rl_grpo",
    paper="NeMo-RL main, September 2026",
    advantage=GroupZScore(eps=1e-6, ddof=1),
    ratio=TokenRatio(clamp=None),
    surrogate=Clip(low=0.2, high=0.2),
    kl=Kl(coef=0.01, estimator="k3", floor=-20.0, ceiling=20.0, clamp=10.0, unbiased=True),
    aggregate=TokenMean(),
)
PRIME_RL_GRPO = PolicyGradient(
    name="prime_rl_grpo",
    paper="prime-rl 0.8.0",
    advantage=GroupMean(),
    ratio=TokenRatio(clamp=None),
    surrogate=DivergenceMask(divergence=BinaryTv(), delta=0.2, cap=None),
    aggregate=TokenMean(),
    old="sampler",
)
OPEN_INSTRUCT_GRPO = PolicyGradient(
    name="open_instruct_grpo",
    paper="open-instruct main, August 2026",
    keep=DropUniform(),
    shaping=(OutcomeAtEnd(right=10.0),),
    advantage=GroupMean(),
    ratio=TokenRatio(clamp=None),
    surrogate=Clip(low=0.2, high=0.272),
    correction=TruncatedToken(low=None, high=2.0, clamp=10.0),
    kl=Kl(coef=0.05, estimator="k3", floor=-40.0, ceiling=40.0),
    aggregate=TokenMean(),
)

FLAVOURS: tuple[PolicyGradient | Offline, ...] = (
    VERL_PPO,
    VERL_GRPO,
    VERL_DR_GRPO,
    VERL_RLOO,
    VERL_REMAX,
    VERL_REINFORCE_PP,
    VERL_REINFORCE_PP_BASELINE,
    VERL_GSPO,
    VERL_CISPO,
    VERL_SAPO,
    VERL_GMPO,
    VERL_DPPO_TV,
    VERL_DPPO_KL,
    TRL_GRPO,
    TRL_DR_GRPO,
    TRL_BNPO,
    TRL_GSPO,
    TRL_CISPO,
    TRL_SAPO,
    TRL_GMPO,
    TRL_RLOO,
    TRL_DPO,
    TRL_IPO,
    TRL_KTO,
    TRL_ORPO,
    TRL_SIMPO,
    OPENRLHF_PPO,
    OPENRLHF_REINFORCE,
    OPENRLHF_REINFORCE_BASELINE,
    OPENRLHF_RLOO,
    OPENRLHF_GROUP_NORM,
    OPENRLHF_DR_GRPO,
    OPENRLHF_DPO,
    NEMO_RL_GRPO,
    PRIME_RL_GRPO,
    OPEN_INSTRUCT_GRPO,
)
