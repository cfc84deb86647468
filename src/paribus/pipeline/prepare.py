"""Give rows everything their algorithm needs, and no more: old and reference log-probs, values, entropies, steps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from paribus import tensors
from paribus.algorithms import Need, Offline, PolicyGradient
from paribus.batch import Batch, Max, Mean, Stats, select
from paribus.lazy import torch
from paribus.pipeline.collect import Graded, step_tensors

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from paribus.pipeline.session import Session


def prepare(algorithm: PolicyGradient, graded: Graded, run: Session) -> tuple[Batch, Stats]:
    """Return the batch of a sampled step, and what was learnt of its old log-probs on the way.

    A row without a score trains nothing and enters no statistic. What only the loss reads is computed for the rows that
    train; the old log-probs that the update finds for itself are left out.
    """
    needs, rollout, learner, clock = algorithm.needs, graded.rollout, run.learner, run.clock
    source = algorithm.old_source(run.setting.updates_per_rollout, run.setting.machine.old_gap)
    batch = Batch(
        rollout=rollout,
        score=graded.score.to(rollout.tokens.device),
        reward=torch.zeros(rollout.mask.shape),
        mask=rollout.mask,
        parts=graded.parts,
        old_logp=rollout.sampled_logp if source == "sampler" else None,
        greedy_score=graded.greedy_score,
    )
    if Need.ENTROPY in needs and source == "sampler" and rollout.entropy is not None:
        batch = replace(batch, old_entropy=rollout.entropy)
    elif Need.ENTROPY in needs:
        with clock("old_logp"):
            own, entropy = learner.logp_and_entropy(rollout)
        batch = replace(batch, old_logp=own if source == "pass" else batch.old_logp, old_entropy=entropy)
    elif source == "pass":
        with clock("old_logp"):
            batch = replace(batch, old_logp=learner.logp(rollout))
    # by the same forwards as the old log-probs, so that a policy that has not moved is at distance 0 exactly
    early = source == "pass" or Need.REFERENCE in algorithm.early
    if Need.REFERENCE in needs and early:
        with clock("ref_logp"):
            batch = replace(batch, ref_logp=learner.logp(rollout, of="reference"))
    if Need.VALUES in needs:
        with clock("values"):
            both = learner.values_and_final(rollout) if Need.FINAL_VALUE in needs else (learner.values(rollout), None)
        batch = replace(batch, values=both[0], final_value=both[1])
    if Need.STEPS in needs:
        end, score = step_tensors(rollout, graded.steps or [], run.tokenizer)
        batch = replace(batch, step_end=end, step_score=score)
    batch = algorithm.shape(batch, run.setting.rollout.max_response, run.memory)
    if Need.REFERENCE in needs and not early:
        with clock("ref_logp"):
            batch = replace(batch, ref_logp=_trained(batch, run, "reference"))
    if source == "probe":
        with clock("old_logp"):
            return _probed(batch, run)
    return batch, start_stats(batch)


def _rows(batch: Batch) -> Int[Tensor, "N"]:
    return batch.mask.any(1).nonzero().squeeze(1)


def _trained(batch: Batch, run: Session, of: Literal["policy", "reference"]) -> Float[Tensor, "B T"]:
    """Log-probs of the rows that train, 0 elsewhere."""
    rows = _rows(batch)
    return _spread(run.learner.logp(select(batch.rollout, rows), of=of), batch, rows)


def _spread(found: Float[Tensor, "N T"], batch: Batch, rows: Int[Tensor, "N"]) -> Float[Tensor, "B T"]:
    return torch.zeros(batch.mask.shape, dtype=found.dtype).index_copy(0, rows, found)


def _probed(batch: Batch, run: Session) -> tuple[Batch, Stats]:
    """Take the sampler's log-probs where the learner's own of the step's first forward are within the declared gap of
    them at every token, and else the learner's of all rows that train.
    """
    from paribus.engines.scoring import micro_batches

    rollout, machine = batch.rollout, run.setting.machine
    assert machine.old_gap is not None
    rows = _rows(batch)
    if not len(rows):
        return replace(batch, old_logp=rollout.sampled_logp), {}
    first = torch.tensor(sorted(next(micro_batches(rollout, rows.tolist(), machine.micro_tokens))))
    probe = select(rollout, first)
    found = run.learner.logp(probe)
    gap = tensors.keep(found - probe.sampled_logp, probe.mask).abs().max()
    equal = bool(gap <= machine.old_gap) and len(first) < len(rows)  # a probe of all rows is the pass itself
    old = _spread(found, batch, first) if equal or len(first) == len(rows) else _trained(batch, run, "policy")
    stats: Stats = {"old_from_sampler": Mean(float(equal), 1.0), "old_gap": Max(gap)}
    own = replace(batch, old_logp=old)
    if not equal:
        return own, stats | start_stats(own)
    return replace(batch, old_logp=rollout.sampled_logp), stats | start_stats(select(own, first))


def measure(algorithm: Offline, batch: Batch, run: Session) -> Batch:
    """Return rows of data with the log-probs that their loss needs."""
    needs, learner = algorithm.needs, run.learner
    if Need.OLD in needs:
        with run.clock("old_logp"):
            batch = replace(batch, old_logp=learner.logp(batch.rollout, of="policy"))
    if Need.REFERENCE in needs:
        with run.clock("ref_logp"):
            batch = replace(batch, ref_logp=learner.logp(batch.rollout, of="reference"))
    return batch


def start_stats(batch: Batch) -> Stats:
    """Return how far the policy that starts this step is from the reference in what trains: 0 at the first step."""
    if batch.ref_logp is None or batch.old_logp is None or not batch.rollout.rows:
        return {}
    return {"reference_gap": Max(tensors.keep(batch.old_logp - batch.ref_logp, batch.mask).abs().max())}
