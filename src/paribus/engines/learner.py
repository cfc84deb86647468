"""The learner of one process: forward passes in micro-batches, exact whole-update losses, AdamW, bit-exact restore."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import nn

from paribus.batch import (
    Batch,
    Max,
    Mean,
    Rollout,
    Scores,
    Signal,
    Stats,
    Totals,
    merge_stats,
    move,
    select,
    trim,
)
from paribus.engines.checkpoint import restore_tensors, write_tensors
from paribus.engines.measures import start_stats, step_stats
from paribus.engines.optim import Optimizer, lr_scale
from paribus.engines.protocols import CriticSpec, Objective
from paribus.engines.retry import explained, within_memory
from paribus.engines.rollouts import with_end
from paribus.engines.scoring import EntropyUse, before, micro_batches, spread, token_scores
from paribus.errors import CheckpointError, ConfigError
from paribus.models import trunk
from paribus.models.hf import LoadedModel, frozen
from paribus.models.value import ValueModel, make_critic
from paribus.settings import MachineSpec, OptimSpec, RolloutSpec
from paribus.tensors import keep
from paribus.types import Key

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from torch import Tensor

Timer = Callable[[str], AbstractContextManager[Any]]
FORMAT = 1  # of learner.json


class _Work(NamedTuple):
    """One micro-batch on the learner's device."""

    batch: Batch
    signal: Signal


class TorchLearner:
    """Trains the policy in place (a sampler may share the module), and a critic beside it; see `Learner`.

    Policy and critic are separate models with separate optimizers and clips, so their order within an update does
    not matter: the critic goes first. A shared trunk has one optimizer, with the critic's rate for the value head.
    Either model's update is skipped when its own gradient is not finite. Weights in bfloat16 are trained through
    float32 master copies; log-softmax, values and losses are float32 always.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        optim: OptimSpec,
        rollout: RolloutSpec,
        machine: MachineSpec,
        key: Key,
        critic: CriticSpec | None = None,
        needs_reference: bool = False,
        reference: nn.Module | None = None,
        total_steps: int | None = None,
        timer: Timer = nullcontext,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`key` draws the critic's head (its purpose is "critic"); `total_steps` is where the schedule ends.

        The reference is the `frozen` model given, or with `needs_reference` a copy of the policy as it is now.
        """
        if total_steps is None and optim.schedule != "constant":
            raise ConfigError(
                f'optim.schedule = "{optim.schedule}" has to know the last step: give budget.steps, or take "constant"'
            )
        self.model = loaded.model
        self.head: Any = self.model.get_output_embeddings()
        self.device = self.model.device
        self.optim, self.horizon, self.temperature = optim, rollout.max_response, rollout.temperature
        self.micro_tokens, self.total_steps, self.timer, self.note = machine.micro_tokens, total_steps, timer, note
        self.declared_tokens, self.skip_rows, self.recompute = self.micro_tokens, machine.skip_rows, machine.recompute
        self.nonfinite_streak = 0
        self.packed = trunk.fits(self.model.base_model)  # rows are read without padding
        self.reference: Any = frozen(loaded).model if needs_reference and reference is None else reference
        self.critic: ValueModel | None = None
        self.warmup = 0
        groups = [(self.model.named_parameters(), optim.lr)]
        self.critic_optimizer: Optimizer | None = None
        if critic is not None:
            self.critic = make_critic(self.model, head_std=critic.head_std, shared=critic.shared, key=key)
            self.warmup = critic.warmup
            if critic.shared:
                groups.append((self.critic.head.named_parameters("critic.head"), critic.lr))
            else:
                self.critic_optimizer = Optimizer([(self.critic.named_parameters(), critic.lr)], optim)
        self.policy_optimizer = Optimizer(groups, optim)

    def weights(self) -> Mapping[str, Any] | None:
        """None: a sampler in this process shares the module."""
        return None

    @torch.no_grad()
    def logp(self, rollout: Rollout, *, of: Literal["policy", "reference"] = "policy") -> Float[Tensor, "B T"]:
        """Return the log-probs of the sampled tokens under the policy as it is now, or under the frozen reference."""
        model: Any = self.model if of == "policy" else self.reference
        assert model is not None, "this learner was made without a reference"
        head: Any = model.get_output_embeddings()

        def score(part: Rollout) -> Tensor:
            hidden = before(model.base_model, part, part.mask)
            return spread(token_scores(hidden, head, part.tokens[part.mask], self.temperature, "none")[0], part.mask)

        return self._per_row(rollout, score, torch.zeros(rollout.mask.shape))

    @torch.no_grad()
    def logp_and_entropy(self, rollout: Rollout) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B T"]]:
        """Return `logp` of the policy, and the entropy of the distribution that each token was drawn from."""

        def score(part: Rollout) -> Tensor:
            hidden = before(self.model.base_model, part, part.mask)
            ids = part.tokens[part.mask]
            logp, entropy = token_scores(hidden, self.head, ids, self.temperature, "statistic")
            assert entropy is not None
            return spread(torch.stack((logp, entropy), dim=1), part.mask)

        logp, entropy = self._per_row(rollout, score, torch.zeros(*rollout.mask.shape, 2)).unbind(2)
        return logp, entropy

    @torch.no_grad()
    def values(self, rollout: Rollout) -> Float[Tensor, "B T"]:
        """Return the critic's value of the state in which each sampled token was chosen."""
        critic = self._critic()

        def score(part: Rollout) -> Tensor:
            return spread(critic(before(critic.trunk, part, part.mask)), part.mask)

        return self._per_row(rollout, score, torch.zeros(rollout.mask.shape))

    def values_and_final(self, rollout: Rollout) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B"]]:
        """Return `values`, and the critic's value of the state after each row's last token."""
        found = self.values(with_end(rollout))
        return keep(found[:, :-1], rollout.mask), found.gather(1, rollout.length[:, None]).squeeze(1)

    def update(self, batch: Batch, signal: Signal, objective: Objective, key: Key) -> Stats:
        """Train `optim.epochs` passes over the batch, an update per `optim.minibatch_prompts` prompts.

        Groups are never split; their order in each epoch is drawn from `key`, whose step also sets the learning
        rate. A minibatch without a single trained token is no update. Raises ValueError for a unit of rows that
        belongs to several groups, since no update would hold the whole of it.
        """
        if batch.unit is not None:
            owned = torch.stack((batch.unit, batch.group)).unique(dim=1)[0]
            if len(owned.unique()) < len(owned):
                raise ValueError("rows of one unit belong to different groups: number the rows' units group by group")
        parts: list[Stats] = []
        for rows in self._minibatches(batch, key):
            mini, credit = select(batch, rows), select(signal, rows)
            total = Totals.of(mini.mask, self.horizon, mini.score)
            if total.tokens:
                with explained("an update", "optimizer and gradients need more than there is; see `paribus plan`"):
                    parts.append(self._update(mini, credit, objective, total, key.step, first=not parts))
        return merge_stats(parts)

    def save(self, path: Path) -> None:
        """Write weights, moments and counters into the folder `path`."""
        path.mkdir(parents=True, exist_ok=True)
        for name, tensors in self._weights().items():
            write_tensors(path / f"{name}.safetensors", tensors)
        for name, optimizer in self._optimizers().items():
            optimizer.save(path / f"{name}.safetensors")
        state = {"format": FORMAT, "nonfinite_streak": self.nonfinite_streak}
        (path / "learner.json").write_text(json.dumps(state) + "\n", encoding="utf-8")

    def restore(self, path: Path) -> None:
        """Take back what `save` wrote, to the bit. Raises CheckpointError, naming the file that does not fit."""
        file = path / "learner.json"
        try:
            state = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{file}: cannot be read: {error}") from None
        if state.keys() != {"format", "nonfinite_streak"} or state["format"] != FORMAT:
            raise CheckpointError(f"{file}: not a learner's state of format {FORMAT}")
        for name, tensors in self._weights().items():
            restore_tensors(path / f"{name}.safetensors", tensors)
        for name, optimizer in self._optimizers().items():
            optimizer.restore(path / f"{name}.safetensors")
        self.nonfinite_streak = state["nonfinite_streak"]

    def _weights(self) -> dict[str, dict[str, Tensor]]:
        weights: dict[str, dict[str, Tensor]] = {"policy": dict(self.model.named_parameters())}
        if self.critic is not None:
            critic = self.critic.head.named_parameters("head") if self.critic.shared else self.critic.named_parameters()
            weights["critic"] = dict(critic)
        return weights

    def _optimizers(self) -> dict[str, Optimizer]:
        optimizers = {"policy_optimizer": self.policy_optimizer}
        if self.critic_optimizer is not None:
            optimizers["critic_optimizer"] = self.critic_optimizer
        return optimizers

    def _critic(self) -> ValueModel:
        assert self.critic is not None, "this learner was made without a critic"
        return self.critic

    def _per_row(self, rollout: Rollout, score: Callable[[Rollout], Tensor], out: Tensor) -> Tensor:
        """Fill `out` (`[B]`, `[B, T]`, ...) with `score(part)` of every micro-batch, each row at its place."""

        def pieces() -> Iterator[list[int]]:
            return micro_batches(rollout, range(rollout.rows), self.micro_tokens, packed=self.packed)

        def filled() -> Tensor:
            whole = out
            for rows in pieces():
                found = score(self._part(rollout, rows)).cpu()
                whole = whole.to(found.dtype)
                if whole.dim() == 1:
                    whole[rows] = found
                else:
                    whole[rows, : found.shape[1]] = found
            return whole

        return within_memory(self, filled, lambda: len(list(pieces())))

    def _part(self, value: Any, rows: list[int], rollout: Rollout | None = None) -> Any:
        """Return `rows` of a noun on the learner's device, cut to the longest of them in `rollout`."""
        chosen = torch.tensor(rows)
        width = int((rollout or value).length[chosen].max())
        return move(trim(select(value, chosen), width), self.device)

    def _minibatches(self, batch: Batch, key: Key) -> Iterator[Tensor]:
        """Yield the rows of every update: an epoch is a permutation of the groups, cut; its last piece may be short."""
        groups = batch.group.unique()
        size = self.optim.minibatch_prompts or len(groups)
        for epoch in range(self.optim.epochs):
            seed = Key(key.seed, "shuffle", key.step, round=epoch).hash()
            order = groups[torch.randperm(len(groups), generator=torch.Generator().manual_seed(seed))]
            for chosen in order.split(size):
                yield torch.isin(batch.group, chosen).nonzero().squeeze(1)

    def _update(
        self, batch: Batch, signal: Signal, objective: Objective, total: Totals, step: int, *, first: bool
    ) -> Stats:
        """One optimizer step of each model on one minibatch."""
        scale = lr_scale(self.optim, step, self.total_steps)
        train_policy = step >= self.warmup
        live = batch.mask.any(1)  # rows without a trained token have no part in any loss
        parts: list[Stats] = []
        norms = []
        if self.critic is not None and (self.critic_optimizer is not None or not train_policy):
            with self.timer("critic_update"):
                optimizer = self.critic_optimizer or self.policy_optimizer
                run = partial(self._critic_pass, objective=objective, total=total)
                parts += self._passes(run, batch, signal, live, optimizer)
                norms.append(optimizer.step(scale))
            parts.append(step_stats("critic_", norms[-1], optimizer.rates[-1]))
        if train_policy:
            if self.skip_rows and objective.only_advantage:
                live = (batch.mask & (signal.advantage != 0)).any(1)
            skipped = total.sequences - float(live.sum())
            with self.timer("policy_update"):
                run = partial(
                    self._policy_pass, objective=objective, total=total._replace(skipped=skipped), first=first
                )
                parts += self._passes(run, batch, signal, live, self.policy_optimizer)
                if not live.any():
                    self.policy_optimizer.collect_nothing()
                norms.append(self.policy_optimizer.step(scale))
            parts.append(step_stats("", norms[-1], self.policy_optimizer.rates[0]))
            parts.append({"skipped_rows": Mean(skipped, total.sequences)})
        failed = not all(map(math.isfinite, norms))
        self.nonfinite_streak = self.nonfinite_streak + 1 if failed else 0
        counts: Stats = {
            "updates": Mean(1.0, 1.0),
            "nonfinite": Mean(float(failed), 1.0),
            "nonfinite_streak": Max(float(self.nonfinite_streak), 1.0),
        }
        return merge_stats([*parts, counts])

    def _passes(
        self, run: Callable[[_Work], Stats], batch: Batch, signal: Signal, live: Bool[Tensor, "B"], owner: Optimizer
    ) -> list[Stats]:
        """Add up the gradients of `run` over all micro-batches: smaller ones, and anew, where memory runs out."""
        micro = partial(self._micro, batch, signal, live)
        parts = within_memory(self, lambda: [run(w) for w in micro()], lambda: len(list(micro())), owner.drop, True)
        if self.micro_tokens < self.declared_tokens:
            parts.append({"micro_tokens": Mean(self.micro_tokens, 1.0)})
        return parts

    def _micro(self, batch: Batch, signal: Signal, live: Bool[Tensor, "B"]) -> Iterator[_Work]:
        """Cut the live rows of a minibatch into micro-batches."""
        chosen = live.nonzero().squeeze(1).tolist()
        for rows in micro_batches(batch.rollout, chosen, self.micro_tokens, batch.unit, packed=self.packed):
            yield _Work(self._part(batch, rows, batch.rollout), self._part(signal, rows, batch.rollout))

    def _critic_pass(self, work: _Work, objective: Objective, total: Totals) -> Stats:
        critic, batch = self._critic(), work.batch
        # during the warm-up of a shared trunk, only the head learns
        with torch.set_grad_enabled(not critic.shared):
            hidden = before(critic.trunk, batch.rollout, batch.mask, again=self.recompute)
        scores = Scores(values=spread(critic(hidden), batch.mask))
        loss = objective.loss(scores, batch, work.signal, total)
        loss.value.backward()
        (self.critic_optimizer or self.policy_optimizer).collect()
        return loss.stats

    def _policy_pass(self, work: _Work, objective: Objective, total: Totals, *, first: bool) -> Stats:
        batch = work.batch
        mask, topk = batch.mask, None
        sampled = batch.role is None  # else rows of data, which this policy did not sample
        told = sampled and batch.rollout.entropy is not None
        entropy_use: EntropyUse = "loss" if objective.entropy else "none" if told else "statistic"
        ids = batch.rollout.tokens[mask]
        if objective.topk:
            top = batch.rollout.topk
            assert top is not None, "the objective looks at the likeliest tokens, which this rollout does not list"
            ids = torch.cat((ids[:, None], top.ids[mask]), dim=1)
        hidden = before(self.model.base_model, batch.rollout, mask, again=self.recompute)
        logp, entropy = token_scores(hidden, self.head, ids, self.temperature, entropy_use)
        if objective.topk:
            topk = spread(logp[:, 1:].detach(), mask)
            logp = logp[:, 0]
        values = spread(self.critic(hidden), mask) if self.critic is not None and self.critic.shared else None
        scores = Scores(spread(logp, mask), None if entropy is None else spread(entropy, mask), values, topk)
        stats: Stats = {}
        if first and sampled:
            stats = start_stats(logp.detach(), batch)
            if batch.old_logp is None:  # the policy before its first update is itself the old one
                batch = replace(batch, old_logp=spread(logp.detach(), mask))
        loss = objective.loss(scores, batch, work.signal, total)
        loss.value.backward()
        self.policy_optimizer.collect()
        return loss.stats | stats
