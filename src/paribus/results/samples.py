"""`paribus samples`: problems chosen by a query, with every model's answer side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paribus.errors import ConfigError, DataError, nearest
from paribus.report.examples import natural
from paribus.report.text import visible
from paribus.results.query import Query, parse
from paribus.store import EvalRow, ProblemRow, StoredExperiment, StoredRun, read_experiment

LONGEST = 2000  # characters of an answer on the terminal; --json has all of them
BASE = "base"


@dataclass(frozen=True, slots=True)
class Sample:
    """One problem, and what each model said to it."""

    asked: ProblemRow
    number: int  # which of the problem's samples
    answers: Mapping[str, EvalRow]


@dataclass(frozen=True, slots=True)
class Found:
    """What a query found: `shown` are the first of `total`, in the order of their ids."""

    experiment: str
    suite: str
    seed: int
    query: Query
    searched: int
    total: int
    shown: Sequence[Sample]


def search(folder: Path, where: str, *, suite: str | None = None, seed: int | None = None, limit: int = 20) -> Found:
    """Search the last evaluations of the base and of every arm's run with one seed.

    Default: the primary suite, and the lowest seed that every arm has evaluated. Raises ConfigError or DataError.
    """
    exp = read_experiment(folder)
    suite = _suite(exp, suite)
    seed, runs = _runs(exp, suite, seed)
    query = parse(where, list(runs))
    rows = {name: {(row.problem_id, row.sample): row for row in run.eval(suite)} for name, run in runs.items()}
    first = next(iter(rows.values()))
    for name, found in rows.items():
        if found.keys() != first.keys():
            odd = sorted(found.keys() ^ first.keys())
            raise DataError(f"suite {suite}: {name} answered other problems ({len(odd)} differ, such as {odd[0][0]})")
    asked = exp.problems(suite)
    samples = []
    for key in sorted(first, key=lambda key: (natural(key[0]), key[1])):
        problem = asked.get(key[0]) or ProblemRow(problem_id=key[0], question="", gold="")
        answers = {name: found[key] for name, found in rows.items()}
        if query.holds(answers, problem):
            samples.append(Sample(problem, key[1], answers))
    return Found(exp.info.name, suite, seed, query, len(first), len(samples), samples[:limit])


def _suite(exp: StoredExperiment, suite: str | None) -> str:
    known = sorted({s for run in _every(exp) for s in run.suites})
    if not known:
        raise DataError(f"{exp.paths.root}: nothing has been evaluated yet")
    if suite is None:
        primary = exp.info.primary.split(":")[0]
        return primary if primary in known else known[0]
    if suite not in known:
        raise ConfigError(f"no suite '{suite}' in {exp.paths.root}{nearest(suite, known)}")
    return suite


def _every(exp: StoredExperiment) -> list[StoredRun]:
    return [*([exp.base] if exp.base else []), *(run for runs in exp.runs.values() for run in runs.values())]


def _runs(exp: StoredExperiment, suite: str, seed: int | None) -> tuple[int, dict[str, StoredRun]]:
    """Return the seed, and the evaluated run of the base and of each arm with it."""
    evaluated = {arm: {s: run for s, run in runs.items() if suite in run.suites} for arm, runs in exp.runs.items()}
    evaluated = {arm: runs for arm, runs in evaluated.items() if runs}
    common = sorted(set.intersection(*map(set, evaluated.values()))) if evaluated else []
    if seed is None:
        if evaluated and not common:
            raise DataError(f"suite {suite}: the arms have no seed in common; choose one with --seed")
        seed = common[0] if common else 0
    out = {BASE: exp.base} if exp.base is not None and suite in exp.base.suites else {}
    out |= {arm: runs[seed] for arm, runs in evaluated.items() if seed in runs}
    if not out or (evaluated and len(out) == (BASE in out)):
        known = sorted({s for runs in evaluated.values() for s in runs})
        raise ConfigError(f"suite {suite}: no run with seed {seed}; evaluated seeds: {', '.join(map(str, known))}")
    return seed, out


def as_text(found: Found) -> str:
    """Return what was found for a terminal; the models' text cannot move the cursor, colour or hide anything."""
    share = f"the first {len(found.shown)} by id" if len(found.shown) < found.total else "all by id"
    lines = [
        f"{visible(found.experiment)}, suite {found.suite}, seed {found.seed}: {found.total:,} of "
        f"{found.searched:,} answers where {visible(found.query.text)}" + (f"; {share}" if found.total else "")
    ]
    for sample in found.shown:
        lines += ["", *_sample(sample)]
    return "\n".join(lines)


def _sample(sample: Sample) -> list[str]:
    which = f", sample {sample.number}" if sample.number else ""
    lines = [f"── {visible(sample.asked.problem_id)}{which}"]
    lines += _block("question", sample.asked.question) if sample.asked.question else []
    lines += [f"gold      {_one_line(sample.asked.gold)}"] if sample.asked.gold else []
    for model, row in sample.answers.items():
        read = f"read as {_one_line(row.answer)}" if row.answer else "no answer read"
        cut = ", cut at the limit" if row.truncated else ""
        odd = f", {row.status}" if row.status != "ok" else ""
        lines += [f"{_mark(row)} {visible(model)}: {read}{odd}, {row.tokens:,} tokens{cut}", *_block("", row.response)]
    return lines


def _mark(row: EvalRow) -> str:
    return "?" if row.score is None else "✓" if row.score == 1 else "✗"


def _block(label: str, text: str) -> list[str]:
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST]} … ({len(text) - LONGEST:,} more characters)"
    head = f"{label:<9}" if label else "    │"
    shown = visible(cut).split("\n")
    return [f"{head} {shown[0]}", *(f"{'':<9} {line}" if label else f"    │ {line}" for line in shown[1:])]


def _one_line(text: str) -> str:
    shown = " ".join(visible(text).split())
    return shown if len(shown) <= 200 else f"{shown[:200]} …"


def as_json(found: Found) -> str:
    """Return what was found as JSON in ASCII, with nothing cut."""
    data: dict[str, Any] = {
        "experiment": found.experiment,
        "suite": found.suite,
        "seed": found.seed,
        "where": found.query.text,
        "searched": found.searched,
        "found": found.total,
        "samples": [
            {
                **sample.asked.model_dump(),
                "sample": sample.number,
                "answers": {model: row.model_dump(mode="json") for model, row in sample.answers.items()},
            }
            for sample in found.shown
        ],
    }
    return json.dumps(data, indent=2)
