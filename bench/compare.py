"""From measured steps to medians, spreads and ratios: pure functions over what the processes answered."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

Steps = Sequence[dict[str, Any]]  # answers of one side


def spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def side(steps: Steps) -> dict[str, Any]:
    """Return one side's seconds by phase, tokens per second and peak memory."""
    phases = sorted({name for step in steps for name in step["seconds"]})
    return {
        "seconds": {name: spread([step["seconds"].get(name, 0.0) for step in steps]) for name in phases},
        "tokens": steps[-1]["tokens"],
        "tokens_per_second": spread([step["tokens"] / step["seconds"]["step"] for step in steps]),
        "peak_rss": max(step["peak_rss"] for step in steps),
    }


def ratios(ours: Steps, other: Steps) -> dict[str, dict[str, float]]:
    """Return, by phase that both have, how many times our seconds the other side took, over the pairs."""
    both = [n for n in other[0]["seconds"] if all(n in s["seconds"] and s["seconds"][n] > 0 for s in [*ours, *other])]
    pairs = list(zip(ours, other, strict=True))
    return {n: spread([theirs["seconds"][n] / mine["seconds"][n] for mine, theirs in pairs]) for n in both}


def per_token(ours: Steps, other: Steps) -> dict[str, float]:
    """Return how many times our seconds a token the other side took, over the pairs."""

    def cost(step: dict[str, Any]) -> float:
        return step["seconds"]["step"] / step["tokens"]

    return spread([cost(theirs) / cost(mine) for mine, theirs in zip(ours, other, strict=True)])


def extra(ours: Steps, other: Steps, phases: Sequence[str], rate: float) -> dict[str, Any]:
    """Return how much longer the other side's step is, and in units of what its `phases` need at `rate` FLOP/s."""
    seconds = [theirs["seconds"]["step"] - mine["seconds"]["step"] for mine, theirs in zip(ours, other, strict=True)]
    needed = sum(other[-1]["flops"][name] for name in phases) / rate
    return {"seconds": spread(seconds), "needed": needed, "ratio": spread([s / needed for s in seconds])}


def efficiency(steps: Steps, rate: float) -> dict[str, dict[str, float]]:
    """Return, by phase of which the needed operations are known, the share of `rate` (FLOP/s) that was reached."""
    counted = steps[-1]["flops"]
    return {
        name: spread([step["flops"][name] / step["seconds"][name] / rate for step in steps])
        for name in counted
        if all(step["seconds"].get(name, 0) > 0 for step in steps)
    }


def outside(steps: Steps) -> dict[str, dict[str, float]]:
    """Return the shares of a step outside the model's passes: all of it, and what of it has a name."""
    whole = [step["seconds"]["step"] for step in steps]
    kinds = {k: [s["inside"][k] / w for s, w in zip(steps, whole, strict=True)] for k in steps[0]["inside"]}
    model = kinds.pop("model")
    return {name: spread(shares) for name, shares in {"all": [1 - share for share in model], **kinds}.items()}


def summary(ours: Steps, other: Steps, rate: float) -> dict[str, Any]:
    """Return everything a page says of one pair of sides."""
    found = {
        "ours": side(ours),
        "other": side(other),
        "ratio": ratios(ours, other),
        "per_token": per_token(ours, other),
        "memory": side(other)["peak_rss"] / side(ours)["peak_rss"],
        "efficiency": efficiency(ours, rate),
        "outside": outside(ours),
    }
    critic = ("values", "critic_update")
    if all(name in other[-1].get("flops", {}) for name in critic):
        found["critic"] = extra(ours, other, critic, rate)
    return found
