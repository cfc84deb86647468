"""TRL's preference losses and its reward model's loss, computed by its trainers' own methods."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from exchange import Fields
from torch import Tensor
from trl import DPOTrainer, KTOTrainer, RewardTrainer
from trl.experimental.cpo import CPOTrainer
from trl.experimental.orpo import ORPOTrainer
from trl_stub import trainer_of

DATA, OTHER = 1, 2  # token ids: by the first of a row the model below knows which log-probs are asked for


class Given:
    """A model whose log-probs are given, in the forms that TRL's trainers ask for; one prompt token stands first."""

    training = True
    is_gradient_checkpointing = False

    def __init__(self, **tables: Tensor) -> None:
        self.tables = {DATA: tables["logp"], OTHER: tables.get("other")}

    def __call__(self, input_ids: Tensor, labels: Tensor | None = None, **kwargs: Any) -> SimpleNamespace:
        logp = self.tables[int(input_ids[0, 0])]
        if labels is None:
            return SimpleNamespace(logits=_logits(logp))
        zero = torch.zeros_like(logp)
        return SimpleNamespace(
            log_probs=torch.where(labels[:, 1:] != -100, logp, zero),
            entropy=zero,
            mean_logits=zero,
            is_top1=zero.bool(),
        )


def _logits(logp: Tensor) -> Tensor:
    """Logits over three tokens under which the next one, always `DATA`, has the given log-prob."""
    rest = torch.log(-torch.expm1(logp))
    never = torch.full_like(logp, -1e30)
    logits = torch.stack([rest, logp, never], -1)
    return torch.cat([logits, torch.zeros_like(logits[:, :1])], 1)


def _sequences(mask: Tensor, token: int = DATA) -> tuple[Tensor, Tensor, Tensor]:
    """Token ids, attention mask and completion mask of rows with one prompt token."""
    first = torch.ones(len(mask), 1, dtype=torch.long)
    attention = torch.cat([first, mask.long()], 1)
    return torch.full_like(attention, token), attention, torch.cat([0 * first, mask.long()], 1)


def _result(loss: Tensor, logp: Tensor) -> Fields:
    loss.backward()
    return {"loss": loss, "gradient": logp.grad}


COUNTED = {"_total_train_tokens": 0, "_tp_size": 1}


def dpo(x: Fields, config: Any) -> Fields:
    ids, attention, completion = _sequences(x["mask"])
    logp = x["logp"].requires_grad_()
    policy = Given(logp=logp)
    trainer = trainer_of(
        DPOTrainer,
        config,
        model=policy,
        ref_model=Given(logp=x["ref_logp"]),
        beta=config.beta,
        loss_types=config.loss_type,
        loss_weights=config.loss_weights or [1.0] * len(config.loss_type),
        label_smoothing=config.label_smoothing,
        f_divergence_type=config.f_divergence_type,
        ld_alpha=config.ld_alpha,
        use_weighting=config.use_weighting,
        precompute_ref_logps=False,
        **COUNTED,
    )
    batch = {"input_ids": ids, "attention_mask": attention, "completion_mask": completion}
    return _result(trainer._compute_loss(policy, batch, return_outputs=False), logp)


def kto(x: Fields, config: Any) -> Fields:
    ids, attention, completion = _sequences(x["mask"])
    other_ids, other_attention, other_completion = _sequences(x["other_mask"], OTHER)
    logp = x["logp"].requires_grad_()
    policy = Given(logp=logp, other=x["other_logp"])
    trainer = trainer_of(
        KTOTrainer,
        config,
        model=policy,
        ref_model=Given(logp=x["ref_logp"], other=x["other_ref_logp"]),
        beta=config.beta,
        loss_type=config.loss_type,
        desirable_weight=config.desirable_weight,
        undesirable_weight=config.undesirable_weight,
        calculate_KL=True,
        precompute_ref_logps=False,
        **COUNTED,
    )
    batch = {
        "input_ids": ids,
        "attention_mask": attention,
        "completion_mask": completion,
        "KL_input_ids": other_ids,
        "KL_attention_mask": other_attention,
        "KL_completion_mask": other_completion,
        "label": x["good"],
    }
    return _result(trainer._compute_loss(policy, batch, return_outputs=False), logp)


def _reference_free(kind: Any, config: Any, x: Fields, **attributes: Any) -> Fields:
    ids, attention, completion = _sequences(x["mask"])
    labels = ids.masked_fill(completion == 0, -100)
    half = len(ids) // 2
    batch = {
        f"{side}_{name}": value[rows]
        for side, rows in (("chosen", slice(half)), ("rejected", slice(half, None)))
        for name, value in (("input_ids", ids), ("attention_mask", attention), ("labels", labels))
    }
    logp = x["logp"].requires_grad_()
    policy = Given(logp=logp)
    trainer = trainer_of(kind, config, model=policy, beta=config.beta, is_encoder_decoder=False, **attributes)
    loss, _ = trainer.get_batch_loss_metrics(policy, batch)
    return _result(loss, logp)


def cpo(x: Fields, config: Any) -> Fields:
    """CPO's trainer, which also holds SimPO."""
    return _reference_free(
        CPOTrainer,
        config,
        x,
        pad_token_id=0,
        alpha=config.alpha,
        loss_type=config.loss_type,
        cpo_alpha=config.cpo_alpha,
        simpo_gamma=config.simpo_gamma,
        label_smoothing=config.label_smoothing,
    )


def orpo(x: Fields, config: Any) -> Fields:
    return _reference_free(ORPOTrainer, config, x, padding_value=0)


def reward(x: Fields, config: Any) -> Fields:
    rewards = x["reward"].requires_grad_()
    policy = SimpleNamespace(training=True)
    trainer = trainer_of(RewardTrainer, config, model=policy, **COUNTED)
    inputs = {"attention_mask": x["mask"].long()} | ({"margin": x["margin"]} if "margin" in x else {})
    loss = trainer.compute_loss(lambda **_: SimpleNamespace(logits=rewards[:, None]), inputs)
    return _result(loss, rewards)
