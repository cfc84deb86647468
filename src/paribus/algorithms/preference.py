"""Losses on pairs of a better and a worse answer to one prompt: DPO and its kin, with and without a reference."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from pydantic import Field, model_validator

from paribus.algorithms.metrics import fraction, mean, share
from paribus.algorithms.slot import Need, Slot, required
from paribus.batch import Batch, Role, Stats, Totals, select
from paribus.lazy import torch

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
    from torch import Tensor

Given = Literal["pairs", "labels", "demonstrations"]  # kinds of data


class Answers(NamedTuple):
    """N answers as a loss sees them: sums over an answer's trained tokens; no prompt token is in any of them."""

    logp: Float[Tensor, "N"]
    length: Float[Tensor, "N"]
    log_ratio: Float[Tensor, "N"] | None = None  # of lp - lp_ref; None without a reference

    @property
    def mean_logp(self) -> Float[Tensor, "N"]:
        return self.logp / self.length

    @property
    def against_reference(self) -> Float[Tensor, "N"]:
        return required(self.log_ratio, "ref_logp")


class Rows(NamedTuple):
    """A micro-batch of data rows; the tensors are 0 outside `mask`, and only `logp` has a gradient."""

    logp: Float[Tensor, "B T"]
    ref_logp: Float[Tensor, "B T"] | None
    advantage: Float[Tensor, "B T"]
    mask: Bool[Tensor, "B T"]
    role: Int[Tensor, "B"]
    unit: Int[Tensor, "B"]

    @property
    def answers(self) -> Answers:
        """Sums of the rows. The log-ratio is summed token by token: the difference of two long sums would cancel."""
        ratio = None if self.ref_logp is None else (self.logp - self.ref_logp).sum(1)
        return Answers(self.logp.sum(1), self.mask.sum(1).clamp(min=1).to(self.logp.dtype), ratio)

    @property
    def trained(self) -> Bool[Tensor, "B"]:
        return self.mask.any(1)

    def of(self, role: Role) -> Bool[Tensor, "B"]:
        """True for the trained rows of that role."""
        return self.trained & (self.role == role)

    @property
    def pairs(self) -> tuple[Int[Tensor, "N"], Int[Tensor, "N"]]:
        """Indices of the good and of the bad rows, in the order of their units, so that both sides line up."""
        good, bad = (_by_unit(self.unit, self.of(role)) for role in (Role.GOOD, Role.BAD))
        if not torch.equal(self.unit[good], self.unit[bad]):
            raise ValueError("the two rows of a pair must reach the loss together, and a unit here has one side only")
        return good, bad


def _by_unit(unit: Int[Tensor, "B"], rows: Bool[Tensor, "B"]) -> Int[Tensor, "N"]:
    index = rows.nonzero().squeeze(1)
    return index[unit[index].argsort()]


class OfflineSlot(Slot):
    """Base of the losses on given answers: a micro-batch's share of the update's loss, and what it counted."""

    takes: ClassVar[Given]

    def credit(self, batch: Batch) -> Float[Tensor, "B T"]:
        """What is the same for all updates of a step, handed on as `Signal.advantage`: nothing, for most losses."""
        return torch.zeros_like(batch.mask, dtype=batch.score.dtype)

    @abstractmethod
    def __call__(self, rows: Rows, total: Totals) -> tuple[Float[Tensor, ""], Stats]: ...


class PairLoss(OfflineSlot):
    """Base of the losses on pairs: the mean over the pairs of an update, which are half of its rows.

    `implicit_reward` is what the loss ranks answers by: the trained policy, read as a reward model.
    """

    takes: ClassVar[Given] = "pairs"

    @abstractmethod
    def per_pair(self, good: Answers, bad: Answers) -> Float[Tensor, "N"]: ...

    @abstractmethod
    def implicit_reward(self, answers: Answers) -> Float[Tensor, "N"]: ...

    def __call__(self, rows: Rows, total: Totals) -> tuple[Float[Tensor, ""], Stats]:
        answers = rows.answers
        good, bad = (select(answers, side) for side in rows.pairs)
        value = self.per_pair(good, bad).sum() / max(total.sequences / 2, 1)
        margin = self.implicit_reward(good).detach() - self.implicit_reward(bad).detach()
        every = torch.ones_like(margin, dtype=torch.bool)
        stats: Stats = {
            "policy_loss": share(value, rows.mask, total.sequences),
            "implicit_margin": mean(margin, every),
            "implicit_accuracy": fraction(margin > 0, every),
        }
        return value, stats | side_stats(self.implicit_reward(answers), answers.logp, rows)


def side_stats(reward: Float[Tensor, "B"], logp: Float[Tensor, "B"], rows: Rows) -> Stats:
    """Implicit reward and summed log-prob of the good and of the bad rows; DPO may lower both sides' log-probs."""
    stats: Stats = {}
    for name, role in (("good", Role.GOOD), ("bad", Role.BAD)):
        stats[f"implicit_reward_{name}"] = mean(reward, rows.of(role))
        stats[f"logp_{name}"] = mean(logp, rows.of(role))
    return stats


def _log_sigmoid(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    return torch.nn.functional.logsigmoid(x)


class Dpo(PairLoss):
    """Direct Preference Optimization (2305.18290, eq. 7), its two forms for noisy labels, and DPO-Positive.

    `label_smoothing` e is the assumed share of flipped pairs: mixed in (conservative DPO, Mitchell 2023; least at
    beta h = log((1 - e) / e)), or with `robust` subtracted, which keeps the loss of clean labels in expectation
    (2403.00409; undefined at e = 1/2, may be negative). `anchor` > 0 raises the loss where the good answer is less
    likely than under the reference (DPOP, 2402.13228).
    """

    type: Literal["dpo"] = "dpo"
    beta: float = Field(default=0.1, gt=0)
    label_smoothing: float = Field(default=0.0, ge=0, le=0.5)
    robust: bool = False
    anchor: float = Field(default=0.0, ge=0)

    needs: ClassVar[frozenset[Need]] = frozenset({Need.REFERENCE})
    formula: ClassVar[str] = (
        "loss = -(1 - e) log sig(z) - e log sig(-z), e = label_smoothing, z = beta (h - anchor max(0, -d_good)), "
        "h = d_good - d_bad, d = sum_t (lp - lp_ref);  robust: (-(1 - e) log sig(z) + e log sig(-z)) / (1 - 2 e)"
    )

    @model_validator(mode="after")
    def _robust(self) -> Dpo:
        if self.robust and self.label_smoothing == 0.5:
            raise ValueError("robust divides by 1 - 2 label_smoothing: with half of the labels flipped nothing is left")
        return self

    def implicit_reward(self, answers: Answers) -> Float[Tensor, "N"]:
        return self.beta * answers.against_reference

    def per_pair(self, good: Answers, bad: Answers) -> Float[Tensor, "N"]:
        fallen = torch.relu(-good.against_reference)
        logit = self.beta * (good.against_reference - bad.against_reference - self.anchor * fallen)
        kept, flipped, e = -_log_sigmoid(logit), -_log_sigmoid(-logit), self.label_smoothing
        if self.robust:
            return ((1 - e) * kept - e * flipped) / (1 - 2 * e)
        return (1 - e) * kept + e * flipped


class Ipo(PairLoss):
    """Identity Preference Optimization (2310.12036, eq. 17): the gap of log-ratios is drawn to 1 / (2 beta).

    The paper's gap is `over` sums (beta is its tau); TRL takes means per token, which makes beta smaller by about the
    length of an answer.
    """

    type: Literal["ipo"] = "ipo"
    beta: float = Field(default=0.1, gt=0)
    over: Literal["sum", "mean"] = "sum"

    needs: ClassVar[frozenset[Need]] = frozenset({Need.REFERENCE})
    formula: ClassVar[str] = "loss = (d_good - d_bad - 1/(2 beta))^2, d = sum_t (lp - lp_ref) [/ L if over mean]"

    def _gap(self, answers: Answers) -> Float[Tensor, "N"]:
        ratio = answers.against_reference
        return ratio / answers.length if self.over == "mean" else ratio

    def implicit_reward(self, answers: Answers) -> Float[Tensor, "N"]:
        return self.beta * self._gap(answers)

    def per_pair(self, good: Answers, bad: Answers) -> Float[Tensor, "N"]:
        return (self._gap(good) - self._gap(bad) - 1 / (2 * self.beta)).square()


class Hinge(PairLoss):
    """SLiC's hinge (2305.10425) on log-ratios to the reference, as RSO has it (2309.06657, hinge-norm)."""

    type: Literal["hinge"] = "hinge"
    beta: float = Field(default=0.1, gt=0)

    needs: ClassVar[frozenset[Need]] = frozenset({Need.REFERENCE})
    formula: ClassVar[str] = "loss = max(0, 1 - beta (d_good - d_bad)), d = sum_t (lp - lp_ref)"

    def implicit_reward(self, answers: Answers) -> Float[Tensor, "N"]:
        return self.beta * answers.against_reference

    def per_pair(self, good: Answers, bad: Answers) -> Float[Tensor, "N"]:
        return torch.relu(1 - self.implicit_reward(good) + self.implicit_reward(bad))


class Orpo(PairLoss):
    """Odds Ratio Preference Optimization (2403.07691, eq. 6): likelihood of the good answer, and the odds against.

    The odds of an answer are those of its geometric mean probability. A mean log-prob above `ceiling` is held there,
    with gradient 0, since the odds of a certain answer are infinite; the likelihood term has no ceiling.
    """

    type: Literal["orpo"] = "orpo"
    coef: float = Field(default=0.1, gt=0)  # the paper's lambda, TRL's beta
    ceiling: float = Field(default=-1e-8, lt=0)

    formula: ClassVar[str] = (
        "loss = -m_good - coef log sig(o_good - o_bad), o = m - log(1 - exp(m)), m = min(1/L sum_t lp, ceiling) in o"
    )

    def implicit_reward(self, answers: Answers) -> Float[Tensor, "N"]:
        return log_odds(answers.mean_logp, self.ceiling)

    def per_pair(self, good: Answers, bad: Answers) -> Float[Tensor, "N"]:
        ratio = self.implicit_reward(good) - self.implicit_reward(bad)
        return -good.mean_logp - self.coef * _log_sigmoid(ratio)


def log_odds(logp: Float[Tensor, "..."], ceiling: float) -> Float[Tensor, "..."]:
    """Return log(p / (1 - p)) of log-probs, held at `ceiling`, exact where p is nearly 0 or nearly 1."""
    logp = logp.clamp(max=ceiling)
    likely = logp > -math.log(2)
    # each branch sees only arguments that it can take, lest the other's infinite slope turn the gradient into NaN
    high = torch.log(-torch.expm1(torch.where(likely, logp, -1.0)))
    low = torch.log1p(-torch.exp(torch.where(likely, -1.0, logp)))
    return logp - torch.where(likely, high, low)


class SimPo(PairLoss):
    """Simple Preference Optimization (2405.14734, eq. 6): mean log-probs, a target margin, no reference.

    `nll` weighs the likelihood of the good answer, a mean per token (TRL's `cpo_alpha`; not in the paper).
    """

    type: Literal["simpo"] = "simpo"
    beta: float = Field(default=2.0, gt=0)
    gamma: float = Field(default=1.0, ge=0)
    nll: float = Field(default=0.0, ge=0)

    formula: ClassVar[str] = "loss = -log sig(beta (m_good - m_bad) - gamma) - nll m_good, m = 1/L sum_t lp"

    def implicit_reward(self, answers: Answers) -> Float[Tensor, "N"]:
        return self.beta * answers.mean_logp

    def per_pair(self, good: Answers, bad: Answers) -> Float[Tensor, "N"]:
        margin = self.implicit_reward(good) - self.implicit_reward(bad) - self.gamma
        return -_log_sigmoid(margin) - self.nll * good.mean_logp
