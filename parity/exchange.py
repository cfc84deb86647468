"""How tensors travel between Paribus and a library that lives in another environment: safetensors and JSON in a folder.

Imported by every script of this folder, each in its own environment: torch and safetensors only.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

WORK = Path(__file__).parent.parent / ".parity"
CASES = WORK / "cases.json"

Fields = dict[str, torch.Tensor]


def write(path: Path, batches: list[Fields]) -> None:
    """Store the named tensors of each batch."""
    path.parent.mkdir(parents=True, exist_ok=True)
    named = {f"{i}/{name}": x.detach().contiguous() for i, batch in enumerate(batches) for name, x in batch.items()}
    save_file(named, path)


def read(path: Path) -> list[Fields]:
    """Return what `write` stored."""
    batches: dict[int, Fields] = {}
    for key, value in load_file(path).items():
        index, name = key.split("/", 1)
        batches.setdefault(int(index), {})[name] = value
    return [batches[i] for i in range(len(batches))]


def copies(batches: list[Fields]) -> list[Fields]:
    """Batches of their own for one case: gradients must not add up over cases."""
    return [{name: x.clone() for name, x in batch.items()} for batch in batches]


def inputs_file(data: str) -> Path:
    return WORK / "inputs" / f"{data}.safetensors"


def answers_file(who: str, case: str) -> Path:
    return WORK / who / f"{case}.safetensors"


def cases() -> list[dict[str, Any]]:
    return json.loads(CASES.read_text())


def serve(library: str, version: str, prepare: Callable[[dict[str, Any]], Callable[[Fields], Fields]]) -> None:
    """Answer every case of `library`; `prepare` makes of a case the function that answers one batch."""
    data: dict[str, list[Fields]] = {}
    for case in cases():
        if case["library"] != library:
            continue
        if case["data"] not in data:
            data[case["data"]] = read(inputs_file(case["data"]))
        answer = prepare(case)
        write(answers_file(library, case["name"]), [answer(x) for x in copies(data[case["data"]])])
        print(f"{library} {version}: {case['name']}", flush=True)
    (WORK / f"{library}.version").write_text(f"{version}, torch {torch.__version__}")
