"""Expected gradients, by enumerating every outcome of a tiny problem, against the gradient of the true objective."""

from __future__ import annotations

import itertools

import pytest
import torch

from batches import ONLINE
from paribus import tensors
from paribus.algorithms import CATALOG, FixedBaseline, Kl, KlInReward, OutcomeAtEnd
from paribus.algorithms.catalog import REINFORCE
from paribus.batch import Scores, TopK, Totals
from paribus.part import replace

F = torch.float64
SEQUENCES = list(itertools.product(range(3), repeat=2))  # two tokens, three choices each, the second given the first
REWARD = torch.tensor([1.0, 0.0, 0.3, 0.2, 0.9, 0.0, 0.5, 0.5, 1.0], dtype=F)


def policy(theta):
    """Log-probs `[9, 2]` of both tokens of every sequence."""
    first, second = theta[0].log_softmax(0), theta[1:].log_softmax(1)
    return torch.stack([torch.stack([first[a], second[a, b]]) for a, b in SEQUENCES])


THETA = torch.tensor([[0.3, -0.2, 0.1], [0.0, 0.5, -0.4], [0.2, 0.2, -0.1], [-0.3, 0.1, 0.6]], dtype=F)
REFERENCE = policy(torch.zeros(4, 3, dtype=F))


def true_gradient(beta):
    """Of E[R] - beta KL(policy, reference), exactly."""
    theta = THETA.clone().requires_grad_()
    logp = policy(theta).sum(1)
    objective = (logp.exp() * (REWARD - beta * (logp - REFERENCE.sum(1)))).sum()
    return torch.autograd.grad(objective, theta)[0]


def shaped(algorithm, make_batch, rows, values=None):
    """The batch of sequences `rows` of one prompt, drawn from the policy; a row is one step, with the row's score."""
    old, end = policy(THETA)[rows], torch.tensor([False, True]).expand(len(rows), 2)
    return make_batch(
        algorithm, REWARD[rows], torch.ones(len(rows), 2, dtype=torch.bool), torch.zeros(len(rows)).long(),
        old=old, sampled_logp=old, ref=REFERENCE[rows], values=values, greedy_score=torch.full((len(rows),), 0.4).to(F),
        step_end=end, step_score=tensors.keep(REWARD[rows, None], end), old_entropy=torch.ones_like(old),
        topk=TopK(torch.zeros(len(rows), 2, 1).long(), old[..., None]),
    )  # fmt: skip


def expected_gradient(algorithm, make_batch, values=None):
    """Minus the loss's gradient, averaged over every group of two that the policy can draw, with its probability."""
    theta = THETA.clone().requires_grad_()
    logp = policy(theta)
    old, loss = logp.detach(), torch.zeros((), dtype=F)
    for first, second in itertools.combinations_with_replacement(range(9), 2):
        rows = torch.tensor([first, second])
        batch = shaped(algorithm, make_batch, rows, None if values is None else values[rows])
        signal, _ = algorithm.signal(batch, algorithm.memory())
        scores, total = Scores(logp[rows], topk_logp=old[rows][..., None]), Totals.of(batch.mask, 2)
        probability = old[rows].sum().exp() * (1 if first == second else 2)  # in either order
        loss = loss + probability * algorithm.loss(scores, batch, signal, total).value
    return -torch.autograd.grad(loss, theta)[0]


@pytest.mark.parametrize("beta", [0.0, 0.4])
def test_rloo_is_unbiased_kl_in_the_reward_included(make_batch, beta):
    algorithm = replace(CATALOG["rloo"], shaping=(OutcomeAtEnd(), KlInReward(coef=beta, ceiling=None)))
    torch.testing.assert_close(expected_gradient(algorithm, make_batch), true_gradient(beta), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "factor"), [("reinforce", 1.0), ("reinforce_ema", 1.0), ("reinforce_batch", 0.5), ("dr_grpo", 0.25)]
)
def test_a_baseline_leaves_the_direction_and_the_row_itself_in_it_shrinks_it(make_batch, name, factor):
    """The batch mean of two rows halves the gradient; Dr. GRPO divides by the limit of two tokens on top."""
    found = expected_gradient(CATALOG[name], make_batch)
    torch.testing.assert_close(found, factor * true_gradient(0.0), rtol=0, atol=1e-12)


def bare(algorithm):
    """The method without what theory does not cover: whitening, the terms beside the policy loss, an eps."""
    changes = {"whiten": None, "kl": None, "entropy": 0.0, "imitation": 0.0}
    return replace(
        algorithm, **changes, **({"advantage.eps": 0.0} if "eps" in type(algorithm.advantage).model_fields else {})
    )


def theory(algorithm, reward, probability):
    """What the method credits a sequence with, up to a baseline: its return, or how it compares with another one."""
    kind = algorithm.advantage.type
    if kind in ("group_z_score", "group_mean_batch_std", "group_step_z_score"):
        # of two rows, (R - mean)/std is the sign of R - R' times a constant: the chance to win less that to lose
        sign = torch.sign((reward[:, None] - reward[None]) * ((reward[:, None] - reward[None]).abs() > 1e-9))
        return (sign * probability).sum(1) * (0.5**0.5 if algorithm.advantage.ddof else 1.0)
    return reward * (0.5 if kind in ("group_mean", "batch_baseline", "bnpo") else 1.0)  # half of it is the row's own


def exact_values(reward, logp):
    """Of the states before both tokens, for these token rewards."""
    chance = logp.exp()
    second = (chance[:, 1] * reward[:, 1]).reshape(3, 3).sum(1).repeat_interleave(3)
    first = (logp.sum(1).exp() * reward.sum(1)).sum().expand(9)
    return torch.stack([first, second], 1)


@pytest.mark.parametrize("name", ONLINE)
def test_the_expected_gradient_is_that_of_what_is_credited(make_batch, name):
    """Every method, first update of a step: unbiased up to a declared constant, given exact values if it has a critic.

    A sum over tokens counts a row of two once, a mean or the constant length half. At ratio 1 no trust region acts.
    """
    algorithm = bare(ONLINE[name])
    theta = THETA.clone().requires_grad_()
    logp = policy(theta)
    values = torch.zeros(9, 2, dtype=F)
    reward = shaped(algorithm, make_batch, torch.arange(9), values).reward
    values = exact_values(reward, logp.detach())
    objective = logp.sum(1).exp() * theory(algorithm, reward.sum(1), logp.detach().sum(1).exp())
    product = algorithm.ratio.type == "sequence_ratio" and not algorithm.ratio.normalise
    whole = algorithm.aggregate.type == "sequence_mean_token_sum" or product
    (true,) = torch.autograd.grad(objective.sum() * (1.0 if whole else 0.5), theta)
    assert true.norm() > 0.01
    torch.testing.assert_close(expected_gradient(algorithm, make_batch, values), true, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["reinforce_pp", "remax", "ppo"])
def test_a_kl_in_the_reward_of_each_token_is_the_reverse_kl(make_batch, name):
    entry = bare(CATALOG[name])
    algorithm = replace(entry, shaping=(OutcomeAtEnd(), KlInReward(coef=0.4, ceiling=None)))
    logp = policy(THETA)
    values = exact_values(shaped(algorithm, make_batch, torch.arange(9)).reward, logp)
    found = expected_gradient(algorithm, make_batch, values)
    half = 1.0 if name == "remax" else 0.5  # a sum over two tokens, or their mean
    torch.testing.assert_close(found, half * true_gradient(0.4), rtol=0, atol=1e-12)


def test_wrong_values_bias_a_lambda_below_one_and_only_that(make_batch):
    wrong = torch.linspace(-1, 1, 18, dtype=F).reshape(9, 2)
    wrong[:, 0] = 0.3  # a value may depend on what has been said, not on what will be
    wrong[:, 1] = wrong[:, 1].reshape(3, 3)[:, :1].expand(3, 3).flatten()
    for lam, biased in ((1.0, False), (0.5, True)):
        algorithm = replace(bare(CATALOG["ppo"]), shaping=(OutcomeAtEnd(),), **{"advantage.lam": lam})
        found = expected_gradient(algorithm, make_batch, wrong)
        assert (float((found - 0.5 * true_gradient(0.0)).norm()) > 1e-3) is biased


E14 = {
    ("loss", "k1"): [0.0, 0.0],
    ("loss", "k2"): [-0.10136628, 0.10136628],
    ("loss", "k3"): [-0.1, 0.1],
    ("reward", "k1"): [-0.10136628, 0.10136628],
}


@pytest.mark.parametrize(("placement", "estimator"), E14)
def test_e14_through_a_whole_method(make_batch, close, placement, estimator):
    """Two tokens, policy (.5, .5), reference (.6, .4), no reward: the gradient of the KL term alone, exactly."""
    logits = torch.zeros(2, dtype=F, requires_grad=True)
    logp, ref = logits.log_softmax(0)[:, None], torch.tensor([[0.6], [0.4]], dtype=F).log()
    algorithm = replace(REINFORCE, advantage=FixedBaseline(value=0.0))
    if placement == "loss":
        algorithm = replace(algorithm, kl=Kl(coef=1.0, estimator=estimator))
    else:
        algorithm = replace(algorithm, shaping=(OutcomeAtEnd(), KlInReward(coef=1.0, estimator=estimator)))
    mask, score = torch.ones(2, 1, dtype=torch.bool), torch.zeros(2, dtype=F)  # each token once: equal chances
    batch = make_batch(algorithm, score, mask, torch.arange(2), old=logp.detach(), ref=ref)
    signal, _ = algorithm.signal(batch, algorithm.memory())
    algorithm.loss(Scores(logp), batch, signal, Totals.of(mask, 1)).value.backward()
    close(logits.grad, E14[placement, estimator])


def test_a_standard_deviation_changes_the_direction(make_batch):
    found, true = expected_gradient(replace(CATALOG["grpo"], kl=None), make_batch), true_gradient(0.0)
    cosine = (found * true).sum() / (found.norm() * true.norm())
    assert 0.5 < float(cosine) < 0.999
