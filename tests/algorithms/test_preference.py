"""Losses on given answers: the worked examples E27 and E28 with gradients, and what each loss is known for."""

from __future__ import annotations

import math

import pytest
import torch

from paribus.algorithms import CATALOG, BradleyTerry, Dpo, Hinge, Ipo, Kto, Orpo, Sft, SimPo
from paribus.algorithms.preference import Answers, log_odds
from paribus.batch import Role, Scores, Totals
from paribus.errors import ConfigError, DataError
from paribus.part import load, replace
from preferences import F, data_batch, loss_of, pair_of, spread

DPO, KTO = CATALOG["dpo"], CATALOG["kto"]
H, BETA, E = 3.0, 0.1, 0.1
MEANS = (-2.0, -2.75)


def sig(x):
    return 1 / (1 + math.exp(-x))


LOG_ODDS = 0.8293507237548245
PAIRS = {  # loss, dloss/dS(good), dloss/dS(bad), in closed form
    "dpo": (Dpo(), 0.5543552444685271, -0.0425557483188341, 0.0425557483188341),
    "cdpo": (Dpo(label_smoothing=E), 0.5843552444685272, *(s * BETA * (sig(0.3) - 0.9) for s in (1, -1))),
    "robust": (
        Dpo(label_smoothing=E, robust=True),
        0.5168552444685272,
        *(s * BETA * (0.9 * sig(-0.3) + 0.1 * sig(0.3)) / 0.8 for s in (-1, 1)),
    ),
    "ipo_sum": (Ipo(), 4.0, -4.0, 4.0),
    "ipo_mean": (Ipo(over="mean"), 18.9225, 2 * (0.65 - 5) / 5, -2 * (0.65 - 5) / 4),
    "hinge": (Hinge(), 0.7, -BETA, BETA),
    "orpo": (
        Orpo(coef=0.1),
        2.036209298609108,
        (-1 - 0.1 * sig(-LOG_ODDS) / (1 - math.exp(-2.0))) / 5,
        0.1 * sig(-LOG_ODDS) / (1 - math.exp(-2.75)) / 4,
    ),
    "simpo": (SimPo(), 0.4740769841801067, -2 * sig(-0.5) / 5, 2 * sig(-0.5) / 4),
    "simpo_nll": (SimPo(nll=0.5), 0.4740769841801067 + 1.0, -2 * sig(-0.5) / 5 - 0.1, 2 * sig(-0.5) / 4),
}


@pytest.mark.parametrize(("objective", "loss", "good", "bad"), PAIRS.values(), ids=PAIRS)
def test_e28_pairs(objective, loss, good, bad, close):
    batch, logp = pair_of()
    logp.requires_grad_()
    found = loss_of(replace(DPO, objective=objective), batch, logp)
    found.value.backward()
    close(found.value, loss)
    close(logp.grad, torch.tensor([[good], [bad]]).where(batch.mask, torch.tensor(0.0)))


@pytest.mark.parametrize("objective", [row[0] for row in PAIRS.values()], ids=PAIRS)
def test_gradients_are_the_slopes_of_the_loss(objective):
    random = torch.Generator().manual_seed(0)
    logp = (-1 - 9 * torch.rand(2, 6, generator=random, dtype=F)).requires_grad_()
    ref, length = -5 * torch.rand(2, 6, generator=random, dtype=F), torch.tensor([[1.0] * 6, [3.0] * 6], dtype=F)

    def loss(logp):
        good, bad = (Answers(logp[i], length[i], logp[i] - ref[i]) for i in (0, 1))
        return objective.per_pair(good, bad)

    assert torch.autograd.gradcheck(loss, (logp,))


def test_e28_kto(close):
    good, bad = pair_of()[0], pair_of()
    mask = torch.cat([good.mask, torch.ones(2, 5, dtype=torch.bool)])
    ref = torch.cat([good.ref_logp, torch.zeros(2, 5, dtype=F)])
    old = torch.cat([torch.full((2, 5), 3.0, dtype=F), torch.stack([spread(x, 5, 5) for x in (0.5, -0.3)])])
    role = [Role.GOOD, Role.BAD, Role.MISMATCHED, Role.MISMATCHED]
    batch = data_batch(mask, role, [0, 1, 2, 3], ref_logp=ref, old_logp=old)
    logp = torch.cat([bad[1], torch.full((2, 5), 9.0, dtype=F)]).requires_grad_()
    found = loss_of(KTO, batch, logp)
    found.value.backward()
    close(found.value, 0.4625850387561585)
    close(logp.grad[:2].sum(1) / torch.tensor([5, 4]), [-0.05 * sig(0.19) * sig(-0.19), 0.05 * sig(0.11) * sig(-0.11)])
    assert not logp.grad[2:].any(), "mismatched rows are measured, never trained"
    assert found.stats["z0"].value == pytest.approx(0.1) and found.stats["z0"].count == 2
    sides = Answers(torch.zeros(2, dtype=F), torch.ones(2), torch.tensor([2.0, -1.0], dtype=F))
    each = Kto().per_answer(sides, torch.tensor([True, False]), torch.full((2,), 0.1, dtype=F))
    close(each, [0.45264238185691064, 0.4725276956554063])
    weighed = Kto(desirable=2.0, undesirable=0.5)
    close(weighed.per_answer(sides, torch.tensor([True, False]), torch.full((2,), 0.1, dtype=F)) / each, [2.0, 0.5])


def test_z0_is_measured_before_the_step_and_carries_no_gradient(close):
    mask = torch.ones(3, 2, dtype=torch.bool)
    old = torch.tensor([[9.0, 9.0], [0.4, 0.2], [9.0, 9.0]], dtype=F).requires_grad_()
    batch = data_batch(mask, [Role.GOOD, Role.MISMATCHED, Role.BAD], [0, 1, 2], ref_logp=torch.zeros(3, 2, dtype=F),
                       old_logp=old)  # fmt: skip
    signal, _ = KTO.signal(batch, {})
    assert not signal.advantage.requires_grad
    close(signal.advantage, [[0.6, 0.6], [0.0, 0.0], [0.6, 0.6]])
    with torch.no_grad():
        old[1] = -5.0
    assert not KTO.signal(batch, {})[0].advantage.any(), "an estimate below 0 is held at 0"
    with pytest.raises(DataError, match="prompts_per_step to 2"):
        KTO.signal(data_batch(mask, [1, 1, 2], [0, 1, 2], ref_logp=old.detach(), old_logp=old.detach()), {})


def test_what_is_recorded_of_a_pair():
    stats = {name: stat.value for name, stat in loss_of(DPO, *pair_of()).stats.items()}
    assert stats == pytest.approx(
        {
            "policy_loss": 0.5543552444685271,
            "implicit_reward_good": 0.2,
            "implicit_reward_bad": -0.1,
            "implicit_margin": 0.3,
            "implicit_accuracy": 1.0,
            "logp_good": -10.0,
            "logp_bad": -11.0,
        }
    )
    swapped = loss_of(DPO, *pair_of((-11.0, -10.0, 4), (-10.0, -12.0, 5))).stats
    assert (swapped["implicit_accuracy"].value, swapped["implicit_margin"].value) == (0.0, pytest.approx(-0.3))


@pytest.mark.parametrize("name", ["dpo", "cdpo", "robust_dpo", "hinge", "ipo"])
def test_a_pair_of_equal_answers_teaches_nothing(name):
    """h = 0 whatever the model thinks of the answer; the rows' gradients cancel token by token."""
    batch, logp = pair_of((-7.0, -4.0, 5), (-7.0, -4.0, 5))
    logp.requires_grad_()
    found = loss_of(CATALOG[name], batch, logp)
    found.value.backward()
    expected = {"hinge": 1.0, "ipo": 25.0}.get(name, math.log(2))
    assert found.value.item() == pytest.approx(expected, abs=1e-12)
    assert logp.grad[0].any() and not (logp.grad[0] + logp.grad[1]).any()


@pytest.mark.parametrize("name", ["dpo", "cdpo", "robust_dpo", "hinge", "ipo"])
def test_a_shared_beginning_gets_no_net_gradient(name):
    batch, logp = pair_of()
    logp.requires_grad_()
    loss_of(CATALOG[name], batch, logp).value.backward()
    assert logp.grad[0, :3].any() and not (logp.grad[0, :3] + logp.grad[1, :3]).any()


def at_logit(objective, logit):
    ratio = torch.tensor([logit / objective.beta], dtype=F, requires_grad=True)
    zero, one = torch.zeros(1, dtype=F), torch.ones(1, dtype=F)
    loss = objective.per_pair(Answers(zero, one, ratio), Answers(zero, one, zero))
    loss.sum().backward()
    return loss.item(), ratio.grad.item()


@pytest.mark.parametrize("e", [0.1, 0.3])
def test_conservative_dpo_stops_at_the_log_odds_of_its_labels(e):
    best = math.log((1 - e) / e)
    assert at_logit(Dpo(label_smoothing=e), best)[1] == pytest.approx(0, abs=1e-12)
    assert at_logit(Dpo(label_smoothing=e), best - 1)[1] < 0 < at_logit(Dpo(label_smoothing=e), best + 1)[1]
    assert at_logit(Dpo(label_smoothing=e, robust=True), best + 20)[1] < 0, "robust DPO never stops"


@pytest.mark.parametrize("logit", [-3.0, 0.4, 2.0])
def test_robust_dpo_has_the_clean_loss_under_flips(logit):
    e, clean = 0.2, at_logit(Dpo(), logit)[0]
    robust = Dpo(label_smoothing=e, robust=True)
    assert (1 - e) * at_logit(robust, logit)[0] + e * at_logit(robust, -logit)[0] == pytest.approx(clean)
    assert at_logit(robust, 8.0)[0] < 0, "it may be negative"


def test_robust_dpo_needs_more_right_labels_than_wrong_ones():
    with pytest.raises(ConfigError, match="with half of the labels flipped nothing is left"):
        load(Dpo, {"label_smoothing": 0.5, "robust": True})
    assert at_logit(Dpo(label_smoothing=0.5), 0.0)[1] == 0


def test_extreme_log_ratios_stay_finite():
    for objective in (Dpo(beta=1.0), Dpo(beta=1.0, label_smoothing=0.1, robust=True), Hinge(beta=1.0), Ipo(beta=1.0)):
        for logit in (-1e4, 1e4):
            assert all(map(math.isfinite, at_logit(objective, logit)))
    assert at_logit(Dpo(beta=1.0), -1e4) == (1e4, -1.0) and at_logit(Dpo(beta=1.0), 1e4) == (0.0, 0.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_odds_of_a_certain_answer_are_finite_with_their_gradient(dtype):
    logp = torch.tensor([0.0, -1e-8, -1e-3, -math.log(2), -50.0, -1e4], dtype=dtype, requires_grad=True)
    odds = log_odds(logp, -1e-8)
    odds.sum().backward()
    expected = [18.420681, 18.420681, 6.907255, 0.0, -50.0, -1e4]
    torch.testing.assert_close(odds.detach(), torch.tensor(expected, dtype=dtype), rtol=1e-5, atol=1e-5)
    slope = torch.tensor([0.0, 1e8, 1 / (1 - math.exp(-1e-3)), 2.0, 1.0, 1.0], dtype=dtype)
    torch.testing.assert_close(logp.grad, slope, rtol=1e-4, atol=0)


@pytest.mark.parametrize("certain", [0.0, -1e-8])
def test_orpo_still_learns_from_a_certain_answer(certain):
    for good, bad in ((certain, -3.0), (-3.0, certain), (certain, certain)):
        logp = torch.tensor([good, bad], requires_grad=True)
        sides = [Answers(logp[i : i + 1], torch.ones(1)) for i in (0, 1)]
        loss = Orpo().per_pair(*sides)
        loss.sum().backward()
        assert loss.isfinite().all() and logp.grad.isfinite().all() and logp.grad[0] <= -1


def test_sft_is_the_mean_over_tokens_or_over_answers(close):
    mask = torch.tensor([[False, True, True, True, True], [False, True, False, False, False]])
    logp = torch.tensor([[7.0, -1, -2, -4, -5], [7.0, -2, 7, 7, 7]], dtype=F)
    batch = data_batch(mask, [Role.GOOD, Role.GOOD], [0, 1])
    close(loss_of(CATALOG["sft"], batch, logp).value, 14 / 5)
    by_answer = replace(CATALOG["sft"], objective=Sft(aggregate={"type": "sequence_mean_token_mean"}))
    close(loss_of(by_answer, batch, logp).value, (12 / 4 + 2) / 2)


def test_e27_reward_model(close):
    good, bad = (torch.tensor(x, dtype=F, requires_grad=True) for x in ([1.2, -0.1], [0.3, 0.4]))
    plain = BradleyTerry()
    close(plain.per_pair(good, bad), [0.34115387, 0.97407698])
    value, stats = plain(good, bad, 2)
    close(value, 0.6576154294560973)
    assert stats["accuracy"].value == 0.5 and stats["score_margin"].value == pytest.approx(0.2)
    value.backward()
    close(good.grad, [-sig(-0.9) / 2, -sig(0.5) / 2])
    close(bad.grad, [sig(-0.9) / 2, sig(0.5) / 2])
    close(BradleyTerry(centre=0.01)(good, bad, 2)[0], 0.6693154294560973)
    margin = torch.full((2,), 0.5, dtype=F)
    close(BradleyTerry(margin=True)(good, bad, 2, margin)[0], 0.9131384699590877)
    with pytest.raises(ValueError, match="needs margin"):
        BradleyTerry(margin=True)(good, bad, 2)


def test_a_reward_models_loss_is_the_sum_of_its_shares(close):
    random = torch.Generator().manual_seed(3)
    good, bad = torch.randn(2, 9, generator=random, dtype=F)
    loss = BradleyTerry(centre=0.05)
    whole, stats = loss(good, bad, 9)
    parts = [loss(a, b, 9) for a, b in zip(good.split(2), bad.split(2), strict=True)]
    close(sum(value for value, _ in parts), whole, 1e-12)
    merged = parts[0][1]["loss"]
    for _, counted in parts[1:]:
        merged = merged.merge(counted["loss"])
    assert merged.row() == pytest.approx(stats["loss"].row()) and merged.value == pytest.approx(whole.item())


def test_scores_are_needed_with_their_reference():
    batch, logp = pair_of()
    total = Totals.of(batch.mask, 9)
    with pytest.raises(ValueError, match="needs logp"):
        DPO.loss(Scores(), batch, DPO.signal(batch, {})[0], total)
    bare = data_batch(batch.mask, batch.role, batch.unit)
    with pytest.raises(ValueError, match="needs ref_logp"):
        loss_of(DPO, bare, logp)
    assert loss_of(CATALOG["simpo"], bare, logp).value.isfinite()
