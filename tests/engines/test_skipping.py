"""Work that need not be done: rows without a gradient, entropies that are known, log-probs that the update finds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from batches import ONLINE
from learners import KEY, CriticPart, TokenMeanObjective, make, weights
from paribus.algorithms import CATALOG, Offline, PolicyGradient
from paribus.batch import Batch, Rollout, Signal, concat, select, trim
from paribus.engines.local import LocalSampler
from paribus.engines.protocols import SamplingPlan
from paribus.engines.rollouts import Response, assemble
from paribus.part import replace as changed
from paribus.types import Key, Prompt, Stop
from toymodels import gpt2, llama, loaded, prompts

IDLE = (1, 3)  # groups without advantage
ENTROPY = PolicyGradient(**dict(CATALOG["dapo"]) | {"name": "dapo_entropy", "entropy": 0.01})
SHARED = changed(CATALOG["ppo"], kl=None, shaping=[{"type": "outcome_at_end"}], **{"critic.shared": True})


def credited(topk: int = 0) -> tuple[Any, Batch, Signal]:
    """GPT-2 in float64, and rows of five prompts, two of them without advantage, the policy moved since it sampled."""
    model = gpt2().double()
    plan = SamplingPlan(samples=3, max_tokens=12, topk=topk)
    rollout = LocalSampler(loaded(model)).sample(prompts([3, 9, 1, 7, 7]), plan, Key(7, "sample"))
    random = torch.Generator().manual_seed(5)

    def normal(scale: float = 1.0) -> torch.Tensor:
        return scale * torch.randn(rollout.mask.shape, generator=random, dtype=torch.float64)

    old = rollout.sampled_logp.double() + normal(0.3)
    mask = rollout.mask.clone()
    mask[4] = False  # an unscored row
    idle = torch.isin(rollout.group, torch.tensor(IDLE))
    batch = Batch(
        rollout=rollout, score=(torch.arange(rollout.rows) % 2).double(), reward=normal(), mask=mask, old_logp=old,
        ref_logp=old + normal(0.5), values=normal(),
    )  # fmt: skip
    # junk outside the mask, and a group with some tokens of no advantage
    advantage = torch.where(mask, normal() * (torch.rand(mask.shape, generator=random) < 0.5), torch.nan)
    return model, batch, Signal(torch.where(idle[:, None] & mask, 0.0, advantage), normal())


@pytest.mark.parametrize("algorithm", [*ONLINE.values(), ENTROPY, SHARED], ids=[*ONLINE, "entropy", "shared"])
def test_an_update_without_idle_rows_is_the_same_update(algorithm: PolicyGradient) -> None:
    """Gradients and losses of every method; one whose idle rows have a gradient after all leaves none of them out."""
    found = []
    for skip in (False, True):
        model, batch, signal = credited(algorithm.topk)
        learner = make(model, algorithm.critic, micro=60)  # type: ignore[arg-type]
        learner.skip_rows, learner.warmup = skip, 0  # VC-PPO and VAPO would train the critic alone
        stats = learner.update(batch, signal, algorithm, KEY)
        optimizers = [learner.policy_optimizer, *([learner.critic_optimizer] if learner.critic_optimizer else [])]
        gradients = [s["exp_avg"].flatten() for o in optimizers for s in o.adam.state.values()]
        found.append((torch.cat(gradients), stats))
    (whole, before), (part, after) = found
    assert whole.abs().max() > 0
    assert (part - whole).abs().max() < 1e-10 * whole.abs().max()
    assert before["skipped_rows"].row() == {"sum": 0.0, "count": 14.0}
    # two groups of three, one of whose rows is unscored; the others' advantages are drawn, of one row perhaps all 0
    assert after["skipped_rows"].row() == {"sum": 5.0 if algorithm.only_advantage else 0.0, "count": 14.0}
    losses = [name for name in before if name.endswith("_loss")]
    assert "policy_loss" in losses
    for name in losses:
        assert after[name].row() == pytest.approx(before[name].row(), rel=1e-9, abs=1e-12)
    terms = algorithm.kl, algorithm.entropy, algorithm.imitation, algorithm.critic and algorithm.critic.shared
    assert algorithm.only_advantage is not any(terms)


def test_an_update_of_idle_rows_only_moves_by_the_moments() -> None:
    """To the bit, in float32: AdamW goes on with a gradient of 0, and does nothing without one."""
    ends, sizes = [], []
    for skip in (False, True):
        model, batch, signal = credited()
        learner = make(model.float(), micro=60, weight_decay=0.1)
        nothing = Signal(torch.where(batch.mask, 0.0, torch.nan))
        for step, credit in enumerate((nothing, signal, nothing)):
            start = weights(learner)
            learner.skip_rows = skip and credit is nothing
            stats = learner.update(batch, credit, TokenMeanObjective(), Key(3, "shuffle", step=step))
            sizes.append(sum(float((a - b).abs().sum()) for a, b in zip(weights(learner), start, strict=True)))
        assert stats["grad_norm"].value == 0 and stats["skipped_rows"].value == float(skip)
        assert stats["updates"].value == 1 and ("tokens" in stats) is not skip
        ends.append(weights(learner))
    assert min(sizes) > 0 and all(map(torch.equal, *ends))


def test_rows_of_data_are_always_run() -> None:
    offline = [entry for entry in CATALOG.values() if isinstance(entry, Offline)]
    assert offline and not any(entry.only_advantage for entry in offline)


def test_entropies_are_computed_only_where_nobody_has_told_them() -> None:
    model, batch, signal = credited()
    told = replace(batch, rollout=replace(batch.rollout, entropy=torch.where(batch.rollout.mask, 0.7, 0.0)))
    data = replace(told, role=torch.ones(told.rollout.rows, dtype=torch.long))
    plain = replace(batch, rollout=replace(batch.rollout, entropy=None))
    seen: list[bool] = []

    class Seeing(TokenMeanObjective):
        def loss(self, scores: Any, *rest: Any) -> Any:
            seen.append(scores.entropy is not None)
            return super().loss(scores, *rest)

    for rows, objective in ((told, Seeing()), (data, Seeing()), (plain, Seeing()), (told, Seeing(entropy=0.1))):
        seen.clear()
        make(model, lr=1e-30).update(rows, signal, objective, KEY)
        assert set(seen) == {rows is not told or objective.entropy > 0}


def test_the_first_update_is_its_own_old_policy() -> None:
    """Ratio 1 exactly; the gradient is that with log-probs from a pass; the distance to the reference comes with it."""
    algorithm = CATALOG["verl_05_grpo"]
    found = []
    for passed in (True, False):
        model, batch, signal = credited()
        learner = make(model, micro=60)
        own = learner.logp(batch.rollout)
        batch = replace(batch, old_logp=own if passed else None, ref_logp=torch.where(batch.mask, own - 0.25, 0.0))
        stats = learner.update(batch, signal, algorithm, KEY)
        found.append(torch.cat([s["exp_avg"].flatten() for s in learner.policy_optimizer.adam.state.values()]))
        assert stats["ratio_deviation"].value == pytest.approx(0, abs=1e-12)
        assert stats["first_ratio_deviation"].value < 1e-4
    assert stats["ratio_deviation"].value == 0 and stats["approx_kl"].value == 0
    assert stats["reference_gap"].value == pytest.approx(0.25, abs=1e-12)
    assert (found[1] - found[0]).abs().max() < 1e-10 * found[0].abs().max()


def test_a_policy_that_has_moved_is_not_its_own_old_one() -> None:
    model, batch, signal = credited()
    learner = make(model, epochs=2)
    with pytest.raises(ValueError, match="needs old_logp"):
        learner.update(replace(batch, old_logp=None), signal, CATALOG["dapo"], KEY)


def test_a_rollout_holds_entropies_of_all_rows_or_of_none() -> None:
    asked = [Prompt(problem_id="p", ids=(5, 6), text="")]
    answers = [Response([7, 8], [-1.0, -2.0], Stop.EOS, "", entropy=[0.5, 0.25])]
    answers.append(answers[0]._replace(ids=[9], logp=[-3.0], entropy=[1.5]))

    def roll(rows: list[Response]) -> Rollout:
        return assemble(asked, 2, rows, pad_id=0, version=0)

    entropy = roll(answers).entropy
    assert entropy is not None and entropy.tolist() == [[0, 0, 0.5, 0.25], [0, 0, 1.5, 0]]
    short = trim(select(roll(answers), torch.tensor([1])), 3)
    assert short.entropy is not None and short.entropy.tolist() == [[0, 0, 1.5]]
    untold = roll([answers[0], answers[1]._replace(entropy=None)])
    assert untold.entropy is None and concat([roll(answers), untold]).entropy is None


@pytest.mark.parametrize("make_model", [llama, gpt2])
def test_values_and_final_values_are_one_pass(make_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts run once per group, as for the values alone."""
    learner = make(make_model(), CriticPart())
    _, batch, _ = credited()
    separate = learner.values(batch.rollout)
    calls: list[int] = []
    inner = learner.values
    monkeypatch.setattr(learner, "values", lambda rollout: (calls.append(rollout.rows), inner(rollout))[1])
    values, final = learner.values_and_final(batch.rollout)
    assert calls == [batch.rollout.rows]
    assert (values - separate).abs().max() < 1e-5 and torch.equal(values != 0, batch.rollout.mask)
    assert final.shape == (batch.rollout.rows,) and (final != 0).all()
