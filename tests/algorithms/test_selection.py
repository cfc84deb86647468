"""Which tokens the policy learns from: one threshold for the whole step."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from paribus.algorithms import TopEntropy
from paribus.algorithms.catalog import GRPO_ENTROPY
from paribus.batch import Scores, Totals
from paribus.part import replace

F = torch.float64


@given(st.integers(1, 60), st.floats(0.01, 1), st.integers(0, 2**31))
@settings(max_examples=60, deadline=None)
def test_the_threshold_is_the_quantile_and_the_share_is_selected(n, share, seed):
    entropy = torch.rand(1, n, dtype=F, generator=torch.Generator().manual_seed(seed))
    part, mask = TopEntropy(share=share), torch.ones(1, n, dtype=torch.bool)
    torch.testing.assert_close(part.threshold(entropy[0]), torch.quantile(entropy[0], 1 - share), rtol=0, atol=1e-8)
    chosen = part(entropy, mask)
    assert chosen[0, entropy.argmax()] and abs(int(chosen.sum()) - share * n) <= 1 + 1e-9


def test_equal_entropies_are_all_selected_and_none_of_none():
    mask = torch.tensor([[True, True, False]])
    assert torch.equal(TopEntropy()(torch.full((1, 3), 0.3), mask), mask)
    assert not TopEntropy()(torch.full((1, 3), 0.3), torch.zeros_like(mask)).any()


def test_only_the_policys_gradient_is_taken_from_the_others(example, make_batch, close):
    """Denominators and the KL term stay as they are."""
    entropy = torch.tensor([[0.9, 0.1, 7, 7], [0.2, 0.8, 0.3, 0.7], [0.1, 0.2, 0.3, 7], [0.6, 7, 7, 7]], dtype=F)
    chosen = torch.tensor([[1, 0, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0]]).bool()
    algorithm = replace(GRPO_ENTROPY, kl=None, **{"select.share": 1 / 3})
    batch = make_batch(
        algorithm, example.score, example.mask, example.group, old=example.old, ref=example.ref, old_entropy=entropy
    )
    assert torch.equal(algorithm.select(entropy, batch.mask), chosen)
    signal, _ = algorithm.signal(batch, {})
    whole, _ = replace(algorithm, select=None).signal(batch, {})
    close(signal.advantage, whole.advantage.where(chosen, 0), 0)

    def gradient(method, credit):
        logp = example.old.clone().requires_grad_()
        method.loss(Scores(logp), batch, credit, Totals.of(batch.mask, 8)).value.backward()
        return logp.grad

    close(gradient(algorithm, signal), gradient(algorithm, whole).where(chosen, 0), 1e-12)
    kl = replace(algorithm, kl=GRPO_ENTROPY.kl)
    still = gradient(kl, signal) - gradient(algorithm, signal)
    close(still, gradient(kl, whole) - gradient(algorithm, whole), 1e-12)
    assert still[2, 1] != 0, "the KL acts on tokens that were not selected"


def test_the_old_entropy_is_asked_for(example, make_batch):
    batch = make_batch(GRPO_ENTROPY, example.score, example.mask, example.group, old=example.old, ref=example.ref)
    with pytest.raises(ValueError, match="needs old_entropy"):
        GRPO_ENTROPY.signal(batch, {})
