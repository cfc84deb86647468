"""Models and prompts to measure on, as files that any library reads; `python -m paribus.bench.inputs`.

A line of `rows.jsonl` holds `prompt` (text, the chat template applied), `question`, `answer` (the right one), and two
answers of equal length, `chosen` and `rejected`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from paribus.errors import DataError
from paribus.models import hf, untrained
from paribus.settings import ModelSpec
from paribus.store.files import replace_file
from paribus.tasks import Gsm8k

ROWS = 512
TINY_PROMPT, TINY_ANSWER = 16, 32  # characters, which are tokens
PROMPT_TOKENS = (96, 128)  # of the questions that are taken
ANSWER_TOKENS = 127  # of the two answers; their end marker makes 128


class Inputs(NamedTuple):
    """A model folder (or hub id) and the file of its rows."""

    model: str
    rows: Path

    def read(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.rows.read_text(encoding="utf-8").splitlines()]


def cache_folder() -> Path:
    """Return the user's folder for what is made once."""
    return Path(os.environ.get("PARIBUS_CACHE", Path.home() / ".cache" / "paribus")) / "bench"


def prepare(model: str, folder: Path, gsm8k: str | None = None) -> Inputs:
    """Make what is not there yet in `folder`: "tiny", or a model folder, .gguf file or hub id with GSM8K's questions.

    `gsm8k` is the task's path (None: the hub). Raises ModelError and DataError.
    """
    if model == "tiny":
        made = untrained.write(folder / "tiny" / "model")
        rows = list(_sums(random.Random(0)))
        return Inputs(str(made), _write(folder / "tiny" / "rows.jsonl", rows))
    spec = ModelSpec(path=model)
    source = hf.resolve(spec, folder)
    file = folder / Path(source).name / "rows.jsonl"
    if not file.is_file():
        rows = list(_questions(hf.load_tokenizer(source, spec), Gsm8k(path=gsm8k, prompt="{question}")))
        if not rows:
            raise DataError(f"{gsm8k or 'openai/gsm8k'}: no question has {PROMPT_TOKENS} tokens under {model}")
        _write(file, rows)
    return Inputs(source, file)


def _sums(draw: random.Random) -> Iterator[dict[str, str]]:
    for _ in range(ROWS):
        a, b = draw.randint(10, 999_999), draw.randint(10, 99_999)
        question = f"{a}+{b}=".rjust(TINY_PROMPT)
        yield {
            "prompt": question,
            "question": question,
            "answer": str(a + b),
            "chosen": "1" * TINY_ANSWER,
            "rejected": "x" * TINY_ANSWER,
        }


def _questions(tokenizer: Any, task: Gsm8k) -> Iterator[dict[str, str]]:
    """Questions of alike lengths, and solutions repeated to one length: backwards, they are the rejected answers."""
    low, high = PROMPT_TOKENS
    for problem in task.problems("train"):
        messages = [dict(message) for message in task.messages(problem)]
        prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        sides = [_fixed(tokenizer, text) for text in (problem.solution, problem.solution[::-1])]
        if low <= len(tokenizer(prompt).input_ids) <= high and None not in sides:
            chosen, rejected = sides
            yield {
                "prompt": prompt,
                "question": problem.question,
                "answer": problem.gold,
                "chosen": str(chosen),
                "rejected": str(rejected),
            }


def _fixed(tokenizer: Any, text: str) -> str | None:
    """Return a text of exactly `ANSWER_TOKENS` tokens made of copies of `text`; None where its end joins otherwise."""
    ids = tokenizer(text * 12, add_special_tokens=False).input_ids[:ANSWER_TOKENS]
    made = str(tokenizer.decode(ids))
    return made if len(tokenizer(made, add_special_tokens=False).input_ids) == ANSWER_TOKENS else None


def _write(file: Path, rows: list[dict[str, str]]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, "".join(json.dumps(row) + "\n" for row in rows[:ROWS]).encode())
    return file


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m paribus.bench.inputs", description=__doc__)
    parser.add_argument("model", help='"tiny", a model folder, a .gguf file or a hub id')
    parser.add_argument("--folder", type=Path, default=cache_folder())
    parser.add_argument("--gsm8k", help="folder or jsonl file of GSM8K; default: the hub")
    given = parser.parse_args()
    found = prepare(given.model, given.folder, given.gsm8k)
    print(json.dumps({"model": found.model, "rows": str(found.rows)}))


if __name__ == "__main__":
    main()
