"""Masked and grouped operations on `[B]` and `[B, T]` tensors; junk or NaN outside the mask never matters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paribus.lazy import torch

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
    from torch import Tensor


def keep(x: Float[Tensor, "..."], mask: Bool[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Return `x` with 0 outside the mask; its gradient is exactly 0 there, whatever stood there (0 * NaN is NaN)."""
    return torch.where(mask, x, torch.zeros((), dtype=x.dtype, device=x.device))


def masked_sum(x: Float[Tensor, "..."], mask: Bool[Tensor, "..."]) -> Float[Tensor, ""]:
    return keep(x, mask).sum()


def masked_mean(x: Float[Tensor, "..."], mask: Bool[Tensor, "..."]) -> Float[Tensor, ""]:
    """Mean over the mask; 0 when nothing is valid."""
    return masked_sum(x, mask) / mask.sum().clamp(min=1)


def masked_var(x: Float[Tensor, "..."], mask: Bool[Tensor, "..."], ddof: int) -> Float[Tensor, ""]:
    """Variance over the mask with `ddof` (1 = Bessel); 0 when no more than `ddof` values are valid."""
    centred = keep(x - masked_mean(x, mask), mask)
    return (centred * centred).sum() / (mask.sum() - ddof).clamp(min=1)


def last(mask: Bool[Tensor, "B T"]) -> Bool[Tensor, "B T"]:
    """True at the last valid position of each row, nowhere in a row without one."""
    after = mask.flip(1).long().cumsum(1).flip(1)  # valid positions from t on
    return mask & (after == 1)


def at_last(x: Float[Tensor, "B"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """Put one number per row at its last valid position."""
    return keep(x[:, None].expand(mask.shape), last(mask))


def broadcast(x: Float[Tensor, "B"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """Give every valid position of a row the row's number."""
    return keep(x[:, None].expand(mask.shape), mask)


def group_index(group: Int[Tensor, "B"]) -> tuple[Int[Tensor, "B"], int]:
    """Number the groups 0..n-1 (ids may be any integers, rows in any order); return index and n."""
    ids, index = torch.unique(group, return_inverse=True)
    return index, int(ids.shape[0])


def group_sum(x: Float[Tensor, "B"], group: Int[Tensor, "B"], valid: Bool[Tensor, "B"]) -> Float[Tensor, "B"]:
    """Sum over the valid rows of each row's group."""
    index, n = group_index(group)
    return torch.zeros(n, dtype=x.dtype, device=x.device).index_add(0, index, keep(x, valid))[index]


def group_count(group: Int[Tensor, "B"], valid: Bool[Tensor, "B"], dtype: torch.dtype) -> Float[Tensor, "B"]:
    """Valid rows in each row's group."""
    return group_sum(torch.ones(group.shape, dtype=dtype, device=group.device), group, valid)


def group_mean(x: Float[Tensor, "B"], group: Int[Tensor, "B"], valid: Bool[Tensor, "B"]) -> Float[Tensor, "B"]:
    """Mean over the valid rows of each row's group; 0 for a group without any."""
    return group_sum(x, group, valid) / group_count(group, valid, x.dtype).clamp(min=1)


def group_std(
    x: Float[Tensor, "B"], group: Int[Tensor, "B"], valid: Bool[Tensor, "B"], ddof: int
) -> Float[Tensor, "B"]:
    """Standard deviation over the valid rows of each row's group; 0 where no more than `ddof` rows are valid."""
    centred = keep(x - group_mean(x, group, valid), valid)
    count = group_count(group, valid, x.dtype)
    return (group_sum(centred * centred, group, valid) / (count - ddof).clamp(min=1)).sqrt()


def uniform_groups(x: Float[Tensor, "B"], group: Int[Tensor, "B"], valid: Bool[Tensor, "B"]) -> Bool[Tensor, "B"]:
    """True for the rows of groups whose valid values are all equal up to rounding (max - min, not std == 0)."""
    index, n = group_index(group)
    inf = torch.full((n,), float("inf"), dtype=x.dtype, device=x.device)
    high = (-inf).scatter_reduce(0, index, torch.where(valid, x, -inf[index]), "amax")
    low = inf.scatter_reduce(0, index, torch.where(valid, x, inf[index]), "amin")
    scale = torch.maximum(high.abs(), low.abs())
    tolerance = max(1e-9, 8 * torch.finfo(x.dtype).eps)
    return ~((high - low) > tolerance * scale.clamp(min=1.0))[index]
