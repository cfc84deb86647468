"""Corrections of the engine's mismatch: worked numbers, no-ops, and what an engine may report."""

from __future__ import annotations

import pytest
import torch

from paribus.algorithms import (
    GeometricMask,
    MaskedSequence,
    MaskedToken,
    TokenMean,
    TruncatedSequence,
    TruncatedToken,
)
from paribus.algorithms.catalog import GRPO
from paribus.batch import Scores, Totals
from paribus.errors import ConfigError
from paribus.part import load, replace

F = torch.float64
PLAIN = replace(GRPO, kl=None, aggregate=TokenMean(), **{"advantage.eps": 0.0})
ALL = [TruncatedToken(), TruncatedSequence(), MaskedToken(), MaskedSequence(), GeometricMask()]
RHO = [[1.25, 1], [0.8, 1, 1.2, 6], [1, 1, 0.8], [1]]


@pytest.fixture(scope="module")
def sampled(example):
    """The engine's log-probs of the worked example; junk in the padding."""
    out = torch.full(example.mask.shape, 7.0, dtype=F)
    p = [[0.4, 0.4], [0.25, 0.9, 0.5, 0.05], [0.25, 0.8, 0.625], [0.7]]
    out[example.mask] = torch.tensor([x for row in p for x in row], dtype=F).log()
    return out


def row_of(values):
    """Log-probs of the learner and of the engine whose ratios are `values`."""
    rho = torch.tensor([values], dtype=F)
    return torch.zeros_like(rho), -rho.log(), torch.ones_like(rho, dtype=torch.bool)


@pytest.mark.parametrize(
    ("correction", "loss", "touched"),
    [
        (None, 0.0725, 0),
        (TruncatedToken(high=2.0), 0.0525, 0.1),
        (TruncatedToken(low=0.5, high=5.0), 0.1725, 0.1),
        (MaskedToken(low=0.5, high=5.0), -0.0275, 0.1),
        (TruncatedSequence(high=2.0), 0.1675, 0.4),
        (MaskedSequence(high=3.0), -0.2475, 0.4),
        (GeometricMask(low=0.999, high=1.002), 0.045, 0.9),
    ],
)
def test_e25_weights_the_loss_before_it_is_aggregated(example, sampled, make_batch, close, correction, loss, touched):
    algorithm = replace(PLAIN, correction=correction)
    batch = make_batch(
        algorithm, example.score, example.mask, example.group, old=example.old, sampled_logp=sampled
    )  # fmt: skip
    signal, _ = algorithm.signal(batch, {})
    logp = example.new.clone().requires_grad_()
    found = algorithm.loss(Scores(logp), batch, signal, Totals.of(batch.mask, 8))
    close(found.value, loss, 1e-12)
    if correction is None:
        assert "mismatch_corrected" not in found.stats
        return
    assert found.stats["mismatch_corrected"].value == pytest.approx(touched)
    assert found.stats["mismatch_deviation"].value == pytest.approx(5.0)
    # the weight is a constant of the update: the gradient is the uncorrected one, token by token
    found.value.backward()
    plain = example.new.clone().requires_grad_()
    PLAIN.loss(Scores(plain), batch, signal, Totals.of(batch.mask, 8)).value.backward()
    weight, _ = correction(example.old, sampled, example.mask)
    close(logp.grad, plain.grad * weight * example.mask, 1e-12)


def test_e25_ratios_products_and_geometric_means(example, sampled, close):
    rho, _ = TruncatedToken(high=99.0)(example.old, sampled, example.mask)
    close(rho[example.mask], [x for row in RHO for x in row], 1e-12)
    close(TruncatedSequence(high=99.0)(example.old, sampled, example.mask)[0][:, 0], [1.25, 5.76, 0.8, 1], 1e-12)
    mask = torch.ones(1, 4, dtype=torch.bool)
    old, engine, _ = row_of(RHO[1])
    for high, weight in ((1.5491, 0.0), (1.5494, 1.0)):
        found, _ = GeometricMask(low=None, high=high)(old, engine, mask)
        close(found, weight * torch.tensor([RHO[1]], dtype=F), 1e-12)  # each token keeps its own ratio


@pytest.mark.parametrize("correction", ALL, ids=lambda c: c.type)
def test_where_the_engine_agrees_nothing_happens(correction):
    logp = -torch.rand(3, 5, dtype=F)
    mask = torch.arange(5)[None] < torch.tensor([[5], [2], [0]])
    weight, stats = correction(logp, torch.where(mask, logp, float("nan")), mask)
    assert torch.equal(weight[mask], torch.ones(7, dtype=F)) and weight.isfinite().all()
    assert stats["mismatch_corrected"].value == 0 and stats["mismatch_deviation"].value == 0


@pytest.mark.parametrize("kind", [type(c) for c in ALL])
def test_a_bound_that_would_correct_equal_engines_is_refused(kind):
    with pytest.raises(ConfigError, match="high: "):
        load(kind, {"high": 0.9})
    with pytest.raises(ConfigError, match="low: "):
        load(kind, {"low": 1.5, "high": 2.0})


@pytest.mark.parametrize(
    ("correction", "weight"),
    [
        (TruncatedToken(), [2.0, 1.0]),
        (TruncatedSequence(), [2.0, 2.0]),
        (MaskedToken(), [0.0, 1.0]),
        (MaskedSequence(), [0.0, 0.0]),
        (GeometricMask(), [0.0, 0.0]),
    ],
    ids=lambda x: getattr(x, "type", ""),
)
@pytest.mark.parametrize("dtype", [torch.float32, F])
def test_a_token_that_the_engine_left_out_gives_a_finite_weight(close, correction, weight, dtype):
    old, engine = torch.tensor([[-1.0, -1.0]], dtype=dtype), torch.tensor([[-float("inf"), -1.0]], dtype=dtype)
    found, stats = correction(old, engine, torch.ones(1, 2, dtype=torch.bool))
    close(found, [weight])
    assert torch.isfinite(torch.as_tensor(stats["mismatch_deviation"].value))


def test_the_log_of_a_product_is_held_before_it_is_exponentiated(close):
    old, engine, mask = row_of([1e8] * 100)
    assert TruncatedSequence(high=1e9)(old, engine, mask)[0].max() == pytest.approx(torch.tensor(20.0, dtype=F).exp())
    old, engine, mask = row_of([1e-8] * 100)
    close(TruncatedSequence()(old, engine, mask)[0], torch.tensor(-20.0, dtype=F).exp(), 1e-15)


def test_a_ratio_on_the_bound_is_inside(close):
    close(MaskedToken(low=0.5, high=2.0)(*row_of([0.5, 2.0, 0.25, 4.0]))[0], [[0.5, 2.0, 0, 0]], 1e-12)
    close(MaskedToken(low=None, high=2.0)(*row_of([0.01, 4.0]))[0], [[0.01, 0]], 1e-12)
