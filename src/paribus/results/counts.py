"""`paribus compare` on published numbers: what counts allow to be concluded, ratios of cost, impossible values."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from paribus.errors import ConfigError
from paribus.interop import Published, PublishedModel
from paribus.report.flags import GB, memory_flags, rate_flags, unit_note
from paribus.report.message import Joined, Message, Text, msg, say
from paribus.report.text import number, percent, point_range, points, ratio
from paribus.results.terminal import paragraph, table
from paribus.stats import Interval, discordance, log_ratio, wilson
from paribus.stats.counts import Discordance

ALPHA = 0.05
COSTS: tuple[tuple[str, Callable[[PublishedModel], float | None]], ...] = (
    ("training time", lambda m: m.hours),
    ("price", lambda m: m.price),
    ("training tokens/s", lambda m: m.tokens_per_second),
    ("output tokens of an answer", lambda m: m.output_tokens),
)


class Pair(NamedTuple):
    """What the counts of two models say; `alpha` is the level of this pair."""

    a: str
    b: str
    alpha: float
    found: Discordance

    @property
    def settled(self) -> bool:
        """Whether the difference is significant however the counts came about."""
        return self.found.most_mid_p is not None and self.found.most_mid_p >= self.found.most


class Judged(NamedTuple):
    """What published numbers allow to be said."""

    published: Published
    pairs: Sequence[Pair]  # of trained models
    gains: Sequence[Pair]  # each trained model against the untrained one
    costs: Sequence[tuple[str, str, str, Interval]]  # what, of, relative to, ratio without an interval
    flags: Sequence[tuple[str, Text]]  # model, what is wrong
    checked: Sequence[str]


def judge(data: Published, margin: float | None = None) -> Judged:
    """Return what the numbers say. Raises ConfigError with a margin, which counts cannot be held against."""
    if margin is not None:
        raise ConfigError("--margin: equivalence needs the rows, problem by problem; counts cannot show it")
    trained = [name for name, model in data.model.items() if not model.untrained]
    start = [name for name, model in data.model.items() if model.untrained]
    names = list(combinations(trained, 2))
    alpha = ALPHA / max(1, len(names))
    return Judged(
        data,
        [_pair(data, a, b, alpha) for a, b in names],
        [_pair(data, name, base, ALPHA) for base in start for name in trained],
        _costs(data, [(b, a) for a, b in names]),
        _flags(data),
        _checked(data),
    )


def _pair(data: Published, a: str, b: str, alpha: float) -> Pair:
    counts = data.model[a].correct, data.model[b].correct
    return Pair(a, b, alpha, discordance(*counts, data.problems, alpha=alpha))


def _costs(data: Published, names: Sequence[tuple[str, str]]) -> list[tuple[str, str, str, Interval]]:
    out = []
    for what, read in COSTS:
        for a, b in names:
            above, below = read(data.model[a]), read(data.model[b])
            if above is not None and below is not None:
                out.append((what, a, b, log_ratio([above], [below])))
    return out


def _flags(data: Published) -> list[tuple[str, Text]]:
    out: list[tuple[str, Text]] = []
    for name, model in data.model.items():
        sizes = [None if x is None else x * GB for x in (model.allocated_gb, model.device_gb, data.capacity_gb)]
        out += [(name, text) for text in memory_flags(*sizes)]
        capacity = data.capacity_gb
        for size in (model.allocated_gb, model.device_gb):
            if size is not None and capacity is not None and size > capacity:
                out.append((name, unit_note(size, capacity)))
        tokens = None if model.output_tokens is None else model.output_tokens * data.problems
        out += [(name, text) for text in rate_flags(tokens, model.generation_seconds, model.decode_tokens_per_second)]
    return out


def _checked(data: Published) -> list[str]:
    """Return what could be held against something else at all, so that silence is not taken for a check."""
    models = data.model.values()
    memory = sum(m.allocated_gb is not None and data.capacity_gb is not None for m in models)
    rates = sum(None not in (m.output_tokens, m.generation_seconds, m.decode_tokens_per_second) for m in models)
    return [f"memory against the device's capacity ({memory} models)"] * bool(memory) + [
        f"tokens over time against tokens/s ({rates} models)"
    ] * bool(rates)


def pair_text(pair: Pair) -> Text:
    """Return what is shown and what is not, and on what it hangs."""
    one, other = (msg("checkpoint {name}", name=name) for name in (pair.a, pair.b))
    d = pair.found
    high, low = (one, other) if d.estimate > 0 else (other, one)
    finding = (
        msg("{high} is better than {low}", high=high, low=low)
        if pair.settled
        else msg("Inconclusive: neither a difference nor equivalence of {a} and {b} is shown", a=one, b=other)
    )
    told = msg(
        "{finding}: {a} minus {b} {points} points, 95 % interval {interval} (z = {z}, p = {p}), as if each had "
        "answered other problems: more the counts do not give.",
        finding=finding,
        a=pair.a,
        b=pair.b,
        points=points(d.estimate),
        interval=point_range(Interval(d.estimate, d.low, d.high, d.problems, "unpaired")),
        z=number(d.z),
        p=f"{d.p:.2f}" if d.p >= 0.01 else f"{d.p:.1g}",
    )
    scope = msg("One run a side: this speaks of these two checkpoints, not of the algorithms.")
    return Joined([told, _hangs(pair), *_settle(pair), scope])


def _hangs(pair: Pair) -> Message:
    d, level = pair.found, f"{100 * pair.alpha:.3g} %"
    possible = msg(
        "On the same problems it hangs on how many of them only one of the two solved: {least} to {most} are possible",
        least=d.least,
        most=d.most,
    )
    if pair.settled:
        return msg("{possible}, and p is below {level} at every number.", possible=possible, level=level)
    if d.most_mid_p is None:
        return msg("{possible}, and p is below {level} at none.", possible=possible, level=level)
    exact = "–" if d.most_exact is None else f"{d.most_exact:,}"
    return msg(
        "{possible}, and p is below {level} only with at most {mid} by the mid-p test, {exact} by the exact one.",
        possible=possible,
        level=level,
        mid=d.most_mid_p,
        exact=exact,
    )


def _settle(pair: Pair) -> list[Message]:
    d = pair.found
    if pair.settled:
        return []
    out = [msg("What would settle it: first the rows, problem by problem.")]
    if d.problems_needed is not None:
        out.append(
            msg(
                "If the true difference is the one seen: about {problems} problems for these checkpoints (if their "
                "answers correlate by {correlation}).",
                problems=d.problems_needed,
                correlation=f"{d.correlation:g}",
            )
        )
    if d.seeds_needed is not None:
        out.append(
            msg(
                "For the algorithms: about {seeds} runs of each on these problems, if accuracy varies by {sd} points "
                "(s.d.) from run to run.",
                seeds=d.seeds_needed,
                sd=f"{100 * d.seed_sd:g}",
            )
        )
    return out


def as_text(judged: Judged) -> str:
    """Return the judgement for a terminal."""
    data = judged.published
    rows = [["model", "right", "accuracy", "95 % interval"]]
    for name, model in data.model.items():
        w = wilson(model.correct, data.problems)
        rows.append([name, f"{model.correct:,}/{data.problems:,}", percent(w.estimate), f"{percent(w.low)} to "
                     f"{percent(w.high)}"])  # fmt: skip
    heading = [text for text in (data.title, data.source, data.device) if text]
    lines = [line for text in heading for line in paragraph(text)] + [""] * bool(heading)
    lines += [*table(rows), ""]
    for pair in (*judged.pairs, *judged.gains):
        lines += [*paragraph(say(pair_text(pair))), ""]
    if judged.costs:
        head = ["cost, one run each: no interval", "of", "relative to", "ratio"]
        lines += [*table([head, *([what, a, b, say(ratio(r))] for what, a, b, r in judged.costs)]), ""]
    for name, text in judged.flags:
        lines += paragraph(f"{name}: {say(text)}", "! ")
    if judged.checked:
        lines += paragraph(f"Checked: {', '.join(judged.checked)}; {len(judged.flags)} remarks.")
    return "\n".join(lines).rstrip()


def as_json(judged: Judged) -> str:
    """Return the judgement as JSON."""
    data = judged.published

    def pair(p: Pair) -> dict[str, Any]:
        kind = "better" if p.settled else "inconclusive"
        return {"a": p.a, "b": p.b, "verdict": kind, "speaks_of": "checkpoints", "alpha": p.alpha, **p.found._asdict()}

    out = {
        "problems": data.problems,
        "models": {name: model.model_dump(exclude_none=True) for name, model in data.model.items()},
        "verdicts": [pair(p) for p in judged.pairs],
        "gains": [pair(p) for p in judged.gains],
        "cost_ratios": [{"what": w, "of": a, "relative_to": b, "ratio": r.estimate} for w, a, b, r in judged.costs],
        "flags": [{"model": name, "text": say(text)} for name, text in judged.flags],
        "text": [say(pair_text(p)) for p in (*judged.pairs, *judged.gains)],
    }
    return json.dumps(out, indent=2, allow_nan=False)
