"""Which online method of Paribus, at which settings, is compared with which trainer of TRL."""

from __future__ import annotations

from typing import Any

from case import Case
from inputs import HORIZON

from paribus.algorithms import (
    CATALOG,
    Cispo,
    Clip,
    Constant,
    GroupMean,
    GroupMeanBatchStd,
    GroupZScore,
    Kl,
    MaskedSequence,
    MaskedToken,
    PolicyGradient,
    SequenceRatio,
    SoftOverlong,
    TokenMean,
    TokenRatio,
    TruncatedSequence,
    TruncatedToken,
)
from paribus.part import replace

BASE = replace(CATALOG["grpo"], advantage=GroupZScore(eps=1e-4, ddof=1), ratio=TokenRatio(clamp=None), kl=None)
FREE_K3 = Kl(coef=0.04, estimator="k3", ceiling=None)
BETA = {"beta": 0.04, "use_bias_correction_kl": False}


def _trl(name: str, method: PolicyGradient, differs: str = "", kind: str = "grpo", **settings: Any) -> Case:
    mode = settings.get("vllm_importance_sampling_mode", "")
    what = "GMPOTrainer" if kind == "gmpo" else f"GRPOTrainer, {settings['loss_type']}"
    calls = f"{what}: _generate_and_score_completions, _compute_loss" + (f", {mode}" if mode else "")
    return Case(name, "trl", "even", method, calls, settings, kind, differs)


TABLE = [
    _trl("grpo by default", CATALOG["trl_grpo"], loss_type="dapo"),
    _trl("grpo", replace(BASE, kl=FREE_K3), loss_type="grpo", **BETA),
    _trl(
        "grpo, two-sided clip", replace(BASE, surrogate=Clip(low=0.2, high=0.2, dual=3.0)), loss_type="grpo", delta=3.0
    ),
    _trl(
        "dapo: clip-higher, token mean",
        replace(BASE, surrogate=Clip(low=0.2, high=0.28), aggregate=TokenMean()),
        loss_type="dapo",
        epsilon_high=0.28,
    ),
    _trl(
        "dapo with entropy bonus",
        replace(BASE, aggregate=TokenMean(), entropy=0.01),
        loss_type="dapo",
        entropy_coef=0.01,
    ),
    _trl(
        "dr_grpo",
        replace(BASE, advantage=GroupMean(), aggregate=Constant()),
        loss_type="dr_grpo",
        scale_rewards="none",
        max_completion_length=HORIZON,
    ),
    _trl("dr_grpo, loss_type alone", CATALOG["trl_dr_grpo"], loss_type="dr_grpo", max_completion_length=HORIZON),
    _trl(
        "lite_ppo: std of the batch, token mean",
        replace(BASE, advantage=GroupMeanBatchStd(eps=1e-4), aggregate=TokenMean()),
        loss_type="dapo",
        scale_rewards="batch",
    ),
    _trl("bnpo: token mean", CATALOG["trl_bnpo"], loss_type="bnpo"),
    _trl("gspo, level alone", CATALOG["trl_gspo"], loss_type="dapo", importance_sampling_level="sequence"),
    _trl(
        "gspo",
        replace(BASE, ratio=SequenceRatio(normalise=True, clamp=None), surrogate=Clip(low=3e-4, high=4e-4)),
        loss_type="grpo",
        importance_sampling_level="sequence",
        epsilon=3e-4,
        epsilon_high=4e-4,
    ),
    _trl(
        "cispo",
        replace(CATALOG["trl_cispo"], surrogate=Cispo(low=None, high=1.5)),
        loss_type="cispo",
        epsilon_high=1.5,
    ),
    _trl("sapo by default", CATALOG["trl_sapo"], loss_type="sapo"),
    _trl("gmpo", replace(CATALOG["trl_gmpo"], kl=FREE_K3), kind="gmpo", **BETA),
    *(
        _trl(
            f"correction: {name}",
            replace(BASE, correction=part),
            loss_type="grpo",
            use_vllm=True,
            vllm_importance_sampling_mode=mode,
            vllm_importance_sampling_clip_max=part.high,
        )
        for name, part, mode in (
            ("TIS per token", TruncatedToken(high=1.5), "token_truncate"),
            ("TIS per row", TruncatedSequence(high=2.0), "sequence_truncate"),
            ("MIS per token", MaskedToken(low=None, high=1.5), "token_mask"),
            ("MIS per row", MaskedSequence(high=3.0), "sequence_mask"),
        )
    ),
    Case(
        "rloo by default: clipped row ratio",
        "trl",
        "even_whole",
        CATALOG["trl_rloo"],
        "RLOOTrainer: _generate_and_score_completions, _compute_loss",
        {},
        "rloo",
    ),
    Case(
        "soft overlong penalty",
        "trl",
        "even_whole",
        SoftOverlong(cache=4 / HORIZON, penalty=1.0),
        "get_soft_overlong_punishment",
        {"max_completion_len": HORIZON, "soft_punish_cache": 4},
        "overlong",
    ),
    _trl(
        "grpo, default KL",
        replace(BASE, kl=FREE_K3),
        loss_type="grpo",
        beta=0.04,
        differs="TRL multiplies the KL term by the ratio to the old policy unless use_bias_correction_kl = False; "
        "the papers that the entries follow do not",
    ),
    _trl(
        "grpo with entropy bonus",
        replace(BASE, entropy=0.01),
        loss_type="grpo",
        entropy_coef=0.01,
        differs="TRL's bonus is a mean over tokens under every loss_type; Paribus averages it as the policy loss, "
        "so that both terms weigh a token alike",
    ),
]
