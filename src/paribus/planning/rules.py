"""The written rules of advice: what is measured, the boundary it is held against, and what follows on either side.

A rule speaks only where the whole interval of its measure lies on one side of its boundary; elsewhere it abstains. All
comparisons are at equal wall-clock. A rule without a study behind its boundary says so in its source.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from paribus.algorithms import Algorithm, Need, Offline
from paribus.algorithms.advantage import GroupZScore
from paribus.algorithms.aggregate import Constant
from paribus.algorithms.offline import OwnPairs
from paribus.algorithms.surrogate import Clip, SequenceRatio
from paribus.algorithms.trust import PrefixBudget
from paribus.report.message import Message, msg
from paribus.stats import Interval

Unit = Literal["prompts", "timed steps", "prompts and timed steps", "runs"]
ENOUGH_GROUP = 1.25  # G / (G - 1): the variance that a group baseline may add


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """Everything that the rules look at; None: not measured. `group` is the experiment's samples per prompt."""

    group: int
    informative: Mapping[int, Interval]  # group size -> share of prompts with two different rewards
    rates: Mapping[int, Interval]  # group size -> informative groups a second, relative to the present size
    critic_factor: Interval  # mean_t(1 - EV(t)): variance under token-level values, relative to within-prompt variance
    reliability: Interval | None
    length_credit: Interval  # correlation of length and reward among the samples of a prompt
    extremes: Interval  # share of prompts with a success rate below 10 % or above 90 %
    drift: Interval  # sum of |log-prob of the learner - of the sampler| over a response
    time_ratio: Interval | None = None  # seconds of a step, the critic's arm over the group's
    upper_clip: Interval | None = None  # share of tokens cut at the upper clip, in the timed steps
    entropy_fall: Interval | None = None  # relative fall of entropy in a step
    rollout_share: Interval | None = None  # of a step's seconds
    memory: Mapping[str, Interval] | None = None  # arm -> share of the device's memory at its peak


class Effect(NamedTuple):
    """What follows: in words, and which trait of a method gains a vote."""

    text: Message
    favours: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule: `measure` gives a number with its interval, or None where the pilot has none."""

    number: int  # as in the written list
    name: str
    signal: Message
    measure: Callable[[Signals], Interval | None]
    boundary: float
    above: Effect
    below: Effect
    source: str
    unit: Unit = "prompts"


def traits(algorithm: Algorithm) -> frozenset[str]:
    """Return what the rules may favour in a method."""
    if isinstance(algorithm, Offline):
        return frozenset({"dpo"} if isinstance(algorithm.source, OwnPairs) else ())
    found = {"critic"} if algorithm.critic is not None else {"group"} if Need.GROUP in algorithm.needs else set()
    if (
        "group" in found
        and not isinstance(algorithm.advantage, GroupZScore)
        and isinstance(algorithm.aggregate, Constant)
    ):
        found.add("dr_grpo")
    by_sequence = isinstance(algorithm.ratio, SequenceRatio)
    if by_sequence or isinstance(algorithm.surrogate, PrefixBudget):
        found.add("gspo")
    elif isinstance(algorithm.surrogate, Clip) and algorithm.surrogate.high > algorithm.surrogate.low:
        found.add("dapo")
    return frozenset(found)


VARIANTS = ("dr_grpo", "dapo", "gspo", "dpo")  # traits that a catalogue entry of that name has


def group_penalty(group: int) -> float:
    """Return G / (G - 1): the variance of credit against the mean of the others, relative to the true success rate."""
    return group / (group - 1) if group > 1 else math.inf


def break_even(time_ratio: float, group: int) -> float:
    """Return the relative value error m0 at which a critic and a group baseline give credit of equal variance in equal
    time, (1 + m0) tau = G / (G - 1); below 0: no critic is good enough."""
    return group_penalty(group) / time_ratio - 1


def _largest(s: Signals) -> Interval:
    return s.informative[max(s.informative)]


def best_group(s: Signals) -> int:
    """Return the group size of most informative groups a second, of those whose baseline adds at most a quarter."""
    allowed = [g for g in s.rates if group_penalty(g) <= ENOUGH_GROUP] or [max(s.rates)]
    return max(allowed, key=lambda g: s.rates[g].estimate)


def _exact(value: float) -> Interval:
    return Interval(value, value, value, 1, "exact")


def _critic_against_group(s: Signals) -> Interval | None:
    return None if s.time_ratio is None else product(s.critic_factor, s.time_ratio, 1 / group_penalty(s.group))


def _offline(s: Signals) -> Interval | None:
    """The lesser of rollout share / 0.5 and f(G) / 0.8: above 1 where both conditions hold."""
    if s.rollout_share is None:
        return None
    informative = s.informative[min(s.informative, key=lambda g: abs(g - s.group))]
    a, b = scaled(s.rollout_share, 1 / 0.5), scaled(informative, 1 / 0.8)
    return Interval(min(a.estimate, b.estimate), min(a.low, b.low), min(a.high, b.high), min(a.n, b.n), a.method)


def scaled(x: Interval, by: float) -> Interval:
    return x._replace(estimate=x.estimate * by, low=x.low * by, high=x.high * by)


def product(a: Interval, b: Interval, by: float = 1.0) -> Interval:
    """Return the product of two positive numbers; its bounds are those of both at once, so it is rather too wide.

    Units are those of the first: with more of them, the second is thought to be measured better in proportion.
    """
    bounds = (a.low * b.low * by, a.high * b.high * by)
    return Interval(a.estimate * b.estimate * by, *bounds, a.n, "product of the bounds")


def size(x: Interval) -> Interval:
    """Return the interval of an absolute value."""
    low = 0.0 if x.low <= 0 <= x.high else min(abs(x.low), abs(x.high))
    return x._replace(estimate=abs(x.estimate), low=low, high=max(abs(x.low), abs(x.high)))


RULES: tuple[Rule, ...] = (
    Rule(
        number=1,
        name="signal",
        signal=msg("share of prompts with an informative group, at the largest group of the pilot"),
        measure=_largest,
        boundary=0.2,
        above=Effect(msg("there is something to learn from: online methods can work")),
        below=Effect(
            msg(
                "no online method will learn much: first teach the model on demonstrations, take easier problems or a "
                "denser reward"
            )
        ),
        source="learnable share of groups: Pikus, Tiwari & Ye 2025; gain bounded by p(1 - p): 2504.03380; the boundary "
        "is ours",
    ),
    Rule(
        number=2,
        name="group-size",
        signal=msg("informative groups a second at the best group size, relative to the present one"),
        measure=lambda s: s.rates[best_group(s)] if s.rates else None,
        boundary=1.1,
        above=Effect(msg("change the group size (rollout.samples_per_prompt) and keep the samples of a step")),
        below=Effect(msg("keep the group size")),
        source="f(G) / (G x seconds a sample + seconds a prompt), where G / (G - 1) is at most 1.25; that 10 % matters "
        "is ours",
    ),
    Rule(
        number=2,
        name="group-variance",
        signal=msg("variance of credit against a group's own mean, G / (G - 1), at the present group size"),
        measure=lambda s: _exact(group_penalty(s.group)) if s.group > 1 else None,
        boundary=ENOUGH_GROUP,
        above=Effect(
            msg("a group so small adds over a quarter to the variance: take 5 samples or more, or learn the baseline")
        ),
        below=Effect(msg("the group is large enough for its mean to be a baseline")),
        source="leave-one-out variance, exact; the boundary is ours",
    ),
    Rule(
        number=3,
        name="critic",
        signal=msg(
            "variance of credit x time, critic over group baseline: mean (1 - EV(t)) x time ratio / (G / (G - 1))"
        ),
        measure=_critic_against_group,
        boundary=1.0,
        above=Effect(msg("a group baseline gives more for the time than a critic"), "group"),
        below=Effect(msg("a critic gives more for the time than a group baseline"), "critic"),
        source="variance of sequence-level credit at equal wall-clock; leaves out std-normalisation, off-policy "
        "updates and a critic's learning (2503.24290, 2504.05118, 2511.03710)",
        unit="prompts and timed steps",
    ),
    Rule(
        number=4,
        name="noise",
        signal=msg("reliability of the reward (1 - noise variance / total variance)"),
        measure=lambda s: s.reliability,
        boundary=0.85,
        above=Effect(msg("the reward is reliable enough for small groups")),
        below=Effect(
            msg("noise eats the signal: raise the group size, correct for known flips, or learn the baseline"), "critic"
        ),
        source="verifier noise up to 15 % kept peak accuracy within 2 points: 2604.07666; corrections: 2510.00915, "
        "2510.18924",
    ),
    Rule(
        number=5,
        name="length",
        signal=msg("correlation of length and reward among the samples of a prompt, its size"),
        measure=lambda s: size(s.length_credit),
        boundary=0.1,
        above=Effect(
            msg("length and credit go together: weigh an arm without std and length normalisation"), "dr_grpo"
        ),
        below=Effect(msg("length says little of credit: its normalisation matters little")),
        source="bias of length and std normalisation: 2503.20783; 0.1 is Cohen's small correlation",
    ),
    Rule(
        number=5,
        name="extremes",
        signal=msg("share of prompts that are solved by less than 10 % or more than 90 % of the samples"),
        measure=lambda s: s.extremes,
        boundary=0.5,
        above=Effect(msg("easy and hard prompts dominate: dividing by the std would blow them up"), "dr_grpo"),
        below=Effect(msg("most prompts are of middling difficulty: dividing by the std does little harm")),
        source="difficulty bias of std normalisation: 2503.20783; the boundary is ours",
    ),
    Rule(
        number=6,
        name="upper-clip",
        signal=msg("share of tokens cut at the upper clip in the timed steps"),
        measure=lambda s: s.upper_clip,
        boundary=0.1,
        above=Effect(msg("the upper clip holds exploration back: weigh an arm with a higher one"), "dapo"),
        below=Effect(msg("the upper clip hardly acts")),
        source="clip-higher: 2503.14476; healthy clip share below 0.1: axolotl's GRPO guide",
        unit="timed steps",
    ),
    Rule(
        number=6,
        name="entropy",
        signal=msg("fall of entropy in a timed step, relative"),
        measure=lambda s: s.entropy_fall,
        boundary=0.05,
        above=Effect(msg("entropy falls fast: weigh an arm with a higher upper clip"), "dapo"),
        below=Effect(msg("entropy does not fall fast in the first steps")),
        source="entropy collapse: 2503.14476; the boundary is ours",
        unit="timed steps",
    ),
    Rule(
        number=7,
        name="trust-region",
        signal=msg("difference of log-probs between learner and sampler, summed over a response"),
        measure=lambda s: s.drift,
        boundary=0.1,
        above=Effect(msg("long responses drift off-policy: weigh a sequence-level or prefix trust region"), "gspo"),
        below=Effect(msg("sampler and learner agree over whole responses: token ratios will do")),
        source="sequence ratios: 2507.18071; the boundary, a whole response 10 % off, is ours",
    ),
    Rule(
        number=8,
        name="offline",
        signal=msg("the lesser of sampling's share of a step / 0.5 and informative groups / 0.8"),
        measure=_offline,
        boundary=1.0,
        above=Effect(
            msg("sampling dominates and its pairs are informative: preference pairs of one pass are a cheap arm"), "dpo"
        ),
        below=Effect(msg("pairs of one sampling pass would save little, or teach little")),
        source="cost of generation against updates; SimPO (2405.14734) and ORPO (2403.07691) where a reference does "
        "not fit; both boundaries are ours",
    ),
    Rule(
        number=9,
        name="memory",
        signal=msg("peak memory of {arm} in the timed steps, as a share of the device", arm="an arm"),
        measure=lambda s: None,  # one finding for each arm: `memory`
        boundary=0.92,
        above=Effect(msg("does not fit safely: left out")),
        below=Effect(msg("fits")),
        source="a margin of 8 % for what the pilot did not reach; ours",
        unit="runs",
    ),
    Rule(
        number=10,
        name="abstain",
        signal=msg("any measure whose interval holds its boundary"),
        measure=lambda s: None,  # applied to all others by `judge`
        boundary=0.0,
        above=Effect(msg("run both; the pilot cannot separate them")),
        below=Effect(msg("run both; the pilot cannot separate them")),
        source="an interval that holds the boundary is no evidence for either side",
    ),
)
