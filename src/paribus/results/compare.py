"""`paribus compare`: the verdict on anybody's rows, with its numbers, its checks, and what would settle it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from paribus.errors import ConfigError
from paribus.interop import Joined, Outcomes, join
from paribus.report.message import say
from paribus.report.sentences import pair_sentence, settle_sentence
from paribus.report.text import DASH, count, number, percent, point_range, points
from paribus.results.sources import BASE
from paribus.results.terminal import paragraph, table
from paribus.stats import (
    Average,
    Interval,
    Permutation,
    Verdict,
    average,
    crossed,
    crossed_bootstrap,
    permutation,
    probability_better,
    verdicts,
)

SEED = 0  # of the resampling: the same rows give the same numbers
DRAWS = 4000


@dataclass(frozen=True, slots=True)
class Checks:
    """What other methods say of a pair of arms with at least two runs each."""

    bootstrap: Interval
    permutation: Permutation
    better: Interval  # P(a new run of A scores higher than one of B)


@dataclass(frozen=True)
class Comparison:
    """Everything that the rows say; `gains` are the verdicts on each arm against the base, a family of their own."""

    arms: Sequence[Outcomes]
    joined: Joined
    verdicts: Sequence[Verdict]
    gains: Sequence[Verdict]
    checks: Sequence[Checks | None]
    notes: Sequence[str]


def compare(arms: Sequence[Outcomes], *, margin: float | None = None, paired: bool = False) -> Comparison:
    """Compare arms on the same problems; `margin` in percentage points, `paired` if runs share their seeds.

    An arm named "base" is what the others were trained from: they are compared with it, and among each other.
    Raises DataError where problems differ, ConfigError where seeds cannot be paired.
    """
    if margin is not None and margin <= 0:
        raise ConfigError(f"--margin {margin:g}: a margin is a number of percentage points above 0")
    joined = join(arms)
    names = [arm.name for arm in arms if arm.name != BASE]
    if paired:
        _check_paired(joined, names)
    share = None if margin is None else margin / 100
    pairs = list(combinations(names, 2))
    found = verdicts(joined.tables, pairs, margin=share, paired=paired) if pairs else []
    return Comparison(
        arms,
        joined,
        found,
        _gains(joined, names, share),
        [_checks(joined, a, b) for a, b in pairs],
        _notes(arms, joined),
    )


def _check_paired(joined: Joined, names: Sequence[str]) -> None:
    seeds = {name: [run.seed for run in joined.runs[name]] for name in names}
    first = seeds[names[0]]
    for name, own in seeds.items():
        if own != first or None in own:
            shown = "; ".join(
                f"{n}: {', '.join('?' if s is None else str(s) for s in found)}" for n, found in seeds.items()
            )
            raise ConfigError(f"--paired needs the same stated seeds in every arm, but {name} differs ({shown})")


def _gains(joined: Joined, names: Sequence[str], margin: float | None) -> list[Verdict]:
    """Compare every arm with the base, which is one model for all of an arm's runs."""
    if BASE not in joined.tables:
        return []
    base = joined.tables[BASE]
    if len(base) > 1:
        raise ConfigError(f"{BASE}: {len(base)} runs, but an untrained model has one: give these runs another name")
    out = []
    for name in names:
        tables = {name: joined.tables[name], BASE: np.repeat(base, len(joined.tables[name]), axis=0)}
        (found,) = verdicts(tables, [(name, BASE)], margin=margin, paired=True)
        runs = (len(joined.tables[name]), 1)
        out.append(found._replace(difference=found.difference._replace(seeds=runs)))
    return out


def _checks(joined: Joined, a: str, b: str) -> Checks | None:
    x, y = joined.tables[a], joined.tables[b]
    if min(len(x), len(y), x.shape[1]) < 2:
        return None
    rng = np.random.default_rng(SEED)
    return Checks(
        crossed_bootstrap(x, y, rng, DRAWS),
        permutation(x.mean(1), y.mean(1), rng),
        probability_better(x.mean(1), y.mean(1)),
    )


def _notes(arms: Sequence[Outcomes], joined: Joined) -> list[str]:
    out = []
    if joined.excluded:
        out.append(
            f"{len(joined.excluded):,} problems were not counted in at least one run and are left out for all, for "
            f"example {joined.excluded[0]!r}."
        )
    rules = {arm.judged for arm in arms}
    if len(rules) > 1:
        shown = "; ".join(f"{arm.name}: {arm.judged}" for arm in arms)
        out.append(f"The arms were not scored by the same rule, which can look like a difference ({shown}).")
    return out + [note for arm in arms for note in arm.notes]


def level(x: np.ndarray) -> Interval | Average:
    """Return the accuracy of an arm [runs, problems]: of new runs too where there are two, else of this checkpoint."""
    return crossed(x) if min(x.shape) >= 2 else average(x.mean(0)[:, None])


def sentences(c: Comparison) -> list[str]:
    """Return the verdict in words, each with what would settle it."""
    out = []
    for family in (c.verdicts, c.gains):
        for v in family:
            settle = settle_sentence(v)
            told = pair_sentence(v, len(family) if family is c.verdicts else 1)
            out.append(" ".join([say(told), *([say(settle)] if settle else [])]))
    return out


def as_text(c: Comparison) -> str:
    """Return the comparison for a terminal."""
    lines = table([["arm", "runs", "accuracy", "95 % interval", "s.d. over runs", "source"], *map(_arm_row(c), c.arms)])
    lines += ["", f"{say(count(len(c.joined.problems), 'problem'))} that all have in common.", ""]
    for sentence in sentences(c):
        lines += [*paragraph(sentence), ""]
    lines += [*_pairs(c), ""] if c.verdicts else []
    for note in c.notes:
        lines += paragraph(note, "note: ")
    return "\n".join(lines).rstrip()


def _arm_row(c: Comparison) -> Any:
    def row(arm: Outcomes) -> list[str]:
        x = c.joined.tables[arm.name]
        own = level(x)
        spread = f"{100 * float(x.mean(1).std(ddof=1)):.2f}" if len(x) > 1 else DASH
        interval = f"{percent(own.low)} to {percent(own.high)}"
        return [arm.name, str(len(x)), percent(own.estimate), interval, spread, arm.source]

    return row


def _pairs(c: Comparison) -> list[str]:
    head = ["difference", "points", "95 % interval", "won", "lost", "method"]
    rows = [head]
    for v in c.verdicts:
        d = v.difference
        rows.append([f"{v.a} − {v.b}", points(d.estimate), say(point_range(v.interval)), f"{d.wins:,}", f"{d.losses:,}",
                     d.method])  # fmt: skip
    out = table(rows)
    for v, check in zip(c.verdicts, c.checks, strict=True):
        if check is not None:
            p, splits, better = check.permutation.p, check.permutation.splits, check.better
            out += paragraph(
                f"Checks of {v.a} − {v.b}: crossed bootstrap {say(point_range(check.bootstrap))}; permutation of runs "
                f"p = {p:.3f} ({splits:,} splits); P({v.a} > {v.b}) for a new run of each {number(better.estimate)} "
                f"({number(better.low)} to {number(better.high)})."
            )
    return out


def as_json(c: Comparison) -> str:
    """Return the comparison as JSON: shares, not points; `text` holds the sentences."""
    data = {
        "problems": len(c.joined.problems),
        "excluded": list(c.joined.excluded),
        "arms": [
            {
                "name": arm.name,
                "source": arm.source,
                "judged": arm.judged,
                "runs": [
                    {"label": run.label, "seed": run.seed, "accuracy": float(row.mean())}
                    for run, row in zip(c.joined.runs[arm.name], c.joined.tables[arm.name], strict=True)
                ],
                **_interval(level(c.joined.tables[arm.name])),
            }
            for arm in c.arms
        ],
        "verdicts": [_verdict(v, check) for v, check in zip(c.verdicts, c.checks, strict=True)],
        "gains": [_verdict(v, None) for v in c.gains],
        "text": sentences(c),
        "notes": list(c.notes),
    }
    return json.dumps(data, indent=2, allow_nan=False)


def _interval(i: Interval | Average) -> dict[str, Any]:
    return {"estimate": i.estimate, "low": i.low, "high": i.high, "method": i.method}


def _verdict(v: Verdict, check: Checks | None) -> dict[str, Any]:
    d = v.difference
    out = {
        "a": v.a,
        "b": v.b,
        "verdict": v.kind,
        "better": v.better,
        "speaks_of": d.scope,
        **_interval(v.interval),
        "se": d.se,
        "df": d.df,
        "runs": list(d.seeds),
        "problems": d.problems,
        "won": d.wins,
        "lost": d.losses,
        "p": v.p,
        "p_equivalent": v.p_equivalent,
        "margin": v.margin,
        "settle": v.settle._asdict(),
    }
    if check is not None:
        out["checks"] = {
            "crossed_bootstrap": _interval(check.bootstrap),
            "permutation": check.permutation._asdict(),
            "probability_better": _interval(check.better),
        }
    return out
