"""verl's answers: its own functions on the batches of `.parity`, in an environment without Paribus.

The trainer's module imports what it needs to run on a cluster. None of that enters the maths, so it is not installed:
the names below are empty stand-ins. Everything that computes an advantage, a KL or a loss is verl's own code.
"""

from __future__ import annotations

import functools
import sys
import warnings
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import torch
from exchange import Fields, serve

STAND_INS = {
    "ray",  # remote actors
    "uvicorn", "fastapi", "cachetools",  # the servers in front of inference engines
    "torchdata", "datasets", "pyarrow", "pandas", "PIL",  # reading data sets and images
    "accelerate", "peft",  # loading large models and adapters
}  # fmt: skip


class _StandIn:
    """Finder and loader of modules that hold nothing."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.split(".")[0] in STAND_INS else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = ModuleType(spec.name)
        module.__getattr__ = _anything  # type: ignore[method-assign]
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


def _anything(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return MagicMock()


sys.meta_path.append(_StandIn())  # type: ignore[arg-type]
warnings.filterwarnings("ignore", category=UserWarning)  # one for each engine that is not installed

import verl  # noqa: E402
from tensordict import TensorDict  # noqa: E402
from verl import DataProto  # noqa: E402
from verl.trainer.config import AlgoConfig  # noqa: E402
from verl.trainer.ppo import core_algos  # noqa: E402
from verl.trainer.ppo.ray_trainer import apply_kl_penalty, compute_advantage  # noqa: E402
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_rejection_mask  # noqa: E402
from verl.utils import tensordict_utils  # noqa: E402
from verl.workers.config import ActorConfig, CriticConfig, PolicyLossConfig  # noqa: E402
from verl.workers.utils import losses  # noqa: E402

losses.no_padding_2_padding = lambda tensor, data: tensor  # unpacks packed rows; these are padded already


def controller(settings: dict[str, Any]) -> core_algos.AdaptiveKLController | core_algos.FixedKLController:
    """What sets the coefficient of a KL in the reward."""
    coef = settings.get("kl_in_reward", 0.0)
    if "adaptive" in settings:
        return core_algos.AdaptiveKLController(coef, **settings["adaptive"])
    return core_algos.FixedKLController(coef)


def advantage(x: Fields, settings: dict[str, Any], control: Any) -> DataProto:
    """Rewards at the end of rows, then verl's KL penalty and its estimator."""
    mask = x["mask"]
    end = torch.arange(mask.shape[1])[None] == mask.long().cumsum(1).argmax(1)[:, None]
    tensors = {
        "token_level_scores": torch.where(end, x["score"][:, None], 0.0),
        "response_mask": mask.long(),
        "old_log_probs": x["old_logp"],
        "ref_log_prob": x["ref_logp"],
        "values": x["old_values"],
        "reward_baselines": x["greedy_score"],
    }
    uid = np.array([str(int(g)) for g in x["group"]], dtype=object)
    data = DataProto.from_dict(tensors=tensors, non_tensors={"uid": uid})
    data.batch["token_level_rewards"] = data.batch["token_level_scores"]
    if "kl_in_reward" in settings:
        data, _ = apply_kl_penalty(data, control, settings.get("kl_penalty", "kl"))
    return compute_advantage(
        data,
        settings["estimator"],
        gamma=settings.get("gamma", 1.0),
        lam=settings.get("lam", 1.0),
        norm_adv_by_std_in_grpo=settings.get("norm_adv_by_std_in_grpo", True),
        config=AlgoConfig(gamma=settings.get("gamma", 1.0)),
    )


def _totals(data: TensorDict, mask: torch.Tensor) -> TensorDict:
    tensordict_utils.assign_non_tensor(
        data, dp_size=1, batch_num_tokens=int(mask.sum()), global_batch_size=mask.shape[0]
    )
    return data


def actor(settings: dict[str, Any]) -> ActorConfig:
    fields = dict(settings["actor"])
    loss = PolicyLossConfig(loss_mode=fields.pop("loss_mode", "vanilla"))
    return ActorConfig(strategy="fsdp", rollout_n=1, use_dynamic_bsz=True, policy_loss=loss, **fields)


def policy(x: Fields, settings: dict[str, Any]) -> Fields:
    """Advantage, loss and gradient as the actor's worker computes them; the critic's too if there is one."""
    control = controller(settings)
    batch = advantage(x, settings, control).batch
    logp = x["logp"].requires_grad_()
    scores = {"log_probs": logp}
    if "entropy_coeff" in settings["actor"]:
        scores["entropy"] = x["entropy"].requires_grad_()
    fields = {
        "response_mask": batch["response_mask"],
        "old_log_probs": batch["old_log_probs"],
        "advantages": batch["advantages"],
        "ref_log_prob": batch["ref_log_prob"],
    }
    if "correction" in settings:
        found, *_ = compute_rollout_correction_and_rejection_mask(
            x["old_logp"], x["sampled_logp"], batch["response_mask"], **settings["correction"]
        )
        fields["rollout_is_weights"] = found.batch["rollout_is_weights"]
    data = _totals(TensorDict(fields, batch_size=[len(logp)]), x["mask"])
    loss, _ = losses.ppo_loss(actor(settings), scores, data)
    loss.backward()
    out = {"advantage": batch["advantages"], "loss": loss, "gradient": logp.grad}
    if "adaptive" in settings:
        out["next KL coefficient"] = torch.tensor(float(control.value))
    if "entropy" in scores:
        out["entropy gradient"] = x["entropy"].grad
    if "cliprange_value" in settings:
        out |= critic(x, batch, settings)
    return out


def critic(x: Fields, batch: TensorDict, settings: dict[str, Any]) -> Fields:
    config = CriticConfig(
        strategy="fsdp", use_dynamic_bsz=True, cliprange_value=settings["cliprange_value"], loss_agg_mode="token-mean"
    )
    values = x["values"].requires_grad_()
    fields = {name: batch[name] for name in ("values", "returns", "response_mask")}
    data = _totals(TensorDict(fields, batch_size=[len(values)]), x["mask"])
    loss, _ = losses.value_loss(config, {"values": values}, data)
    loss.backward()
    return {"target": batch["returns"], "value loss": loss, "value gradient": values.grad}


def kl(x: Fields, settings: dict[str, Any]) -> Fields:
    """A KL term alone, averaged over tokens."""
    logp = x["logp"].requires_grad_()
    estimate = core_algos.kl_penalty(logp, x["ref_logp"], settings["kind"])
    loss = settings["coef"] * core_algos.agg_loss(estimate, x["mask"], "token-mean")
    loss.backward()
    return {"loss": loss, "gradient": logp.grad}


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    answers = {"policy": policy, "kl": kl}
    serve(
        "verl",
        verl.__version__,
        lambda case: functools.partial(answers[case["kind"]], settings=case["settings"]),
    )
