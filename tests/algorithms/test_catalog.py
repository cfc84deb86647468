"""The catalogue: every entry round-trips, is sourced slot by slot, and the verl flavours give verl's numbers."""

from __future__ import annotations

import json
import tomllib

import pytest
import torch

from paribus.algorithms import CATALOG, All, Critic, Gae, Kl, Whiten, find
from paribus.algorithms.cards import CARDS
from paribus.algorithms.catalog import DAPO_NO_RESAMPLING, DR_GRPO, GRPO, VERL_05_GRPO, VERL_05_PPO
from paribus.batch import Scores, Totals
from paribus.errors import ConfigError
from paribus.part import diff, dump, load, to_toml

F = torch.float64
entries = pytest.mark.parametrize("entry", CATALOG.values(), ids=CATALOG)


@entries
def test_an_entry_survives_toml_and_json(entry):
    assert load(type(entry), tomllib.loads(to_toml(entry))) == entry
    assert load(type(entry), json.loads(json.dumps(dump(entry)))) == entry


@entries
def test_an_entry_is_sourced_slot_by_slot(entry):
    card = CARDS[entry.name]
    assert card.title and entry.paper
    in_use = {name for name, part in entry.slots.items() if part != All()}
    assert set(card.sources) == in_use, "a slot without source, or a source without slot"
    assert set(card.declared) <= set(type(entry).model_fields)


def test_names_and_lookup():
    assert set(CARDS) == set(CATALOG) and all(name == entry.name for name, entry in CATALOG.items())
    assert find("grpo") is GRPO
    with pytest.raises(ConfigError, match="unknown method 'grop'; did you mean 'grpo'"):
        find("grop")


def test_what_sets_the_variants_of_grpo_apart():
    def paths(other):
        return {d.path.split(".")[0] for d in diff(GRPO, other)} - {"name", "paper"}

    assert paths(DR_GRPO) == {"advantage", "aggregate", "kl"}
    assert paths(DAPO_NO_RESAMPLING) == {"surrogate", "aggregate", "kl", "shaping", "keep"}


def test_the_founding_experiment_is_declared_in_full():
    assert VERL_05_PPO.advantage == Gae(gamma=1.0, lam=1.0) and VERL_05_PPO.whiten == Whiten(eps=1e-8, ddof=1)
    assert VERL_05_PPO.critic == Critic(lr=1e-5, clip=0.5, warmup=0, head="normal", head_std=0.02)
    for arm in (VERL_05_PPO, VERL_05_GRPO):
        assert arm.kl == Kl(coef=0.001, estimator="k3", floor=-20.0, ceiling=20.0, clamp=10.0)
        assert (arm.surrogate.low, arm.surrogate.high, arm.surrogate.dual, arm.ratio.clamp) == (0.2, 0.2, 3.0, 20.0)
        assert arm.aggregate.type == "token_mean"
        assert len(CARDS[arm.name].deviations) == 1 and "micro-batch" in CARDS[arm.name].deviations[0]
    assert (VERL_05_GRPO.advantage.eps, VERL_05_GRPO.advantage.ddof, VERL_05_GRPO.whiten) == (1e-6, 1, None)


# Captured from the functions of the verl 0.5.0 wheel (core_algos.py) on the tensors of `captured`, one micro-batch:
# compute_gae_advantage_return / compute_grpo_outcome_advantage, compute_policy_loss, kl_penalty, compute_value_loss.
VERL_GAE = [
    [0.9629889176, 0.2951561706, 0.1327259323, 0.5986221686, 1.3402638964],
    [-0.3350071441, -0.5095820139, -1.1827445178, 0, 0],
    [-1.5197651710, 0, 0, 0, 0],
    [0.2777149215, 0.1397082698, 0.6247439990, 1.3657567391, 0],
    [1.6032501799, 0.9200005794, 0, 0, 0],
    [-0.7530644415, -0.3270054983, -0.5377044563, -1.2257085446, -1.8703499857],
]
VERL_PPO_GRADIENT = [
    [0.0000002435, -0.0098127814, 0.0000223035, 0.0000470514, -0.0683708578],
    [0.0189464456, 0, 0.0000450159, 0, 0],
    [-0.0000406544, 0, 0, 0, 0],
    [0.0000238488, -0.0059503246, -0.0319210506, -0.0772624876, 0],
    [0.0000293028, -0.0284322976, 0, 0, 0],
    [-0.0000117259, 0.0271357891, -0.0000203262, 0.0825055255, 0.0793240269],
]
VERL_GRPO_GRADIENT = [
    [0.0000002435, -0.0382587984, 0.0000223035, 0.0000470514, -0.0589035109],
    [0.0326615630, 0, 0.0000450159, 0, 0],
    [-0.0000406544, 0, 0, 0, 0],
    [0.0000238488, -0.0245305435, -0.0295017338, -0.0326665931, 0],
    [0.0000293028, -0.0178482785, 0, 0, 0],
    [-0.0000117259, 0.0957409476, -0.0000203262, 0.0777253242, 0.0489563382],
]
VERL_VALUE_GRADIENT = [
    [-0.0250000000, 0.0167662206, -0.0403022325, 0.0037929894, -0.0260492619],
    [-0.0251914285, 0.0425740587, 0.0119637784, 0, 0],
    [0, 0, 0, 0, 0],
    [-0.0069122497, -0.0330839524, 0.0174308219, -0.0530190609, 0],
    [0, -0.0563006517, 0, 0, 0],
    [0.0437531500, 0.0014285080, -0.0131842990, 0.0613440386, 0.0182162295],
]


def captured(make_mask):
    t = torch.arange(30, dtype=F).reshape(6, 5)
    old = -1.5 + torch.sin(1.7 * t)
    new = old + 0.6 * torch.sin(2.9 * t + 1) + 2.5 * (t == 3) + 2.0 * (t == 7)  # t = 7 reaches the dual clip
    ref = old + 0.5 * torch.cos(1.1 * t) + 6.0 * (t == 6)  # t = 6 reaches the clamp of k3
    values = 0.5 + 0.4 * torch.sin(0.9 * t)
    score, group = torch.tensor([1, 0, 0, 1, 1, 0], dtype=F), torch.tensor([0, 0, 0, 1, 1, 1])
    return score, make_mask([5, 3, 1, 4, 2, 5]), group, old, new, ref, values, values + 0.7 * torch.sin(2.3 * t)


@pytest.mark.parametrize(
    ("entry", "loss", "gradient"),
    [(VERL_05_PPO, None, VERL_PPO_GRADIENT), (VERL_05_GRPO, 0.0023196691009970834, VERL_GRPO_GRADIENT)],
    ids=["ppo", "grpo"],
)
def test_the_policy_update_is_verls(entry, loss, gradient, make_batch, make_mask, close):
    score, mask, group, old, new, ref, values, _ = captured(make_mask)
    batch = make_batch(entry, score, mask, group, old=old, ref=ref, values=values)
    signal, _ = entry.signal(batch, {})
    new = new.requires_grad_()
    found = entry.loss(Scores(new), batch, signal, Totals.of(mask, 5))
    found.value.backward()
    close(new.grad, gradient, 1e-8)
    if loss is not None:
        close(found.value, loss, 1e-8)
    else:
        close(signal.advantage, VERL_GAE, 1e-8)
    stats = {name: stat.value for name, stat in found.stats.items()}
    assert stats["clip_low"] + stats["clip_high"] == pytest.approx(0.45)
    assert stats["clip_dual"] == pytest.approx(0.05)
    assert stats["approx_kl"] == pytest.approx(-0.21168160197102417)
    assert stats["kl_loss"] == pytest.approx(0.001 * 0.7671612967771203)


def test_the_critic_update_is_verls(make_batch, make_mask, close):
    score, mask, group, old, _, ref, values, new = captured(make_mask)
    batch = make_batch(VERL_05_PPO, score, mask, group, old=old, ref=ref, values=values)
    signal, _ = VERL_05_PPO.signal(batch, {})
    new = new.requires_grad_()
    found = VERL_05_PPO.loss(Scores(values=new), batch, signal, Totals.of(mask, 5))
    found.value.backward()
    close(found.value, 0.1971921829554315, 1e-8)
    close(new.grad, VERL_VALUE_GRADIENT, 1e-8)
    assert found.stats["value_clip"].value == pytest.approx(0.1)
