"""Seeded random batches: what a training step of each kind could look like, at small sizes and with hard cases in."""

from __future__ import annotations

import functools

import torch
from exchange import Fields
from torch import Generator, Tensor

HORIZON = 12  # the response limit; padded widths differ from it
BATCHES = 200


def _normal(shape: tuple[int, ...], generator: Generator) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def _int(low: int, high: int, generator: Generator) -> int:
    return int(torch.randint(low, high + 1, (), generator=generator))


def _log_probs(shape: tuple[int, ...], generator: Generator) -> Tensor:
    return -(_normal(shape, generator).abs() * 1.5 + 1e-3)


def _moved(logp: Tensor, scale: float, generator: Generator) -> Tensor:
    """Log-probs of a policy that has moved: most tokens a little, one in eight far."""
    far = torch.rand(logp.shape, generator=generator) < 0.125
    step = torch.where(far, 4 * scale, scale) * _normal(tuple(logp.shape), generator)
    return (logp + step).clamp(max=-1e-4)


def _mask(rows: int, width: int, holes: bool, generator: Generator) -> Tensor:
    """Ragged rows, one of full width; with holes, tokens inside a row that the policy did not sample (tool output)."""
    length = torch.randint(1, width + 1, (rows,), generator=generator)
    length[_int(0, rows - 1, generator)] = width
    position = torch.arange(width)[None]
    mask = position < length[:, None]
    if holes:
        hole = torch.rand(mask.shape, generator=generator) < 0.25
        mask &= ~(hole & (position < length[:, None] - 1))
    return mask


def _score(index: int, group: Tensor, generator: Generator) -> Tensor:
    """Binary and continuous rewards in turn; in every third batch the first group's are all equal."""
    rows = len(group)
    score = _normal((rows,), generator)
    if index % 2:
        score = (score > 0).double()
    if index % 3 == 0:
        score[group == group[0]] = 1.0 if index % 2 else 0.1
    return score


def samples(index: int, *, even: bool = False, holes: bool = True, far: bool = False, single: bool = False) -> Fields:
    """A step of an online method; outside the mask stands junk, as in a padded batch.

    `even`: equal groups in order, the only ones TRL takes. `holes`: in every fourth batch, tokens that the policy did
    not sample. `far`: some log-ratios past 20, where verl holds them. `single`: one group of one row.
    """
    generator = torch.Generator().manual_seed(1000 + index)
    prompts, width = _int(2, 4, generator), _int(6, HORIZON, generator)
    holes = holes and index % 4 == 0
    if even:
        group = torch.arange(prompts).repeat_interleave(_int(2, 5, generator))
    else:
        sizes = [_int(2, 6, generator) for _ in range(prompts)] + [1] * single
        group = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
        group = group[torch.randperm(len(group), generator=generator)]
    shape = (len(group), width)
    old = _log_probs(shape, generator)
    logp = _moved(old, 0.25, generator)
    jump = torch.rand(shape, generator=generator)
    old = torch.where(jump < 0.02, old - 3.5, old)  # ratios past 20, where verl's DPPO caps them
    if far:
        old, logp = old.masked_fill(jump < 0.01, -26.0), logp.masked_fill(jump > 0.99, -26.0)
    values = _normal(shape, generator)
    greedy = _normal((int(group.max()) + 1,), generator)[group]
    return {
        "mask": _mask(*shape, holes, generator),
        "group": group,
        "score": _score(index, group, generator),
        "logp": logp,
        "old_logp": old,
        "sampled_logp": _moved(old, 0.1, generator),
        "ref_logp": _moved(old, 0.5, generator),
        "entropy": _normal(shape, generator).abs(),
        "old_values": values,
        "values": values + 0.4 * _normal(shape, generator),
        "greedy_score": greedy,
    }


def pairs(index: int, *, margin: bool = False, equal: bool = False, free: bool = False) -> Fields:
    """Preference data, the chosen responses first and the rejected ones after them, pair by pair.

    `good` labels the same rows for unpaired losses, `other` are responses to other prompts (KTO's reference point,
    positive in most batches and held at 0 in some). `equal`: rows of one length; `free`: a reference of log-prob 0.
    """
    generator = torch.Generator().manual_seed(5000 + index)
    count, width = _int(2, 6, generator), _int(4, HORIZON, generator)
    shape = (2 * count, width)
    start, other = _log_probs(shape, generator), _log_probs(shape, generator)
    good = torch.rand(2 * count, generator=generator) < 0.6
    good[0], good[1] = True, False
    ragged = _mask(*shape, False, generator)
    x = {
        "mask": torch.ones(shape, dtype=torch.bool) if equal else ragged,
        "logp": _moved(start, 0.25, generator),
        "ref_logp": torch.zeros(shape, dtype=torch.float64) if free else start,
        "good": good,
        "other_mask": _mask(*shape, False, generator),
        "other_logp": (_moved(other, 0.25, generator) + (0.15 if index % 4 else -0.3)).clamp(max=-1e-4),
        "other_ref_logp": other,
        "reward": 2 * _normal((2 * count,), generator),
    }
    return x | ({"margin": _normal((count,), generator).abs()} if margin else {})


MAKERS = {
    "ragged": samples,
    "far": functools.partial(samples, far=True),
    "single": functools.partial(samples, single=True),
    "even": functools.partial(samples, even=True),
    "even_whole": functools.partial(samples, even=True, holes=False),
    "pairs": pairs,
    "pairs_margin": functools.partial(pairs, margin=True),
    "pairs_equal": functools.partial(pairs, equal=True),
    "pairs_free": functools.partial(pairs, free=True),
}
