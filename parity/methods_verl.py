"""Which method of Paribus, at which settings, is compared with which functions of verl."""

from __future__ import annotations

from typing import Any

from case import Case
from inputs import HORIZON

from paribus.algorithms import (
    CATALOG,
    AdaptiveKl,
    Clip,
    Kl,
    KlInReward,
    MaskedToken,
    OutcomeAtEnd,
    PolicyGradient,
    SequenceRatio,
    TokenMean,
    TruncatedSequence,
    TruncatedToken,
    Whiten,
)
from paribus.algorithms.returns import GreedyBaseline, ReturnToGo
from paribus.part import replace

GRPO, PPO, RLOO = CATALOG["grpo"], CATALOG["ppo"], CATALOG["rloo"]
BARE = replace(GRPO, kl=None)

NO_DUAL = 1e9  # verl has no switch for its dual clip: a bound that no ratio reaches
DEFAULT = {"clip_ratio_c": 3.0}  # of actor.yaml; the others are ActorConfig's too
ROWS = "seq-mean-token-mean"
VERL_K3: dict[str, Any] = {"floor": -20.0, "ceiling": 20.0, "clamp": 10.0}
K3_LOSS = {"use_kl_loss": True, "kl_loss_coef": 0.04, "kl_loss_type": "low_var_kl"}
ADAPTIVE = KlInReward(
    coef=0.05, estimator="k1", ceiling=None, adaptive=AdaptiveKl(target=0.1, horizon=100, over="tokens")
)
GROUP = "compute_grpo_outcome_advantage"


def _verl(
    name: str,
    method: PolicyGradient,
    calls: str,
    actor: dict[str, Any] | None = None,
    data: str = "ragged",
    **more: Any,
) -> Case:
    differs, skip = more.pop("differs", ""), more.pop("skip", ())
    settings = {"estimator": "grpo", **more, "actor": {"clip_ratio_c": NO_DUAL, **(actor or {})}}
    return Case(name, "verl", data, method, calls, settings, "policy", differs, skip)


TABLE = [
    _verl(
        "grpo",
        replace(GRPO, kl=Kl(coef=0.04, **VERL_K3)),
        f"{GROUP}, vanilla, kl_penalty low_var_kl",
        {"loss_agg_mode": ROWS, **K3_LOSS},
    ),
    _verl(
        "grpo by default",
        CATALOG["verl_grpo"],
        f"{GROUP}, vanilla",
        DEFAULT,
        data="far",
    ),
    _verl(
        "grpo with entropy bonus",
        replace(BARE, entropy=0.01),
        f"{GROUP}, vanilla, agg_loss",
        {"loss_agg_mode": ROWS, "entropy_coeff": 0.01},
    ),
    _verl(
        "dr_grpo",
        CATALOG["dr_grpo"],
        f"{GROUP} without std, vanilla, seq-mean-token-sum-norm",
        {"loss_agg_mode": "seq-mean-token-sum-norm", "loss_scale_factor": HORIZON},
        norm_adv_by_std_in_grpo=False,
    ),
    _verl(
        "dapo: clip-higher, token mean",
        replace(BARE, surrogate=Clip(low=0.2, high=0.28), aggregate=TokenMean()),
        f"{GROUP}, vanilla",
        {"clip_ratio_high": 0.28},
    ),
    _verl(
        "ppo",
        PPO,
        "apply_kl_penalty, compute_gae_advantage_return, vanilla, compute_value_loss",
        estimator="gae",
        lam=0.95,
        kl_in_reward=0.02,
        cliprange_value=0.2,
    ),
    _verl(
        "ppo by default",
        CATALOG["verl_ppo"],
        "compute_gae_advantage_return, vanilla, compute_value_loss",
        DEFAULT,
        data="far",
        estimator="gae",
        cliprange_value=0.5,
    ),
    _verl(
        "ppo, dual clip, KL in the loss",
        replace(CATALOG["verl_05_ppo"], **{"kl.coef": 0.04, "advantage.gamma": 0.99}),
        "compute_gae_advantage_return, vanilla, kl_penalty, compute_value_loss",
        {**DEFAULT, **K3_LOSS},
        data="far",
        estimator="gae",
        gamma=0.99,
        cliprange_value=0.5,
    ),
    _verl(
        "ppo, KL k3 in the reward",
        replace(PPO, shaping=(OutcomeAtEnd(), KlInReward(coef=0.05, estimator="k3", **VERL_K3))),
        "apply_kl_penalty k3, compute_gae_advantage_return, vanilla, compute_value_loss",
        estimator="gae",
        lam=0.95,
        kl_in_reward=0.05,
        kl_penalty="k3",
        cliprange_value=0.2,
    ),
    _verl(
        "ppo, adaptive KL",
        replace(PPO, shaping=(OutcomeAtEnd(), ADAPTIVE)),
        "apply_kl_penalty with AdaptiveKLController, compute_gae_advantage_return, vanilla, compute_value_loss",
        estimator="gae",
        lam=0.95,
        kl_in_reward=0.05,
        adaptive={"target_kl": 0.1, "horizon": 100},
        cliprange_value=0.2,
    ),
    _verl(
        "rloo",
        RLOO,
        "apply_kl_penalty, compute_rloo_outcome_advantage, gpg",
        {"loss_mode": "gpg", "loss_agg_mode": "seq-mean-token-sum"},
        estimator="rloo",
        kl_in_reward=0.03,
    ),
    _verl(
        "rloo by default",
        CATALOG["verl_rloo"],
        "compute_rloo_outcome_advantage, vanilla",
        DEFAULT,
        estimator="rloo",
    ),
    _verl(
        "reinforce++",
        replace(
            BARE,
            advantage=ReturnToGo(gamma=0.99),
            whiten=Whiten(),
            aggregate=TokenMean(),
            shaping=(OutcomeAtEnd(), KlInReward(coef=0.05, estimator="k1", ceiling=None)),
        ),
        "apply_kl_penalty, compute_reinforce_plus_plus_outcome_advantage, vanilla",
        estimator="reinforce_plus_plus",
        gamma=0.99,
        kl_in_reward=0.05,
    ),
    _verl(
        "reinforce++ with baseline, by default",
        CATALOG["verl_reinforce_pp_baseline"],
        "compute_reinforce_plus_plus_baseline_outcome_advantage, vanilla",
        DEFAULT,
        estimator="reinforce_plus_plus_baseline",
    ),
    _verl(
        "remax",
        replace(RLOO, advantage=GreedyBaseline()),
        "apply_kl_penalty, compute_remax_outcome_advantage, gpg",
        {"loss_mode": "gpg", "loss_agg_mode": "seq-mean-token-sum"},
        estimator="remax",
        kl_in_reward=0.03,
    ),
    _verl(
        "gspo",
        replace(BARE, ratio=SequenceRatio(normalise=True), surrogate=Clip(low=3e-4, high=4e-4)),
        f"{GROUP}, gspo",
        {"loss_mode": "gspo", "loss_agg_mode": ROWS, "clip_ratio_low": 3e-4, "clip_ratio_high": 4e-4},
    ),
    *(
        _verl(f"{name} by default", CATALOG[f"verl_{name}"], f"{GROUP}, {mode}", {**DEFAULT, "loss_mode": mode})
        for name, mode in (("gspo", "gspo"), ("cispo", "cispo"), ("sapo", "sapo"), ("gmpo", "geo_mean"))
    ),
    _verl(
        "gmpo",
        replace(CATALOG["verl_gmpo"], surrogate=CATALOG["gmpo"].surrogate),
        f"{GROUP}, geo_mean",
        {"loss_mode": "geo_mean", "clip_ratio_low": 0.4, "clip_ratio_high": 0.4},
    ),
    *(
        _verl(
            f"dppo, binary {kind}, by default",
            CATALOG[f"verl_dppo_{kind}"],
            f"{GROUP}, dppo_{kind}",
            {**DEFAULT, "loss_mode": f"dppo_{kind}"},
            skip=("loss",),
        )
        for kind in ("tv", "kl")
    ),
    _verl(
        "dppo, binary kl",
        replace(CATALOG["dppo_kl"], advantage=GRPO.advantage, old="learner", aggregate=TokenMean()),
        f"{GROUP}, dppo_kl",
        {"loss_mode": "dppo_kl", "clip_ratio_low": 0.05, "clip_ratio_high": 0.05, "clip_ratio_c": 5.0},
        skip=("loss",),
    ),
    *(
        _verl(
            f"correction: {name}",
            replace(BARE, correction=part),
            f"compute_rollout_correction_*, {GROUP}, vanilla",
            {"loss_agg_mode": ROWS},
            correction={"rollout_is": level, "rollout_is_threshold": bounds},
        )
        for name, part, level, bounds in (
            ("TIS per token", TruncatedToken(high=1.5), "token", 1.5),
            ("TIS per row", TruncatedSequence(high=2.0), "sequence", 2.0),
            ("IcePop", MaskedToken(low=0.5, high=2.0), "token", "0.5_2.0"),
        )
    ),
    *(
        Case(
            f"KL {kind} in the loss",
            "verl",
            "far",
            Kl(coef=0.04, estimator=estimator, **bounds),
            f"kl_penalty {kind}, agg_loss",
            {"kind": kind, "coef": 0.04},
            "kl",
        )
        for kind, estimator, bounds in (
            ("k1", "k1", {"ceiling": None}),
            ("k2", "k2", {"ceiling": None}),
            ("k3", "k3", VERL_K3),
            ("abs", "abs", {"ceiling": None}),
        )
    ),
    _verl(
        "grpo, groups of one",
        BARE,
        GROUP,
        {"loss_agg_mode": ROWS},
        data="single",
        differs="a group of one has nothing to be compared with: verl credits the bare reward, Paribus 0 "
        "(and `check` refuses such a setting)",
    ),
    _verl(
        "rloo, groups of one",
        RLOO,
        "compute_rloo_outcome_advantage, gpg",
        {"loss_mode": "gpg", "loss_agg_mode": "seq-mean-token-sum"},
        estimator="rloo",
        kl_in_reward=0.03,
        data="single",
        differs="as for grpo: verl credits the bare reward, Paribus 0",
    ),
]
