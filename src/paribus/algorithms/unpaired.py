"""Losses on single answers: KTO on good and bad ones, SFT on demonstrations."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from paribus import tensors
from paribus.algorithms.aggregate import Aggregate, TokenMean
from paribus.algorithms.metrics import mean, share
from paribus.algorithms.preference import Answers, Given, OfflineSlot, Rows, side_stats
from paribus.algorithms.slot import Need, required
from paribus.batch import Batch, Role, Stats, Totals
from paribus.errors import DataError
from paribus.lazy import torch

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from torch import Tensor


class Kto(OfflineSlot):
    """Kahneman-Tversky Optimization (2402.01306, section 4): each answer is good or bad on its own, against z0.

    z0 estimates the KL to the reference by the mean log-ratio over prompts with another prompt's answer, at least 0.
    It is measured once a step, under the policy that starts the step. `desirable` and `undesirable` weigh the two
    sides; the paper wants their totals within 1 to 4/3 of each other.
    """

    type: Literal["kto"] = "kto"
    beta: float = Field(default=0.1, gt=0)
    desirable: float = Field(default=1.0, gt=0)
    undesirable: float = Field(default=1.0, gt=0)

    takes: ClassVar[Given] = "labels"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.REFERENCE, Need.OLD})
    formula: ClassVar[str] = (
        "loss = desirable (1 - sig(beta (d - z0))) or undesirable (1 - sig(beta (z0 - d))), d = sum_t (lp - lp_ref), "
        "z0 = max(0, mean of d over mismatched answers)"
    )

    def credit(self, batch: Batch) -> Float[Tensor, "B T"]:
        """Return z0 on every trained token. Raises DataError for rows without a single mismatched one."""
        role, old, ref = required(batch.role, "role"), batch.old_logp, batch.ref_logp
        mismatched = role == Role.MISMATCHED
        if not mismatched.any():
            if not batch.mask.any():
                return super().credit(batch)
            raise DataError(
                "KTO measures z0 on prompts with another prompt's answer, and this step has answers to one prompt "
                "only: set rollout.prompts_per_step to 2 or more"
            )
        d = tensors.keep(required(old, "old_logp") - required(ref, "ref_logp"), batch.rollout.mask).sum(1)
        z0 = tensors.masked_mean(d, mismatched).clamp(min=0)
        return tensors.broadcast(z0.expand(d.shape), batch.mask)

    def per_answer(self, answers: Answers, good: Bool[Tensor, "N"], z0: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
        ahead = self.beta * (answers.against_reference - z0)
        # 1 - sig(x) is sig(-x), which keeps its digits where sig(x) is nearly 1
        return torch.where(good, self.desirable * torch.sigmoid(-ahead), self.undesirable * torch.sigmoid(ahead))

    def __call__(self, rows: Rows, total: Totals) -> tuple[Float[Tensor, ""], Stats]:
        answers, z0 = rows.answers, rows.advantage.amax(1)
        loss = self.per_answer(answers, rows.role == Role.GOOD, z0)
        value = tensors.masked_sum(loss, rows.trained) / max(total.sequences, 1)
        stats: Stats = {"policy_loss": share(value, rows.mask, total.sequences), "z0": mean(z0, rows.trained)}
        return value, stats | side_stats(self.beta * answers.against_reference, answers.logp, rows)


class Sft(OfflineSlot):
    """Supervised fine-tuning: the negative log-likelihood of the demonstrated answers, prompts left out."""

    type: Literal["sft"] = "sft"
    aggregate: Aggregate = TokenMean()

    takes: ClassVar[Given] = "demonstrations"
    formula: ClassVar[str] = "loss[t] = -lp[t], aggregated as declared"

    def __call__(self, rows: Rows, total: Totals) -> tuple[Float[Tensor, ""], Stats]:
        value = self.aggregate(-rows.logp, rows.mask, total)
        stats: Stats = {
            "policy_loss": share(value, rows.mask, total.sequences),
            "logp_good": mean(rows.logp.sum(1), rows.trained),
        }
        return value, stats
