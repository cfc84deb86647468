"""Needed operations by hand, by law, and against what PyTorch counts in a real model."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from paribus.bench import flops
from paribus.bench.flops import Count, Group
from paribus.planning.shapes import ModelShape, from_config
from toymodels import llama

# one layer: queries 2x2, keys and values 2x2 each, output 2x2, MLP 3 times 2x3: 34 weights; 5 words
SHAPE = ModelShape(
    "llama", hidden=2, layers=1, heads=1, kv_heads=1, head_dim=2, intermediate=3, vocabulary=5, tied=True
)
TOKEN, KEY, WORD = 2 * 34, 4 * 2, 2 * 2 * 5  # of a token, of a key that a token sees, of the output embedding


def test_prefill_by_hand() -> None:
    # three tokens that see 1, 2 and 3 keys; the output embedding at the last one
    assert flops.prefill(SHAPE, [Group(3, (1, 4))]).flops == 3 * TOKEN + 6 * KEY + WORD
    assert flops.prefill(SHAPE, [Group(3, (1, 4))]).bytes == 4 * (34 + 10)


def test_decode_by_hand() -> None:
    # a response of 1 needs nothing more; one of 3 reads two tokens, which see 4 and 5 keys
    assert flops.decode(SHAPE, [Group(3, (1, 3))]).flops == 2 * TOKEN + 9 * KEY + 2 * WORD
    # two steps read the weights, the prompt's 3 keys and values (4 numbers each), and 1 and 2 of the response
    assert flops.decode(SHAPE, [Group(3, (1, 3))]).bytes == 4 * (2 * (34 + 10) + 4 * (2 * 3 + 1 + 2))


def test_a_critic_has_one_output_and_an_update_costs_three_forward_passes() -> None:
    groups = [Group(3, (2, 2)), Group(1, (5,))]
    policy, critic = flops.score(SHAPE, groups).flops, flops.score(SHAPE, groups, 1).flops
    states = 2 + (1 + 1) + 4  # once per prompt, then one for each further token
    assert policy - critic == states * 2 * 2 * (5 - 1)
    assert flops.update(SHAPE, groups).flops == 3 * policy
    assert flops.update(SHAPE, groups).bytes == 28 * SHAPE.parameters


def test_scoring_is_reading_the_prompts_and_decoding_at_once() -> None:
    groups = [Group(7, (3, 9, 1)), Group(2, (4,))]
    assert flops.score(SHAPE, groups).flops == (flops.prefill(SHAPE, groups) + flops.decode(SHAPE, groups)).flops
    assert Count(1, 2) + Count(3, 4) == Count(4, 6)


def test_a_prompt_shared_by_its_responses_is_counted_once() -> None:
    shared, apart = flops.score(SHAPE, [Group(6, (4, 4))]), flops.score(SHAPE, [Group(6, (4,)), Group(6, (4,))])
    assert apart.flops - shared.flops == flops.prefill(SHAPE, [Group(6, ())]).flops


@pytest.mark.parametrize("backward", [False, True])
def test_matrix_products_are_those_that_pytorch_counts(backward: bool) -> None:
    model, prompt, response = llama(), 5, 4
    shape = from_config(model.config.to_dict(), "toy")
    tokens = torch.arange(prompt + response)[None] + 4
    with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(backward):
        hidden = model.base_model(tokens[:, :-1]).last_hidden_state
        logits = model.lm_head(hidden[:, prompt - 1 :])
        if backward:
            logits.sum().backward()
    products = sum(
        n
        for op, n in counter.get_flop_counts()["Global"].items()
        if "mm" in str(op) and "b" not in str(op).split(".")[1]
    )
    keys = sum(range(1, prompt + response))
    needed = flops.score(shape, [Group(prompt, (response,))]).flops - 4 * shape.layers * shape.query * keys
    assert products == needed * (3 if backward else 1)
