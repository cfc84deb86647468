"""TRL's answers: the methods of its own trainers on the batches of `.parity`, in an environment without Paribus.

TRL keeps its maths inside trainers that also load models and generate. A trainer is therefore made without running its
`__init__`, given the attributes that its methods read (with the values of TRL's own config classes), and a forward
pass, a generation and a reward function that hand out what the batch says. Loss, advantages and corrections are
computed by TRL's code, unchanged.
"""

from __future__ import annotations

import functools
import os
from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import torch
import trl
import trl_pairs
from exchange import Fields, serve
from trl import DPOConfig, GRPOConfig, GRPOTrainer, KTOConfig, RewardConfig, RLOOConfig, RLOOTrainer
from trl.experimental.cpo import CPOConfig
from trl.experimental.gmpo import GMPOConfig, GMPOTrainer
from trl.experimental.orpo import ORPOConfig
from trl.rewards import get_soft_overlong_punishment
from trl_stub import config_of, trainer_of

REFERENCE = SimpleNamespace()
POLICY = SimpleNamespace(training=True, is_gradient_checkpointing=False)


def online(kind: Any, config: Any, x: Fields, **attributes: Any) -> Any:
    """A trainer of samples: its policy, reference, generation and rewards are those of the batch."""
    _, size = torch.unique(x["group"], return_counts=True)

    def scores(model: Any, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor, None]:
        if model is REFERENCE:
            return x["ref_logp"], x["entropy"], None
        return x["logp"] if torch.is_grad_enabled() else x["old_logp"], x["entropy"], None

    return trainer_of(
        kind,
        config,
        model=POLICY,
        ref_model=REFERENCE,
        _get_per_token_logps_and_entropies=scores,
        _calculate_rewards=lambda *_: x["score"][:, None].clone(),
        reward_func_names=["score"],
        reward_funcs=[None],
        reward_weights=torch.ones(1),
        num_generations=int(size[0]),
        num_iterations=config.num_iterations,
        beta=config.beta,
        epsilon_low=config.epsilon,
        epsilon_high=config.epsilon if config.epsilon_high is None else config.epsilon_high,
        mask_truncated_completions=config.mask_truncated_completions,
        pad_to_multiple_of=None,
        _tokenizer=SimpleNamespace(pad_token_id=0),
        _logs=defaultdict(list, rewards=defaultdict(list), extra=defaultdict(list)),
        _pending_extra_logs={},
        _pending_metrics={},
        **attributes,
    )


def answer(trainer: Any, x: Fields) -> Fields:
    """Run the trainer on the batch: scoring, then loss and gradient."""
    with torch.no_grad():
        batch = trainer._generate_and_score_completions([{"prompt": ""}] * len(x["group"]))
    x["logp"].requires_grad_()
    x["entropy"].requires_grad_()
    loss = trainer.compute_loss(POLICY, batch)
    loss.backward()
    advantage = batch["advantages"][:, None].expand(x["mask"].shape)
    return {"advantage": advantage, "loss": loss, "gradient": x["logp"].grad}


def grpo(x: Fields, config: Any, kind: Any = GRPOTrainer) -> Fields:
    length = x["mask"].long().cumsum(1).argmax(1) + 1
    ids = [[1] * int(n) for n in length]
    tool_mask = [row[:n].long().tolist() for row, n in zip(x["mask"], length, strict=True)]
    sampled = [row[:n].tolist() for row, n in zip(x["sampled_logp"], length, strict=True)]
    trainer = online(
        kind,
        config,
        x,
        _generate=lambda prompts: ([[1]] * len(ids), ids, tool_mask, [""] * len(ids), sampled, {}, None, None),
        environment_factories=None,
        environments=None,
        tools=None,
        scale_rewards=config.scale_rewards,
        multi_objective_aggregation=config.multi_objective_aggregation,
        loss_type=config.loss_type,
        importance_sampling_level=config.importance_sampling_level,
        off_policy_mask_threshold=config.off_policy_mask_threshold,
        top_entropy_quantile=config.top_entropy_quantile,
        max_completion_length=config.max_completion_length,
        current_gradient_accumulation_steps=1,
        use_vllm=config.use_vllm,
        vllm_importance_sampling_correction=config.vllm_importance_sampling_correction,
        vllm_importance_sampling_mode=config.vllm_importance_sampling_mode,
        vllm_importance_sampling_clip_min=config.vllm_importance_sampling_clip_min,
        vllm_importance_sampling_clip_max=config.vllm_importance_sampling_clip_max,
        use_adaptive_entropy=False,
        entropy_coef=config.entropy_coef,
        _entropy_bonus_enabled=config.entropy_coef != 0.0,
    )
    out = answer(trainer, x)
    if config.entropy_coef:
        out["entropy gradient"] = x["entropy"].grad
    return out


def rloo(x: Fields, config: Any) -> Fields:
    length = x["mask"].long().cumsum(1).argmax(1) + 1
    ids = [[1] * int(n) for n in length]
    trainer = online(
        RLOOTrainer,
        config,
        x,
        _generate=lambda prompts: ([[1]] * len(ids), ids, [""] * len(ids)),
        normalize_advantages=config.normalize_advantages,
        reward_clip_range=config.reward_clip_range,
    )
    return answer(trainer, x)


def overlong(x: Fields, settings: dict[str, Any]) -> Fields:
    """A reward function, not a trainer."""
    penalty = get_soft_overlong_punishment(**settings)
    return {"reward": torch.tensor(penalty(completion_ids=[[1] * int(row.sum()) for row in x["mask"]]))}


KINDS = {
    "gmpo": (functools.partial(grpo, kind=GMPOTrainer), GMPOConfig),
    "grpo": (grpo, GRPOConfig),
    "rloo": (rloo, RLOOConfig),
    "dpo": (trl_pairs.dpo, DPOConfig),
    "kto": (trl_pairs.kto, KTOConfig),
    "cpo": (trl_pairs.cpo, CPOConfig),
    "orpo": (trl_pairs.orpo, ORPOConfig),
    "reward": (trl_pairs.reward, RewardConfig),
}
TWO_UPDATES = {"num_iterations": 2, "steps_per_generation": 1}  # so that the old policy differs from the new one


def prepare(case: dict[str, Any]) -> Callable[[Fields], Fields]:
    if case["kind"] == "overlong":
        return functools.partial(overlong, settings=case["settings"])
    function, kind = KINDS[case["kind"]]
    plan = TWO_UPDATES if case["kind"] in ("grpo", "gmpo", "rloo") else {}
    return functools.partial(function, config=config_of(kind, plan | case["settings"]))


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    serve("trl", trl.__version__, prepare)
