"""Holding a pilot against the rules: which of them speak, which abstain, and which two arms come out ahead."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from paribus.algorithms import Algorithm
from paribus.planning.rules import RULES, Effect, Rule, Signals, Unit, traits
from paribus.report.message import Message, msg
from paribus.stats import Interval
from paribus.store import FindingRow, MeasuredRow, SaidRow

MOST = 1_000_000  # further units beyond which no number is told


def rule(name: str) -> Rule:
    return next(r for r in RULES if r.name == name)


def judge(rule: Rule, value: Interval | None, *, arm: str | None = None) -> FindingRow:
    """Hold a measure against a rule's boundary."""
    signal = rule.signal if arm is None else Message(rule.signal.template, {"arm": arm})
    if value is None or not math.isfinite(value.estimate):
        effect, outcome, more = Effect(msg("not measured")), "not measured", None
    elif value.low > rule.boundary:
        effect, outcome, more = rule.above, "above", None
    elif value.high <= rule.boundary:
        effect, outcome, more = rule.below, "below", None
    else:
        more = further(value, rule.boundary)
        effect, outcome = Effect(_abstention(more, rule.unit)), "straddles"
    return FindingRow(
        rule=rule.number,
        name=rule.name,
        signal=said(signal),
        value=None if value is None else measured(value),
        boundary=rule.boundary,
        outcome=outcome,  # type: ignore[arg-type]  # one of the four literals above
        effect=said(effect.text),
        source=rule.source,
        favours=(effect.favours,) if effect.favours else (),
        more=more,
        arm=arm,
    )


def further(value: Interval, boundary: float) -> int | None:
    """Return how many further units would part interval and boundary if the estimate stayed: widths fall with the root
    of the units. None where the estimate is on the boundary, the bound infinite, or the number beyond `MOST`."""
    distance = abs(value.estimate - boundary)
    width = value.estimate - value.low if value.estimate > boundary else value.high - value.estimate
    if not distance or not math.isfinite(width):
        return None
    needed = math.floor(value.n * (width / distance) ** 2) + 1 - value.n
    return needed if 0 < needed <= MOST else None if needed > MOST else 1


def _abstention(more: int | None, unit: Unit) -> Message:
    if more is None:
        return msg("run both; the pilot cannot separate them, and a larger one hardly would")
    match unit:
        case "prompts":
            return msg("run both; the pilot cannot separate them: about {more} further prompts would", more=more)
        case "timed steps":
            return msg("run both; the pilot cannot separate them: about {more} further timed steps would", more=more)
        case "prompts and timed steps":
            return msg(
                "run both; the pilot cannot separate them: about {more} further prompts would, with timed steps in "
                "proportion",
                more=more,
            )
        case "runs":
            return msg("run both; the pilot cannot separate them: about {more} further runs would", more=more)


def apply(signals: Signals) -> list[FindingRow]:
    """Return what every rule makes of the signals, in the order of the list."""
    out = []
    for r in RULES:
        if r.name == "memory":
            out += memory(signals.memory or {})
        elif r.name != "abstain":
            out.append(judge(r, r.measure(signals)))
    return out


def memory(shares: Mapping[str, Interval]) -> list[FindingRow]:
    """Return what the memory rule makes of each arm's share of the device."""
    return [judge(rule("memory"), share, arm=arm) for arm, share in shares.items()]


def votes(findings: Sequence[FindingRow], algorithm: Algorithm) -> int:
    """Return how many findings favour a trait of a method."""
    has = traits(algorithm)
    return sum(trait in has for finding in findings for trait in finding.favours)


def recommend(
    findings: Sequence[FindingRow], arms: Mapping[str, Algorithm], seconds: Mapping[str, float]
) -> tuple[str, str]:
    """Return two arms: those of most votes, of equals the cheaper, without those that do not fit.

    Where the rule on critics abstains, one arm with a critic and one with a group baseline are taken if there are both.
    """
    dropped = {f.arm for f in findings if f.name == "memory" and f.outcome == "above"}
    order = sorted(
        (a for a in arms if a not in dropped), key=lambda a: (-votes(findings, arms[a]), seconds.get(a, 0.0))
    )
    if len(order) < 2:  # a recommendation is two arms: what does not fit here may fit on another machine
        order += [a for a in arms if a not in order]
    first, second = order[0], order[1]
    if _critic_undecided(findings):
        kinds = [next((a for a in order if kind in traits(arms[a])), None) for kind in ("critic", "group")]
        found = [a for a in order if a in kinds]
        if len(found) == 2:
            first, second = found
    return first, second


def ahead(findings: Sequence[FindingRow], first: Algorithm, second: Algorithm) -> bool:
    """Say whether the rules put the first of two recommended methods ahead: by votes, and not where the two differ in
    having a critic and the rule on critics abstains."""
    kinds = [{"critic", "group"} & traits(method) for method in (first, second)]
    undecided = _critic_undecided(findings) and kinds[0] != kinds[1]
    return votes(findings, first) > votes(findings, second) and not undecided


def _critic_undecided(findings: Sequence[FindingRow]) -> bool:
    return any(f.name == "critic" and f.outcome == "straddles" for f in findings)


def said(text: Message) -> SaidRow:
    return SaidRow(template=text.template, fields={k: str(v) for k, v in text.fields.items()})


def measured(x: Interval) -> MeasuredRow:
    def bound(value: float) -> float | None:
        return value if math.isfinite(value) else None

    return MeasuredRow(estimate=x.estimate, low=bound(x.low), high=bound(x.high), n=x.n)
