"""Offline methods and the reward model: what of Paribus is compared with which trainer of TRL."""

from __future__ import annotations

from typing import Any

from case import Case

from paribus.algorithms import CATALOG
from paribus.algorithms.bradley_terry import BradleyTerry
from paribus.algorithms.preference import Dpo, Hinge, Ipo, SimPo
from paribus.algorithms.unpaired import Kto, Sft


def _trl(
    name: str, method: Any, trainer: str, kind: str, data: str = "pairs", differs: str = "", **settings: Any
) -> Case:
    return Case(name, "trl", data, method, trainer, settings, kind, differs)


DPO, CPO = "DPOTrainer._compute_loss", "CPOTrainer.get_batch_loss_metrics"
ORPO, REWARD = "ORPOTrainer.get_batch_loss_metrics", "RewardTrainer.compute_loss"
SIMPO: dict[str, Any] = {"loss_type": "simpo", "beta": 2.0, "simpo_gamma": 1.0}

TABLE = [
    _trl("dpo by default", CATALOG["trl_dpo"].objective, f"{DPO}, sigmoid", "dpo"),
    _trl(
        "robust dpo",
        Dpo(beta=0.1, label_smoothing=0.2, robust=True),
        f"{DPO}, robust",
        "dpo",
        beta=0.1,
        loss_type=["robust"],
        label_smoothing=0.2,
    ),
    _trl(
        "cdpo, reference 0",
        Dpo(beta=0.1, label_smoothing=0.2),
        f"{CPO}, sigmoid",
        "cpo",
        "pairs_free",
        beta=0.1,
        label_smoothing=0.2,
        cpo_alpha=0.0,
    ),
    _trl("ipo by default: means", CATALOG["trl_ipo"].objective, f"{DPO}, ipo", "dpo", loss_type=["ipo"]),
    _trl("hinge", Hinge(beta=0.1), f"{DPO}, hinge", "dpo", beta=0.1, loss_type=["hinge"]),
    _trl(
        "kto",
        Kto(beta=0.1, desirable=1.0, undesirable=1.3),
        "KTOTrainer._compute_loss",
        "kto",
        beta=0.1,
        undesirable_weight=1.3,
    ),
    _trl("orpo by default, equal lengths", CATALOG["trl_orpo"].objective, ORPO, "orpo", "pairs_equal"),
    _trl("simpo", SimPo(beta=2.0, gamma=1.0), f"{CPO}, simpo", "cpo", **SIMPO, cpo_alpha=0.0),
    _trl(
        "simpo by default: with likelihood, equal lengths",
        CATALOG["trl_simpo"].objective,
        f"{CPO}, simpo",
        "cpo",
        "pairs_equal",
        loss_type="simpo",
    ),
    _trl("sft on the chosen", Sft(), f"{DPO}, sft", "dpo", loss_type=["sft"]),
    _trl("reward model", BradleyTerry(centre=0.01), REWARD, "reward", center_rewards_coefficient=0.01),
    _trl("reward model with margins", BradleyTerry(margin=True), REWARD, "reward", "pairs_margin"),
    _trl(
        "ipo over sums",
        Ipo(beta=0.1, over="sum"),
        f"{DPO}, ipo",
        "dpo",
        beta=0.1,
        loss_type=["ipo"],
        differs="the paper's gap is one of sums; TRL takes means per token (Paribus' over = \"mean\")",
    ),
    _trl(
        "orpo by default",
        CATALOG["trl_orpo"].objective,
        ORPO,
        "orpo",
        differs="TRL's likelihood term is a mean over all chosen tokens of a micro-batch, so that long answers weigh "
        "more and the micro-batch size matters; the paper's, and Paribus', is per answer",
    ),
    _trl(
        "simpo by default: with likelihood",
        CATALOG["trl_simpo"].objective,
        f"{CPO}, simpo",
        "cpo",
        loss_type="simpo",
        differs="as for orpo: TRL averages the likelihood over tokens, Paribus over answers",
    ),
]
