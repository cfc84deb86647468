"""KL estimators: values, gradients, what each of them is in expectation, and huge differences."""

from __future__ import annotations

import math

import pytest
import torch

from paribus.algorithms import Kl, SequenceMeanTokenMean, TokenMean
from paribus.batch import Totals

F = torch.float64
PI, REF = torch.tensor([0.5, 0.5], dtype=F), torch.tensor([0.6, 0.4], dtype=F)


def estimate(estimator, logp, ref, **fields):
    logp = torch.as_tensor(logp, dtype=F).clone().requires_grad_()
    value = Kl(coef=1.0, estimator=estimator, **fields).estimate(logp, torch.as_tensor(ref, dtype=F))
    (gradient,) = torch.autograd.grad(value.sum(), logp)
    return value.detach(), gradient


@pytest.mark.parametrize(
    ("estimator", "value", "gradient"),
    [
        ("k1", -0.1823215568, 1),
        ("k2", 0.0166205750, -0.18232156),
        ("k3", 0.0176784432, -0.2),
        ("abs", 0.1823215568, -1),
    ],
)
def test_e14_values_and_gradients(close, estimator, value, gradient):
    v, g = estimate(estimator, [math.log(0.5)], [math.log(0.6)])
    close(v, [value], 1e-9)
    close(g, [gradient], 1e-8)


def test_e14_k3_of_the_example(example, close):
    value = Kl(coef=1.0).estimate(example.new, example.ref)
    expected = torch.tensor(
        [
            [0.10089243, 0.02685645, 0, 0],
            [0.01565489, 0.01395166, 0.01565489, 0.30685282],
            [0.0057506, 0.02429612, 0.01767844, 0],
            [0.0057506, 0, 0, 0],
        ],
        dtype=F,
    )
    close(value * example.mask, expected)
    total = Totals.of(example.mask, 8)
    close(SequenceMeanTokenMean()(value, example.mask, total), 0.043390496375404125, 1e-12)
    close(TokenMean()(value, example.mask, total), 0.0533338890280264, 1e-12)


def expectation(estimator, how):
    """Exact expected gradient with respect to two logits, tokens drawn from PI."""
    logits = PI.log().clone().requires_grad_()
    logp = logits.log_softmax(0)
    if how == "loss":
        value = (PI * Kl(coef=1.0, estimator=estimator).estimate(logp, REF.log())).sum()
    else:  # in the reward: a detached cost times the score function
        value = (PI * Kl(coef=1.0, estimator=estimator).estimate(logp, REF.log()).detach() * logp).sum()
    return torch.autograd.grad(value, logits)[0]


def test_e14_what_each_estimator_descends(close):
    logits = PI.log().clone().requires_grad_()
    logp = logits.log_softmax(0)
    reverse = (logp.exp() * (logp - REF.log())).sum()
    close(reverse, 0.0204109973, 1e-9)
    true = torch.autograd.grad(reverse, logits)[0]
    close(true, [-0.10136628, 0.10136628])
    close(expectation("k1", "loss"), [0, 0], 1e-12)
    close(expectation("k2", "loss"), true, 1e-12)
    close(expectation("k1", "reward"), true, 1e-12)
    close(expectation("k3", "loss"), PI - REF, 1e-12)  # the forward KL's


@pytest.mark.parametrize(("estimator", "mean"), [("k1", 0.0204109973), ("k3", 0.0204109973), ("k2", 0.0207585486)])
def test_e14_expected_values(close, estimator, mean):
    close((PI * Kl(coef=1.0, estimator=estimator).estimate(PI.log(), REF.log())).sum(), mean, 1e-9)


def descent(drawn, **fields):
    """Exact expected gradient with respect to the logits of PI, and the values; tokens drawn from `drawn`."""
    logits = PI.log().clone().requires_grad_()
    logp = logits.log_softmax(0)
    value = Kl(coef=1.0, ceiling=None, **fields).penalty(logp, REF.log(), logp - drawn.log())
    return torch.autograd.grad((drawn * value).sum(), logits)[0], value.detach()


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3", "abs"])
def test_straight_through_keeps_the_value_and_descends_the_reverse_kl(close, estimator):
    gradient, value = descent(PI, estimator=estimator, straight_through=True)
    close(gradient, [-0.10136628, 0.10136628])
    close(value, Kl(coef=1.0, estimator=estimator).estimate(PI.log(), REF.log()), 1e-12)


@pytest.mark.parametrize("estimator", ["k1", "k3"])
@pytest.mark.parametrize("drawn", [[0.5, 0.5], [0.8, 0.2]])
def test_the_ratio_makes_an_unbiased_estimate_descend_what_it_estimates(close, estimator, drawn):
    """On-policy and off it: k1 and k3 estimate the reverse KL, and with the ratio their gradient is its gradient."""
    gradient, _ = descent(torch.tensor(drawn, dtype=F), estimator=estimator, unbiased=True)
    close(gradient, [-0.10136628, 0.10136628])


def test_k3_is_never_negative_and_zero_only_at_equality():
    d = torch.cat([torch.linspace(-30, 20, 2001, dtype=F), torch.logspace(-6, 1, 50, dtype=F)])
    value = Kl(coef=1.0).estimate(torch.zeros_like(d), d)
    assert (value[d != 0] > 0).all()
    assert not Kl(coef=1.0).estimate(d, d).any()


def test_small_differences_keep_their_digits(close):
    d = torch.tensor([1e-4, 1e-3], dtype=torch.float32)
    close(Kl(coef=1.0).estimate(torch.zeros(2), d) / (d * d / 2), [1 + 1e-4 / 3, 1 + 1e-3 / 3], 1e-3)


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3", "abs"])
@pytest.mark.parametrize("d", [-1000.0, -200.0, 100.0, 1000.0])
def test_huge_differences_stay_finite_and_have_no_gradient_beyond_the_bounds(estimator, d):
    value, gradient = estimate(estimator, [0.0], [d])
    assert value.isfinite().all() and gradient.isfinite().all()
    assert (gradient == 0).all() == (d > 20), "the ceiling, and only it, cuts the gradient"
    value, gradient = estimate(estimator, [0.0], [d], floor=-20.0, ceiling=20.0, clamp=10.0)
    assert value.abs().item() <= 10 and gradient.item() == 0


def test_the_clamp_of_the_estimate_also_stops_the_gradient(close):
    value, gradient = estimate("k3", [0.0] * 3, [2.5, 2.6, 3.0], clamp=10.0)
    close(value, [math.exp(2.5) - 3.5, math.exp(2.6) - 3.6, 10.0])
    close(gradient, [1 - math.exp(2.5), 1 - math.exp(2.6), 0])
