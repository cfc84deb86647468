"""A method as a value: what may be combined, what it needs, and how its loss is put together."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError

from batches import ONLINE
from paribus.algorithms import (
    CATALOG,
    All,
    Clip,
    Critic,
    DropUniform,
    Gae,
    Gmpo,
    GroupMean,
    Kl,
    KlInReward,
    MissingEos,
    Need,
    OutcomeAtEnd,
    Refill,
    Reinforce,
    SequenceMeanTokenMean,
    SequenceRatio,
    StepRewards,
    TokenMean,
    TopEntropy,
    TruncatedToken,
)
from paribus.algorithms.catalog import GRPO, PPO, REINFORCE, RLOO, VERL_05_PPO
from paribus.batch import Mix, Scores, TopK, Totals
from paribus.errors import ConfigError
from paribus.part import load, replace
from paribus.types import Stop

F = torch.float64
PLAIN_GRPO = replace(GRPO, kl=None, **{"advantage.eps": 0.0})


def loss_of(algorithm, batch, new, horizon=8, entropy=None, values=None):
    signal, _ = algorithm.signal(batch, algorithm.memory())
    total = Totals.of(batch.mask, horizon)
    return algorithm.loss(Scores(new, entropy, values), batch, signal, total)


def test_e12_grpo_from_scores_to_loss(example, make_batch, close):
    batch = make_batch(GRPO, example.score, example.mask, example.group, old=example.old, ref=example.ref)
    close(loss_of(PLAIN_GRPO, batch, example.new).value, -0.0453125, 1e-12)
    close(loss_of(replace(PLAIN_GRPO, kl=Kl(coef=0.04)), batch, example.new).value, -0.04357688014498386, 1e-12)
    tokens = replace(PLAIN_GRPO, aggregate=TokenMean())
    close(loss_of(tokens, batch, example.new).value, 0.0725, 1e-12)
    close(loss_of(replace(tokens, kl=Kl(coef=0.04)), batch, example.new).value, 0.07463335556112104, 1e-12)


def test_e1_reinforce_from_scores_to_loss(example, make_batch, close):
    algorithm = CATALOG["reinforce_batch"]
    batch = make_batch(algorithm, example.score, example.mask, example.group)
    close(loss_of(algorithm, batch, example.old).value, -0.07878394723839569, 1e-12)


def test_e4_rloo_takes_the_baseline_after_the_kl(example, make_batch, close):
    algorithm = replace(RLOO, shaping=(OutcomeAtEnd(), KlInReward(coef=0.05)))
    batch = make_batch(algorithm, example.score, example.mask, example.group, old=example.old, ref=example.ref)
    close(batch.reward.sum(1), [1, 0.0020411, 0.00243951, 0])
    signal, _ = algorithm.signal(batch, {})
    close(signal.advantage[:, 0], [0.99850646, -0.3321054, -0.33157419, -0.33482687])
    clipped = replace(
        algorithm,
        shaping=(OutcomeAtEnd(),),
        surrogate=Clip(),
        ratio=SequenceRatio(normalise=False),
        aggregate=SequenceMeanTokenMean(),
    )
    batch = make_batch(clipped, example.score, example.mask, example.group, old=example.old)
    close(loss_of(clipped, batch, example.new).value, -0.07583333333333335, 1e-12)


def test_e26_uniform_groups_are_left_out_and_what_a_refill_keeps_is_the_same(make_batch):
    score = torch.tensor([1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0], dtype=F)
    group, scored = torch.arange(16) // 4, torch.ones(16, dtype=torch.bool)
    for part, rounds in ((DropUniform(), 0), (Refill(rounds=9), 9)):
        assert part.rounds == rounds
        assert part(score, group, scored)[::4].tolist() == [True, False, False, True]
    dapo = CATALOG["dapo"]
    assert All().rounds == 0 and dapo.keep == Refill(rounds=9) and Need.GROUP in dapo.needs
    batch = make_batch(dapo, score, torch.ones(16, 1, dtype=torch.bool), group, old=score[:, None])
    assert Totals.of(batch.mask, 8).sequences == 8


def test_e16_dapo(example, make_batch, close):
    algorithm = replace(CATALOG["dapo"], **{"advantage.eps": 0.0})
    batch = make_batch(algorithm, example.score, example.mask, example.group, old=example.old, horizon=20)
    close(batch.reward.sum(1), [1, -1, -1, -1], 1e-12)
    close(loss_of(algorithm, batch, example.new).value, 0.0605, 1e-12)


def test_e11_imitation_is_the_likelihood_of_the_right_responses_alone(example, make_batch, close):
    batch = make_batch(PLAIN_GRPO, example.score, example.mask, example.group, old=example.old)
    signal, _ = PLAIN_GRPO.signal(batch, {})
    found = []
    for algorithm in (PLAIN_GRPO, replace(PLAIN_GRPO, imitation=0.1)):
        logp = example.new.clone().requires_grad_()
        loss = algorithm.loss(Scores(logp), batch, signal, Totals.of(batch.mask, 8, batch.score))
        found.append((loss, torch.autograd.grad(loss.value, logp)[0]))
    (without, plain), (with_it, gradient) = found
    close(with_it.value - without.value, 0.1 * 0.6735368239833046, 1e-12)
    assert with_it.stats["imitation_loss"].value == pytest.approx(0.06735368239833046)
    close(gradient - plain, [[-0.05, -0.05, 0, 0]] + [[0] * 4] * 3, 1e-12)


def test_a_mixed_step_trains_unless_the_exploration_says_otherwise(example, make_batch):
    weight = torch.zeros(*example.mask.shape, 3)
    weight[1, 2] = torch.tensor([0.5, 0.3, 0.2])
    mix = Mix(torch.zeros(weight.shape, dtype=torch.long), weight)
    for train, left in ((True, 0), (False, 1)):
        algorithm = replace(CATALOG["ngrpo"], **{"explore.train": train})
        batch = make_batch(algorithm, example.score, example.mask, example.group, old=example.old, mix=mix)
        assert int((example.mask & ~batch.mask).sum()) == left and bool(batch.mask[1, 2]) is train
        assert batch.reward.sum() == 1, "the outcome is given all the same"


def test_e6_ppo_credits_before_whitening_what_the_critic_learns(make_batch, close):
    algorithm = replace(PPO, shaping=(OutcomeAtEnd(), KlInReward(coef=0.1)))
    old, ref = torch.tensor([[0.25, 0.8, 0.5]]).double().log(), torch.tensor([[0.25, 0.7, 0.6]]).double().log()
    batch = make_batch(
        algorithm, torch.ones(1, dtype=F), torch.ones(1, 3, dtype=torch.bool), torch.zeros(1, dtype=torch.long),
        old=old, ref=ref, values=torch.tensor([[0.5, 0.6, 0.7]], dtype=F),
    )  # fmt: skip
    signal, _ = algorithm.signal(batch, {})
    close(signal.advantage, [[1.0209116, -0.04322687, -0.97768474]])
    close(signal.target, [[0.96951904, 0.98896741, 1.01823216]])


def test_e6_a_bootstrapping_gae_is_given_no_outcome_where_it_bootstraps(make_batch, close):
    algorithm = replace(
        PPO,
        whiten=None,
        advantage=Gae(truncation="bootstrap"),
        shaping=(OutcomeAtEnd(truncated="omitted"), KlInReward(coef=0.1)),
    )
    assert Need.FINAL_VALUE in algorithm.needs and Need.FINAL_VALUE not in PPO.needs
    old, ref = torch.tensor([[0.25, 0.8, 0.5]] * 2).double().log(), torch.tensor([[0.25, 0.7, 0.6]] * 2).double().log()
    batch = make_batch(
        algorithm, torch.ones(2, dtype=F), torch.ones(2, 3, dtype=torch.bool), torch.arange(2), old=old, ref=ref,
        values=torch.tensor([[0.5, 0.6, 0.7]] * 2, dtype=F), final_value=torch.tensor([0.65, 9.0], dtype=F),
        stop=[Stop.LENGTH, Stop.EOS],
    )  # fmt: skip
    signal, _ = algorithm.signal(batch, {})
    close(signal.advantage[0], [0.15364404, 0.05646741, -0.03176784])
    close(signal.advantage[1], [0.46951904, 0.38896741, 0.31823216])


def test_policy_and_critic_parts_add_up(make_batch, example):
    algorithm = replace(VERL_05_PPO, **{"critic.coef": 0.7})
    values = torch.linspace(0, 1, 16, dtype=F).reshape(4, 4)
    batch = make_batch(
        algorithm, example.score, example.mask, example.group, old=example.old, ref=example.ref, values=values
    )
    both = loss_of(algorithm, batch, example.new, values=values + 0.3)
    policy = loss_of(algorithm, batch, example.new)
    critic = loss_of(algorithm, batch, None, values=values + 0.3)
    torch.testing.assert_close(both.value, policy.value + critic.value)
    assert set(both.stats) == set(policy.stats) | set(critic.stats)
    assert not set(policy.stats) & set(critic.stats)
    assert critic.stats["value_loss"].value * 0.7 == pytest.approx(float(critic.value))


def test_the_entropy_bonus_is_averaged_as_the_policy_loss_is(make_batch, example, close):
    entropy = torch.arange(16, dtype=F).reshape(4, 4)
    batch = make_batch(GRPO, example.score, example.mask, example.group, old=example.old, ref=example.ref)
    plain = loss_of(PLAIN_GRPO, batch, example.new, entropy=entropy)
    bonus = loss_of(replace(PLAIN_GRPO, entropy=0.1), batch, example.new, entropy=entropy)
    mean = ((0 + 1) / 2 + (4 + 5 + 6 + 7) / 4 + (8 + 9 + 10) / 3 + 12) / 4
    close(plain.value - bonus.value, 0.1 * mean, 1e-12)
    assert plain.stats["entropy"].value == pytest.approx((1 + 22 + 27 + 12) / 10)
    with pytest.raises(ValueError, match="needs entropy"):
        loss_of(replace(PLAIN_GRPO, entropy=0.1), batch, example.new)


def test_nothing_but_the_scores_has_a_gradient(make_batch, example):
    inputs = [x.clone().requires_grad_() for x in (example.old, example.ref, example.new * 0.1)]
    batch = make_batch(PPO, example.score, example.mask, example.group, old=inputs[0], ref=inputs[1], values=inputs[2])
    signal, _ = PPO.signal(batch, {})
    assert not batch.reward.requires_grad and not signal.advantage.requires_grad and not signal.target.requires_grad
    new = example.new.clone().requires_grad_()
    values = (example.new * 0.2).requires_grad_()
    algorithm = replace(VERL_05_PPO, entropy=0.1)
    scores = Scores(new, new.exp(), values)
    algorithm.loss(scores, batch, signal, Totals.of(batch.mask, 8)).value.backward()
    assert all(x.grad is None for x in inputs) and new.grad.any()
    assert all(
        not getattr(x, "requires_grad", False)
        for stat in algorithm.loss(scores, batch, signal, Totals.of(batch.mask, 8)).stats.values()
        for x in (getattr(stat, f) for f in ("sum", "max", "square", "count") if hasattr(stat, f))
    )


def test_a_row_without_score_is_in_no_statistic_and_not_in_the_loss(make_batch, close):
    score = torch.tensor([1.0, float("nan"), 0.0, 0.0], dtype=F)
    mask, group, old = torch.ones(4, 2, dtype=torch.bool), torch.zeros(4, dtype=torch.long), torch.zeros(4, 2, dtype=F)
    algorithm = replace(PLAIN_GRPO, surrogate=Clip())
    batch = make_batch(algorithm, score, mask, group, old=old)
    signal, _ = algorithm.signal(batch, {})
    close(signal.advantage[:, 0], [1.15470054, 0, -0.57735027, -0.57735027])
    new = torch.full((4, 2), 0.01, dtype=F, requires_grad=True)
    total = Totals.of(batch.mask, 8)
    assert (total.sequences, total.tokens) == (3, 6)
    algorithm.loss(Scores(new), batch, signal, total).value.backward()
    assert new.grad.isfinite().all() and not new.grad[1].any() and new.grad[0].any()


def test_a_group_without_any_score_contributes_nothing(make_batch):
    score = torch.full((4,), float("nan"), dtype=F)
    mask, group, old = torch.ones(4, 2, dtype=torch.bool), torch.zeros(4, dtype=torch.long), torch.zeros(4, 2, dtype=F)
    top = torch.full((4, 2, 3), -2.0, dtype=F)
    for algorithm in ONLINE.values():
        batch = make_batch(
            algorithm, score, mask, group, old=old, ref=old, values=old, sampled_logp=old, step_end=mask,
            step_score=old, greedy_score=score, old_entropy=old, topk=TopK(torch.zeros(4, 2, 3).long(), top),
        )  # fmt: skip
        signal, _ = algorithm.signal(batch, algorithm.memory())
        new = torch.zeros(4, 2, dtype=F, requires_grad=True)
        value = algorithm.loss(Scores(new, None, new, top), batch, signal, Totals.of(batch.mask, 8)).value
        value.backward()
        assert value == 0 and not new.grad.any() and not signal.advantage.any(), algorithm.name


def test_dropping_uniform_groups_judges_the_score_and_frees_the_denominator(make_batch):
    score = torch.tensor([1, 0, 1, 1, 0, float("nan")], dtype=F)
    group = torch.tensor([0, 0, 1, 1, 2, 2])
    mask = torch.ones(6, 2, dtype=torch.bool)
    algorithm = replace(CATALOG["dapo_no_resampling"], advantage=GroupMean())
    batch = make_batch(algorithm, score, mask, group, old=torch.zeros(6, 2, dtype=F))
    assert batch.mask.any(1).tolist() == [True, True, False, False, False, False]
    assert Totals.of(batch.mask, 8).tokens == 4
    everything = make_batch(replace(algorithm, keep=All()), score, mask, group, old=batch.old_logp)
    assert everything.mask.any(1).tolist() == [True] * 5 + [False]


def test_the_old_policy_is_the_policy_itself_where_nothing_needs_another(make_batch, example):
    batch = make_batch(REINFORCE, example.score, example.mask, example.group)
    assert Need.OLD not in REINFORCE.needs
    stats = loss_of(REINFORCE, batch, example.new).stats
    assert "approx_kl" not in stats and "ratio_deviation" not in stats
    batch = make_batch(PLAIN_GRPO, example.score, example.mask, example.group)
    with pytest.raises(ValueError, match="needs old_logp"):
        loss_of(PLAIN_GRPO, batch, example.new)
    batch = make_batch(GRPO, example.score, example.mask, example.group, old=example.old)
    with pytest.raises(ValueError, match="needs ref_logp"):
        loss_of(GRPO, batch, example.new)


def test_needs_are_the_union_of_the_parts():
    assert CATALOG["remax"].needs == {Need.GREEDY, Need.OLD, Need.REFERENCE}
    assert CATALOG["grpo_process"].needs == {Need.STEPS, Need.GROUP, Need.OLD, Need.REFERENCE}
    assert Need.ENTROPY in CATALOG["grpo_entropy"].needs
    assert Need.OLD in replace(REINFORCE, kl=Kl(coef=0.1, unbiased=True)).needs
    assert REINFORCE.needs == frozenset()
    assert RLOO.needs == {Need.GROUP, Need.OLD, Need.REFERENCE}
    assert PPO.needs == {Need.OLD, Need.REFERENCE, Need.VALUES}
    assert PLAIN_GRPO.needs == {Need.GROUP, Need.OLD}
    assert Need.GROUP in replace(REINFORCE, keep=DropUniform()).needs


@pytest.mark.parametrize(
    ("base", "changes", "message"),
    [
        (PPO, {"critic": None}, "advantage gae needs values: give a critic"),
        (GRPO, {"critic": Critic(lr=1e-5)}, "the critic would train for nothing"),
        (PPO, {"advantage.truncation": "bootstrap"}, "go together"),
        (GRPO, {"shaping": (OutcomeAtEnd(truncated="omitted"),)}, "go together"),
        (GRPO, {"shaping": ()}, "an outcome_at_end or step_rewards"),
        (GRPO, {"shaping": (KlInReward(coef=0.1),)}, "an outcome_at_end or step_rewards"),
        (GRPO, {"shaping": (OutcomeAtEnd(), OutcomeAtEnd())}, "no term twice"),
        (GRPO, {"shaping": (StepRewards(), StepRewards())}, "no term twice"),
        (CATALOG["grpo_process"], {"shaping": (StepRewards(), OutcomeAtEnd())}, "sees the rewards at step ends only"),
        (CATALOG["grpo_process"], {"shaping": (OutcomeAtEnd(),)}, "sees the rewards at step ends only"),
        (CATALOG["remax"], {"shaping": (OutcomeAtEnd(wrong=-1.0),)}, "so that both are scores"),
        (CATALOG["bnpo"], {"shaping": (OutcomeAtEnd(), MissingEos())}, "rewards lie between 0 and 1"),
        (CATALOG["bnpo"], {"shaping": (OutcomeAtEnd(wrong=-1.0),)}, "rewards lie between 0 and 1"),
        (CATALOG["gspo"], {"select": TopEntropy()}, "select credits each token"),
        (replace(GRPO, kl=Kl(coef=0.1, straight_through=True)), {"kl.unbiased": True}, "choose one"),
        (RLOO, {"ratio": SequenceRatio(normalise=True)}, "reinforce has no ratio"),
        (CATALOG["gmpo"], {"aggregate": TokenMean()}, "surrogate gmpo is one number for a row"),
        (CATALOG["gmpo"], {"ratio": SequenceRatio(normalise=True)}, "looks at each token's ratio"),
        (CATALOG["dppo_tv"], {"ratio": SequenceRatio(normalise=True)}, "looks at each token's ratio"),
        (CATALOG["cppo"], {"ratio": SequenceRatio(normalise=True)}, "looks at each token's ratio"),
        (CATALOG["cppo"], {"old": "learner"}, "a top-k divergence is of the policy that sampled"),
        (CATALOG["dppo_tv"], {"correction": TruncatedToken()}, "a correction would count twice"),
        (
            GRPO,
            {"ratio": SequenceRatio(normalise=False), "aggregate": TokenMean()},
            "a product of ratios is one",
        ),
        (PPO, {"ratio": SequenceRatio(normalise=True)}, "one ratio for the row would average that away"),
        (PPO, {"surrogate": Gmpo(), "aggregate": SequenceMeanTokenMean()}, "one ratio for the row would average"),
        (GRPO, {"surrogate.dual": 1.0}, "dual: "),
        (GRPO, {"kl.ceiling": -1.0}, "ceiling: "),
        (GRPO, {"entropy": -0.1}, "entropy"),
    ],
)
def test_what_cannot_be_combined_is_refused(base, changes, message):
    with pytest.raises(ConfigError, match=message):
        replace(base, **changes)


def test_an_unknown_field_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'high'"):
        load(type(GRPO), {**GRPO.model_dump(), "surrogate": {"type": "clip", "hihg": 0.3}})
    with pytest.raises(ConfigError, match="did you mean 'gae'"):
        load(type(GRPO), {**GRPO.model_dump(), "advantage": {"type": "gea"}})


def test_a_method_refuses_a_setting_that_breaks_its_meaning():
    for algorithm in CATALOG.values():
        algorithm.check(samples_per_prompt=2, updates_per_rollout=1)
    with pytest.raises(ConfigError, match=r"samples_per_prompt = 1: set it to 2 or more"):
        GRPO.check(1, 4)
    PPO.check(1, 4)
    with pytest.raises(ConfigError, match=r"4 updates per step: set optim.epochs = 1"):
        REINFORCE.check(1, 4)
    with pytest.raises(ConfigError) as both:
        RLOO.check(1, 2)
    assert len(str(both.value).splitlines()) == 2


def test_values_are_frozen_and_compared_by_content():
    assert replace(GRPO) == GRPO and replace(GRPO, **{"surrogate.high": 0.28}) != GRPO
    with pytest.raises(ValidationError):
        GRPO.surrogate.high = 0.28
    assert len({GRPO, replace(GRPO), PPO}) == 2
    assert isinstance(REINFORCE.surrogate, Reinforce)
