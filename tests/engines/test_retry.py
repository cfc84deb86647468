"""Memory that runs out half-way: the same update in smaller micro-batches, and nothing left of the failed try."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from learners import KEY, CriticPart, TokenMeanObjective, graded, make, moved, roll, weights
from paribus.batch import Batch, Loss, Scores, Signal, Totals
from paribus.engines.learner import TorchLearner
from paribus.engines.retry import out_of_memory, smaller
from paribus.errors import RunError
from toymodels import gpt2, llama

CPU = RuntimeError(
    "[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    "4000000000000 bytes. Error code 12 (Cannot allocate memory)"
)
ERRORS = [torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), CPU, MemoryError()]


@dataclass
class Exhausted:
    """Another objective, which runs out of memory in its calls of these numbers (None: always), gradients added."""

    inner: TokenMeanObjective
    at: tuple[int, ...] | None
    error: Exception = ERRORS[0]
    asked: int = 0
    rows: list[int] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def loss(self, scores: Scores, batch: Batch, signal: Signal, total: Totals) -> Loss:
        loss = self.inner.loss(scores, batch, signal, total)
        self.asked += 1
        self.rows.append(batch.rollout.rows)
        if self.at is None or self.asked in self.at:
            loss.value.backward()
            raise self.error
        return loss


def double(critic: CriticPart | None, micro: int) -> tuple[TorchLearner, Batch, Signal]:
    """A learner in float64 on GPT-2 (Llama's norm rounds to float32 inside), and an update for it."""
    learner = make(gpt2().double(), critic, micro=micro)
    batch, signal = graded(roll(learner.model), learner)
    return learner, batch, Signal(*(None if x is None else x.double() for x in signal))  # type: ignore[arg-type]


def gradients(learner: TorchLearner) -> torch.Tensor:
    """Those of the first update: its first moments, up to a factor."""
    optimizers = [learner.policy_optimizer, *([learner.critic_optimizer] if learner.critic_optimizer else [])]
    states = [state for optimizer in optimizers for state in optimizer.adam.state.values()]
    assert all(state["step"] == 1 for state in states), "an optimizer has stepped more than once"
    return torch.cat([state["exp_avg"].flatten() for state in states])


@pytest.mark.parametrize("error", ERRORS, ids=["cuda", "cpu", "python"])
@pytest.mark.parametrize("critic", [None, CriticPart(), CriticPart(shared=True)], ids=["none", "own", "shared"])
@pytest.mark.parametrize("at", [(1,), (3,), (2, 5)], ids=["first", "third", "twice"])
def test_the_update_is_the_same_and_counted_once(
    at: tuple[int, ...], critic: CriticPart | None, error: Exception
) -> None:
    whole, batch, signal = double(critic, 10_000)
    expected = whole.update(batch, signal, TokenMeanObjective(critic), KEY)
    learner, batch, signal = double(critic, 60)
    notes: list[str] = []
    learner.note = notes.append
    stats = learner.update(batch, signal, Exhausted(TokenMeanObjective(critic), at, error), KEY)
    grads = gradients(learner), gradients(whole)
    assert (grads[0] - grads[1]).abs().max() < 1e-10 * grads[1].abs().max()
    for name in ("tokens", "value_tokens", "updates", "nonfinite"):
        if name in expected:
            assert stats[name].row()["sum"] == expected[name].row()["sum"], name
    assert learner.micro_tokens < 60 and "micro_tokens" in stats and "micro_tokens" not in expected
    assert any(f"{learner.micro_tokens}, which is kept" in note for note in notes)


def test_a_critic_that_has_stepped_does_not_step_again() -> None:
    """The policy's passes fail when the critic's optimizer has had its turn."""
    learner, batch, signal = double(CriticPart(), 120)
    calls = len(list(learner._micro(batch, signal, batch.mask.any(1))))
    objective = Exhausted(TokenMeanObjective(CriticPart()), (calls + 2,))
    learner.update(batch, signal, objective, KEY)
    assert all(state["step"] == 1 for state in learner.critic_optimizer.adam.state.values())  # type: ignore[union-attr]
    assert objective.asked > 2 * calls


@pytest.mark.parametrize("model", [llama, gpt2], ids=["by hand", "the library's"])
@pytest.mark.parametrize("critic", [None, CriticPart()], ids=["none", "own"])
def test_layers_are_computed_again_where_one_row_is_too_much(
    critic: CriticPart | None, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The update stays what it was; every pass with gradients after that keeps its layers' inputs alone."""
    from paribus.engines import learner as module

    whole = make(model().double(), critic, micro=10_000)
    batch, signal = graded(roll(whole.model), whole)
    signal = Signal(*(None if x is None else x.double() for x in signal))  # type: ignore[arg-type]
    whole.update(batch, signal, TokenMeanObjective(critic), KEY)
    learner = make(model().double(), critic, micro=1)
    notes: list[str] = []
    seen: list[bool] = []
    real, learner.note = module.before, notes.append

    def limited(base: Any, part: Any, mask: Any, again: bool = False) -> Any:
        seen.append(again)
        if not again:
            raise CPU
        return real(base, part, mask, again=again)

    monkeypatch.setattr(module, "before", limited)
    learner.update(batch, signal, TokenMeanObjective(critic), KEY)
    assert seen[0] is False and all(seen[1:]) and learner.recompute
    grads = gradients(learner), gradients(whole)
    assert (grads[0] - grads[1]).abs().max() < 1e-6 * grads[1].abs().max()  # Llama's norm rounds to float32 inside
    assert any("and recompute = true, which is kept" in note for note in notes)


@pytest.mark.parametrize("half", [False, True], ids=["float32", "bfloat16"])
def test_down_to_single_rows_and_then_the_error_with_the_fix(half: bool) -> None:
    learner = make(llama().bfloat16() if half else llama(), micro=120)
    batch, signal = graded(roll(learner.model), learner)
    before, objective = weights(learner), Exhausted(TokenMeanObjective(), None)
    with pytest.raises(RunError, match=r"micro-batch of one row.*max_response.*CUDA out of memory"):
        learner.update(batch, signal, objective, KEY)
    assert objective.rows == sorted(objective.rows, reverse=True) and objective.rows[-1] == 1
    assert objective.rows[-2:] == [1, 1] and learner.recompute, "the last try computes layers again"
    assert len(objective.rows[:-1]) <= 5, "halving 120 to 1 takes seven steps, of which some would cut alike"
    assert not any(moved(learner, before)) and not learner.policy_optimizer.adam.state
    optimizer = learner.policy_optimizer
    assert all(p.grad is None for p in (*optimizer.model.values(), *optimizer.master.values()))


def test_log_probs_come_out_of_smaller_passes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from paribus.engines import learner as module

    learner = make(llama())
    rollout = roll(learner.model)
    expected = learner.logp(rollout)
    real, seen = module.before, []

    def limited(base: Any, part: Any, mask: Any, **how: Any) -> Any:
        seen.append(part.rows)
        if part.rows > 2:
            raise CPU
        return real(base, part, mask, **how)

    monkeypatch.setattr(module, "before", limited)
    assert (learner.logp(rollout) - expected).abs().max() < 1e-5
    failed = [rows > 2 for rows in seen]
    assert any(failed) and sum(seen[len(failed) - failed[::-1].index(True) :]) == rollout.rows


def test_out_of_memory_in_the_optimizer_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have moved some of the weights: a second step would move them twice."""
    learner = make(llama())
    batch, signal = graded(roll(learner.model), learner)

    def step(*unused: Any) -> None:
        raise CPU

    monkeypatch.setattr(learner.policy_optimizer.adam, "step", step)
    objective = Exhausted(TokenMeanObjective(), ())
    with pytest.raises(RunError, match=r"out of memory in an update: optimizer and gradients.*paribus plan"):
        learner.update(batch, signal, objective, KEY)
    assert objective.asked == 1


def test_other_errors_are_no_want_of_memory() -> None:
    assert all(map(out_of_memory, ERRORS))
    assert not any(map(out_of_memory, (RuntimeError("shape mismatch"), ValueError("not enough memory"), RunError("x"))))
    learner = make(llama(), micro=120)
    batch, signal = graded(roll(learner.model), learner)
    objective = Exhausted(TokenMeanObjective(), (2,), RuntimeError("shape mismatch"))
    with pytest.raises(RuntimeError, match="shape mismatch"):
        learner.update(batch, signal, objective, KEY)
    assert objective.asked == 2


@pytest.mark.parametrize(("size", "expected"), [(64, 16), (16, 8), (15, 7), (3, 1), (1, None)])
def test_a_size_is_halved_until_there_are_more_pieces(size: int, expected: int | None) -> None:
    rows = 20  # of 1 token each; above 20 tokens, one piece
    assert smaller(size, lambda n: -(-rows // n)) == expected
    assert smaller(size, lambda n: 7) is None
