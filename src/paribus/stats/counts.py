"""Two checkpoints: what their numbers of right answers alone allow to be said, and how many problems they need."""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import NamedTuple

from paribus.stats.interval import score_bounds, z_quantile
from paribus.stats.paired import mcnemar
from paribus.stats.power import Spread, seeds_needed


class Discordance(NamedTuple):
    """What the counts of right answers say of A - B, and how much hangs on what they leave out.

    `z`, `p` and the interval (at 1 - alpha) treat the two as if they had answered different problems; that is all the
    counts give. On the same problems the verdict hangs on the number of discordant ones, which only one got right: from
    `least` to `most` are possible, and p is below alpha up to `most_mid_p` of them by the mid-p, `most_exact` by the
    exact test (None: at no number). `problems_needed` would show the observed difference between these checkpoints if
    their scores correlate by `correlation`; `seeds_needed` per arm would show it of the algorithms, on these problems,
    if accuracy varies by `seed_sd` from run to run; each in 80 % of repeats, None where no number does.
    """

    estimate: float
    low: float
    high: float
    problems: int
    z: float
    p: float
    least: int
    most: int
    most_mid_p: int | None
    most_exact: int | None
    problems_needed: int | None
    correlation: float
    seeds_needed: int | None
    seed_sd: float


def discordance(
    correct_a: int,
    correct_b: int,
    problems: int,
    *,
    alpha: float = 0.05,
    power: float = 0.8,
    correlation: float = 0.5,
    seed_sd: float = 0.015,
) -> Discordance:
    """Say what two counts of right answers to the same `problems` allow; `seed_sd` is a fraction, not points."""
    if not 0 <= correct_a <= problems or not 0 <= correct_b <= problems or problems < 2:
        raise ValueError(
            f"{correct_a} and {correct_b} are not numbers of right answers to {problems} problems, 2 or more"
        )
    a, b, gap = correct_a / problems, correct_b / problems, abs(correct_a - correct_b)
    pooled = (a + b) / 2
    se = math.sqrt(2 * pooled * (1 - pooled) / problems)
    z = (a - b) / se if gap else 0.0
    quantile = z_quantile(1 - alpha)
    (low_a, high_a), (low_b, high_b) = score_bounds(a, problems, quantile), score_bounds(b, problems, quantile)
    most = 2 * min(max(correct_a, correct_b), problems - min(correct_a, correct_b)) - gap
    totals = range(gap, most + 1, 2)
    shared = correlation * math.sqrt(a * (1 - a) * b * (1 - b))
    variance = a * (1 - a) + b * (1 - b) - 2 * shared
    return Discordance(
        estimate=a - b,
        low=a - b - math.hypot(a - low_a, high_b - b),
        high=a - b + math.hypot(high_a - a, b - low_b),
        problems=problems,
        z=z,
        p=math.erfc(abs(z) / math.sqrt(2)),
        least=gap,
        most=most,
        most_mid_p=_last_significant(totals, gap, alpha, mid=True),
        most_exact=_last_significant(totals, gap, alpha, mid=False),
        problems_needed=checkpoint_problems(a - b, variance + (a - b) ** 2, alpha, power),
        correlation=correlation,
        seeds_needed=seeds_needed(Spread(seed_sd, 0.0, 0.0), abs(a - b), problems, power, alpha) if gap else None,
        seed_sd=seed_sd,
    )


def checkpoint_problems(effect: float, square: float, alpha: float = 0.05, power: float = 0.8) -> int | None:
    """Return how many problems would show `effect` between two checkpoints; None if it is 0.

    `square` is the mean square of the difference on one problem: for right-or-wrong scores the share of discordant
    problems (Connor 1987, for McNemar's test).
    """
    if effect == 0:
        return None
    reach = z_quantile(1 - alpha) * math.sqrt(square) + z_quantile(2 * power - 1) * math.sqrt(square - effect**2)
    return math.ceil((reach / effect) ** 2)


def checkpoint_problems_for_equivalence(margin: float, variance: float, alpha: float = 0.05, power: float = 0.8) -> int:
    """Return how many problems would show two checkpoints to be within `margin`, if they do not differ (TOST).

    `variance` is that of the difference on one problem.
    """
    reach = (z_quantile(1 - 2 * alpha) + z_quantile(power)) * math.sqrt(variance)
    return max(2, math.ceil((reach / margin) ** 2))


def _last_significant(totals: range, gap: int, alpha: float, *, mid: bool) -> int | None:
    """Return the most discordant problems with p below alpha; with the gap given, p grows with them."""
    count = bisect_left(totals, alpha, key=lambda total: mcnemar((total + gap) // 2, (total - gap) // 2, mid=mid))
    return totals[count - 1] if count else None
