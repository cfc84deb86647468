"""How long prompts are, without loading a model: the task's messages through the model's own tokenizer."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from paribus.tasks.shots import Messages

TEMPLATE = 64  # tokens allowed for what a chat template adds (roles, a system prompt of its own)


def longest(folder: Path, asked: Sequence[Messages]) -> int | None:
    """Return the tokens of the longest prompt, the template's allowance included; None without a tokenizer.json, or
    where the package that reads it is not installed."""
    file = folder / "tokenizer.json"
    if not asked or not file.is_file() or importlib.util.find_spec("tokenizers") is None:
        return None
    from tokenizers import Tokenizer

    texts = ["\n".join(message["content"] for message in messages) for messages in asked]
    tokenizer = Tokenizer.from_file(str(file))
    return TEMPLATE + max(len(found.ids) for found in tokenizer.encode_batch(texts, add_special_tokens=False))
