"""Family f, preference learning: losses, odds and truncation as other projects had them wrong."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from paribus.algorithms import CATALOG, Dpo, Ipo, Orpo, Sft
from paribus.algorithms.preference import Answers, log_odds
from paribus.batch import Role, Scores, Totals, select, trim
from paribus.errors import ConfigError
from paribus.models.pairs import Encoded, Example, Limits, encode, fit
from paribus.part import load, replace
from preferences import data_batch, draw, loss_of
from toymodels import tokenizer

F32 = torch.float32


def near(value: torch.Tensor, expected: Any, relative: float = 0.0) -> None:
    wanted = torch.as_tensor(expected, dtype=value.dtype)
    torch.testing.assert_close(value.detach(), wanted, rtol=relative, atol=0 if relative else 1e-5)


def answers(log_ratio: float = 0.0, logp: float = 0.0, length: float = 1.0) -> Answers:
    return Answers(*(torch.tensor(x, dtype=F32) for x in (logp, length, log_ratio)))


def test_f05_ipo_over_means_or_over_sums(cases: dict[str, Any]) -> None:
    given, expected = cases["f05"]["input"], cases["f05"]["expected"]
    good = answers(given["h_sum_difference"], length=given["h_sum_difference"] / given["h_mean_difference"])
    by_mean, by_sum = (Ipo(beta=given["beta"], over=over) for over in ("mean", "sum"))
    near(by_mean.per_pair(good, answers()), expected["ipo"])
    near(by_sum.per_pair(good, answers()), expected["ipo_if_sum"])
    near(Dpo().per_pair(good, answers()), -torch.nn.functional.logsigmoid(torch.tensor(0.6)))


def test_f06_an_answer_is_averaged_once(cases: dict[str, Any]) -> None:
    given, expected = cases["f06"]["input"], cases["f06"]["expected"]
    length = given["length"]
    logp = torch.full((1, length), given["sum_logp"] / length)
    batch = data_batch(torch.ones(1, length, dtype=torch.bool), [Role.GOOD], [0])
    for aggregate in ("token_mean", "sequence_mean_token_mean"):
        sft = replace(CATALOG["sft"], objective=Sft(aggregate={"type": aggregate}))
        near(loss_of(sft, batch, logp).value, expected["sft_loss"])


def test_f07_prompt_tokens_are_in_no_sum_and_get_no_gradient(cases: dict[str, Any]) -> None:
    given, expected = cases["f07"]["input"], cases["f07"]["expected"]
    prompt = given["prompt_logps"]
    logp = torch.tensor([[*prompt, *given["chosen_logps"]], [*prompt, *given["rejected_logps"], 0.0]])
    mask = torch.tensor([[False, False, True, True], [False, False, True, False]])
    batch = data_batch(mask, [Role.GOOD, Role.BAD], [0, 0], ref_logp=torch.zeros(2, 4))
    for name in ("dpo", "ipo", "orpo", "simpo"):
        found = loss_of(CATALOG[name], batch, logp)
        assert found.stats["logp_good"].value == expected["chosen"]
        assert found.stats["logp_bad"].value == expected["rejected"]
        assert loss_of(CATALOG[name], batch, logp - 3.0 * ~mask).value == found.value
        # logits at t predict token t + 1, so those at the prompt's last position are the first that matter
        logits = torch.randn(2, 3, 7, generator=torch.Generator().manual_seed(0)).requires_grad_()
        tokens = torch.tensor([[1, 2, 3, 4], [1, 2, 5, 0]])
        scored = logits.log_softmax(-1).gather(-1, tokens[:, 1:, None]).squeeze(-1)
        loss_of(CATALOG[name], batch, torch.nn.functional.pad(scored, (1, 0))).value.backward()
        assert not logits.grad[:, 0].any() and logits.grad[:, 1].any(-1).all()  # type: ignore[index]


def test_f09_each_side_keeps_its_own_budget(cases: dict[str, Any]) -> None:
    given, expected = cases["f09"]["input"], cases["f09"]["expected"]
    prompt, good, bad = (tuple(range(1, given[f"{name}_len"] + 1)) for name in ("prompt", "chosen", "rejected"))
    size = given["max_length"]
    found = fit(prompt, good, bad, Limits(prompt=size, response=size, length=size))
    assert found == Encoded(prompt, good[: expected["kept_chosen"]], bad[: expected["kept_rejected"]])
    nothing = encode(tokenizer(), [Example(where="", prompt="abcd", good="a", bad="b")], Limits(9, 9, 4))
    assert nothing == ([], 1), "a pair without a budget is dropped and counted"


@pytest.mark.parametrize("name", ["sft", "dpo", "orpo", "simpo", "kto"])
def test_f10_an_answer_cut_to_nothing_leaves_no_loss_over_nothing(cases: dict[str, Any], name: str) -> None:
    assert cases["f10"]["expected"]["pair_dropped"] and cases["f10"]["expected"]["loss_finite"]
    rows = [Example(where="", prompt="abcd", good="a", bad="b"), Example(where="", prompt="abcd", good="a")]
    assert encode(tokenizer(), rows, Limits(prompt=9, response=9, length=4)) == ([], 2)
    batch, logp = draw(CATALOG[name], 0)  # type: ignore[arg-type]
    empty = select(batch, torch.arange(0))
    assert loss_of(CATALOG[name], trim(empty, 1), trim(logp[:0], 1)).value == 0


def test_f11_tokens_are_cut_before_there_is_any_padding(cases: dict[str, Any]) -> None:
    given, expected = cases["f11"]["input"], cases["f11"]["expected"]
    real = tuple(t for t, m in zip(given["row"], given["mask"], strict=True) if m)
    limits = Limits(prompt=given["max_length"], response=9, length=99)
    assert list(fit(real, (9,), None, limits).prompt) == expected["row"]
    assert fit((7, 8, *real), (9,), None, limits).prompt == real, "the end is kept"


def test_f12_conservative_and_robust(cases: dict[str, Any]) -> None:
    given, expected = cases["f12"]["input"], cases["f12"]["expected"]
    good, e = answers(given["beta_times_h"]), given["epsilon"]
    near(Dpo(beta=1.0).per_pair(good, answers()), expected["dpo"])
    near(Dpo(beta=1.0, label_smoothing=e).per_pair(good, answers()), expected["cdpo"])
    near(Dpo(beta=1.0, label_smoothing=e, robust=True).per_pair(good, answers()), expected["robust"])
    with pytest.raises(ConfigError, match="robust"):
        load(Dpo, {"label_smoothing": 0.5, "robust": True})


def test_f13_the_penalty_raises_the_loss(cases: dict[str, Any]) -> None:
    given, expected = cases["f13"]["input"], cases["f13"]["expected"]
    loss, h = Dpo(beta=given["beta"], anchor=given["lambda"]), given["beta_h"] / given["beta"]

    def dpop(policy_good: float) -> torch.Tensor:
        ratio = policy_good - given["ref_chosen"]
        return loss.per_pair(answers(ratio), answers(given["policy_chosen"] - given["ref_chosen"] - h))

    near(dpop(given["policy_chosen"]), expected["dpop_loss"])
    falling = torch.stack([dpop(float(x)) for x in torch.arange(-20, 0, 0.25)])
    assert (falling.diff() < 0).all()


def test_f14_odds_of_nearly_certain_answers(cases: dict[str, Any]) -> None:
    given, expected = cases["f14"]["input"], cases["f14"]["expected"]
    assert given["dtype"] == "float32"
    near(log_odds(torch.tensor(given["mean_logp"], dtype=F32), Orpo().ceiling), expected["log_odds"], relative=1e-3)
    logp = torch.tensor([0.0, -1e-8, -1e-3], dtype=F32, requires_grad=True)
    other = Answers(torch.tensor(-1.0), torch.tensor(1.0))
    for side in (lambda x: (x, other), lambda x: (other, x)):
        logp.grad = None
        loss = Orpo().per_pair(*side(Answers(logp, torch.ones(3))))
        loss.sum().backward()
        assert loss.isfinite().all() and logp.grad is not None and logp.grad.isfinite().all()


def test_f15_no_constant_biases_the_odds(cases: dict[str, Any]) -> None:
    given, expected = cases["f15"]["input"], cases["f15"]["expected"]
    near(log_odds(torch.tensor(given["mean_logp"]), Orpo().ceiling), expected["log_odds"], relative=1e-3)


def test_f16_orpo_in_total(cases: dict[str, Any]) -> None:
    given, expected = cases["f16"]["input"], cases["f16"]["expected"]
    good, bad = (answers(logp=3 * given[f"mean_logp_{name}"], length=3) for name in ("chosen", "rejected"))
    orpo = Orpo(coef=given["lambda"])
    near(orpo.implicit_reward(good) - orpo.implicit_reward(bad), expected["log_odds_ratio"])
    near(orpo.per_pair(good, bad), expected["total"])
    near((orpo.per_pair(good, bad) + good.mean_logp) / given["lambda"], expected["or_loss"])


@pytest.mark.parametrize("name", ["dpo", "ipo", "orpo", "simpo", "kto", "sft"])
def test_f22_the_side_of_the_padding_does_not_matter(cases: dict[str, Any], name: str) -> None:
    assert cases["f22"]["expected"]["invariant"]
    method: Any = CATALOG[name]
    batch, logp = draw(method, 5, dtype=F32)
    signal, _ = method.signal(batch, {})
    whole = loss_of(method, batch, logp).value

    def moved(value: torch.Tensor) -> torch.Tensor:
        room = value.shape[1] - 1 - batch.mask.long().cumsum(1).argmax(1)  # padding behind the last token
        return torch.stack([row.roll(int(by)) for row, by in zip(value, room, strict=True)])

    left = dataclasses.replace(
        batch,
        rollout=dataclasses.replace(batch.rollout, mask=moved(batch.rollout.mask)),
        mask=moved(batch.mask),
        ref_logp=moved(batch.ref_logp),
        old_logp=moved(batch.old_logp),
    )
    near(loss_of(method, left, moved(logp)).value, whole)
    alone = []
    for unit in batch.unit[batch.mask.any(1)].unique():  # type: ignore[index]
        rows = ((batch.unit == unit) & batch.mask.any(1)).nonzero().squeeze(1)
        width = int(batch.mask[rows].any(0).nonzero().max()) + 1
        parts = (trim(select(x, rows), width) for x in (Scores(logp), batch, signal))
        alone.append(method.loss(*parts, Totals.of(batch.mask, 9)).value)
    near(torch.stack(alone).sum(), whole)
