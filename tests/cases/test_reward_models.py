"""Family f: the cases of reward models, f19 and f20."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSequenceClassification

from paribus.training.comparisons import Comparison
from paribus.training.reward_model import pair_scores
from toymodels import EOS, FAMILIES
from toyrewards import oracle, reward_model


@pytest.mark.parametrize("family", FAMILIES)
def test_f19_a_score_depends_on_nothing_but_its_row(tmp_path: Path, cases: dict[str, Any], family: str) -> None:
    """Alone, padded to 5, 8 and 16 on the right by its company, and padded on the left by plain transformers."""
    model = reward_model(tmp_path / "lm", family)
    model.save(tmp_path / "rm")
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path / "rm")
    case = cases["f19"]["input"]
    row = (*range(5, 4 + case["row_len"]), EOS)
    alone = oracle(model, row)
    for width in case["pad_to"]:
        company = (*range(4, 3 + width), EOS)
        assert model.scores([row, company]).tolist()[0] == pytest.approx(alone, abs=1e-5)
        left = width - len(row)
        mask = torch.tensor([[0] * left + [1] * len(row)])
        with torch.no_grad():
            found = plain(
                input_ids=torch.tensor([[model.tokenizer.pad_token_id] * left + [*row]]),
                attention_mask=mask,
                position_ids=(mask.cumsum(1) - 1).clamp(min=0),
            ).logits
        assert float(found) == pytest.approx(alone, abs=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_f20_each_side_of_a_pair_is_scored_at_its_own_end(tmp_path: Path, cases: dict[str, Any], family: str) -> None:
    """The very scores that the two texts have in use: not at the longer one's end, nor where the two part."""
    model = reward_model(tmp_path, family)
    case = cases["f20"]
    lengths = case["input"]["chosen_len"], case["input"]["rejected_len"]
    good, bad = ((*range(4, 3 + length), EOS) for length in lengths)
    assert [len(good) - 1, len(bad) - 1] == case["expected"]["index"]
    for rows, pair in (((good, bad), (0, 1)), ((bad, good), (1, 0))):
        in_training = pair_scores(model, [Comparison(rows, (pair,))])[:2]
        assert [float(s.detach()) for s in in_training] == pytest.approx(
            [oracle(model, good), oracle(model, bad)], abs=1e-5
        )
        in_use = model.score([good, bad], micro_tokens=1)
        assert [float(s.detach()) for s in in_training] == pytest.approx(in_use, abs=1e-5)
