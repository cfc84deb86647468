"""Expected gradients, by enumerating every outcome of a tiny problem, against the gradient of the true objective."""

from __future__ import annotations

import itertools

import pytest
import torch

from paribus.algorithms import CATALOG, KlInReward, OutcomeAtEnd
from paribus.batch import Scores, Totals
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


def expected_gradient(algorithm, make_batch, group_size=2):
    """Minus the loss's gradient, averaged over every group that the policy can draw, each with its probability."""
    theta = THETA.clone().requires_grad_()
    logp = policy(theta)
    old, mask = logp.detach(), torch.ones(group_size, 2, dtype=torch.bool)
    total, group = Totals.of(mask, 2), torch.zeros(group_size, dtype=torch.long)
    loss = torch.zeros((), dtype=F)
    for drawn in itertools.product(range(9), repeat=group_size):
        rows = torch.tensor(drawn)
        batch = make_batch(algorithm, REWARD[rows], mask, group, old=old[rows], ref=REFERENCE[rows])
        signal, _ = algorithm.signal(batch, {})
        probability = old[rows].sum().exp()
        loss = loss + probability * algorithm.loss(Scores(logp[rows]), batch, signal, total).value
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


def test_a_standard_deviation_changes_the_direction(make_batch):
    found, true = expected_gradient(replace(CATALOG["grpo"], kl=None), make_batch), true_gradient(0.0)
    cosine = (found * true).sum() / (found.norm() * true.norm())
    assert 0.5 < float(cosine) < 0.999
