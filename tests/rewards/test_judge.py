"""Rewards: the verdict, weighted sums, noise as a function of the key, learned models and the lexicon on a scale."""

from __future__ import annotations

import math
import tomllib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from scipy.stats import binom, kstest

from graded import respond
from paribus.errors import ConfigError, RunError
from paribus.part import Part, dump, load
from paribus.rewards import Composite, ModelReward, Noisy, RewardSpec, Sentiment, TaskReward, Term, judge, models_of

N = 20_000


class Holder(Part):
    """As the setting holds a reward."""

    reward: RewardSpec = TaskReward()


def lengths(rows):  # type: ignore[no-untyped-def]
    return [float(len(row.text)) for row in rows]


def test_a_task_reward_is_the_verdict_and_never_a_silent_zero() -> None:
    rows = [respond(score=1), respond(score=0)]
    rows += [respond(score=0, status=s) for s in ("unparsable", "ungradable", "timeout", "error")]
    judged = judge(TaskReward(), rows, {})
    assert judged.total == judged.components["task"] == [1, 0, 0, None, None, None]
    assert judged.failed == 0


def test_a_composite_is_the_weighted_sum_of_terms_recorded_before_weights() -> None:
    reward = Composite(
        terms={
            "correct": Term(weight=2, reward=TaskReward()),
            "short": Term(weight=-0.1, reward=ModelReward(path="length")),
        }
    )
    judged = judge(
        reward, [respond("abc", 1), respond("abcde", 0), respond("a", 0, status="error")], {"length": lengths}
    )
    assert judged.components == {"correct": [1, 0, None], "short": [3, 5, 1]}
    assert judged.total == pytest.approx([1.7, -0.5, None])


def test_a_term_of_weight_zero_is_recorded_and_costs_no_row() -> None:
    terms = {"gold": Term(weight=0, reward=TaskReward()), "proxy": Term(reward=ModelReward(path="length"))}
    judged = judge(Composite(terms=terms), [respond("ab", 0, status="error")], {"length": lengths})
    assert judged.total == [2] and judged.components["gold"] == [None]


@given(
    st.lists(st.tuples(st.floats(-5, 5).filter(bool), st.floats(-5, 5), st.floats(0.1, 5)), min_size=1, max_size=5),
    st.lists(st.text(max_size=9), max_size=4),
)
def test_total_is_the_sum_of_weight_times_component_and_nesting_changes_nothing(terms, texts) -> None:  # type: ignore[no-untyped-def]
    flat = {
        f"t{i}": Term(weight=w, reward=ModelReward(path="length", mean=m, std=s)) for i, (w, m, s) in enumerate(terms)
    }
    rows = [respond(text) for text in texts]
    judged = judge(Composite(terms=flat), rows, {"length": lengths})
    for i, text in enumerate(texts):
        by_hand = sum(w * (len(text) - m) / s for w, m, s in terms)
        assert judged.total[i] == pytest.approx(by_hand)
        assert judged.total[i] == pytest.approx(sum(t.weight * judged.components[n][i] for n, t in flat.items()))
    nested = judge(Composite(terms={"all": Term(weight=3, reward=Composite(terms=flat))}), rows, {"length": lengths})
    assert nested.components["all"] == judged.total
    assert {name.removeprefix("all.") for name in nested.components} == {"all", *flat}
    assert nested.total == pytest.approx([3 * total for total in judged.total])


def test_flips_come_at_their_rate_whatever_the_score() -> None:
    rows = [respond(score=i % 2, sample=i % 8, step=i // 8) for i in range(N)]
    judged = judge(Noisy(inner=TaskReward(), flip=0.15), rows, {})
    clean, noisy = judged.components["noisy.clean"], judged.components["noisy"]
    assert judged.total == noisy and clean == [i % 2 for i in range(N)]
    low, high = binom.interval(0.9999, N // 2, 0.15)
    for score in (0, 1):
        assert low <= sum(c == score and n == 1 - score for c, n in zip(clean, noisy, strict=True)) <= high
    assert set(noisy) == {0, 1}


def test_a_flip_depends_on_the_key_alone_so_arms_share_it() -> None:
    rows = [respond(score=1, sample=i) for i in range(200)]
    others = [replace(row, text="another", verdict=replace(row.verdict, score=0.0)) for row in rows]
    noise = Noisy(inner=TaskReward(), flip=0.5)
    mine, theirs = judge(noise, rows, {}).total, judge(noise, others[::-1], {}).total[::-1]
    assert [1 - value for value in mine if value is not None] == theirs
    assert mine != judge(noise, [replace(row, key=replace(row.key, seed=1)) for row in rows], {}).total
    assert mine != judge(noise, [replace(row, key=replace(row.key, step=1)) for row in rows], {}).total


def test_what_flips_at_a_rate_flips_at_every_higher_rate() -> None:
    rows = [respond(score=1, sample=i) for i in range(2000)]
    flipped = [
        {i for i, value in enumerate(judge(Noisy(inner=TaskReward(), flip=rate), rows, {}).total) if value == 0}
        for rate in (0, 0.05, 0.15, 0.3, 1)
    ]
    assert all(few < many for few, many in pairwise(flipped))
    assert not flipped[0] and len(flipped[-1]) == 2000


def test_two_noisy_terms_disturb_independently() -> None:
    term = Term(reward=Noisy(inner=TaskReward(), flip=0.5))
    rows = [respond(score=1, sample=i) for i in range(2000)]
    judged = judge(Composite(terms={"a": term, "b": term}), rows, {})
    both = sum(a == b for a, b in zip(judged.components["a"], judged.components["b"], strict=True))
    assert binom.ppf(1e-5, 2000, 0.5) < both < binom.isf(1e-5, 2000, 0.5)
    assert set(judged.components) == {"a", "a.clean", "b", "b.clean"}


def test_gaussian_noise_has_its_distribution_and_needs_no_binary_score() -> None:
    rows = [respond("abc", sample=i) for i in range(5000)]
    judged = judge(Noisy(inner=ModelReward(path="length"), sigma=2), rows, {"length": lengths})
    assert kstest([(value - 3) / 2 for value in judged.total], "norm").pvalue > 1e-3  # type: ignore[operator]


def test_an_unknown_score_stays_unknown_under_noise() -> None:
    assert judge(Noisy(inner=TaskReward(), flip=1, sigma=1), [respond(status="timeout")], {}).total == [None]


def test_flipping_what_is_not_binary_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"reward: flip is for scores of 0 or 1, which 'model'"):
        load(Holder, {"reward": {"type": "noisy", "flip": 0.1, "inner": {"type": "model", "path": "m"}}})
    with pytest.raises(RunError, match=r"reward 'noisy': flip is for scores of 0 or 1, this one is 0.5"):
        judge(Noisy(inner=TaskReward(), flip=0.1), [respond(score=0.5)], {})


def test_a_model_reward_is_normalised_then_clipped_and_unknown_where_not_finite() -> None:
    reward = ModelReward(path="rm", mean=1, std=2, low=-1, high=1.5)
    raw = [1.0, 2.0, -9.0, 9.0, math.nan, math.inf]
    assert judge(reward, [respond()] * 6, {"rm": lambda rows: raw}).total == [0, 0.5, -1, 1.5, None, None]


def test_models_of_names_every_folder_once() -> None:
    models = [ModelReward(path="a"), Noisy(inner=ModelReward(path="b"), sigma=1), ModelReward(path="a", mean=1)]
    reward = Composite(terms={f"t{i}": Term(reward=m) for i, m in enumerate(models)})
    assert [m.path for m in models_of(reward)] == ["a", "b"] and not models_of(TaskReward())


def test_versions_tell_settings_and_reward_models_apart(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "same", "other")]
    for folder, content in zip(folders, (b"1", b"1", b"2"), strict=True):
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(content)
    hashes = [ModelReward(path=str(folder)).materials() for folder in folders]
    assert hashes[0] == hashes[1] != hashes[2]
    nested = Noisy(inner=Composite(terms={"rm": Term(reward=ModelReward(path=str(folders[2])))}))
    assert nested.materials() == hashes[2]
    assert Noisy(inner=TaskReward(), flip=0.1).version != Noisy(inner=TaskReward(), flip=0.2).version
    with pytest.raises(ConfigError, match="nowhere: no reward model here"):
        _ = ModelReward(path=str(tmp_path / "nowhere")).version


def test_a_reward_is_read_from_toml_and_rebuilt_from_its_dump() -> None:
    text = """
    [reward]
    type = "composite"
    [reward.terms.correct]
    reward = {type = "noisy", flip = 0.15, inner = {type = "task"}}
    [reward.terms.learned]
    weight = 0.5
    reward = {type = "model", path = "rm", mean = 1.0, std = 2.0, high = "none"}
    """
    holder = load(Holder, tomllib.loads(text))
    assert load(Holder, dump(holder)) == holder
    assert holder.reward == Composite(
        terms={
            "correct": Term(reward=Noisy(inner=TaskReward(), flip=0.15)),
            "learned": Term(weight=0.5, reward=ModelReward(path="rm", mean=1, std=2)),
        }
    )


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        ({"type": "nosy"}, r"reward: unknown type 'nosy'; did you mean 'noisy'"),
        ({"type": "composite", "terms": {}}, r"reward: terms: at least one needs a weight"),
        ({"type": "composite", "terms": {"a/b": {"reward": {"type": "task"}}}}, r"term name 'a/b'"),
        (
            {"type": "composite", "terms": {"a": {"reward": {"type": "noisy"}}}},
            r"missing key 'reward.terms.a.reward.inner'",
        ),
        ({"type": "model", "path": "m", "low": 1, "high": 1}, r"reward: low = 1.0 must be less than high = 1.0"),
    ],
)
def test_faults_name_the_key(reward, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError, match=message):
        load(Holder, {"reward": reward})


def test_sentiment_orders_texts_and_is_scaled_onto_its_bounds() -> None:
    pytest.importorskip("vaderSentiment", reason="pip install 'paribus[sentiment]'")
    texts = ["A wonderful, great and happy film!", "The film lasts two hours.", "A horrible, awful, sad film."]
    rows = [respond(text) for text in texts]
    good, neutral, bad = judge(Sentiment(), rows, {}).total
    assert good > 0.8 and neutral == 0 and bad < -0.8  # type: ignore[operator]
    scaled = judge(Sentiment(low=0, high=10), rows, {}).total
    assert scaled == pytest.approx([5 + 5 * good, 5, 5 + 5 * bad])  # type: ignore[operator]


def test_without_the_lexicon_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.metadata

    from paribus.rewards import kinds

    def absent(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    kinds._analyzer.cache_clear()
    monkeypatch.setattr(importlib.metadata, "version", absent)
    for use in (lambda: judge(Sentiment(), [respond("fine")], {}), lambda: Sentiment().version):
        with pytest.raises(ConfigError, match=r"needs vaderSentiment: pip install 'paribus\[sentiment\]'"):
            use()


def test_the_union_of_kinds_is_closed() -> None:
    schema = TypeAdapter(RewardSpec).json_schema()
    assert set(schema["discriminator"]["mapping"]) == {"task", "composite", "function", "model", "noisy", "sentiment"}
