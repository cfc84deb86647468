"""The learner: one update whatever its micro-batches, update counts, warm-up, clips, bfloat16."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from learners import KEY, CriticPart, TokenMeanObjective, graded, make, moved, roll, weights
from paribus.batch import Batch, Loss, Mean, Scores, Signal, Totals, select
from paribus.engines.learner import TorchLearner
from paribus.models.hf import frozen
from paribus.settings import MachineSpec, OptimSpec, RolloutSpec
from paribus.tensors import keep
from paribus.types import Key
from toymodels import FAMILIES, gpt2, llama, loaded


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("critic", [None, CriticPart(), CriticPart(shared=True)], ids=["none", "own", "shared"])
def test_any_micro_batches_give_the_same_update(family: str, critic: CriticPart | None) -> None:
    """Unequal lengths, a masked row, junk and NaN in the padding: the gradient norm agrees to 1e-5 in float32."""
    norms = []
    for micro in (1, 40, 10_000):
        learner = make(FAMILIES[family](), critic, micro=micro)
        batch, signal = graded(roll(learner.model), learner)
        stats = learner.update(batch, signal, TokenMeanObjective(critic, entropy=0.01), KEY)
        norms.append([stats[n].value for n in ("grad_norm", "critic_grad_norm") if n in stats])
        assert stats["tokens"].row()["sum"] == float(batch.mask.sum())
    for other in norms[1:]:
        assert other == pytest.approx(norms[0], rel=1e-5)


def test_in_double_precision_the_law_holds_to_1e_10() -> None:
    """On GPT-2: the norm of Llama rounds to float32 inside, whatever the dtype of the model."""
    grads = []
    for micro in (1, 40, 10_000):
        learner = make(gpt2().double(), CriticPart(), micro=micro)
        batch, signal = graded(roll(learner.model), learner)
        doubles = [None if x is None else x.double() for x in signal]
        learner.update(batch, Signal(*doubles), TokenMeanObjective(CriticPart()), KEY)  # type: ignore[arg-type]
        grads.append(torch.cat([s["exp_avg"].flatten() for s in learner.policy_optimizer.adam.state.values()]))
    assert (grads[0] - grads[2]).abs().max() < 1e-10 * grads[2].abs().max()
    assert (grads[1] - grads[2]).abs().max() < 1e-10 * grads[2].abs().max()


def test_the_gradient_is_that_of_the_plain_model() -> None:
    """Chosen positions, chunked head and micro-batches against autograd through the model's own logits."""
    learner = make(llama(), micro=50, clip_norm=None)
    batch, signal = graded(roll(learner.model), learner)
    stats = learner.update(batch, signal, TokenMeanObjective(entropy=0.1), KEY)
    plain = llama()
    logits = plain(batch.rollout.tokens).logits[:, :-1].log_softmax(-1)
    logp = logits.gather(-1, batch.rollout.tokens[:, 1:, None]).squeeze(-1)
    entropy = -(logits.exp() * logits).sum(-1)
    scores = Scores(torch.nn.functional.pad(logp, (1, 0)), torch.nn.functional.pad(entropy, (1, 0)))
    objective = TokenMeanObjective(entropy=0.1)
    objective.loss(scores, batch, signal, Totals.of(batch.mask, 12)).value.backward()
    norm = torch.nn.utils.get_total_norm([p.grad for p in plain.parameters()])
    assert stats["grad_norm"].value == pytest.approx(float(norm), rel=1e-5)


def test_chunks_of_the_head_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    norms, logps = [], []
    for logits_at_once in (1 << 25, 61 * 7):
        monkeypatch.setattr("paribus.engines.scoring.LOGITS_AT_ONCE", logits_at_once)
        learner = make(llama())
        batch, signal = graded(roll(learner.model), learner)
        logps.append(learner.logp(batch.rollout))
        norms.append(learner.update(batch, signal, TokenMeanObjective(entropy=0.1), KEY)["grad_norm"].value)
    assert norms[1] == pytest.approx(norms[0], rel=1e-5)
    assert (logps[1] - logps[0]).abs().max() < 1e-5


@pytest.mark.parametrize("family", FAMILIES)
def test_packing_keeps_every_number_with_its_row(family: str) -> None:
    """Log-probs and values of a row alone, of all rows in one piece, and of packed pieces are equal (b46, b52)."""
    model = FAMILIES[family]()
    rollout = roll(model)
    whole, packed = make(model, CriticPart()), make(model, CriticPart(), micro=20)
    rows = [select(rollout, torch.tensor([i])) for i in range(rollout.rows)]
    for score in ("logp", "values"):
        reference = getattr(whole, score)(rollout)
        assert torch.equal(reference != 0, rollout.mask)
        assert (getattr(packed, score)(rollout) - reference).abs().max() < 1e-5
        alone = torch.cat([getattr(whole, score)(row) for row in rows])
        assert (alone - reference).abs().max() < 1e-5


def test_values_are_of_the_state_before_the_token() -> None:
    learner = make(gpt2(), CriticPart())
    assert learner.critic is not None
    rollout = roll(learner.model)
    values, final = learner.values_and_final(rollout)
    assert (values - learner.values(rollout)).abs().max() < 1e-5 and not values[~rollout.mask].any()
    for i in range(rollout.rows):
        n, begin = int(rollout.length[i]), int(rollout.mask[i].long().argmax())
        hidden = learner.critic.trunk(input_ids=rollout.tokens[i : i + 1, :n]).last_hidden_state[0]
        of_state = learner.critic(hidden)
        assert torch.allclose(values[i, begin:n], of_state[begin - 1 : n - 1], atol=1e-5)
        assert torch.allclose(final[i], of_state[n - 1], atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_entropies_are_those_of_the_whole_distribution(family: str) -> None:
    """Beside log-probs that are `logp` to the bit, in packed pieces and in one, at another temperature."""
    model = FAMILIES[family]()
    rollout = roll(model)
    learner = make(model, micro=20)
    learner.temperature = 0.7
    logp, entropy = learner.logp_and_entropy(rollout)
    assert torch.equal(logp, learner.logp(rollout)) and not entropy.requires_grad
    with torch.no_grad():
        full = (model(rollout.tokens).logits[:, :-1] / 0.7).log_softmax(-1)
    expected = torch.nn.functional.pad(-(full.exp() * full).sum(-1), (1, 0))
    assert (entropy - keep(expected, rollout.mask)).abs().max() < 1e-4


@dataclass(frozen=True)
class PairObjective(TokenMeanObjective):
    """Logistic loss of the difference between the two rows of a unit: no sum over rows, so pairs must not be split."""

    @property
    def only_advantage(self) -> bool:
        return False

    def loss(self, scores: Scores, batch: Batch, signal: Signal, total: Totals) -> Loss:
        assert scores.logp is not None and batch.unit is not None
        row = keep(scores.logp, batch.mask).mean(1) * batch.mask.shape[1]
        units = batch.unit.unique()
        margin = torch.stack([(row * batch.score)[batch.unit == u].sum() for u in units])
        return Loss(-torch.nn.functional.logsigmoid(margin).sum() / total.sequences, {"pairs": Mean(len(units), 1.0)})


def pairs(model: Any) -> Batch:
    """Two rows of each group are a pair, their numbers scattered; the third is trained by itself."""
    rollout = roll(model)
    unit = torch.tensor([90 - 7 * g + (s == 2) for g, s in zip(rollout.group, rollout.sample, strict=True)])
    score = torch.tensor([(1.0, -1.0, 0.5)[int(s)] for s in rollout.sample])
    zeros = torch.zeros(rollout.mask.shape)
    return Batch(rollout=rollout, score=score, reward=zeros, mask=rollout.mask, unit=unit)


def test_pairs_go_through_one_loss_whatever_the_micro_batches() -> None:
    norms = []
    for micro in (1, 40, 10_000):
        learner = make(llama(), micro=micro, minibatch_prompts=2)
        batch = pairs(learner.model)
        stats = learner.update(batch, Signal(batch.reward), PairObjective(), KEY)
        assert stats["pairs"].row()["sum"] == 10
        norms.append(stats["grad_norm"].value)
    assert norms[1:] == pytest.approx(norms[:1] * 2, rel=1e-5)


def test_a_unit_in_two_groups_is_refused() -> None:
    learner = make(llama(), minibatch_prompts=2)
    batch = pairs(learner.model)
    assert batch.unit is not None
    astray = replace(batch, unit=torch.where(batch.unit == 90, batch.unit.min(), batch.unit))
    with pytest.raises(ValueError, match="rows of one unit belong to different groups"):
        learner.update(astray, Signal(batch.reward), PairObjective(), KEY)


def test_one_frozen_copy_is_reference_and_policy_of_the_start() -> None:
    """It samples and scores as the untrained model did, whatever training does; it is not copied again."""
    start = frozen(loaded(llama()))
    model = llama()
    learner = TorchLearner(
        loaded(model),
        optim=OptimSpec(lr=1e-2),
        rollout=RolloutSpec(prompts_per_step=5, samples_per_prompt=3, max_response=12),
        machine=MachineSpec(),
        key=KEY,
        reference=start.model,
    )
    assert learner.reference is start.model and not any(p.requires_grad for p in start.model.parameters())
    before = roll(model)
    batch, signal = graded(before, learner)
    learner.update(batch, signal, TokenMeanObjective(), KEY)
    again, moved_on = roll(start.model), roll(model)
    assert torch.equal(again.tokens, before.tokens) and torch.equal(again.sampled_logp, before.sampled_logp)
    assert not torch.equal(moved_on.sampled_logp, before.sampled_logp)
    assert (learner.logp(again, of="reference") - again.sampled_logp).abs().max() < 1e-4
    assert (learner.logp(again) - again.sampled_logp).abs().max() > 1e-2


@pytest.mark.parametrize(("epochs", "minibatch", "updates"), [(1, None, 1), (1, 2, 3), (4, 2, 12), (2, 5, 2)])
def test_every_group_trains_once_an_epoch_and_is_never_split(
    epochs: int, minibatch: int | None, updates: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = make(llama(), epochs=epochs, minibatch_prompts=minibatch)
    batch, signal = graded(roll(learner.model), learner)
    seen: list[tuple[int, ...]] = []

    def record(rows: Batch, *_: Any, **__: Any) -> dict[str, Any]:
        counts = rows.group.bincount()
        assert set(counts.tolist()) <= {0, 3}
        seen.append(tuple(rows.group.unique().tolist()))
        return {"updates": Mean(1.0, 1.0)}

    monkeypatch.setattr(learner, "_update", record)
    stats = learner.update(batch, signal, TokenMeanObjective(), KEY)
    assert len(seen) == updates and stats["updates"].row()["sum"] == updates
    size = updates // epochs
    for epoch in range(epochs):
        assert sorted(g for groups in seen[epoch * size : (epoch + 1) * size] for g in groups) == [0, 1, 2, 3, 4]
    again, seen[:] = list(seen), []
    learner.update(batch, signal, TokenMeanObjective(), KEY)
    assert seen == again
    if epochs > 1 and size > 1:
        assert seen[:size] != seen[size : 2 * size]


def test_the_first_ratio_is_one_and_only_the_first() -> None:
    """Before the first update of a step the learner's log-probs are the sampler's; later updates do not count."""
    learner = make(llama(), epochs=2, minibatch_prompts=2, lr=0.05)
    batch, signal = graded(roll(learner.model), learner)
    assert learner.update(batch, signal, TokenMeanObjective(), KEY)["first_ratio_deviation"].value < 1e-4
    assert learner.update(batch, signal, TokenMeanObjective(), KEY)["first_ratio_deviation"].value > 1e-2


def test_gradients_are_clipped_per_model() -> None:
    """An update of Adam does not show a clip, its first moment does: (1 - beta1) times the clipped gradient."""
    learner = make(llama(), CriticPart(), clip_norm=0.01)
    batch, signal = graded(roll(learner.model), learner)
    stats = learner.update(batch, signal, TokenMeanObjective(CriticPart()), KEY)
    assert stats["grad_norm"].value > 0.01 and stats["critic_grad_norm"].value > 0.01
    assert learner.critic_optimizer is not None
    for optimizer in (learner.policy_optimizer, learner.critic_optimizer):
        first = torch.nn.utils.get_total_norm([s["exp_avg"] for s in optimizer.adam.state.values()])
        assert float(first) == pytest.approx(0.1 * 0.01, rel=1e-3)


def test_critic_warm_up_leaves_the_policy_alone() -> None:
    for shared in (False, True):
        critic = CriticPart(warmup=2, shared=shared)
        learner = make(llama(), critic)
        trunk = len(list(learner.model.parameters()))
        for step in range(3):
            batch, signal = graded(roll(learner.model, step), learner)
            start = weights(learner)
            stats = learner.update(batch, signal, TokenMeanObjective(critic), Key(3, "shuffle", step=step))
            changed = moved(learner, start)
            assert any(changed[:trunk]) is (step == 2)
            assert changed[-1] and changed[-2]  # weight and bias of the value head
            assert ("tokens" in stats) is (step == 2) and "value_tokens" in stats


def test_a_gradient_that_is_not_finite_is_skipped_and_counted() -> None:
    learner = make(llama(), minibatch_prompts=5, epochs=3)
    batch, signal = graded(roll(learner.model), learner)
    start = weights(learner)
    bad = Signal(torch.where(batch.mask, torch.inf, 0.0))
    stats = learner.update(batch, bad, TokenMeanObjective(), KEY)
    assert not any(moved(learner, start)) and not learner.policy_optimizer.adam.state
    assert stats["nonfinite"].row() == {"sum": 3.0, "count": 3.0} and "grad_norm" not in stats
    assert stats["nonfinite_streak"].value == 3 and learner.nonfinite_streak == 3
    stats = learner.update(batch, signal, TokenMeanObjective(), KEY)
    assert stats["nonfinite"].value == 0 and learner.nonfinite_streak == 0 and any(moved(learner, start))


def test_a_step_without_a_trained_token_is_no_update() -> None:
    learner = make(llama())
    batch, signal = graded(roll(learner.model), learner)
    start = weights(learner)
    assert learner.update(replace(batch, mask=torch.zeros_like(batch.mask)), signal, TokenMeanObjective(), KEY) == {}
    assert not any(moved(learner, start))


def test_tied_weights_stay_tied_and_are_trained_once() -> None:
    """b48: one tensor in both roles, once in the optimizer, and logits that follow the update."""
    model = llama()
    learner = make(model)
    storage = model.get_input_embeddings().weight.data_ptr()
    members = [p for group in learner.policy_optimizer.adam.param_groups for p in group["params"]]
    assert len(members) == len({id(p) for p in members}) == len(list(model.parameters()))
    batch, signal = graded(roll(model), learner)
    first = learner.logp(batch.rollout)
    learner.update(batch, signal, TokenMeanObjective(), KEY)
    assert model.get_input_embeddings().weight.data_ptr() == model.get_output_embeddings().weight.data_ptr() == storage
    assert not torch.equal(first, learner.logp(batch.rollout))


def test_every_parameter_is_in_one_group_and_rates_move_together() -> None:
    """b50: the value head warms up and decays as the policy does."""
    for shared in (False, True):
        critic = CriticPart(shared=shared, lr=3e-2)
        learner = make(llama(), critic, warmup_steps=4, schedule="cosine", decay_to=0.1)
        optimizers = [learner.policy_optimizer, learner.critic_optimizer or learner.policy_optimizer]
        assert learner.critic is not None
        names = [id(p) for o in {id(o): o for o in optimizers}.values() for p in o.master.values()]
        everything = {id(p) for p in [*learner.model.parameters(), *learner.critic.parameters()]}
        assert len(names) == len(set(names)) and set(names) == everything
        batch, signal = graded(roll(learner.model), learner)
        shape = []
        for step in range(20):
            learner.update(batch, signal, TokenMeanObjective(critic), Key(3, "shuffle", step=step))
            shape.append(optimizers[0].rates[0] / 1e-2)
            assert optimizers[1].rates[-1] == pytest.approx(3 * optimizers[0].rates[0])
        assert shape[:4] == pytest.approx([0.25, 0.5, 0.75, 1.0]) and shape[4] == 1.0
        assert shape[12] == pytest.approx(0.55) and 0.1 < shape[19] < 0.12


def test_value_head_starts_at_zero_or_from_its_key() -> None:
    """b49, d17: zero values at first, and an equal head for an equal key whatever was drawn before."""
    rollout = roll(llama())
    assert (make(llama(), CriticPart(head_std=None)).values(rollout) == 0).all()
    one = make(llama(), CriticPart())
    torch.randn(100)
    two = make(llama(), CriticPart())
    assert one.critic is not None and two.critic is not None
    assert torch.equal(one.critic.head.weight, two.critic.head.weight)
    assert one.critic.head.weight.abs().max() > 0 and (one.critic.head.bias == 0).all()


def test_bfloat16_scores_in_float32_and_trains_through_a_master_copy() -> None:
    """b32: log-probs are log_softmax of the upcast logits; rates far below bfloat16's resolution still add up."""
    model = llama().bfloat16()
    learner = make(model, CriticPart(lr=1e-5), lr=1e-5, micro=60)
    assert learner.critic is not None and learner.critic.head.weight.dtype == torch.float32
    batch, signal = graded(roll(model), learner)
    first = select(batch.rollout, torch.tensor([0]))
    found, n = learner.logp(first), int(first.length[0])
    with torch.no_grad():
        logp = model(first.tokens[:, : n - 1]).logits.float().log_softmax(-1)[0]
    expected = logp.gather(-1, first.tokens[0, 1:n, None]).squeeze(-1)
    assert found.dtype == torch.float32
    assert (found[0, 1:n] - expected)[first.mask[0, 1:n]].abs().max() < 1e-5
    start = weights(learner)
    master = {n: p.detach().clone() for n, p in learner.policy_optimizer.master.items()}
    for step in range(30):
        stats = learner.update(batch, signal, TokenMeanObjective(CriticPart()), Key(3, "shuffle", step=step))
        assert math.isfinite(stats["grad_norm"].value or math.nan)
    travelled = max(float((learner.policy_optimizer.master[n] - p).detach().abs().max()) for n, p in master.items())
    assert travelled == pytest.approx(30 * 1e-5, rel=0.2)
    assert any(moved(learner, start)) and all(p.dtype == torch.bfloat16 for p in model.parameters())
