"""What every arm of an experiment shares, as Parts: model, rollout, optimizer, budget, evaluation, saving, machine."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from paribus.part import Part


def _commit(text: str) -> str:
    if not re.fullmatch("[0-9a-f]{40}", text):
        raise ValueError(f"'{text}' is no commit: give its 40 hexadecimal digits (branches and tags move)")
    return text


Commit = Annotated[str, AfterValidator(_commit)]  # of a data set of the hub


class ModelSpec(Part):
    """Which weights to start from, and how they are held."""

    path: str = "tiny"  # "tiny" (embedded), a local folder, a .gguf file, or a hub id
    revision: str | None = None  # of a hub id
    dtype: Literal["float32", "bfloat16"] = "float32"
    attention: Literal["sdpa", "eager"] = "sdpa"


class LocalEngine(Part):
    """The learner's own module samples."""

    type: Literal["local"] = "local"


class VllmEngine(Part):
    """vLLM samples, in the same process on the same device; evaluation too."""

    type: Literal["vllm"] = "vllm"
    memory: float = Field(default=0.4, gt=0, lt=1)  # share of a GPU's memory that it may hold while it samples
    eager: bool = False  # without compiling and CUDA graphs: starts sooner, samples slower


Engine = Annotated[LocalEngine | VllmEngine, Field(discriminator="type")]


class RolloutSpec(Part):
    """How a step samples: the same prompts, in the same order, with the same noise, in every arm."""

    prompts_per_step: int = Field(ge=1)
    samples_per_prompt: int = Field(ge=1)
    max_prompt: int = Field(default=512, ge=1)  # tokens
    overlong: Literal["error", "drop", "cut"] = "error"  # a longer prompt stops the run, is dropped, or is cut left
    max_response: int = Field(ge=1)  # tokens; also the horizon of constant-length aggregation
    temperature: float = Field(default=1.0, gt=0)
    top_p: float = Field(default=1.0, ge=1, le=1)  # no truncation in training: log-probs are of the full softmax
    engine: Engine = LocalEngine()  # of training and evaluation


class OptimSpec(Part):
    """AdamW and the loop around it. A critic uses the same schedule with its own `lr`."""

    lr: float = Field(gt=0)
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    clip_norm: float | None = 1.0  # global gradient norm, per model
    warmup_steps: int = Field(default=0, ge=0)  # steps (not updates) of linear warm-up; step k of w: lr * (k + 1) / w
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    decay_to: float = Field(default=0.0, ge=0, le=1)  # share of lr that linear and cosine end at
    epochs: int = Field(default=1, ge=1)  # passes over a step's rows
    minibatch_prompts: int | None = None  # prompts per update; None: all of the step (one update per epoch)


class Budget(Part):
    """The axis of fairness: every arm stops at the same count. Exactly one is given."""

    steps: int | None = Field(default=None, ge=1)
    samples: int | None = Field(default=None, ge=1)
    tokens: int | None = Field(default=None, ge=1)  # sampled tokens
    seconds: float | None = Field(default=None, gt=0)  # declared not bit-exactly resumable

    @model_validator(mode="after")
    def _one(self) -> Budget:
        if sum(x is not None for x in (self.steps, self.samples, self.tokens, self.seconds)) != 1:
            raise ValueError("give exactly one of steps, samples, tokens, seconds")
        return self


class SaveSpec(Part):
    """Checkpoints and records of a run."""

    every: int = Field(default=10, ge=1)  # steps
    keep: int = Field(default=2, ge=1)  # newest complete checkpoints kept
    rollouts_every: int | None = Field(default=10, ge=1)  # steps between stored samples of rollouts
    rollout_groups: int = Field(default=4, ge=1)  # groups stored then


class LimitSpec(Part):
    """When a run that cannot succeed stops by itself."""

    nonfinite_streak: int = Field(default=5, ge=1)  # consecutive updates with a non-finite gradient (each is skipped)
    grader_errors: float = Field(default=0.05, ge=0, le=1)  # share of a step's rows whose grader crashed or timed out


class MachineSpec(Part):
    """The machine: nothing here may change an update, beyond float rounding."""

    device: str = "auto"  # "auto", "cpu", "cuda", "cuda:0"
    # None: 1 for a model of at most 16 MiB, else PyTorch's choice; bit-exact resume needs the same
    threads: int | None = Field(default=None, ge=1)
    # runs at work at a time, each on its threads; "auto": as many as have cores and memory where the model is that
    # small, else one, and one on a GPU
    parallel: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    micro_tokens: int = Field(default=2048, ge=1)  # of one training forward, at most; with padding, where it pads
    recompute: bool = False  # compute layers again in backward passes; done anyway where memory is short for one row
    memory: float | None = Field(default=None, gt=0)  # GB (10^9 bytes) that a run may hold; None: what the machine has
    decode_rows: int = Field(default=512, ge=1)  # rows decoded at once
    skip_rows: bool = True  # rows without any gradient are left out of the policy's update; all totals still count them
    # nats a token by which log-probs may miss those of a pass of their own and still be the old ones: those of the only
    # update of a step do not, the sampler's are compared on a probe where there are several; None: always such a pass
    old_gap: float | None = Field(default=1e-4, ge=0)
    price_per_hour: float = Field(default=1.5, ge=0)  # for the cost table
