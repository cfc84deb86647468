"""An arm's factors as values of TRL's GRPOConfig or RLOOConfig, as of 1.16.0."""

from __future__ import annotations

from dataclasses import dataclass

from paribus.algorithms import Offline, PolicyGradient
from paribus.algorithms.advantage import GroupMean, GroupMeanBatchStd, GroupZScore, LeaveOneOut
from paribus.algorithms.aggregate import SequenceMeanTokenMean, SequenceMeanTokenSum, TokenMean
from paribus.algorithms.correction import MaskedSequence, MaskedToken, TruncatedSequence, TruncatedToken
from paribus.algorithms.keep import All
from paribus.algorithms.kl import KlEstimate
from paribus.algorithms.shaping import KlInReward, OutcomeAtEnd
from paribus.algorithms.soft import Cispo, Sapo
from paribus.algorithms.surrogate import Clip, Reinforce, SequenceRatio
from paribus.experiment import Setting
from paribus.interop.export.mapping import Book, keyword

LOSSES = {"token_mean": "dapo", "sequence_mean_token_mean": "grpo", "constant": "dr_grpo"}
CORRECTIONS: dict[type, str] = {
    TruncatedToken: "token_truncate",
    TruncatedSequence: "sequence_truncate",
    MaskedToken: "token_mask",
    MaskedSequence: "sequence_mask",
}
FAR = "TRL bounds nothing here; a difference of 20 nats is beyond the clip"


@dataclass(frozen=True, slots=True)
class TrlJob:
    """What the rules read: one arm's method, its setting, and the rows of a micro-batch on each GPU."""

    method: PolicyGradient | Offline
    setting: Setting
    gpus: int
    micro_batch: int

    @property
    def online(self) -> PolicyGradient | None:
        """The method, where it samples."""
        return self.method if isinstance(self.method, PolicyGradient) else None

    @property
    def trainer(self) -> str:
        """Whose trainer and config: `GRPO`, `RLOO` or `DPO`."""
        if self.online is None:
            return "DPO"
        return "RLOO" if isinstance(self.online.advantage, LeaveOneOut) else "GRPO"

    @property
    def rows(self) -> int:
        """Rows of one update, or pairs."""
        rollout, optim = self.setting.rollout, self.setting.optim
        samples = 1 if self.online is None else rollout.samples_per_prompt
        return (optim.minibatch_prompts or rollout.prompts_per_step) * samples


def map_online(book: Book, method: PolicyGradient) -> None:
    """Add what becomes of every slot of an online method."""
    rloo = isinstance(method.advantage, LeaveOneOut)
    for rule in (_advantage, _rloo_loss if rloo else _grpo_loss, _kl, _shaping, _others):
        rule(book, method, rloo)


def _advantage(book: Book, method: PolicyGradient, rloo: bool) -> None:
    part, key = method.advantage, "algorithm.advantage"
    if isinstance(part, LeaveOneOut):
        book.exact(key, keyword("normalize_advantages", False), note="RLOOTrainer")
    elif isinstance(part, GroupMean):
        book.exact(key, keyword("scale_rewards", "none"))
    elif isinstance(part, GroupZScore | GroupMeanBatchStd) and part.ddof == 1:
        scale = "group" if isinstance(part, GroupZScore) else "batch"
        book.choose(part.eps == 1e-4, key, keyword("scale_rewards", scale), otherwise="TRL adds 1e-4 to the deviation")
    else:
        book.refuse(key, f"TRL has no {part.type}" + (": PPO left it with 1.13" if part.type == "gae" else ""))
    if method.whiten is not None:
        book.refuse("algorithm.whiten", "TRL whitens no advantages")
    else:
        book.default("algorithm.whiten", "none")
    if method.critic is not None:
        book.refuse("algorithm.critic", "TRL has had no critic since 1.13")
    else:
        book.default("algorithm.critic", "none")


def _grpo_loss(book: Book, method: PolicyGradient, rloo: bool) -> None:
    part, ratio, aggregate = method.surrogate, method.ratio, method.aggregate
    loss = LOSSES.get(aggregate.type)
    lines: list[str] = []
    if isinstance(part, Clip):
        lines = [keyword("epsilon", part.low), keyword("epsilon_high", part.high), keyword("delta", part.dual)]
    elif isinstance(part, Cispo) and part.low is None and isinstance(aggregate, TokenMean):
        loss, lines = "cispo", [keyword("epsilon_high", part.high)]
    elif isinstance(part, Sapo) and isinstance(aggregate, SequenceMeanTokenMean):
        loss = "sapo"
        lines = [keyword("sapo_temperature_pos", part.tau_pos), keyword("sapo_temperature_neg", part.tau_neg)]
    if not lines:
        book.refuse("algorithm.surrogate", f"TRL's GRPOTrainer has no {part.type} with aggregate {aggregate.type}")
    else:
        book.exact("algorithm.surrogate", *lines)
    if loss is None:
        book.refuse("algorithm.aggregate", f"TRL's GRPOTrainer has no {aggregate.type}")
    else:
        book.exact("algorithm.aggregate", keyword("loss_type", loss))
    if isinstance(ratio, SequenceRatio) and not ratio.normalise:
        book.refuse("algorithm.ratio", "TRL's GRPOTrainer takes the geometric mean of a row's ratios, not the product")
    else:
        level = "sequence" if isinstance(ratio, SequenceRatio) else "token"
        far = ratio.clamp is None or ratio.clamp >= 20
        book.choose(far, "algorithm.ratio", keyword("importance_sampling_level", level), otherwise=FAR)


def _rloo_loss(book: Book, method: PolicyGradient, rloo: bool) -> None:
    """RLOOTrainer clips the product of a row's ratios: at the only update of a step that is the score function."""
    part, ratio, aggregate = method.surrogate, method.ratio, method.aggregate
    first = isinstance(part, Reinforce) and isinstance(aggregate, SequenceMeanTokenSum)
    product = isinstance(ratio, SequenceRatio) and not ratio.normalise
    clipped = isinstance(part, Clip) and part.dual is None and product and isinstance(aggregate, SequenceMeanTokenMean)
    if first:
        book.exact("algorithm.surrogate", note="one update a step: the ratio is 1, its gradient that of the log-prob")
    elif clipped:
        assert isinstance(part, Clip)
        book.exact("algorithm.surrogate", keyword("epsilon", part.low), keyword("epsilon_high", part.high))
    else:
        book.refuse("algorithm.surrogate", "TRL's RLOOTrainer clips the product of a row's ratios, and nothing else")
    if first or clipped:
        book.default("algorithm.ratio", "the product of a row's ratios")
        book.default("algorithm.aggregate", "mean over rows")
    else:
        book.refuse("algorithm.ratio", "see the surrogate")
        book.refuse("algorithm.aggregate", "see the surrogate")


def _kl(book: Book, method: PolicyGradient, rloo: bool) -> None:
    kl, key = method.kl, "algorithm.kl"
    in_reward = any(isinstance(term, KlInReward) for term in method.shaping)
    if kl is None:
        book.exact(key, *([] if in_reward else [keyword("beta", 0.0)]))
    elif rloo:
        book.refuse(key, "TRL's RLOOTrainer has its KL in the reward")
    elif kl.estimator != "k3" or kl.straight_through:
        book.refuse(key, f"TRL has k3 in the loss, not {kl.estimator}{'+' if kl.straight_through else ''}")
    else:
        lines = (keyword("beta", kl.coef), keyword("use_bias_correction_kl", kl.unbiased))
        book.choose(_unbounded(kl), key, *lines, otherwise='TRL bounds no KL: write clamp = "none" and a far ceiling')


def _unbounded(kl: KlEstimate) -> bool:
    far = (kl.ceiling is None or kl.ceiling >= 20) and (kl.floor is None or kl.floor <= -20)
    return far and kl.clamp is None


def _shaping(book: Book, method: PolicyGradient, rloo: bool) -> None:
    for term in method.shaping:
        key = f"algorithm.shaping.{term.type}"
        if isinstance(term, OutcomeAtEnd) and term.truncated == "scored":
            book.exact(key, note="scorer.py: `reward`")
        elif isinstance(term, KlInReward) and rloo and term.estimator == "k1" and term.adaptive is None:
            book.choose(_unbounded(term), key, keyword("beta", term.coef), otherwise="TRL bounds no KL")
        else:
            book.refuse(key, f"not exported to TRL: {term.type}")


def _others(book: Book, method: PolicyGradient, rloo: bool) -> None:
    if method.entropy and (rloo or not isinstance(method.aggregate, TokenMean)):
        book.refuse("algorithm.entropy", "TRL's bonus is a mean over tokens, and RLOOTrainer has none")
    else:
        book.exact("algorithm.entropy", *([] if rloo else [keyword("entropy_coef", method.entropy)]))
    for name, used in (("select", method.select), ("explore", method.explore), ("imitation", method.imitation)):
        if used:
            book.refuse(f"algorithm.{name}", "not exported to TRL")
        else:
            book.default(f"algorithm.{name}", "off")
    if isinstance(method.keep, All):
        book.default("algorithm.keep", "every row trains")
    else:
        book.refuse("algorithm.keep", "TRL leaves uniform groups in")
    if method.old == "learner":
        book.exact("algorithm.old")
    else:
        book.refuse("algorithm.old", "TRL divides by the learner's log-probs")
    part, key, name = method.correction, "algorithm.correction", "vllm_importance_sampling_"
    if part is None:
        book.exact(key, *([] if rloo else [keyword(name + "correction", False)]))
    elif rloo or type(part) not in CORRECTIONS:
        book.refuse(key, f"TRL has no {part.type}")
    else:
        book.exact(
            key,
            keyword(name + "correction", True),
            keyword(name + "mode", CORRECTIONS[type(part)]),
            keyword(name + "clip_max", part.high),
            keyword(name + "clip_min", part.low),
        )
