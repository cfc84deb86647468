"""Offline methods on pairs as TRL's DPOTrainer has them, and the pairs themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Template
from typing import Any

from paribus.algorithms import Offline
from paribus.algorithms.offline import PairFile
from paribus.algorithms.preference import Dpo, Hinge, Ipo
from paribus.errors import ConfigError, DataError
from paribus.experiment import Setting
from paribus.interop.export.mapping import Book, keyword

EXTRA = "reading pairs needs transformers: pip install 'paribus[train]'"


def map_pairs(book: Book, method: Offline) -> None:
    """Add what becomes of source and objective."""
    source, part = method.source, method.objective
    if isinstance(source, PairFile):
        book.exact("algorithm.source", note="data/train.parquet: prompt, chosen, rejected")
    else:
        book.refuse("algorithm.source", f"rows of type {source.type} are not exported, only a pair_file")
    loss = ""
    lines: list[str] = []
    if isinstance(part, Dpo) and not part.anchor and (part.robust or not part.label_smoothing):
        loss, lines = "robust" if part.robust else "sigmoid", [keyword("label_smoothing", part.label_smoothing)]
    elif isinstance(part, Ipo) and part.over == "mean":
        loss = "ipo"
    elif isinstance(part, Hinge):
        loss = "hinge"
    if loss:
        beta: float = part.beta  # type: ignore[union-attr]
        book.exact("algorithm.objective", keyword("loss_type", [loss]), keyword("beta", beta), *lines)
    else:
        book.refuse("algorithm.objective", f"TRL's DPOTrainer has no {part.type} of these fields")


def map_limits(book: Book, setting: Setting) -> None:
    """Add what becomes of the lengths: here of prompt and answer apart, there of both together."""
    rollout, key = setting.rollout, "setting.rollout."
    book.exact(key + "prompts_per_step", note="pairs of a step; see minibatch_prompts")
    for name in ("samples_per_prompt", "overlong", "temperature", "top_p", "engine"):
        book.default(key + name, "nothing is sampled in training")
    note = "TRL cuts prompt and answer together, from the right, and ends an answer as the chat template does"
    book.approximate(key + "max_prompt", keyword("max_length", rollout.max_prompt + rollout.max_response), note=note)
    book.approximate(key + "max_response", note=note)


def pair_rows(method: Offline) -> list[dict[str, Any]]:
    """Return the pairs of a file as TRL reads them, as messages or as text. Raises ConfigError, DataError."""
    assert isinstance(method.source, PairFile), "checked by the mapping"
    try:
        from paribus.models.pairs import read
    except ImportError:
        raise ConfigError(EXTRA) from None
    rows = [_row(example.prompt, example.good or "", example.bad or "") for example in read(method.source).examples]
    if len({type(row["prompt"]) for row in rows}) > 1:
        raise DataError(f"{method.source.path}: some prompts are messages and some are text; TRL takes one kind")
    return rows


def _row(prompt: str | Sequence[Mapping[str, str]], good: str, bad: str) -> dict[str, Any]:
    if isinstance(prompt, str):
        return {"prompt": prompt, "chosen": good, "rejected": bad}
    chosen, rejected = ([{"role": "assistant", "content": text}] for text in (good, bad))
    return {"prompt": [dict(message) for message in prompt], "chosen": chosen, "rejected": rejected}


SCRIPT = Template('''"""Trains arm $arm of $experiment with TRL $version: python train.py SEED, one of: $seeds"""

import sys
from pathlib import Path

from datasets import load_dataset
from trl import DPOConfig, DPOTrainer

HERE = Path(__file__).resolve().parent
MODEL = $model
CONFIG = dict(
$values
)


def main(seed):
    output = HERE / "runs" / f"seed-{seed}"
    config = DPOConfig(output_dir=str(output), seed=seed, data_seed=seed, **CONFIG)
    rows = load_dataset("parquet", data_files=str(HERE / "data" / "train.parquet"), split="train")
    trainer = DPOTrainer(model=MODEL, args=config, train_dataset=rows)
    trainer.train(resume_from_checkpoint=any(output.glob("checkpoint-*")))


if __name__ == "__main__":
    main(int(sys.argv[1]))
''')
