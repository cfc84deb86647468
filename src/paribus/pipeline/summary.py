"""What one evaluation says, in lines of text: accuracy with its interval, both limits, shares, disagreement."""

from __future__ import annotations

from collections.abc import Sequence

from paribus.report.results import by_problem, graded
from paribus.stats.samples import Average, average
from paribus.store import EvalRow
from paribus.suites import EvalSpec


def summary(suite: str, spec: EvalSpec, rows: Sequence[EvalRow]) -> list[str]:
    """Return the lines that `paribus eval` prints of a suite's rows."""
    counted = [row for row in rows if row.score is not None]
    correct = sum(row.score or 0.0 for row in counted)
    name = "accuracy" if spec.samples == 1 else f"accuracy (avg@{spec.samples})"
    problems = len({row.problem_id for row in rows})
    asked = f"{problems} problems" + ("" if spec.samples == 1 else f", {spec.samples} samples each")
    lines = [
        f"{suite}: {name} {_percent(rows)} ({correct:g}/{len(counted)}), {asked}",
        f"  at {spec.max_response} tokens: {_finish(rows)}, mean output {_mean([r.tokens for r in rows]):.1f} tokens",
    ]
    if len(counted) < len(rows):
        lines.append(f"  not counted: {len(rows) - len(counted)} (the gold cannot be read, or the grader failed)")
    if spec.short is not None:
        under = shortened(rows)
        lines.append(f"  at {spec.short} tokens: {name} {_percent(under)}, {_finish(under)}")
    for reference, (differing, shared) in disagreement(rows).items():
        share = 100 * differing / max(1, shared)
        lines.append(f"  grader {reference} disagrees on {differing} of {shared} ({share:.2f} %)")
    if spec.samples > 1:
        lines.append("  " + ", ".join(f"{k} {100 * v:.2f} %" for k, v in sampled(rows, spec).items()))
    return lines


def accuracy(rows: Sequence[EvalRow]) -> Average:
    """Return the mean score with its interval: Wilson's for single responses, else Student's t over problems' means.

    Samples of one problem are alike, so that they count as one unit. There must be a scored row.
    """
    means = by_problem(rows, graded(rows)).values()
    return average([[mean] for mean in means if mean is not None])


def shortened(rows: Sequence[EvalRow]) -> list[EvalRow]:
    """Return the rows as the suite's shorter limit would have left them; their texts and lengths stay."""
    return [row.model_copy(update=row.short.model_dump(exclude={"limit"})) for row in rows if row.short is not None]


def disagreement(rows: Sequence[EvalRow]) -> dict[str, tuple[int, int]]:
    """Return, by reference grader, on how many rows its score is another, and how many both could score."""
    out: dict[str, tuple[int, int]] = {}
    for name in dict.fromkeys(name for row in rows for name in row.references):
        pairs = [(row.score, row.references.get(name)) for row in rows]
        known = [(own, other) for own, other in pairs if own is not None and other is not None]
        out[name] = sum(own != other for own, other in known), len(known)
    return out


def sampled(rows: Sequence[EvalRow], spec: EvalSpec) -> dict[str, float]:
    """Return pass@k and maj@k of a sampled suite as the report counts them, means over the problems that count."""
    out = {}
    for metric in spec.metrics[1:]:
        worth = by_problem(rows, graded(rows), metric).values()
        out[metric] = _mean([value for value in worth if value is not None])
    return out


def _finish(rows: Sequence[EvalRow]) -> str:
    finished = [row for row in rows if not row.truncated]
    return (
        f"truncated {_share([row.truncated for row in rows])}, "
        f"unparsable {_share([row.status == 'unparsable' for row in rows])}, "
        f"accuracy among finished {_percent(finished)}"
    )


def _percent(rows: Sequence[EvalRow]) -> str:
    if all(row.score is None for row in rows):
        return "unknown (no scored response)"
    found = accuracy(rows)
    low, high = max(0.0, found.low), min(1.0, found.high)
    return f"{100 * found.estimate:.2f} % [{100 * low:.2f}, {100 * high:.2f}]"


def _share(flags: Sequence[bool]) -> str:
    return f"{100 * _mean(flags):.1f} %"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("nan")
