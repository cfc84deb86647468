"""Reward models on random little trunks, and the scores that they must give."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from paribus.models.hf import hidden_states, save_model
from paribus.models.reward import RewardModel, make_reward_model
from paribus.settings import ModelSpec
from toymodels import FAMILIES, tokenizer

TEMPLATE = (
    "{% for m in messages %}<turn>{{ m['role'][0] }}{{ m['content'] }}<eos>{% endfor %}"
    "{% if add_generation_prompt %}<turn>a{% endif %}"
)


def reward_model(folder: Path, family: str = "llama") -> RewardModel:
    """A reward model on a toy trunk, with a head that has an opinion."""
    save_model(FAMILIES[family](), tokenizer(template=TEMPLATE), folder)
    model = make_reward_model(ModelSpec(path=str(folder)))
    torch.manual_seed(1)
    torch.nn.init.normal_(model.head.weight)
    return model


def oracle(model: RewardModel, row: Sequence[int]) -> float:
    """The head on the last hidden state of the row all by itself."""
    with torch.no_grad():
        hidden = hidden_states(model.model.base_model, torch.tensor([[*row]]))[0, -1]
        return float(model.head.weight[0] @ hidden)
