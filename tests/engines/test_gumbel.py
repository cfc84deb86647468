"""Gumbel-max draws: the right distribution, independent noise, the same draw whatever the batch looks like."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import chi2, kstest

from paribus.engines.gumbel import draw, gumbel, happens, keep_top_p
from paribus.types import Key


def keys(n: int, seed: int = 0) -> torch.Tensor:
    return torch.tensor([Key(seed, "sample", 3, f"problem-{i // 8}", i % 8).hash() for i in range(n)])


def chi_square(counts: torch.Tensor, p: torch.Tensor) -> float:
    """The p-value of observed counts under probabilities."""
    expected = p * counts.sum()
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return float(chi2.sf(statistic, len(p) - 1))


def test_frequencies_are_those_of_the_softmax() -> None:
    logp = torch.tensor([2.0, 1.0, 0.0, -1.0, -3.0, 0.5]).log_softmax(0)
    rows, positions = 400, 100
    k = keys(rows).repeat_interleave(positions)
    t = torch.arange(positions).repeat(rows)
    drawn = draw(logp.expand(rows * positions, -1), k, t)
    assert chi_square(drawn.bincount(minlength=6).double(), logp.exp().double()) > 1e-3


def test_rare_tokens_keep_their_probability() -> None:
    """Small uniforms have full relative precision: 1,000 tokens of mass 1e-6 each are drawn as often as they should."""
    logp = torch.full((1001,), math.log(1e-6))
    logp[0] = math.log(1 - 1e-3)
    n = 200_000
    k, t = keys(2000).repeat_interleave(100), torch.arange(100).repeat(2000)
    rare = int((draw(logp.expand(n, -1), k, t) != 0).sum())
    assert abs(rare - 200) < 4 * math.sqrt(200)


def test_noise_is_standard_gumbel() -> None:
    noise = gumbel(keys(50), torch.arange(50), torch.arange(400)).flatten().double().numpy()
    assert kstest(noise, "gumbel_r").pvalue > 1e-3
    assert abs(noise.mean() - 0.5772157) < 0.03
    assert abs(noise.var() - math.pi**2 / 6) < 0.06


@pytest.mark.parametrize("shift", ["position", "token", "key"])
def test_neighbours_are_independent(shift: str) -> None:
    """Draws of neighbouring positions, tokens and rows fall into a 4 x 4 table with independent margins."""
    k, t = keys(4000), torch.arange(4000) % 50
    first = gumbel(k, t, torch.arange(8))
    second = {"position": gumbel(k, t + 1, torch.arange(8)), "token": first.roll(1, 1), "key": first.roll(1, 0)}[shift]
    quantiles = -torch.log(-torch.log(torch.tensor([0.25, 0.5, 0.75])))
    cell = torch.bucketize(first, quantiles) * 4 + torch.bucketize(second, quantiles)
    assert chi_square(cell.flatten().bincount(minlength=16).double(), torch.full((16,), 1 / 16).double()) > 1e-3


def test_a_draw_does_not_depend_on_its_batch() -> None:
    torch.manual_seed(0)
    logp, k, t = torch.randn(64, 300).log_softmax(-1), keys(64), torch.arange(64)
    together = draw(logp, k, t)
    alone = torch.cat([draw(logp[i : i + 1], k[i : i + 1], t[i : i + 1]) for i in range(64)])
    backwards = draw(logp.flip(0), k.flip(0), t.flip(0)).flip(0)
    assert torch.equal(together, alone)
    assert torch.equal(together, backwards)


def test_draws_ignore_the_constant_of_the_log_probs() -> None:
    torch.manual_seed(1)
    logits = torch.randn(200, 50)
    t = torch.arange(200)
    assert torch.equal(draw(logits, keys(200), t), draw(logits.log_softmax(-1), keys(200), t))


def test_rounding_noise_flips_almost_no_draw() -> None:
    torch.manual_seed(2)
    logp = torch.randn(20_000, 64).log_softmax(-1)
    k, t = keys(20_000), torch.arange(20_000) % 64
    noisy = logp + 1e-6 * torch.randn_like(logp)
    assert int((draw(logp, k, t) != draw(noisy, k, t)).sum()) <= 3


def test_another_seed_step_or_sample_draws_anew() -> None:
    one = [Key(0, "sample", 0, "p", 0), Key(1, "sample", 0, "p", 0), Key(0, "sample", 1, "p", 0),
           Key(0, "sample", 0, "q", 0), Key(0, "sample", 0, "p", 1), Key(0, "sample", 0, "p", 0, 1),
           Key(0, "eval", 0, "p", 0)]  # fmt: skip
    noise = gumbel(torch.tensor([key.hash() for key in one]), torch.zeros(7, dtype=torch.long), torch.arange(1000))
    correlation = torch.corrcoef(noise) - torch.eye(7)
    assert correlation.abs().max() < 0.13


@pytest.mark.parametrize("vocabulary", [1, 2, 5, 37, 64])
def test_two_stages_draw_from_the_softmax_of_any_vocabulary(vocabulary: int) -> None:
    """Whole blocks, a ragged last block, impossible tokens, a block without any mass."""
    torch.manual_seed(3)
    logp = torch.randn(vocabulary)
    logp[vocabulary // 3 : vocabulary // 2] = -torch.inf
    k, t = keys(1000).repeat_interleave(50), torch.arange(50).repeat(1000)
    counts = draw(logp.expand(len(k), -1), k, t).bincount(minlength=vocabulary)
    possible = logp.isfinite()
    assert int(counts[~possible].sum()) == 0
    assert possible.sum() == 1 or chi_square(counts[possible].double(), logp.softmax(0)[possible].double()) > 1e-3


def test_top_p_keeps_the_smallest_likeliest_set() -> None:
    """b31's numbers: of .5 .3 .15 .05, top-p .8 keeps two; the token that crosses the bound is kept."""
    logp = torch.tensor([[0.05, 0.5, 0.15, 0.3]]).log()
    assert keep_top_p(logp, 0.79).isfinite().tolist() == [[False, True, False, True]]
    assert keep_top_p(logp, 0.81).isfinite().tolist() == [[False, True, True, True]]
    assert keep_top_p(logp, 0.01).isfinite().tolist() == [[False, True, False, False]]
    assert keep_top_p(logp, 1.0) is logp


def test_top_p_renormalises_what_it_keeps() -> None:
    logp = torch.tensor([0.5, 0.15, 0.05, 0.3]).log()
    k, t = keys(400).repeat_interleave(50), torch.arange(50).repeat(400)
    cut = draw(keep_top_p(logp.expand(len(k), -1), 0.79), k, t).bincount(minlength=4)
    assert cut[1:3].sum() == 0
    assert chi_square(cut[[0, 3]].double(), torch.tensor([0.625, 0.375]).double()) > 1e-3


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_events_happen_at_their_rate_whatever_is_drawn(rate: float) -> None:
    """Neither the noise of the first token or the last, nor the event of the next position, tells of an event."""
    k, t = keys(8000), torch.arange(8000) % 50
    event = happens(k, t, rate)
    assert chi_square(torch.stack((event.sum(), (~event).sum())), torch.tensor([rate, 1 - rate]).double()) > 1e-3
    noise = gumbel(k, t, torch.arange(8))
    median = -math.log(math.log(2))
    for other, p in ((noise[:, 0] > median, 0.5), (noise[:, -1] > median, 0.5), (happens(k, t + 1, rate), rate)):
        cell = (event * 2 + other.long()).bincount(minlength=4)
        expected = torch.tensor([(1 - rate) * (1 - p), (1 - rate) * p, rate * (1 - p), rate * p])
        assert chi_square(cell, expected.double()) > 1e-3
    assert happens(k, t, 1.0).all() and not happens(k, t, 0.0).any()
