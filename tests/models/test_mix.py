"""Neighbour-mixed embeddings: the reference's worked example, cosine lists against brute force, gradients to E."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from paribus.batch import Mix
from paribus.models.mix import NearestTokens, embed, mix_weights


def test_e24_the_mixed_embedding_of_n_grpo() -> None:
    """E24 (paper, section 3): anchor 0, cosines [1, .99388373, 0, -1], so C = {0, 1}; temperature .7."""
    table = torch.tensor([[1, 0], [0.9, 0.1], [0, 1], [-1, 0]], dtype=torch.float64)
    logits = torch.tensor([[2, 1, 0.5, -1]], dtype=torch.float64)
    anchor = logits.argmax(-1)
    assert anchor.tolist() == [0]
    assert F.cosine_similarity(table[:1], table).tolist() == pytest.approx([1, 0.99388373, 0, -1], abs=1e-8)
    assert NearestTokens(table, 4)(anchor).tolist() == [[0, 1, 2, 3]]
    ids = NearestTokens(table, 2)(anchor)
    assert ids.tolist() == [[0, 1]]
    weight = mix_weights(logits, ids, 0.7)
    assert weight[0].tolist() == pytest.approx([0.80667863, 0.19332137], abs=1e-8)
    embedding = torch.nn.Embedding.from_pretrained(table)
    assert embed(embedding, anchor, Mix(ids, weight))[0].tolist() == pytest.approx([0.98066786, 0.01933214], abs=1e-8)


@pytest.mark.parametrize("at_once", [1 << 24, 100])
def test_nearest_tokens_are_those_of_the_cosine(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is computed at once, and in whatever company a token is first asked for; a row of zeros is like none."""
    monkeypatch.setattr("paribus.models.mix.ELEMENTS_AT_ONCE", at_once)
    table = torch.randn(60, 8, generator=torch.Generator().manual_seed(0)) * torch.linspace(0.1, 9, 60)[:, None]
    table[5] = 0
    expected = F.cosine_similarity(table[:, None], table[None], dim=-1)
    expected.fill_diagonal_(2.0)
    nearest = NearestTokens(table, 4)
    for asked in ([7], [7, 3, 7, 59], list(range(60)), []):
        anchors = torch.tensor(asked, dtype=torch.long)
        assert torch.equal(nearest(anchors), expected[anchors].topk(4).indices)


def test_half_precision_tables_are_compared_in_float32() -> None:
    table = torch.randn(300, 64, generator=torch.Generator().manual_seed(1)).bfloat16()
    wide = NearestTokens(table.float(), 5)(torch.arange(300))
    assert torch.equal(NearestTokens(table, 5)(torch.arange(300)), wide)


def test_gradients_reach_every_embedding_by_its_weight() -> None:
    """Two positions: token 4 unmixed, token 1 read as 3/4 E[1] + 1/4 E[6]; nothing reaches the others."""
    embedding = torch.nn.Embedding(8, 3)
    mix = Mix(torch.tensor([[[0, 0], [1, 6]]]), torch.tensor([[[0.0, 0.0], [0.75, 0.25]]]))
    read = embed(embedding, torch.tensor([[4, 1]]), mix)
    assert torch.equal(read[0, 0], embedding.weight[4])
    assert torch.allclose(read[0, 1], 0.75 * embedding.weight[1] + 0.25 * embedding.weight[6])
    read.sum().backward()
    assert embedding.weight.grad is not None
    assert embedding.weight.grad[:, 0].tolist() == [0, 0.75, 0, 0, 1, 0, 0.25, 0]
