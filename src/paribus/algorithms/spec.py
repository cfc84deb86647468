"""PolicyGradient: a method as one value of named slots, which is also the objective that a learner trains."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from paribus import tensors
from paribus.algorithms.advantage import Advantage, Bnpo, GroupStepZScore, RowAdvantage
from paribus.algorithms.aggregate import Aggregate, SequenceMeanTokenMean
from paribus.algorithms.correction import Correction
from paribus.algorithms.critic import Critic
from paribus.algorithms.explore import NeighbourMix
from paribus.algorithms.keep import All, Keep
from paribus.algorithms.kl import Kl
from paribus.algorithms.metrics import policy_stats, share, signal_stats
from paribus.algorithms.returns import Gae, GreedyBaseline
from paribus.algorithms.selection import TopEntropy
from paribus.algorithms.shaping import KlInReward, OutcomeAtEnd, Shaping
from paribus.algorithms.slot import Memory, Need, Slot, required
from paribus.algorithms.soft import Cispo, Gmpo, Sapo
from paribus.algorithms.surrogate import Clip, Move, Ratio, Reinforce, SequenceRatio, TokenRatio
from paribus.algorithms.trust import DivergenceMask, PrefixBudget, TrustRegion
from paribus.algorithms.whiten import Whiten
from paribus.batch import Batch, Loss, Scores, Signal, Stats, Totals
from paribus.errors import ConfigError
from paribus.lazy import torch
from paribus.part import Part

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

# The sampler; a pass of the learner before the updates; the only update, whose policy is the old one; or the sampler
# where a probe finds its log-probs equal to the learner's, and else a pass
OldSource = Literal["sampler", "pass", "update", "probe"]
Surrogate = Annotated[
    Reinforce | Clip | Cispo | Sapo | Gmpo | DivergenceMask | PrefixBudget, Field(discriminator="type")
]


class PolicyGradient(Part):
    """An online policy-gradient method.

    The pipeline calls, once a step, `shape` on the graded rollout and then `signal`, both on the whole batch; the
    learner then calls `loss` on each micro-batch. Everything that could make two methods differ is a field.
    `old` says whose log-probs the ratio divides by: recomputed by the learner, or as the sampler recorded them.
    `entropy` weighs a bonus for the policy's entropy, `imitation` the likelihood of right responses (VAPO, 2504.05118,
    section 4: mean over the tokens of rows whose score is above 0).
    """

    kind: Literal["policy_gradient"] = "policy_gradient"
    name: str
    paper: str
    advantage: Advantage
    surrogate: Surrogate
    aggregate: Aggregate
    shaping: tuple[Shaping, ...] = (OutcomeAtEnd(),)
    whiten: Whiten | None = None
    select: TopEntropy | None = None
    ratio: Ratio = TokenRatio()
    correction: Correction | None = None
    kl: Kl | None = None
    entropy: float = Field(default=0.0, ge=0)
    critic: Critic | None = None
    keep: Keep = All()
    explore: NeighbourMix | None = None
    imitation: float = Field(default=0.0, ge=0)
    old: Literal["learner", "sampler"] = "learner"

    @property
    def slots(self) -> dict[str, Slot]:
        """The Parts in use, by slot, in the order in which they act; a shaping term as `shaping.<type>`."""
        found: dict[str, Slot | None] = {"explore": self.explore, "keep": self.keep}
        found |= {f"shaping.{term.type}": term for term in self.shaping}
        found |= {"critic": self.critic, "advantage": self.advantage, "whiten": self.whiten}
        found |= {"select": self.select}
        found |= {"ratio": None if isinstance(self.surrogate, Reinforce) else self.ratio, "surrogate": self.surrogate}
        found |= {"correction": self.correction, "kl": self.kl, "aggregate": self.aggregate}
        return {name: part for name, part in found.items() if part is not None}

    @property
    def needs(self) -> frozenset[Need]:
        """What the pipeline must provide."""
        needs = frozenset[Need]().union(*(part.needs for part in self.slots.values()))
        needs |= {Need.FINAL_VALUE} if self._bootstraps else set()
        return needs | {Need.OLD} if self.kl is not None and self.kl.unbiased else needs

    @property
    def topk(self) -> int:
        """How many of the old policy's likeliest tokens the loss looks at."""
        return self.surrogate.topk

    @property
    def only_advantage(self) -> bool:
        """Whether the policy's part has no gradient in a row whose advantage is 0 at every trained token.

        All surrogates are proportional to the advantage, and ratios and trust regions look at one row at a time.
        """
        shared = self.critic is not None and self.critic.shared
        return self.kl is None and not self.entropy and not self.imitation and not shared

    @property
    def early(self) -> frozenset[Need]:
        """The needs of what comes before the updates: shaping, credit and selection. The others are of the loss."""
        late = {"ratio", "surrogate", "correction", "kl", "aggregate"}
        return frozenset[Need]().union(*(part.needs for name, part in self.slots.items() if name not in late))

    def old_source(self, updates: int, gap: float | None) -> OldSource:
        """Where the old log-probs of a step with that many `updates` come from; see `OldSource`.

        `gap` is how far, in nats a token, others may be from those of a pass (None: there is always a pass). What looks
        at the old log-probs before the updates, or weighs their distance to the sampler's, is given those of a pass.
        """
        if self.old == "sampler" or not self.needs & {Need.OLD, Need.ENTROPY}:
            return "sampler"
        if gap is None or self.early & {Need.OLD, Need.ENTROPY}:
            return "pass"
        if updates == 1:
            return "update"
        return "probe" if gap and self.correction is None else "pass"

    def describe(self, batch: Batch, signal: Signal) -> Stats:
        """What a step's scores, rewards and credit look like, before any update."""
        return signal_stats(batch, signal)

    @property
    def _kl_terms(self) -> list[KlInReward]:
        return [term for term in self.shaping if isinstance(term, KlInReward)]

    @property
    def _bootstraps(self) -> bool:
        return isinstance(self.advantage, Gae) and self.advantage.truncation == "bootstrap"

    @model_validator(mode="after")
    def _consistent(self) -> PolicyGradient:
        kinds = Counter(term.type for term in self.shaping)
        if not kinds["outcome_at_end"] + kinds["step_rewards"] or max(kinds.values()) > 1:
            raise ValueError("shaping needs an outcome_at_end or step_rewards, and no term twice")
        if isinstance(self.advantage, Gae) and self.critic is None:
            raise ValueError("advantage gae needs values: give a critic (critic.lr = ...), or another advantage")
        if self.critic is not None and not isinstance(self.advantage, Gae):
            raise ValueError(
                f"advantage {self.advantage.type} uses no values, so the critic would train for nothing: "
                'write critic = "none", or advantage.type = "gae"'
            )
        if self.correction is not None and self.old == "sampler":
            raise ValueError(
                'old = "sampler" puts the sampler\'s log-probs into the ratio, which a correction would count twice: '
                'write correction = "none", or old = "learner"'
            )
        if self.surrogate.topk and self.old != "sampler":
            raise ValueError('a top-k divergence is of the policy that sampled: write old = "sampler"')
        if isinstance(self.surrogate, Reinforce) and self.ratio != TokenRatio():
            raise ValueError("surrogate reinforce has no ratio: leave `ratio` out, or take surrogate clip")
        omits = any(isinstance(term, OutcomeAtEnd) and term.truncated == "omitted" for term in self.shaping)
        if omits != self._bootstraps:
            raise ValueError(
                'advantage.truncation = "bootstrap" and outcome_at_end.truncated = "omitted" go together: a cut row '
                "is credited with the critic's value or with an outcome, never with both or neither"
            )
        return self

    @model_validator(mode="after")
    def _credited(self) -> PolicyGradient:
        """An advantage that looks at the reward in its own way is given a reward that it can see and compare."""
        kind = self.advantage.type
        if isinstance(self.advantage, GroupStepZScore) and [t.type for t in self.shaping] != ["step_rewards"]:
            raise ValueError(
                f"advantage {kind} sees the rewards at step ends only, and any other would be lost: "
                'write shaping = [{type = "step_rewards"}], with the KL in the loss and the outcome in the step scores'
            )
        plain = all(term.plain for term in self.shaping if isinstance(term, OutcomeAtEnd))
        if isinstance(self.advantage, GreedyBaseline) and not plain:
            raise ValueError(
                f"advantage {kind} subtracts the greedy response's score from the reward: leave wrong, right, low and "
                "high out of outcome_at_end, so that both are scores"
            )
        if isinstance(self.advantage, Bnpo) and not (plain and len(self.shaping) == 1):
            raise ValueError(
                f"advantage {kind} fits a density of success rates, so rewards lie between 0 and 1: write "
                'shaping = [{type = "outcome_at_end"}]'
            )
        return self

    @model_validator(mode="after")
    def _one_ratio(self) -> PolicyGradient:
        """Where a row has one ratio, its tokens share one gradient: no credit of their own, and counted once."""
        kind, ratio, geometric = self.surrogate.type, self.ratio, isinstance(self.surrogate, Gmpo)
        if isinstance(self.surrogate, Gmpo | TrustRegion) and not isinstance(ratio, TokenRatio):
            raise ValueError(f'surrogate {kind} looks at each token\'s ratio: write ratio.type = "token_ratio"')
        shared = isinstance(ratio, SequenceRatio) and isinstance(self.surrogate, Clip | Sapo)
        if (geometric or shared) and (self.select or not isinstance(self.advantage, RowAdvantage)):
            what = "select" if self.select else f"advantage {self.advantage.type}"
            raise ValueError(
                f"{what} credits each token, and one ratio for the row would average that "
                "away: take an advantage of the row (group_z_score, group_mean, leave_one_out) and no select, or ratio "
                "token_ratio and surrogate clip"
            )
        product = isinstance(ratio, SequenceRatio) and not ratio.normalise
        if (geometric or (shared and product)) and not isinstance(self.aggregate, SequenceMeanTokenMean):
            raise ValueError(
                f"{f'surrogate {kind}' if geometric else 'a product of ratios'} is one number for a row, and aggregate "
                f"{self.aggregate.type} would count it once for each of its tokens: write aggregate.type = "
                '"sequence_mean_token_mean"'
            )
        return self

    def check(self, samples_per_prompt: int, updates_per_rollout: int) -> None:
        """Refuse a setting in which the method means something else than it says. Raises ConfigError."""
        faults = []
        if Need.GROUP in self.needs and samples_per_prompt < 2:
            faults.append(
                f"{self.name} compares the samples of one prompt, and rollout.samples_per_prompt = "
                f"{samples_per_prompt}: set it to 2 or more, or take an advantage without a group "
                "(batch_baseline, ema_baseline, gae)"
            )
        if isinstance(self.surrogate, Reinforce) and updates_per_rollout > 1:
            faults.append(
                f"{self.name} has surrogate reinforce, which holds for the policy that sampled, and the setting makes "
                f"{updates_per_rollout} updates per step: set optim.epochs = 1 and leave optim.minibatch_prompts out, "
                "or take surrogate clip"
            )
        if faults:
            raise ConfigError("\n".join(faults))

    def memory(self) -> Memory:
        """What `shape` and `signal` start from at the first step."""
        return {k: v for term in self._kl_terms for k, v in term.memory().items()}

    def shape(self, batch: Batch, horizon: int, memory: Memory) -> Batch:
        """Return the batch with the reward of each token, each term's sum over the row, and the mask that trains.

        `horizon` is the response limit. Rows without a score get no reward at all; they and the rows that `keep`
        leaves out train nothing.
        """
        scored = torch.isfinite(batch.score)
        sampled = batch.rollout.mask
        if self.explore is not None and not self.explore.train:
            sampled = sampled & ~batch.rollout.mixed
        told = replace(batch, score=tensors.keep(batch.score, scored), mask=sampled & scored[:, None])
        with torch.no_grad():
            terms = {term.type: term(told, horizon, memory) for term in self.shaping}
        return replace(
            batch,
            reward=torch.stack(list(terms.values())).sum(0),
            parts={**batch.parts, **{name: term.sum(1) for name, term in terms.items()}},
            mask=sampled & self.keep(batch.score, batch.group, scored)[:, None],
        )

    def signal(self, batch: Batch, memory: Memory) -> tuple[Signal, Memory]:
        """Credit of every token of a step, and what to remember; call it on the whole step, before any cut."""
        with torch.no_grad():
            signal, memory = self.advantage(batch, memory)
            if self.whiten is not None:
                signal = signal._replace(advantage=self.whiten(signal.advantage, batch.mask))
            if self.select is not None:
                chosen = self.select(required(batch.old_entropy, "old_entropy"), batch.mask)
                signal = signal._replace(advantage=tensors.keep(signal.advantage, chosen))
            for term in self._kl_terms:
                memory = term.adapted(batch, memory)
        return signal, memory

    def loss(self, scores: Scores, batch: Batch, signal: Signal, total: Totals) -> Loss:
        """A micro-batch's share of the update's loss: the policy's part if `scores.logp` is given, the critic's if
        `scores.values` is. Shares of any split of an update add up to its loss, gradients too.
        """
        shares: list[Tensor] = []
        stats: Stats = {}
        if scores.logp is not None:
            value, stats = self._policy_loss(scores, scores.logp, batch, signal, total)
            shares.append(value)
        if scores.values is not None and self.critic is not None:
            mask = batch.mask
            old = tensors.keep(required(batch.values, "values").detach(), mask)
            target = tensors.keep(required(signal.target, "target").detach(), mask)
            value, counted = self.critic.value_loss(tensors.keep(scores.values, mask), old, target, mask, total)
            shares.append(self.critic.coef * value)
            stats |= counted
        return Loss(torch.stack(shares).sum(), stats)

    def _policy_loss(
        self,
        scores: Scores,
        logp: Float[Tensor, "B T"],
        batch: Batch,
        signal: Signal,
        total: Totals,
    ) -> tuple[Float[Tensor, ""], Stats]:
        # junk outside the mask is cut off here, before any arithmetic: 0 * NaN would survive a mask put on later
        mask = batch.mask
        logp, advantage = tensors.keep(logp, mask), tensors.keep(signal.advantage.detach(), mask)
        # without a need for old log-probs the update is on-policy, and the policy itself is the old one
        old = required(batch.old_logp, "old_logp") if Need.OLD in self.needs else logp
        old = tensors.keep(old.detach(), mask)
        move = Move(logp, old, self.ratio(logp, old, mask), mask, batch.rollout.tokens)
        if self.surrogate.topk:
            top = required(batch.rollout.topk, "topk")
            move = move._replace(topk_ids=top.ids, old_topk=top.logp, topk=required(scores.topk_logp, "topk_logp"))
        loss, stats = self.surrogate(move, advantage)
        if self.correction is not None:
            weight, counted = self.correction(old, tensors.keep(batch.rollout.sampled_logp, mask), mask)
            loss, stats = loss * weight, stats | counted
        value = self.aggregate(loss, mask, total)
        stats["policy_loss"] = share(value, mask, total.sequences - total.skipped)
        if self.kl is not None:
            ref = tensors.keep(required(batch.ref_logp, "ref_logp").detach(), mask)
            penalty = self.kl.coef * self.aggregate(self.kl.penalty(logp, ref, move.log_ratio), mask, total)
            stats["kl_loss"] = share(penalty, mask, total.sequences)
            value = value + penalty
        if self.entropy:
            bonus = tensors.keep(required(scores.entropy, "entropy"), mask)
            value = value - self.entropy * self.aggregate(bonus, mask, total)
        if self.imitation:
            likelihood = tensors.masked_sum(logp, mask & (batch.score > 0)[:, None]) / max(total.right_tokens, 1)
            stats["imitation_loss"] = share(-self.imitation * likelihood, mask, total.sequences)
            value = value - self.imitation * likelihood
        return value, stats | policy_stats(logp, scores.entropy, batch)
