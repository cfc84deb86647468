"""What may be said of two arms: the sentences of a verdict, the same in the report and in `paribus compare`."""

from __future__ import annotations

from paribus.report.message import Joined, Message, Text, msg
from paribus.report.text import count, point_range, points
from paribus.stats import Difference, Verdict


def pair_sentence(v: Verdict, comparisons: int = 1) -> Text:
    """Return what the data say of one pair, and of whom: algorithms, or only these checkpoints.

    `comparisons` is the number of pairs over which the p values were adjusted.
    """
    told = msg("{finding}: {evidence}.", finding=finding(v), evidence=evidence(v, comparisons))
    scope = scope_note(v.difference)
    return told if scope is None else Joined([told, scope])


def finding(v: Verdict) -> Message:
    """Return the verdict in its words: better; better, but within the margin; equivalent within it; inconclusive."""
    a, b = subject(v.a, v.difference), subject(v.b, v.difference)
    margin = margin_text(v.margin)
    match v.kind:
        case "identical":
            return msg("{a} and {b} are identical here, the same score on every problem", a=a, b=b)
        case "better" | "better_within":
            high, low = (a, b) if v.better == v.a else (b, a)
            if v.kind == "better":
                return msg("{high} is better than {low}", high=high, low=low)
            return msg(
                "{high} is better than {low}, but within the margin of {margin} points",
                high=high,
                low=low,
                margin=margin,
            )
        case "equivalent":
            return msg("{a} and {b} are equivalent within {margin} points", a=a, b=b, margin=margin)
        case "inconclusive":
            if v.margin is None:
                return msg(
                    "Inconclusive: neither a difference nor equivalence of {a} and {b} is shown (no margin was "
                    "declared, so equivalence cannot be)",
                    a=a,
                    b=b,
                )
            return msg(
                "Inconclusive: neither a difference of {a} and {b} nor equivalence within {margin} points is shown",
                a=a,
                b=b,
                margin=margin,
            )


def evidence(v: Verdict, comparisons: int = 1) -> Message:
    """Return the numbers behind the verdict: difference, interval, p values, and over what."""
    d = v.difference
    return msg(
        "{a} minus {b} {points} points, 95 % interval {interval}, {tests}, over {units}",
        a=v.a,
        b=v.b,
        points=points(d.estimate),
        interval=point_range(v.interval),
        tests=_tests(v, comparisons),
        units=units(d),
    )


def _tests(v: Verdict, comparisons: int) -> Text:
    """Return the p values that the finding rests on: of a difference that exceeds the margin, only its own."""
    p, equivalent = p_value(v.p), p_value(1.0 if v.p_equivalent is None else v.p_equivalent)
    if v.p_equivalent is None or v.kind == "better":
        return p if comparisons == 1 else msg("{p} (Holm over {n} pairs)", p=p, n=comparisons)
    if comparisons == 1:
        return msg("{p} for a difference and {equivalent} for equivalence", p=p, equivalent=equivalent)
    return msg(
        "{p} for a difference and {equivalent} for equivalence (both Holm over {n} pairs)",
        p=p,
        equivalent=equivalent,
        n=comparisons,
    )


def p_value(p: float) -> str:
    """Return "p = 0.032", or "p < 0.001" where three digits would show a zero."""
    return "p < 0.001" if p < 0.0005 else f"p = {p:.3f}"


def subject(name: str, d: Difference) -> Text:
    """Return whom a sentence is about: the algorithm by its name, or one checkpoint of it."""
    return name if d.scope == "algorithms" else msg("checkpoint {name}", name=name)


def units(d: Difference) -> Message:
    """Return the runs and problems that a difference stands on."""
    return msg("{a} + {b} runs and {problems}", a=d.seeds[0], b=d.seeds[1], problems=count(d.problems, "problem"))


def scope_note(d: Difference) -> Message | None:
    """Return a warning that only checkpoints are compared; None where the sentence is about algorithms."""
    if d.scope == "algorithms":
        return None
    if d.seeds == (1, 1):
        return msg("One run a side: this speaks of these two checkpoints, not of the algorithms.")
    return msg(
        "Fewer than two runs on a side, or one problem: this speaks of these checkpoints, not of the algorithms."
    )


def settle_sentence(v: Verdict) -> Text | None:
    """Return what would settle an inconclusive pair, each in 80 % of repeats; None for every other verdict."""
    if v.kind != "inconclusive":
        return None
    parts: list[Text] = [_for_difference(v)]
    if v.margin is not None:
        parts.append(_for_equivalence(v))
    if v.difference.scope == "checkpoints":
        parts.append(msg("For the algorithms no number of problems is enough: that takes two or more runs of each."))
    return Joined(parts)


def _for_difference(v: Verdict) -> Message:
    runs, problems = v.settle.seeds, v.settle.problems
    shown = msg(
        "To show a difference of {points} points, if that is the true one", points=points(v.difference.estimate)
    )
    if runs is None and problems is None:
        if v.difference.estimate == 0:
            return msg("The observed difference is 0: no number of runs or problems would show it.")
        return msg("{shown}: neither more problems nor more runs alone would do.", shown=shown)
    return msg("{shown}: {needed}.", shown=shown, needed=_needed(v, runs, problems))


def _for_equivalence(v: Verdict) -> Message:
    runs, problems = v.settle.equivalent_seeds, v.settle.equivalent_problems
    shown = msg("To show equivalence within {margin} points, if there is no difference", margin=margin_text(v.margin))
    if runs is None and problems is None:
        return msg("{shown}: no number of runs on these problems would do.", shown=shown)
    return msg("{shown}: {needed}.", shown=shown, needed=_needed(v, runs, problems))


def _needed(v: Verdict, runs: int | None, problems: int | None) -> Message:
    if v.difference.scope == "checkpoints":
        return msg("about {problems} problems for these checkpoints", problems=problems or 0)
    if runs is None:
        return msg("about {problems} problems with these runs; more runs alone would not do", problems=problems or 0)
    if problems is None:
        return msg("about {runs} runs of each on these problems", runs=runs)
    return msg(
        "about {runs} runs of each on these problems, or about {problems} problems with these runs",
        runs=runs,
        problems=problems,
    )


def margin_text(margin: float | None) -> str:
    """Return a margin (a fraction) in points, without needless zeros."""
    return "" if margin is None else f"{100 * margin:.4g}"
