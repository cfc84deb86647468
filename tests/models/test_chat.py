"""Prompts: one BOS where there should be one, template applied once, long prompts by policy, exact text back."""

from __future__ import annotations

import pytest
from tokenizers.processors import TemplateProcessing

from paribus.errors import DataError
from paribus.models.chat import decode_responses, encode, make_prompt, make_prompts
from toymodels import BOS, EOS, TURN, tokenizer

ASK = [{"role": "user", "content": "1+1"}]
PLAIN = "{% for m in messages %}{{ m['content'] }}<turn>{% endfor %}{% if add_generation_prompt %}>{% endif %}"
WITH_BOS = "{{ bos_token }}" + PLAIN


def adding_bos(template: str | None = None) -> object:
    """A tokenizer that puts BOS in front (and, as some do, EOS behind) when special tokens are asked for."""
    made = tokenizer(template=template)
    made.backend_tokenizer.post_processor = TemplateProcessing(
        single="<bos> $A <eos>", special_tokens=[("<bos>", BOS), ("<eos>", EOS)]
    )
    return made


def letters(text: str) -> list[int]:
    return tokenizer()(text, add_special_tokens=False).input_ids


def test_a_template_alone_decides_about_bos() -> None:
    """c01: the template holds BOS and the tokenizer would add another: one."""
    ids = encode(adding_bos(WITH_BOS), ASK)
    assert ids == [BOS, *letters("1+1"), TURN, *letters(">")]
    assert encode(adding_bos(PLAIN), ASK) == ids[1:]


def test_a_raw_prompt_gets_the_bos_its_tokenizer_wants() -> None:
    """c02: without a template one BOS in front, no EOS behind; no second one where the text begins with it."""
    assert encode(adding_bos(), ASK) == [BOS, *letters("1+1")]
    assert encode(adding_bos(), [{"role": "user", "content": "<bos>1+1"}]) == [BOS, *letters("1+1")]
    assert encode(tokenizer(), ASK) == letters("1+1")


def test_a_tokenizer_without_bos_gives_whole_numbers_only() -> None:
    """c03: never None among the ids."""
    for template in (None, PLAIN):
        ids = encode(tokenizer(bos=False, template=template), ASK)
        assert all(type(i) is int for i in ids) and BOS not in ids


def test_turns_of_a_raw_prompt_are_joined_by_a_blank_line() -> None:
    made = tokenizer()
    made.add_tokens(["\n\n"])
    two = [{"role": "system", "content": "ab"}, {"role": "user", "content": "cd"}]
    assert made.decode(encode(made, two)) == "ab\n\ncd"


@pytest.mark.parametrize("template", [None, PLAIN, WITH_BOS])
def test_prompts_made_together_are_those_made_one_by_one(template: str | None) -> None:
    made = adding_bos(template)
    texts = ("1+1", "<bos>2", "aé☃" * 9, "3" * 30, " ")
    asked = [(f"p{i}", [{"role": "user", "content": text}] * (1 + i % 2)) for i, text in enumerate(texts)]
    for limit, overlong in ((40, "drop"), (7, "cut"), (999, "error")):
        alone = [make_prompt(made, name, messages, limit, overlong) for name, messages in asked]
        assert make_prompts(made, asked, limit, overlong) == alone
    with pytest.raises(DataError, match=r"problem p3: the prompt has"):
        make_prompts(made, asked[3:], 7, "error")


def test_long_prompts_follow_the_policy() -> None:
    made = tokenizer(template=PLAIN)
    prompt = make_prompt(made, "p1", ASK, 5, "error")
    assert prompt is not None and prompt.ids == (*letters("1+1"), TURN, *letters(">")) and prompt.text == "1+1<turn>>"
    with pytest.raises(DataError, match=r"problem p1: the prompt has 5 tokens, more than rollout.max_prompt = 4"):
        make_prompt(made, "p1", ASK, 4, "error")
    assert make_prompt(made, "p1", ASK, 4, "drop") is None
    cut = make_prompt(made, "p1", ASK, 4, "cut")
    assert cut is not None and cut.ids == prompt.ids[1:]
    with pytest.raises(DataError, match="problem p2: the prompt is empty"):
        make_prompt(tokenizer(), "p2", [{"role": "user", "content": ""}], 4, "cut")


def test_only_the_final_stop_token_leaves_the_text() -> None:
    """c22: a stop token ends the turn once; markers inside the response are kept as text."""
    rows = [[*letters("ab"), EOS], [*letters("ab"), TURN, *letters("c")], [TURN], letters(" b ")]
    assert decode_responses(tokenizer(), rows, (EOS, TURN)) == ["ab", "ab<turn>c", "", " b "]


def test_roles_turns_and_system_prompt_reach_the_template_as_they_are() -> None:
    roles = "{% for m in messages %}{{ m['role'][0] }}{{ m['content'] }}<turn>{% endfor %}"
    turns = [("system", "ab"), ("user", "1+1"), ("assistant", "2"), ("user", "+1")]
    messages = [{"role": role, "content": content} for role, content in turns]
    expected = [i for role, content in turns for i in (*letters(role[0]), *letters(content), TURN)]
    assert encode(tokenizer(template=roles), messages) == expected


def test_messages_that_a_template_refuses_are_named_by_their_problem() -> None:
    strict = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + PLAIN
    made = tokenizer(template=strict)
    asked = [("a/0", ASK), ("a/1", [{"role": "system", "content": "ab"}, *ASK])]
    with pytest.raises(
        DataError, match=r"problem a/1: the model's chat template refuses .*system, user.*no system role"
    ):
        make_prompts(made, asked, 50, "error")
    assert make_prompts(made, asked[:1], 50, "error") == [make_prompt(made, "a/0", ASK, 50, "error")]
