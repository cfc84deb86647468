"""Convert a GGUF file into a Hugging Face folder, once."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from paribus.errors import ModelError

# Pre-tokenizers that split single digits before the byte-level split; transformers rebuilds only the latter.
DIGITS_APART = frozenset({"smollm"})


def convert(file: Path, cache: Path | None = None) -> Path:
    """Return the folder with the dequantised float32 model and tokenizer of a GGUF file, made at the first call.

    The folder lies in `cache` (by default beside the file) and its name holds the hash of the file, so that a
    changed file is converted anew. Raises ModelError.
    """
    if not file.is_file():
        raise ModelError(f"{file}: no such file")
    try:
        import accelerate  # noqa: F401
        from gguf import GGUFReader
    except ImportError as error:
        raise ModelError(f"{file}: reading GGUF needs the packages gguf and accelerate ({error})") from None
    with open(file, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()[:12]
    home = cache or file.parent
    target = home / f"{file.stem}-{digest}"
    if target.is_dir():
        return target
    home.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=home, prefix=".converting-"))
    try:
        try:
            field = GGUFReader(file).get_field("tokenizer.ggml.pre")
            _write(file, work, digits_apart=field is not None and field.contents() in DIGITS_APART)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise ModelError(f"{file}: cannot convert this GGUF file: {error}") from error
        os.replace(work, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def _write(file: Path, folder: Path, *, digits_apart: bool) -> None:
    model: Any = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    # transformers still calls a dequantised model quantised, and refuses to save it
    model.hf_quantizer, model.is_quantized = None, False
    if "quantization_config" in model.config.to_dict():
        del model.config.quantization_config
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).save_pretrained(folder)
    if digits_apart:
        split_digits(folder / "tokenizer.json")


def split_digits(path: Path) -> None:
    """Put the single-digit split in front of a rebuilt byte-level pre-tokenizer."""
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    if tokenizer["pre_tokenizer"]["type"] == "ByteLevel":
        digits = {"type": "Digits", "individual_digits": True}
        tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [digits, tokenizer["pre_tokenizer"]]}
        path.write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
