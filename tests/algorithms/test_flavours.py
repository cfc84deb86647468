"""Flavours: what sets each apart from the entry of its paper, and numbers of the libraries' own functions."""

from __future__ import annotations

import pytest
import torch

from paribus.algorithms import CATALOG, find
from paribus.algorithms.cards import CARDS
from paribus.batch import Role, Scores, Totals
from paribus.part import diff
from preferences import data_batch, loss_of

F = torch.float64
LENGTHS = [4, 2, 3, 1, 3, 2]
APART = {
    "verl_05_ppo": {"advantage", "surrogate", "shaping", "kl", "critic"},
    "verl_05_grpo": {"surrogate", "aggregate", "kl"},
    "verl_ppo": {"advantage", "surrogate", "shaping", "critic"},
    "verl_grpo": {"surrogate", "aggregate", "kl"},
    "verl_dr_grpo": {"surrogate"},
    "verl_rloo": {"surrogate", "aggregate", "shaping"},
    "verl_remax": {"surrogate", "aggregate", "shaping"},
    "verl_reinforce_pp": {"whiten", "surrogate", "shaping"},
    "verl_reinforce_pp_baseline": {"whiten", "surrogate", "kl"},
    "verl_gspo": {"ratio", "surrogate", "aggregate"},
    "verl_cispo": {"surrogate"},
    "verl_sapo": set(),
    "verl_gmpo": {"ratio", "surrogate"},
    "verl_dppo_tv": {"advantage", "surrogate", "aggregate", "old"},
    "verl_dppo_kl": {"advantage", "surrogate", "aggregate", "old"},
    "trl_grpo": {"advantage", "ratio", "aggregate", "kl"},
    "trl_dr_grpo": {"advantage", "ratio"},
    "trl_bnpo": {"advantage", "ratio", "aggregate"},
    "trl_gspo": {"advantage", "ratio", "surrogate", "aggregate"},
    "trl_cispo": {"advantage", "ratio"},
    "trl_sapo": {"advantage", "ratio"},
    "trl_gmpo": {"advantage", "ratio"},
    "trl_rloo": {"ratio", "surrogate", "aggregate", "shaping"},
    "trl_dpo": set(),
    "trl_ipo": {"objective"},
    "trl_kto": set(),
    "trl_orpo": set(),
    "trl_simpo": {"objective"},
    "openrlhf_ppo": {"advantage", "whiten", "shaping", "critic"},
    "openrlhf_reinforce": {"shaping"},
    "openrlhf_reinforce_baseline": {"shaping", "kl"},
    "openrlhf_rloo": {"surrogate", "aggregate", "shaping"},
    "openrlhf_group_norm": {"advantage", "aggregate", "shaping", "kl"},
    "openrlhf_dr_grpo": {"aggregate", "shaping"},
    "openrlhf_dpo": set(),
    "nemo_rl_grpo": {"ratio", "aggregate", "kl"},
    "prime_rl_grpo": {"advantage", "ratio", "surrogate", "aggregate", "kl", "old"},
    "open_instruct_grpo": {"advantage", "ratio", "surrogate", "aggregate", "shaping", "correction", "kl", "keep"},
}


def test_every_flavour_is_told_apart_from_the_entry_of_its_paper_by_these_slots():
    found = {
        name: {row.path.split(".")[0] for row in diff(find(card.flavour_of), CATALOG[name])} - {"name", "paper"}
        for name, card in CARDS.items()
        if card.flavour_of
    }
    assert found == APART


def test_a_flavour_that_is_declared_as_its_origin_says_where_the_library_departs():
    assert [name for name, slots in APART.items() if not (slots or CARDS[name].deviations)] == []


# Captured from the libraries' own functions on the tensors of `captured`, one micro-batch, at their default settings:
# verl 0.9.1 compute_advantage, ppo_loss (actor.yaml), value_loss; TRL 1.16.0 _generate_and_score_completions and
# _compute_loss (GRPOTrainer, RLOOTrainer, DPOTrainer), CPOTrainer.get_batch_loss_metrics; OpenRLHF 0.11.2
# compute_approx_kl, compute_advantages_and_returns, PolicyLoss, ValueLoss. Rows end with their last token; one number
# alone is that of each token of a row.
ADVANTAGE = {
    "verl_ppo": [
        [0.9655732498, 0.3881600729, 0.2477216767, 0.6505390395],
        [-0.5510551112, -0.1566838316],
        [-1.46228567, -1.5921840215, -1.181034463],
        [1.6886500366],
        [0.2537586579, 0.6731241689, 1.3138093139],
        [-0.323675208, -0.9144179114],
    ],
    "verl_reinforce_pp_baseline": [
        1.1832159341,
        -0.7888106226,
        -0.7888106226,
        0.5258737485,
        0.5258737485,
        -1.4461528081,
    ],
    "verl_gspo": [1.1546985384, -0.5773492692, -0.5773492692, 0.5773492692, 0.5773492692, -1.1546985384],
    "verl_dppo_tv": [1.1546985384, -0.5773492692, -0.5773492692, 0.5773492692, 0.5773492692, -1.1546985384],
    "trl_dr_grpo": [1.154500573, -0.5772502865, -0.5772502865, 0.5772502865, 0.5772502865, -1.154500573],
    "trl_rloo": [1.0131219004, -0.467238537, -0.5458833634, 0.5146439479, 0.5551446586, -1.0697886065],
    "openrlhf_ppo": [
        [0.9954691289, 0.3908660181, 0.2418166593, 0.6625660908],
        [-0.5626592475, -0.1532848147],
        [-1.5217282585, -1.6479045287, -1.2157120885],
        [1.7495181709],
        [0.2809142678, 0.710131803, 1.3610587863],
        [-0.345851667, -0.9452002044],
    ],
}
GRADIENT = {
    "verl_ppo": [
        [0, -0.0196536122, 0, -0.0389020465],
        [0.0372344289, 0],
        [0, 0, 0],
        [-0.0770920185],
        [-0.0151695078, -0.0454987061, -0.0950948886],
        [0.0278375428, 0],
    ],
    "verl_reinforce_pp_baseline": [
        [0, -0.0599094774, 0, -0.0707559708],
        [0.0532994114, 0],
        [0, 0, 0],
        [-0.0240077387],
        [-0.0314363498, -0.0355455594, -0.0380632905],
        [0.1243757313, 0],
    ],
    "verl_gspo": [
        [-0.0799299109, -0.0799299109, -0.0799299109, -0.0799299109],
        [0.0854913591, 0.0854913591],
        [0, 0, 0],
        [-0.026357753],
        [-0.0383234908, -0.0383234908, -0.0383234908],
        [0.0744663023, 0.0744663023],
    ],
    "verl_dppo_tv": [
        [-0.1077843828, -0.0584655632, -0.0938023325, -0.0690506388],
        [0.0390111078, 0.1154698538],
        [0.0279130665, 0.0159485885, 0.0259243985],
        [-0.026357753],
        [-0.034513519, -0.0390249614, -0.0417891424],
        [0.099309336, 0.0558379544],
    ],
    "trl_dr_grpo": [
        [0, -0.0365347123, 0, -0.0431492503],
        [0.0243777622, 0.1170743388],
        [0, 0, 0],
        [-0.0164707713],
        [-0.0215672512, -0.0243864193, -0.0261137362],
        [0.0620576938, 0],
    ],
    "trl_rloo": [
        [-0.1962629583, -0.1962629583, -0.1962629583, -0.1962629583],
        [0.3841820987, 0.3841820987],
        [0, 0, 0],
        [-0.0587376601],
        [-0.0913288551, -0.0913288551, -0.0913288551],
        [0.1668443798, 0.1668443798],
    ],
    "openrlhf_ppo": [
        [0, -0.0197906217, 0, -0.0396212607],
        [0.0380185127, 0.0497412474],
        [0, 0, 0],
        [-0.0798708343],
        [-0.0167928504, -0.0480001754, -0.0985148547],
        [0.0297448193, 0],
    ],
    "trl_ipo": [
        [-0.6942532387, -0.6942532387, -0.6942532387, -0.6942532387],
        [-1.3278882704, -1.3278882704],
        [-1.2395746421, -1.2395746421, -1.2395746421],
        [2.7770129546],
        [0.8852588469, 0.8852588469, 0.8852588469],
        [1.8593619631, 1.8593619631],
    ],
}
VALUE_GRADIENT = {
    "verl_ppo": [
        [-0.0333333333, 0.0223549608, -0.05373631, 0.0050573191],
        [0.0319343175, -0.0335885713],
        [0.0342180807, 0.1040508554, 0],
        [-0.0303540331],
        [-0.0441119366, 0.0232410959, -0.0706920813],
        [0.055390463, -0.0084008689],
    ],
    "openrlhf_ppo": [
        [-0.0332925386, 0.022729089, -0.0532109831, 0.005386479],
        [0.0318005385, -0.0338247945],
        [0.0347833667, 0.1043457771, 0],
        [-0.0306226612],
        [-0.0447405708, 0.0227177096, -0.0708858552],
        [0.0558723465, -0.0082523057],
    ],
}
SIMPO = [-0.0885210416, -0.0884395467, -0.0885792801, 0.0051877083, 0.0051062134, 0.0052459468]


def captured(make_mask):
    t = torch.arange(24, dtype=F).reshape(6, 4)
    old = -2.4 + 0.6 * torch.sin(1.7 * t)
    new = old + 0.4 * torch.sin(2.9 * t + 1) + 1.5 * (t == 5) - 1.25 * (t == 9)  # t = 5 reaches verl's dual clip
    ref, values = old + 0.5 * torch.cos(1.1 * t), 0.5 + 0.4 * torch.sin(0.9 * t)
    score, group = torch.tensor([1, 0, 0, 1, 1, 0], dtype=F), torch.tensor([0, 0, 0, 1, 1, 1])
    return score, make_mask(LENGTHS), group, old, new, ref, values, values + 0.7 * torch.sin(2.3 * t)


def padded(rows):
    """Numbers of the rows' trained tokens, or one of each row, as a tensor with zeros behind."""
    rows = [row if isinstance(row, list) else [row] * n for row, n in zip(rows, LENGTHS, strict=True)]
    return torch.tensor([[*row, *[0.0] * (4 - len(row))] for row in rows], dtype=F)


@pytest.mark.parametrize("name", ADVANTAGE)
def test_a_flavour_gives_the_numbers_of_its_library(name, make_batch, make_mask, close):
    score, mask, group, old, new, ref, values, moved = captured(make_mask)
    entry = find(name)
    batch = make_batch(entry, score, mask, group, old=old, ref=ref, values=values, horizon=4)
    signal, _ = entry.signal(batch, entry.memory())
    new.requires_grad_()
    entry.loss(Scores(new), batch, signal, Totals.of(mask, 4)).value.backward()
    tolerance = 1e-6 if name.startswith("openrlhf") else 1e-8  # its KL and its whitening are in single precision
    close(signal.advantage, padded(ADVANTAGE[name]), tolerance)
    close(new.grad, padded(GRADIENT[name]), tolerance)
    if name in VALUE_GRADIENT:
        moved.requires_grad_()
        entry.loss(Scores(values=moved), batch, signal, Totals.of(mask, 4)).value.backward()
        close(moved.grad, padded(VALUE_GRADIENT[name]), tolerance)


def test_a_flavour_on_pairs_gives_the_numbers_of_its_library(make_mask, close):
    """Rows 0 to 2 are the chosen answers, 3 to 5 the rejected ones; all of one length for SimPO (see its card)."""
    _, mask, _, _, new, ref, _, _ = captured(make_mask)
    role, unit = torch.tensor([Role.GOOD, Role.BAD]).repeat_interleave(3), torch.arange(3).repeat(2)
    for name, trained in (("trl_ipo", mask), ("trl_simpo", torch.ones_like(mask))):
        logp = new.clone().requires_grad_()
        loss_of(find(name), data_batch(trained, role, unit, ref_logp=ref), logp).value.backward()
        wanted = padded(GRADIENT[name]) if name == "trl_ipo" else torch.tensor(SIMPO, dtype=F)[:, None]
        close(logp.grad, wanted, 1e-8)
