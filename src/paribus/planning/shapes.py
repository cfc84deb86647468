"""The shape of a model without its weights: read from a config.json, or one of a few that are known by name."""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from paribus.errors import ModelError
from paribus.settings import ModelSpec

KINDS = ("llama", "mistral", "qwen2", "qwen3", "smollm3")  # decoders with RMS norms, rotary positions and a gated MLP
HOW = (
    "give model.path a folder with the model's config.json (the weights need not be there), as "
    "`hf download OWNER/NAME config.json --local-dir DIR` writes it"
)


class ModelShape(NamedTuple):
    """Sizes of a decoder of the Llama family; `qkv_bias` as in Qwen2, `qk_norm` as in Qwen3."""

    kind: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    tied: bool
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False

    @property
    def query(self) -> int:
        """Width of all query heads."""
        return self.heads * self.head_dim

    @property
    def key(self) -> int:
        """Width of all key heads; the values are as wide."""
        return self.kv_heads * self.head_dim

    @property
    def embedding(self) -> int:
        """Parameters of the embedding, and of the output embedding where it is not the same one."""
        return self.vocabulary * self.hidden

    @property
    def trunk(self) -> int:
        """Parameters of all but an output embedding of its own: what a critic copies."""
        stacked = self.stacked
        h, q, k, i = self.hidden, self.query, self.key, self.intermediate
        layer = q * h + i * h + 2 * h  # output of attention and of the MLP, two norms
        layer += (q + 2 * k) * self.qkv_bias + h * self.out_bias + (2 * i + h) * self.mlp_bias
        layer += 2 * self.head_dim * self.qk_norm
        return self.embedding + stacked + self.layers * layer + h

    @property
    def stacked(self) -> int:
        """Parameters of the projections that read the same input (queries, keys, values; gate and up), all layers."""
        return self.layers * self.hidden * (self.query + 2 * self.key + 2 * self.intermediate)

    @property
    def parameters(self) -> int:
        return self.trunk + (0 if self.tied else self.embedding)

    @property
    def kv_per_token(self) -> int:
        """Numbers that a key-value cache holds of one token."""
        return 2 * self.layers * self.key


class FoundShape(NamedTuple):
    """A shape, where it was found in words, and the folder that holds its config, where there is one."""

    shape: ModelShape
    source: str
    folder: Path | None = None


Sizes = tuple[int, int, int, int, int, int, int]


def _known(*rows: tuple[str, str, Sizes, bool]) -> dict[str, ModelShape]:
    return {
        name.lower(): ModelShape(kind, *sizes, tied=tied, qkv_bias=kind == "qwen2", qk_norm=kind == "qwen3")
        for name, kind, sizes, tied in rows
    }


# Public config.json files of the models' hub repositories: hidden, layers, heads, key-value heads, head width,
# intermediate, vocabulary, tied. A test holds their parameter counts against the published ones.
KNOWN = _known(
    ("Qwen2.5-0.5B", "qwen2", (896, 24, 14, 2, 64, 4864, 151_936), True),
    ("Qwen2.5-1.5B", "qwen2", (1536, 28, 12, 2, 128, 8960, 151_936), True),
    ("Qwen2.5-3B", "qwen2", (2048, 36, 16, 2, 128, 11_008, 151_936), True),
    ("Qwen2.5-7B", "qwen2", (3584, 28, 28, 4, 128, 18_944, 152_064), False),
    ("Qwen3-0.6B", "qwen3", (1024, 28, 16, 8, 128, 3072, 151_936), True),
    ("Qwen3-1.7B", "qwen3", (2048, 28, 16, 8, 128, 6144, 151_936), True),
    ("Qwen3-4B", "qwen3", (2560, 36, 32, 8, 128, 9728, 151_936), True),
    ("Qwen3-8B", "qwen3", (4096, 36, 32, 8, 128, 12_288, 151_936), False),
    ("Llama-2-7b", "llama", (4096, 32, 32, 32, 128, 11_008, 32_000), False),
    ("Llama-3.1-8B", "llama", (4096, 32, 32, 8, 128, 14_336, 128_256), False),
    ("Llama-3.2-1B", "llama", (2048, 16, 32, 8, 64, 8192, 128_256), True),
    ("Llama-3.2-3B", "llama", (3072, 28, 24, 8, 128, 8192, 128_256), True),
    ("SmolLM2-135M", "llama", (576, 30, 9, 3, 64, 1536, 49_152), True),
    ("SmolLM2-360M", "llama", (960, 32, 15, 5, 64, 2560, 49_152), True),
    ("SmolLM2-1.7B", "llama", (2048, 24, 32, 32, 64, 8192, 49_152), True),
)
_VARIANT = re.compile(r"(-(instruct|base|chat|hf))+$")


def find_shape(spec: ModelSpec) -> FoundShape:
    """Return the shape of the model that `spec` names. Raises ModelError where no config is at hand."""
    if spec.path == "tiny":
        from paribus import models

        found = from_folder(Path(models.__file__).parent / "assets" / "tiny")
        return found._replace(source="the embedded model")
    path = Path(spec.path).expanduser()
    if path.suffix == ".gguf":
        converted = sorted(path.parent.glob(f"{path.stem}-*/config.json"))
        if not converted:
            raise ModelError(f"{spec.path}: its shape is known once it has been converted, which the first run does")
        return from_folder(converted[-1].parent)
    if path.is_dir():
        return from_folder(path)
    cached = _cached(spec)
    if cached is not None:
        return from_folder(cached)
    name = _VARIANT.sub("", spec.path.rpartition("/")[2].lower())
    if name in KNOWN:
        return FoundShape(KNOWN[name], f"the published shape of {spec.path}: no config.json of it is at hand")
    raise ModelError(f"{spec.path}: the shapes of its weights are not known here: {HOW}")


def from_folder(folder: Path) -> FoundShape:
    """Return the shape that a folder's config.json tells, checked against its weights where they lie beside it."""
    file = folder / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{file}: cannot be read: {error}") from None
    shape = from_config(config, str(file))
    stored = stored_parameters(folder)
    source = str(file)
    if stored is not None and stored not in (shape.parameters, shape.trunk):
        source += f"; its weights hold {stored:,} parameters, the shape {shape.parameters:,}"
    return FoundShape(shape, source, folder)


def from_config(config: Mapping[str, Any], where: str) -> ModelShape:
    """Return the shape that the values of a config.json describe. Raises ModelError for another kind of model."""
    kind = config.get("model_type")
    if kind not in KINDS:
        raise ModelError(f"{where}: memory is planned for {', '.join(KINDS)}, and this is a model of type {kind!r}")
    absent = [k for k in ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size") if k not in config]
    if absent:
        raise ModelError(f"{where}: lacks {', '.join(absent)}: take the config.json of the model's own repository")
    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    bias = bool(config.get("attention_bias", False))
    return ModelShape(
        kind=kind,
        hidden=hidden,
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or hidden // heads,
        intermediate=config["intermediate_size"],
        vocabulary=config["vocab_size"],
        tied=bool(config.get("tie_word_embeddings", kind in ("qwen3", "smollm3"))),
        qkv_bias=bias or kind == "qwen2",
        out_bias=bias,
        mlp_bias=bool(config.get("mlp_bias", False)),
        qk_norm=kind == "qwen3",
    )


def stored_parameters(folder: Path) -> int | None:
    """Count the parameters of a folder's safetensors files by their headers; None where there are none."""
    files = sorted(folder.glob("*.safetensors"))
    return sum(map(_count, files)) if files else None


def _count(file: Path) -> int:
    with open(file, "rb") as stream:
        (size,) = struct.unpack("<Q", stream.read(8))
        header = json.loads(stream.read(size))
    total = 0
    for name, tensor in header.items():
        if name != "__metadata__":
            product = 1
            for extent in tensor["shape"]:
                product *= extent
            total += product
    return total


def _cached(spec: ModelSpec) -> Path | None:
    """Return the folder of the hub's local cache that holds the config of a hub id."""
    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))
    repository = Path(os.environ.get("HF_HUB_CACHE", home / "hub")) / f"models--{spec.path.replace('/', '--')}"
    revision = spec.revision or "main"
    reference = repository / "refs" / revision
    commit = reference.read_text(encoding="utf-8").strip() if reference.is_file() else revision
    folder = repository / "snapshots" / commit
    return folder if (folder / "config.json").is_file() else None
