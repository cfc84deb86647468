"""Where the steps of a response end, in tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from paribus.batch import Rollout
from paribus.engines.rollouts import Response, assemble
from paribus.pipeline.collect import step_tensors
from paribus.rewards import StepScore
from paribus.types import Prompt, Stop

BYTES = "".join(sorted(pre_tokenizers.ByteLevel.alphabet()))


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """One token per byte, as byte-level models have for rare characters; id 0 ends a response."""
    inner = Tokenizer(models.BPE(vocab={"<eos>": 0} | {c: i + 1 for i, c in enumerate(BYTES)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<eos>")


def told(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str], *, ended: bool = True) -> Rollout:
    """Responses to one prompt of three tokens; `ended` by the stop token, or cut."""
    answers = [list(tokenizer(text, add_special_tokens=False).input_ids) + [0] * ended for text in texts]
    stop = Stop.EOS if ended else Stop.LENGTH
    responses = [Response(ids, [0.0] * len(ids), stop, text) for ids, text in zip(answers, texts, strict=True)]
    return assemble([Prompt(problem_id="p", ids=(5, 5, 5), text="")], len(texts), responses, pad_id=0, version=0)


def ends_of(rollout: Rollout, steps: list[list[StepScore] | None], tokenizer: Any) -> list[list[tuple[int, float]]]:
    """(token of the response, score) of every step end, by row."""
    end, score = step_tensors(rollout, steps, tokenizer)
    assert not end[~rollout.mask].any() and not score[~end].any()
    return [
        [(t - 3, score[row, t].item()) for t in end[row].nonzero().squeeze(1).tolist()] for row in range(rollout.rows)
    ]


def test_steps_end_on_the_token_that_completes_them() -> None:
    tokenizer = byte_tokenizer()
    text = "ab\ncd\nef"
    steps = [StepScore(3, 1.0), StepScore(6, 0.0), StepScore(8, 0.5)]
    # the stop token (8) is the last step's; a step worth 0 is a step
    assert ends_of(told(tokenizer, [text]), [steps], tokenizer) == [[(2, 1.0), (5, 0.0), (8, 0.5)]]
    assert ends_of(told(tokenizer, [text], ended=False), [steps], tokenizer) == [[(2, 1.0), (5, 0.0), (7, 0.5)]]
    # rows that could not be judged, and blank ones, have none
    rollout = told(tokenizer, ["", text, "xyz"])
    assert ends_of(rollout, [[], None, [StepScore(3, 2.0)]], tokenizer) == [[], [], [(3, 2.0)]]


def test_a_character_ends_with_its_last_byte() -> None:
    """Believed: the first tokens whose text has n characters hold n characters. Half of one decodes to U+FFFD."""
    tokenizer = byte_tokenizer()
    # 1, 2, 3 and 4 bytes
    steps = [StepScore(n, float(n)) for n in (1, 2, 3, 4)]
    found = ends_of(told(tokenizer, ["aé€\U0001f600b"]), [steps], tokenizer)
    assert found == [[(0, 1.0), (2, 2.0), (5, 3.0), (9, 4.0)]]


def test_a_token_that_ends_two_steps_bears_both() -> None:
    inner = Tokenizer(models.WordLevel(vocab={"<eos>": 0, "a\n": 1, "b\nc\n": 2, "d": 3}, unk_token="<eos>"))
    inner.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<eos>")
    text, ids = "a\nb\nc\nd", [1, 2, 3, 0]
    prompt, response = Prompt(problem_id="p", ids=(5, 5, 5), text=""), Response(ids, [0.0] * 4, Stop.EOS, text)
    rollout = assemble([prompt], 1, [response], pad_id=0, version=0)
    steps = [StepScore(2, 1.0), StepScore(4, 0.5), StepScore(6, 0.25), StepScore(7, 2.0)]
    assert ends_of(rollout, [steps], tokenizer) == [[(0, 1.0), (1, 0.75), (3, 2.0)]]


@given(st.lists(st.text("ab\né€\U0001f600 ", max_size=12), min_size=1, max_size=4), st.booleans(), st.randoms())
@settings(max_examples=40, deadline=None)
def test_no_step_is_lost_and_their_tokens_spell_them(texts: list[str], ended: bool, random: Any) -> None:
    tokenizer = byte_tokenizer()
    texts = [text or "a" for text in texts]
    ends = [sorted(random.sample(range(1, len(t) + 1), min(3, len(t)))) for t in texts]
    steps = [[StepScore(end, random.choice((0.0, 0.5, 1.0))) for end in row] for row in ends]
    rollout = told(tokenizer, texts, ended=ended)
    for text, expected, found in zip(texts, steps, ends_of(rollout, steps, tokenizer), strict=True):
        assert sum(score for _, score in found) == sum(score for _, score in expected)
        for (place, _), (end, _) in zip(found, expected, strict=True):
            size = len(text[:end].encode())
            assert place == size - 1 or (end == len(text) and place == size - 1 + ended)
