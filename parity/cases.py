"""Make the batches and Paribus' answers, and write both where the libraries' sides find them."""

from __future__ import annotations

import functools
import json
import shutil
from typing import Any

import methods_offline
import methods_trl
import methods_verl
import torch
from case import Case
from exchange import CASES, WORK, Fields, answers_file, copies, inputs_file, write
from inputs import BATCHES, HORIZON, MAKERS

from paribus.algorithms import Kl, PolicyGradient, TokenMean
from paribus.algorithms.bradley_terry import BradleyTerry
from paribus.algorithms.offline import Offline, PairFile
from paribus.algorithms.preference import OfflineSlot
from paribus.algorithms.shaping import KL_COEF, SoftOverlong
from paribus.algorithms.unpaired import Kto, Sft
from paribus.batch import Batch, Role, Rollout, Scores, Totals
from paribus.types import Stop

TABLE: list[Case] = [*methods_verl.TABLE, *methods_trl.TABLE, *methods_offline.TABLE]


def batch_of(sampled: torch.Tensor, group: torch.Tensor, score: torch.Tensor, **fields: Any) -> Batch:
    """A batch as the pipeline makes it, before any shaping; `sampled` masks what the policy wrote."""
    rows = len(group)
    rollout = Rollout(
        tokens=torch.zeros(sampled.shape, dtype=torch.long),
        mask=sampled,
        length=sampled.sum(1),
        group=group,
        sampled_logp=fields.pop("sampled_logp", torch.zeros(sampled.shape)),
        problem_id=[str(int(g)) for g in group],
        sample=torch.arange(rows),
        stop=[Stop.EOS] * rows,
        text=[""] * rows,
        version=0,
    )
    return Batch(rollout=rollout, score=score, reward=torch.zeros(sampled.shape), **fields)


@functools.singledispatch
def answer(method: Any, x: Fields) -> Fields:
    """What Paribus makes of a batch with this method: loss, gradient, and what the method has beside."""
    raise TypeError(f"no way to compare a {type(method).__name__}")


@answer.register
def _(method: PolicyGradient, x: Fields) -> Fields:
    batch = batch_of(
        x["mask"],
        x["group"],
        x["score"],
        mask=x["mask"],
        sampled_logp=x["sampled_logp"],
        old_logp=x["old_logp"],
        ref_logp=x["ref_logp"],
        values=x["old_values"],
        greedy_score=x["greedy_score"],
    )
    batch = method.shape(batch, HORIZON, method.memory())
    signal, memory = method.signal(batch, method.memory())
    total = Totals.of(batch.mask, HORIZON, batch.score)
    logp, entropy, values = (x[name].requires_grad_() for name in ("logp", "entropy", "values"))
    loss = method.loss(Scores(logp=logp, entropy=entropy), batch, signal, total).value
    loss.backward()
    out = {"advantage": signal.advantage, "loss": loss, "gradient": logp.grad}
    if KL_COEF in memory:
        out["next KL coefficient"] = torch.tensor(memory[KL_COEF])
    if method.entropy:
        out["entropy gradient"] = entropy.grad
    if method.critic is not None:
        value_loss = method.loss(Scores(values=values), batch, signal, total).value
        value_loss.backward()
        out |= {"target": signal.target, "value loss": value_loss, "value gradient": values.grad}
    return out


@answer.register
def _(part: Kl, x: Fields) -> Fields:
    logp = x["logp"].requires_grad_()
    loss = part.coef * TokenMean()(part.estimate(logp, x["ref_logp"]), x["mask"], Totals.of(x["mask"], HORIZON))
    return _result(loss, logp)


@answer.register
def _(objective: OfflineSlot, x: Fields) -> Fields:
    rows = len(x["mask"])
    unit, zero = torch.arange(rows // 2).repeat(2), torch.zeros_like(x["ref_logp"])
    logp, mask, ref, old = x["logp"].requires_grad_(), x["mask"], x["ref_logp"], zero
    scores, rollout_mask = logp, mask
    role = torch.tensor([Role.GOOD, Role.BAD]).repeat_interleave(rows // 2)
    if isinstance(objective, Sft):
        mask = mask & (role == Role.GOOD)[:, None]
    if isinstance(objective, Kto):
        # after the labelled rows stand those that are only measured
        role = torch.cat([torch.where(x["good"], Role.GOOD, Role.BAD), torch.full((rows,), Role.MISMATCHED)])
        rollout_mask = torch.cat([mask, x["other_mask"]])
        mask = torch.cat([mask, torch.zeros_like(mask)])
        ref, old = torch.cat([ref, x["other_ref_logp"]]), torch.cat([zero, x["other_logp"]])
        scores, unit = torch.cat([logp, zero]), torch.arange(2 * rows)
    batch = batch_of(
        rollout_mask, unit, torch.zeros(len(role)), mask=mask, old_logp=old, ref_logp=ref, role=role, unit=unit
    )
    # `construct`: a source that gives such rows is no matter here
    method = Offline.model_construct(name="", paper="", source=PairFile(path=""), objective=objective)
    signal, _ = method.signal(batch, method.memory())
    return _result(method.loss(Scores(logp=scores), batch, signal, Totals.of(mask, HORIZON)).value, logp)


@answer.register
def _(part: BradleyTerry, x: Fields) -> Fields:
    reward = x["reward"].requires_grad_()
    good, bad = reward.chunk(2)
    return _result(part(good, bad, len(good), x.get("margin"))[0], reward)


@answer.register
def _(term: SoftOverlong, x: Fields) -> Fields:
    batch = batch_of(x["mask"], x["group"], x["score"], mask=x["mask"])
    return {"reward": term(batch, HORIZON, {}).sum(1)}


def _result(loss: torch.Tensor, leaf: torch.Tensor) -> Fields:
    loss.backward()
    return {"loss": loss, "gradient": leaf.grad}


def main() -> None:
    shutil.rmtree(WORK, ignore_errors=True)
    data = {name: [MAKERS[name](i) for i in range(BATCHES)] for name in {case.data for case in TABLE}}
    for name, batches in data.items():
        write(inputs_file(name), batches)
    for case in TABLE:
        answers = [answer(case.method, x) for x in copies(data[case.data])]
        kept = [{name: x for name, x in out.items() if name not in case.skip} for out in answers]
        write(answers_file(f"paribus/{case.library}", case.name), kept)
    rows = [case._asdict() | {"method": case.method.model_dump(mode="json")} for case in TABLE]
    CASES.write_text(json.dumps(rows, indent=1))
    print(f"Paribus: {len(TABLE)} cases of {BATCHES} batches")


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    main()
