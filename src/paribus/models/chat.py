"""Messages to prompt ids, once; response ids to text. Ids are the truth: text is never tokenised again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from paribus.errors import DataError
from paribus.types import Prompt

Messages = Sequence[Mapping[str, str]]


def encode(tokenizer: PreTrainedTokenizerBase, messages: Messages, where: str = "prompt") -> list[int]:
    """Return the ids of a prompt, ending where the model's answer begins.

    With a chat template, the template alone decides about special tokens. Without one, the contents are joined by
    blank lines, and a BOS stands in front exactly when the tokenizer puts one there by itself. Raises DataError, with
    `where` in front, for messages that the template refuses.
    """
    if tokenizer.chat_template is not None:
        conversation = [dict(message) for message in messages]
        try:
            return list(tokenizer.apply_chat_template(conversation, add_generation_prompt=True, return_dict=False))
        except TemplateError as error:  # no system message, no two turns of one role in a row ...
            roles = ", ".join(message["role"] for message in conversation)
            raise DataError(
                f"{where}: the model's chat template refuses these messages ({roles}): {error}; change the data's "
                "messages or the task's `system`, or take another model"
            ) from None
    return encode_text(tokenizer, "\n\n".join(message["content"] for message in messages))


def encode_text(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Return the ids of a prompt that is plain text, with a BOS exactly when the tokenizer puts one there by itself."""
    ids = list(tokenizer(text, add_special_tokens=False).input_ids)
    bos = tokenizer.bos_token_id
    if bos is not None and bos in tokenizer("", add_special_tokens=True).input_ids and ids[:1] != [bos]:
        ids.insert(0, bos)
    return ids


def make_prompt(
    tokenizer: PreTrainedTokenizerBase,
    problem_id: str,
    messages: Messages,
    max_prompt: int,
    overlong: Literal["error", "drop", "cut"],
) -> Prompt | None:
    """Return the prompt of a problem, or None when it exceeds `max_prompt` tokens and such prompts are dropped.

    "cut" keeps the last `max_prompt` tokens. Raises DataError for an empty prompt, and for a long one under "error".
    """
    ids = encode(tokenizer, messages, f"problem {problem_id}")
    return _fitted(tokenizer, problem_id, ids, max_prompt, overlong)


def make_prompts(
    tokenizer: PreTrainedTokenizerBase,
    asked: Sequence[tuple[str, Messages]],
    max_prompt: int,
    overlong: Literal["error", "drop", "cut"],
) -> list[Prompt | None]:
    """Return what `make_prompt` does for each (problem id, messages), tokenised together, which takes less time."""
    if tokenizer.chat_template is None or not asked:
        return [make_prompt(tokenizer, name, messages, max_prompt, overlong) for name, messages in asked]
    conversations = [[dict(message) for message in messages] for _, messages in asked]
    try:
        texts = tokenizer.apply_chat_template(conversations, add_generation_prompt=True, tokenize=False)
    except TemplateError:  # one by one, which names the problem
        return [make_prompt(tokenizer, name, messages, max_prompt, overlong) for name, messages in asked]
    rows = tokenizer(texts, add_special_tokens=False, return_attention_mask=False).input_ids
    return [
        _fitted(tokenizer, name, list(ids), max_prompt, overlong) for (name, _), ids in zip(asked, rows, strict=True)
    ]


def _fitted(
    tokenizer: PreTrainedTokenizerBase,
    problem_id: str,
    ids: list[int],
    max_prompt: int,
    overlong: Literal["error", "drop", "cut"],
) -> Prompt | None:
    if not ids:
        raise DataError(f"problem {problem_id}: the prompt is empty and this tokenizer has no BOS token to start from")
    if len(ids) > max_prompt:
        if overlong == "error":
            raise DataError(
                f"problem {problem_id}: the prompt has {len(ids)} tokens, more than rollout.max_prompt = {max_prompt}: "
                'raise it, or set rollout.overlong to "drop" or "cut"'
            )
        if overlong == "drop":
            return None
        ids = ids[-max_prompt:]
    return Prompt(problem_id=problem_id, ids=tuple(ids), text=str(tokenizer.decode(ids)))


def decode_responses(
    tokenizer: PreTrainedTokenizerBase, responses: Sequence[Sequence[int]], stop_ids: Sequence[int]
) -> list[str]:
    """Return the text of sampled responses: exact, special tokens kept, only a final stop token left out."""
    bodies = [list(ids[:-1] if ids[-1] in stop_ids else ids) for ids in responses]
    return [str(tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)) for ids in bodies]
