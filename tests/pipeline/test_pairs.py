"""Own responses as data: every pair that there is, spread fairly; labels; right ones; mismatched prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from paribus.algorithms import OwnLabels, OwnPairs, OwnRight
from paribus.batch import Role, Rollout
from paribus.engines.rollouts import Response, assemble
from paribus.pipeline.collect import Graded
from paribus.pipeline.pairs import mismatched, own_rows, pair_rows, right_rows
from paribus.types import Prompt, Stop, Verdict

NAN = float("nan")
Scores = list[float]
GRADED = st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, NAN]), min_size=0, max_size=12)


def rollout(samples: int, prompts: Sequence[tuple[int, ...]] = ((5,), (6, 6), (7, 7, 7))) -> Rollout:
    """Responses of unequal lengths; row r says (10 + r) some times, then the stop token 2."""
    asked = [Prompt(problem_id=f"p/{i}", ids=ids, text="") for i, ids in enumerate(prompts)]
    responses = [
        Response([10 + row] * (1 + row % 3) + [2], [-0.5] * (2 + row % 3), Stop.EOS, f"text {row % samples // 2}")
        for row in range(len(prompts) * samples)
    ]
    return assemble(asked, samples, responses, pad_id=0, version=0)


def graded(score: Scores, samples: int, **rows: Sequence[tuple[int, ...]]) -> Graded:
    made = rollout(samples, **rows)
    return Graded(
        rollout=made,
        verdicts=[Verdict(score=0.0, answer=None)] * made.rows,
        score=torch.tensor(score),
        parts={"reward/task": torch.tensor(score)},
        steps=None,
        greedy_score=None,
        samples=made.rows,
        tokens=int(made.mask.sum()),
        stats={},
    )


@given(GRADED, GRADED, st.floats(0, 1.5))
def test_every_better_row_meets_every_worse_one_once(left: Scores, right: Scores, gap: float) -> None:
    score, group = left + right, [7] * len(left) + [3] * len(right)
    everything = [
        (i, j)
        for i in range(len(score))
        for j in range(len(score))
        if group[i] == group[j] and score[i] - score[j] > gap  # never true of NaN, nor of ties
    ]
    assert sorted(pair_rows(group, score, None, gap)) == everything


@given(GRADED, st.integers(1, 40))
def test_a_cap_takes_some_of_them_and_leaves_no_response_out(score: Scores, cap: int) -> None:
    group = [0] * len(score)
    everything, capped = pair_rows(group, score, None, 0.0), pair_rows(group, score, cap, 0.0)
    assert set(capped) <= set(everything) and len(set(capped)) == len(capped) == min(cap, len(everything))
    uses, pairable = Counter(row for pair in capped for row in pair), {row for pair in everything for row in pair}
    if len(capped) >= len(pairable):
        assert set(uses) == pairable


def test_a_cap_spreads_over_responses_and_is_per_prompt() -> None:
    score = [1.0] * 4 + [0.0] * 4
    pairs = pair_rows([0] * 8 + [1] * 8, score * 2, 4, 0.0)
    assert Counter(row for pair in pairs for row in pair) == dict.fromkeys(range(16), 1)
    pairs = pair_rows([0] * 5, [1.0, 0.0, 0.0, 0.0, 1.0], 3, 0.0)
    assert sorted(Counter(row for pair in pairs for row in pair).values()) == [1, 1, 1, 1, 2]


def test_the_rows_of_a_pair_stand_together_and_the_better_is_good() -> None:
    data, stats = own_rows(OwnPairs(), graded([1.0, 0.0, NAN, 0.0] + [1.0] * 4 + [0.0, 0.5, 0.5, 1.0], samples=4))
    assert data.unit is not None and data.role is not None
    assert data.unit.tolist() == [i // 2 for i in range(len(data.unit))] and len(data.unit) == 2 * (2 + 5)
    assert data.role.tolist() == [Role.GOOD, Role.BAD] * 7
    assert (data.score[::2] > data.score[1::2]).all() and torch.equal(data.group[::2], data.group[1::2])
    assert torch.equal(data.mask, data.rollout.mask) and torch.equal(data.parts["reward/task"], data.score)
    assert stats["pairs"].value == 7 and stats["prompts_with_pairs"].value == pytest.approx(2 / 3)


def test_a_step_without_a_pair_is_an_empty_batch() -> None:
    data, stats = own_rows(OwnPairs(), graded([1.0] * 6, samples=2))
    assert data.rollout.rows == 0 and not data.mask.any()
    assert stats["pairs"].value == 0 and stats["prompts_with_pairs"].value == 0


def test_right_rows_are_different_texts_that_reach_the_threshold() -> None:
    made = rollout(4)  # texts of a prompt: 0 0 1 1
    score = [1.0, 1.0, 1.0, NAN] + [0.4, 0.5, 0.0, 0.9] + [0.0] * 4
    assert right_rows(made, score, 0.5, None) == [0, 2, 5, 7]
    assert right_rows(made, score, 0.5, 1) == [0, 5]
    data, stats = own_rows(OwnRight(threshold=0.5), graded(score, samples=4))
    assert data.rollout.tokens[:, 3].tolist() == [made.tokens[row, 3] for row in (0, 2, 5, 7)]
    assert stats["demonstrations"].value == 4 and stats["prompts_with_demonstrations"].value == pytest.approx(2 / 3)


def responses_of(made: Rollout) -> list[list[int]]:
    return [row[keep].tolist() for row, keep in zip(made.tokens, made.mask, strict=True)]


def prompts_of(made: Rollout) -> list[list[int]]:
    return [row[: int(keep.long().argmax())].tolist() for row, keep in zip(made.tokens, made.mask, strict=True)]


def test_every_prompt_gets_the_responses_to_another() -> None:
    made = rollout(4)
    other = mismatched(made)
    assert prompts_of(other) == prompts_of(made) and torch.equal(other.group, made.group)
    # sample s of a prompt with sample s of the next: as many different responses as there are
    assert responses_of(other) == responses_of(made)[4:] + responses_of(made)[:4]
    assert other.length.tolist() == [
        len(p) + len(r) for p, r in zip(prompts_of(made), responses_of(other), strict=True)
    ]
    assert other.text == made.text[4:] + made.text[:4] and other.problem_id == made.problem_id


@given(st.lists(st.integers(0, 2), min_size=1, max_size=8), st.integers(1, 3))
def test_no_prompt_ever_gets_a_response_to_itself(kinds: list[int], samples: int) -> None:
    """Groups may ask the same prompt, in any order: believed that another group is another prompt."""
    made = rollout(samples, [(5 + kind,) * (kind + 1) for kind in kinds])
    other = mismatched(made)
    assert other.rows == (made.rows if len(set(kinds)) > 1 else 0)
    answered = {tuple(r): p for p, r in zip(prompts_of(made), responses_of(made), strict=True)}
    for prompt, response in zip(prompts_of(other), responses_of(other), strict=True):
        assert answered[tuple(response)] != prompt


def test_labels_measure_mismatched_rows_and_never_train_them() -> None:
    score = [1.0, 0.0, 0.5, NAN, 0.0, 1.0]
    data, stats = own_rows(OwnLabels(threshold=0.5), graded(score, samples=2))
    assert data.role is not None and data.unit is not None
    good, bad, other = int(Role.GOOD), int(Role.BAD), int(Role.MISMATCHED)
    assert data.role.tolist() == [good, bad, good, bad, good] + [other] * 5
    assert data.score[:5].tolist() == [1.0, 0.0, 0.5, 0.0, 1.0] and data.score[5:].isnan().all()
    assert (
        data.rollout.mask.any(1).all() and torch.equal(data.mask[:5], data.rollout.mask[:5]) and not data.mask[5:].any()
    )
    assert data.group.tolist() == [0, 0, 1, 2, 2] * 2 and data.unit.unique().numel() == 10
    assert stats["desirable"].row() == {"sum": 3.0, "count": 5.0}


def test_one_prompt_has_nothing_to_be_mismatched_with() -> None:
    data, _ = own_rows(OwnLabels(), graded([1.0, 0.0], samples=2, prompts=[(5,)]))
    assert data.rollout.rows == 2 and mismatched(rollout(3, [(5,)])).rows == 0
    nothing, stats = own_rows(OwnLabels(), graded([NAN, NAN], samples=2, prompts=[(5,)]))
    assert nothing.rollout.rows == 0 and stats["desirable"].value == 0
