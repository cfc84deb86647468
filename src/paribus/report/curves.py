"""Learning curves as numbers: one line per seed, and their mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from paribus.report.results import finished
from paribus.store import StepRow, StoredExperiment, StoredRun, stat_value

Line = Sequence[tuple[int, float]]  # (completed steps, value)


class Curves(NamedTuple):
    """One panel: `lines[arm][seed]`."""

    name: str
    title: str
    lines: Mapping[str, Mapping[int, Line]]

    def mean(self, arm: str) -> Line:
        """Return the mean over seeds at the steps that every seed has."""
        tables = [dict(line) for line in self.lines[arm].values()]
        steps = sorted(set.intersection(*map(set, tables))) if tables else []
        return [(step, sum(table[step] for table in tables) / len(tables)) for step in steps]


Read = Callable[[StepRow], float | None]


def stat(*names: str) -> Read:
    """Read the sum of the named statistics' values; None where none of them was counted."""

    def read(row: StepRow) -> float | None:
        found = [stat_value(row.stats[name]) for name in names if name in row.stats]
        known = [x for x in found if x is not None]
        return sum(known) if known else None

    return read


def gold(row: StepRow) -> float | None:
    """Read the task's verdict where training optimised another reward."""
    proxies = [name for name in row.stats if name.startswith("reward/") and name != "reward/task"]
    return stat_value(row.stats["gold"]) if proxies and "gold" in row.stats else None


def _given_loss(row: StepRow) -> float | None:
    """Read the loss where training is on given answers: there its level means something."""
    return stat("policy_loss")(row) if "logp_good" in row.stats else None


OUTSIDE = ("clip_low", "clip_high", "masked", "capped", "gated")  # of a gate, the part that it withholds
PANELS: tuple[tuple[str, str, Read], ...] = (
    ("score", "training reward, mean of sampled responses", stat("score")),
    ("gold", "gold score: the task's own verdict on the same responses", gold),
    ("length", "response length, tokens", stat("response_tokens")),
    ("truncated", "share of responses cut at the limit", stat("truncated")),
    ("kl", "KL to the reference (k3 estimate), nats a token", stat("kl_k3")),
    ("entropy", "entropy, nats a token", stat("entropy")),
    ("grad-norm", "gradient norm of the policy, before clipping", stat("grad_norm")),
    ("trust-region", "share of tokens outside the trust region: clipped, masked, capped or gated", stat(*OUTSIDE)),
    ("uniform", "share of groups whose scores are all equal", stat("uniform_groups")),
    ("explained", "explained variance of the critic", stat("explained_variance")),
    ("refills", "rounds of further prompts, drawn in place of groups left out", stat("refills")),
    ("kept-groups", "share of sampled groups whose rewards differ", stat("kept_groups")),
    ("loss", "loss on given answers", _given_loss),
    ("margin", "margin of the implicit reward, good answer less bad", stat("implicit_margin")),
    ("ranked", "share of pairs that the implicit reward ranks right", stat("implicit_accuracy")),
    ("logp-good", "log-prob of the good answers, nats an answer", stat("logp_good")),
)


def curves(exp: StoredExperiment, suite: str) -> list[Curves]:
    """Return a panel for everything that was recorded, evaluation accuracy first where it was measured on the way."""
    runs = finished(exp)
    out = []
    accuracy = {arm: {s: _accuracy(exp.base, run, suite) for s, run in found.items()} for arm, found in runs.items()}
    if any(len(run.eval_steps(suite)) > 1 for found in runs.values() for run in found.values()):
        out.append(Curves("accuracy", f"accuracy on {suite}", accuracy))
    for name, title, read in PANELS:
        lines = {arm: {s: _line(run, read) for s, run in found.items()} for arm, found in runs.items()}
        if any(line for found in lines.values() for line in found.values()):
            out.append(Curves(name, title, lines))
    return out


def _line(run: StoredRun, read: Read) -> Line:
    return [(row.step, x) for row in run.steps if (x := read(row)) is not None]


def _accuracy(base: StoredRun | None, run: StoredRun, suite: str) -> Line:
    found = [(0, base)] if base is not None and suite in base.suites else []
    found += [(step, run) for step in run.eval_steps(suite)]
    line = []
    for step, source in found:
        known = [row.score for row in source.eval(suite, step) if row.score is not None]
        if known:
            line.append((step, sum(known) / len(known)))
    return line
