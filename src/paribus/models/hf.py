"""Load a causal language model from wherever it lies, and save it as a plain Hugging Face folder."""

from __future__ import annotations

import contextlib
import copy
import errno
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from paribus.batch import Mix
from paribus.errors import ModelError
from paribus.models import gguf, tiny
from paribus.models.mix import inputs
from paribus.settings import ModelSpec

# our own progress lines say what is going on; the library's bars would be torn between them
transformers.utils.logging.disable_progress_bar()

TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json", "vocab.txt", "tekken.json")
PROBE_LENGTH = 7  # tokens of the forward pass that checks a freshly loaded model


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready for use: eval mode with gradients, dropout 0, and the ids that end a response.

    `path` is the folder (or hub id) that the weights were read from.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    spec: ModelSpec
    path: str
    stop_ids: tuple[int, ...]
    pad_id: int


def load_model(spec: ModelSpec, *, device: str | torch.device = "cpu", cache: Path | None = None) -> LoadedModel:
    """Load `spec.path`: "tiny", a local folder, a .gguf file (converted once, into `cache`), or a hub id.

    Only safetensors are read and no code of the model's folder is run. Raises ModelError.
    """
    source = resolve(spec, cache)
    tokenizer = load_tokenizer(source, spec)
    model, absent = load_weights(source, spec, AutoModelForCausalLM)
    refuse_absent(source, absent)
    model.to(torch.device(device))  # type: ignore[arg-type]  # wrapped without its types
    check_vocabulary(model, tokenizer, source)
    check_head(model, source)
    stops = stop_ids(model, tokenizer)
    if not stops:
        raise ModelError(f"{source}: neither generation_config.json nor the tokenizer names an end-of-sequence token")
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else stops[0]
    return LoadedModel(model, tokenizer, spec, source, stops, pad)


def save_model(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, path: str | Path) -> None:
    """Write a folder that plain transformers loads: config, generation config, safetensors, tokenizer, template."""
    try:
        model.save_pretrained(path)
    except SafetensorError as error:  # the library wraps what the system said, as on a full disk
        raise OSError(errno.EIO, str(error)) from error
    tokenizer.save_pretrained(path)


def stop_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """Return every id that ends a response: those of the generation config, and the tokenizer's EOS."""
    declared = model.generation_config.eos_token_id
    ids = set(declared if isinstance(declared, list) else [declared]) | {tokenizer.eos_token_id}
    return tuple(sorted(ids - {None}))


def frozen(loaded: LoadedModel) -> LoadedModel:
    """Return a copy of the model as it is now that no training reaches: a reference, or the policy of the start."""
    return replace(loaded, model=copy.deepcopy(loaded.model).requires_grad_(False))


@torch.no_grad()
def take_weights(model: nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Copy weights by parameter name into a model that has them all."""
    own = dict(model.named_parameters())
    for name, value in weights.items():
        own[name].copy_(value)


def hidden_states(base: nn.Module, tokens: torch.Tensor, mix: Mix | None = None) -> torch.Tensor:
    """Return the last hidden states `[B, T, H]` of right-padded rows `[B, T]` (after the final norm).

    No attention mask is needed: under causal attention a real token never sees the padding behind it, and what
    stands at padded positions is never read. Where `mix` says so, a mix of embeddings is read in a token's place.
    """
    return base(**inputs(base, tokens, mix), use_cache=False).last_hidden_state


@contextlib.contextmanager
def layers_again(base: Any) -> Iterator[None]:
    """Have every layer of the passes inside keep its input alone, and be computed again in their backward passes."""
    base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    base.train()  # asked for by the library; dropout is 0
    try:
        yield
    finally:
        base.eval()
        base.gradient_checkpointing_disable()


def check_vocabulary(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, source: str) -> None:
    """Raise ModelError for a tokenizer with ids that the model's embedding lacks."""
    embedding: Any = model.get_input_embeddings()
    if len(tokenizer) > embedding.num_embeddings:
        raise ModelError(
            f"{source}: the tokenizer has {len(tokenizer)} tokens, the model's embedding only "
            f"{embedding.num_embeddings} rows: they do not belong together"
        )


@torch.no_grad()
def check_head(model: PreTrainedModel, source: str) -> None:
    """Check that logits are the output embedding of the last hidden states, which learner and sampler rely on.

    Raises ModelError for a model that scales or caps them after the head.
    """
    head = model.get_output_embeddings()
    if head is None or model.base_model is model:
        raise ModelError(f"{source}: {type(model).__name__} has no separate base model and output embedding")
    tokens = torch.arange(1, 1 + PROBE_LENGTH, device=model.device).remainder(head.weight.shape[0])[None]
    expected = model(input_ids=tokens, use_cache=False).logits.float()
    ours = head(hidden_states(model.base_model, tokens)).float()
    if not bool(expected.isfinite().all()):
        raise ModelError(f"{source}: the model's logits are not finite: its weights are damaged or overflow this dtype")
    if bool((ours - expected).abs().max() > 1e-4 * expected.abs().max().clamp(min=1)):
        raise ModelError(
            f"{source}: {type(model).__name__} changes its logits after the output embedding (a cap or a scale), "
            "which is not supported: take a model without it"
        )


def resolve(spec: ModelSpec, cache: Path | None) -> str:
    """Return the local folder of a model, or a hub id as it stands."""
    if spec.path == "tiny":
        return str(tiny.path())
    path = Path(spec.path).expanduser()
    if path.suffix == ".gguf":
        return str(gguf.convert(path, cache))
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelError(f"{path}: no config.json: this is not a Hugging Face model folder")
        if not any((path / name).is_file() for name in TOKENIZER_FILES):
            raise ModelError(
                f"{path}: no tokenizer (looked for {', '.join(TOKENIZER_FILES)}): copy the tokenizer files of the "
                "model's own repository into this folder"
            )
        return str(path)
    if path.exists() or spec.path.startswith(("/", ".", "~")) or spec.path.count("/") > 1:
        raise ModelError(f"{spec.path}: no such model folder (and not a .gguf file or a hub id like 'owner/name')")
    return spec.path


def load_tokenizer(source: str, spec: ModelSpec) -> PreTrainedTokenizerBase:
    """Return the tokenizer of a folder or hub id. Raises ModelError."""
    try:
        return AutoTokenizer.from_pretrained(source, revision=spec.revision or "main", trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise ModelError(_failure(source, "tokenizer", error)) from error


def load_weights(source: str, spec: ModelSpec, kind: Any, **config_changes: Any) -> tuple[PreTrainedModel, list[str]]:
    """Return the model in eval mode, and which of its weights the source lacks or has in another shape.

    `kind` is one of transformers' Auto classes. Raises ModelError.
    """
    revision = spec.revision or "main"
    try:
        config = AutoConfig.from_pretrained(source, revision=revision, trust_remote_code=False, **config_changes)
        _without_dropout(config)
        with _without_load_report():
            loaded: Any = kind.from_pretrained(
                source,
                config=config,
                revision=revision,
                dtype=getattr(torch, spec.dtype),
                attn_implementation=spec.attention,
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ModelError(_failure(source, "model", error)) from error
    model, info = loaded
    return model.eval(), sorted(info["missing_keys"]) + sorted(str(key) for key in info["mismatched_keys"])


def refuse_absent(source: str, absent: Sequence[str]) -> None:
    """Raise ModelError if weights are absent."""
    if absent:
        raise ModelError(f"{source}: weights are missing or have the wrong shape: {', '.join(absent[:5])}")


@contextlib.contextmanager
def _without_load_report() -> Iterator[None]:
    """Keep the library from printing which weights are new or unused: whoever loads decides whether that is a fault."""
    level = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers.utils.logging.set_verbosity(level)


def _without_dropout(config: Any) -> None:
    """Set every dropout rate of a config to 0: log-probs of two passes over the same tokens have to agree."""
    for name, value in config.to_dict().items():
        if ("dropout" in name or "pdrop" in name) and isinstance(value, float):
            setattr(config, name, 0.0)


def _failure(source: str, what: str, error: Exception) -> str:
    reason = str(error).strip().split("\n")[0]
    if Path(source).is_dir():
        return f"{source}: cannot load the {what}: {reason} (only safetensors weights are read, never pickle)"
    return (
        f"{source}: not a local folder, and the {what} could not be fetched from the Hugging Face hub: {reason}\n"
        f"Check the spelling and the network, or download it elsewhere with `hf download {source} --local-dir DIR` "
        "and give DIR as model.path."
    )
