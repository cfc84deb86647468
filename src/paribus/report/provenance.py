"""What was held equal, what went wrong, and where every number comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paribus.part import flatten
from paribus.report.blocks import Block, Prose, Table
from paribus.report.results import Scores
from paribus.report.text import DASH, count, listing, value
from paribus.store import DifferenceRow, StoredExperiment, StoredRun


def uncontrolled(exp: StoredExperiment) -> list[str]:
    """Return why the comparison is not controlled: undeclared differences, or graders and data that differ."""
    reasons = [f"undeclared difference in {row.path}" for row in exp.info.differences if not row.declared]
    runs = [run for found in exp.runs.values() for run in found.values()]
    with_base = [*runs, *([exp.base] if exp.base else [])]
    if len({run.info.grader.model_dump_json() for run in with_base}) > 1:
        reasons.append("runs were scored by different graders")
    uses = sorted({use for run in with_base for use in run.info.data})
    for use in uses:
        if len({run.info.data[use].hash for run in with_base if use in run.info.data}) > 1:
            reasons.append(f"runs used different data for {use}")
    return reasons


def differences(exp: StoredExperiment) -> list[Block]:
    """Return every setting in which the arms differ, undeclared ones marked."""
    reasons = uncontrolled(exp)
    out: list[Block] = []
    if reasons:
        out.append(Prose(f"Not controlled: {'; '.join(reasons)}.", "warning"))
    rows = exp.info.differences
    first = {cell.of: cell.arm for cell in reversed(exp.info.cells)}
    # of what is the same at every level, one column an arm of the file says it all
    fixed = [r for r in rows if all(r.values.get(c.arm) == r.values.get(first[c.of]) for c in exp.info.cells)]
    varied = [r for r in rows if r not in fixed]
    heads = dict.fromkeys(cell.of for cell in exp.info.cells) if first else exp.info.arms
    if fixed:
        out.append(
            _table(fixed, {first.get(head, head): head for head in heads}, "Everything in which the arms differ")
        )
    else:
        out.append(Prose("The arms do not differ in any setting."))
    if varied:
        arms = {arm: arm for arm in exp.info.arms}
        out.append(_table(varied, arms, "Everything in which the levels of the factors differ"))
    return out


def _table(rows: Sequence[DifferenceRow], arms: Mapping[str, str], caption: str) -> Table:
    """Return the differences, a column for each of `arms`, a stored name and what heads its column."""
    table = [
        [r.path, *(value(r.values.get(arm)) for arm in arms), "declared" if r.declared else "UNDECLARED", r.note]
        for r in rows
    ]
    notes = any(r.note for r in rows)
    columns = ["setting", *arms.values(), "status", *(["note"] if notes else [])]
    cut = len(columns)
    marked = frozenset(i for i, r in enumerate(rows) if not r.declared)
    return Table(columns, [row[:cut] for row in table], caption, labels=cut, marked=marked)


def shared(exp: StoredExperiment) -> list[Block]:
    """Return the setting that all arms share, nothing left out."""
    pairs = [[path, value(data)] for path, data in flatten(exp.info.resolved.get("setting", {})).items() if path]
    if not pairs:
        return [Prose("The experiment stores no shared setting.", "note")]
    return [Table(["setting", "value, but for the differences listed above"], pairs, labels=2)]


def failures(exp: StoredExperiment, s: Scores) -> list[Block]:
    """Return every run that is not in the result, with its reason, and every problem that was not counted."""
    rows = []
    for arm in exp.info.arms:
        for seed in exp.info.seeds:
            run = exp.runs[arm].get(seed)
            if run is None:
                rows.append([arm, str(seed), "not begun", ""])
            elif run.status != "done":
                last = f"after step {run.steps[-1].step}" if run.steps else "before the first step"
                rows.append([arm, str(seed), run.status, f"{last}; {run.failure}" if run.failure else last])
    out: list[Block] = []
    if rows:
        out.append(Prose(f"Planned runs that are not in the results: {len(rows)}.", "warning"))
        out.append(Table(["arm", "seed", "state", "where and why"], rows, labels=4))
    else:
        planned = len(exp.info.arms) * len(exp.info.seeds)
        out.append(Prose(f"Every planned run finished and is in the results: {planned}."))
    if s.excluded:
        shown = ", ".join(s.excluded[:5]) + (", …" if len(s.excluded) > 5 else "")
        text = f"{count(len(s.excluded), 'problem')} could not be graded for at least one model: {shown}. Left out of "
        out.append(Prose(f"{text}comparisons and means over seeds, for all models alike.", "warning"))
    else:
        out.append(Prose(f"Every problem of {s.suite} was graded for every model: {len(s.problems):,}."))
    return out


def limits(exp: StoredExperiment, s: Scores) -> list[Block]:
    """Return what these runs cannot show, whatever they show."""
    few = min((len(s.seeds[arm]) for arm in exp.info.arms), default=0)
    texts = [
        f"One model, one training task, at least {count(few, 'finished seed')} an arm: results may differ elsewhere.",
        f"Greater accuracy on {s.suite} is measured there, not as a general ability.",
        "The final checkpoint is compared, not the best one.",
    ]
    return [Prose(" ".join(texts), "note")]


def provenance(exp: StoredExperiment) -> list[Block]:
    """Return identities, versions and machines of all runs."""
    named = [("base", exp.base)] if exp.base else []
    named += [(f"{arm}/seed-{seed}", run) for arm, found in exp.runs.items() for seed, run in found.items()]
    if not named:
        return [Prose("No run is stored.", "note")]
    runs = [run for _, run in named if run is not None]
    table = [_run_row(name, run) for name, run in named if run is not None]
    columns = ["run", "id", "state", "attempts", "started (UTC)", "machine", "threads", "code", "git"]
    out: list[Block] = [Table(columns, table, labels=9)]
    grader = runs[0].info.grader
    attempts = [a for run in runs for a in run.info.attempts]
    facts = [
        ["grader", f"{grader.name}, policy {grader.policy}, version {grader.version}"],
        *([f"data: {use}", _data(runs, use)] for use in sorted({u for run in runs for u in run.info.data})),
        ["determinism", "; ".join(dict.fromkeys(a.determinism for a in attempts))],
        ["platform", "; ".join(dict.fromkeys(f"Python {a.python}, {a.platform}" for a in attempts))],
        ["packages", "; ".join(dict.fromkeys(value(a.packages) for a in attempts))],
        ["experiment written", exp.info.created],
    ]
    out.append(Table(["fact", "value"], facts, labels=2))
    changed = [name for name, run in named if run is not None and _machine_changed(run)]
    if changed:
        text = f"Resumed with other code, threads or hardware, so not bit-exact: {listing(changed)}."
        out.append(Prose(text, "warning"))
    if len({a.code for a in attempts}) > 1:
        out.append(Prose("Not all runs were made by the same version of the code.", "warning"))
    text = (
        "Accuracy, examples and the inference profile are computed from eval/, curves from steps.jsonl, cost and "
        "memory from timing.jsonl, settings from experiment.json, all in the experiment's folder."
    )
    out.append(Prose(text, "note"))
    return out


def _run_row(name: str, run: StoredRun) -> list[str]:
    last = run.info.attempts[-1]
    capacity = f", {last.device_bytes / 2**30:.1f} GiB" if last.device_bytes else ""
    return [
        name,
        run.info.id[:12],
        run.status,
        str(len(run.info.attempts)),
        run.info.attempts[0].started[:19].replace("T", " "),
        f"{last.host}: {last.device}{capacity}",
        str(last.threads),
        last.code[:12],
        _commit(last.git),
    ]


def _commit(git: str | None) -> str:
    if git is None:
        return DASH
    commit, dirty, _ = git.partition("-")
    return commit[:12] + (" (changed)" if dirty else "")


def _data(runs: list[StoredRun], use: str) -> str:
    found = [run.info.data[use] for run in runs if use in run.info.data]
    return "; ".join(dict.fromkeys(f"{d.name}, {d.split}, {count(d.n, 'problem')}, hash {d.hash}" for d in found))


def _machine_changed(run: StoredRun) -> bool:
    return len({(a.code, a.threads, a.device, a.host) for a in run.info.attempts}) > 1
