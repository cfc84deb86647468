"""AdamW over one model's parameters, and the learning-rate schedule: a pure function of the step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from torch import nn

from paribus.engines.checkpoint import check_tensors, read_tensors, write_tensors
from paribus.settings import OptimSpec

MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # of torch's AdamW


def lr_scale(spec: OptimSpec, step: int, total_steps: int | None) -> float:
    """Return the share of its peak that every learning rate has at `step` (counted from 0).

    After the warm-up, linear and cosine fall from 1 and would reach `decay_to` at step `total_steps`.
    """
    if step < spec.warmup_steps:
        return (step + 1) / spec.warmup_steps
    if spec.schedule == "constant" or total_steps is None:
        return 1.0
    progress = min(1.0, (step - spec.warmup_steps) / max(1, total_steps - spec.warmup_steps))
    fall = progress if spec.schedule == "linear" else (1 - math.cos(math.pi * progress)) / 2
    return 1.0 - (1.0 - spec.decay_to) * fall


class Optimizer:
    """AdamW with whole-update gradients and a global norm clip.

    Parameters below float32 have a float32 master copy: gradients of micro-batches are summed and updates applied
    there, since an update of 1e-6 would vanish in bfloat16. Weight decay acts on every parameter, as in verl.
    """

    def __init__(self, groups: Iterable[tuple[Iterable[tuple[str, nn.Parameter]], float]], spec: OptimSpec) -> None:
        """`groups` holds (named parameters, peak learning rate); a tensor named twice (tied weights) counts once."""
        self.clip_norm = spec.clip_norm
        self.model: dict[str, nn.Parameter] = {}
        self.master: dict[str, nn.Parameter] = {}
        arranged = []
        for named, lr in groups:
            members = []
            for name, parameter in named:
                if any(parameter is other for other in self.model.values()):
                    continue
                self.model[name] = parameter
                self.master[name] = _master(parameter)
                members.append(self.master[name])
            arranged.append({"params": members, "lr": lr, "peak": lr})
        self.adam = torch.optim.AdamW(
            arranged, betas=spec.betas, eps=spec.eps, weight_decay=spec.weight_decay, fused=True
        )

    def _lower(self) -> Iterator[tuple[nn.Parameter, nn.Parameter]]:
        pairs = zip(self.model.values(), self.master.values(), strict=True)
        return ((parameter, master) for parameter, master in pairs if parameter is not master)

    def collect(self) -> None:
        """Add the gradients of one backward pass to those of the update."""
        for parameter, master in self._lower():
            if parameter.grad is not None:
                gradient = parameter.grad.to(master.dtype)
                master.grad = gradient if master.grad is None else master.grad.add_(gradient)
                parameter.grad = None

    def drop(self) -> None:
        """Forget the gradients of the update so far."""
        for parameter in (*self.model.values(), *self.master.values()):
            parameter.grad = None

    def collect_nothing(self) -> None:
        """Give every parameter the gradient 0: AdamW still moves by its moments, where without one it would not."""
        for master in self.master.values():
            master.grad = torch.zeros_like(master)

    @torch.no_grad()
    def step(self, scale: float) -> float:
        """Clip, update with `scale` times the peak learning rates, drop the gradients; return the norm before clipping.

        A norm that is not finite leaves parameters and moments untouched.
        """
        limit = math.inf if self.clip_norm is None else self.clip_norm
        norm = float(torch.nn.utils.clip_grad_norm_(self.master.values(), limit))
        if math.isfinite(norm):
            for group in self.adam.param_groups:
                group["lr"] = group["peak"] * scale
            self.adam.step()
            for parameter, master in self._lower():
                parameter.copy_(master)
        self.adam.zero_grad(set_to_none=True)
        return norm

    @property
    def rates(self) -> list[float]:
        """The learning rate of each group at its last step."""
        return [group["lr"] for group in self.adam.param_groups]

    def save(self, file: Path) -> None:
        """Write moments, step counts and master copies by parameter name."""
        tensors: dict[str, torch.Tensor] = {}
        for name, master in self.master.items():
            tensors |= {f"{name}.{field}": value for field, value in self.adam.state[master].items()}
            if master is not self.model[name]:
                tensors[f"{name}.master"] = master
        write_tensors(file, tensors)

    @torch.no_grad()
    def restore(self, file: Path) -> None:
        """Take back what `save` wrote; a parameter that was never updated has no moments again."""
        found = read_tensors(file)
        expected: dict[str, torch.Tensor] = {}
        for name, master in self.master.items():
            if any(f"{name}.{field}" in found for field in MOMENTS):
                expected |= {f"{name}.{field}": master for field in MOMENTS} | {f"{name}.step": torch.zeros(())}
            if master is not self.model[name]:
                expected[f"{name}.master"] = master
        check_tensors(file, found, expected)
        self.adam.state.clear()
        for name, master in self.master.items():
            if f"{name}.step" in found:
                # AdamW keeps the step count on the CPU
                moments = {field: found[f"{name}.{field}"].to(master.device) for field in MOMENTS[1:]}
                self.adam.state[master] = {"step": found[f"{name}.step"], **moments}
            if master is not self.model[name]:
                master.copy_(found[f"{name}.master"])


def _master(parameter: nn.Parameter) -> nn.Parameter:
    wide = torch.promote_types(parameter.dtype, torch.float32)
    return parameter if parameter.dtype == wide else nn.Parameter(parameter.detach().to(wide, copy=True))
