"""What was held equal, what went wrong, and where every number comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paribus.part import flatten
from paribus.report.blocks import Block, Prose, Table
from paribus.report.fairness import uncontrolled
from paribus.report.message import Joined, Text, msg
from paribus.report.results import Scores
from paribus.report.text import DASH, count, listing, value
from paribus.store import DifferenceRow, StoredExperiment, StoredRun


def differences(exp: StoredExperiment) -> list[Block]:
    """Return every setting in which the arms differ, undeclared ones marked."""
    reasons = uncontrolled(exp)
    out: list[Block] = []
    if reasons:
        out.append(Prose(msg("Not controlled: {reasons}.", reasons=Joined(reasons, "; ")), "warning"))
    rows = exp.info.differences
    first = {cell.of: cell.arm for cell in reversed(exp.info.cells)}
    # of what is the same at every level, one column an arm of the file says it all
    fixed = [r for r in rows if all(r.values.get(c.arm) == r.values.get(first[c.of]) for c in exp.info.cells)]
    varied = [r for r in rows if r not in fixed]
    heads = dict.fromkeys(cell.of for cell in exp.info.cells) if first else exp.info.arms
    if fixed:
        columns = {first.get(head, head): head for head in heads}
        out.append(_table(fixed, columns, msg("Everything in which the arms differ"), "arms"))
    else:
        out.append(Prose(msg("The arms do not differ in any setting.")))
    if varied:
        arms = {arm: arm for arm in exp.info.arms}
        out.append(_table(varied, arms, msg("Everything in which the levels of the factors differ"), "levels-differ"))
    return out


def _table(rows: Sequence[DifferenceRow], arms: Mapping[str, str], caption: Text, name: str) -> Table:
    """Return the differences, a column for each of `arms`, a stored name and what heads its column."""
    table: list[list[Text]] = [
        [
            r.path,
            *(value(r.values.get(arm)) for arm in arms),
            msg("declared") if r.declared else msg("UNDECLARED"),
            r.note,
        ]
        for r in rows
    ]
    notes = any(r.note for r in rows)
    columns: list[Text] = [msg("setting"), *arms.values(), msg("status"), *([msg("note")] if notes else [])]
    cut = len(columns)
    marked = frozenset(i for i, r in enumerate(rows) if not r.declared)
    return Table(columns, [row[:cut] for row in table], caption, labels=cut, marked=marked, name=name)


def shared(exp: StoredExperiment) -> list[Block]:
    """Return the setting that all arms share, nothing left out."""
    pairs = [[path, value(data)] for path, data in flatten(exp.info.resolved.get("setting", {})).items() if path]
    if not pairs:
        return [Prose(msg("The experiment stores no shared setting."), "note")]
    columns = [msg("setting"), msg("value, but for the differences listed above")]
    return [Table(columns, pairs, labels=2, name="setting")]


def failures(exp: StoredExperiment, s: Scores) -> list[Block]:
    """Return every run that is not in the result, with its reason, and every problem that was not counted."""
    rows: list[list[Text]] = []
    for arm in exp.info.arms:
        for seed in exp.info.seeds:
            run = exp.runs[arm].get(seed)
            if run is None:
                rows.append([arm, str(seed), msg("not begun"), ""])
            elif run.status != "done":
                last = msg("after step {step}", step=run.steps[-1].step) if run.steps else msg("before the first step")
                rows.append(
                    [arm, str(seed), STATES[run.status], Joined([last, *([run.failure] if run.failure else [])], "; ")]
                )
    out: list[Block] = []
    if rows:
        out.append(Prose(msg("Planned runs that are not in the results: {n}.", n=len(rows)), "warning"))
        columns = [msg("arm"), msg("seed"), msg("state"), msg("where and why")]
        out.append(Table(columns, rows, labels=4, name="failures"))
    else:
        planned = len(exp.info.arms) * len(exp.info.seeds)
        out.append(Prose(msg("Every planned run finished and is in the results: {n}.", n=planned)))
    if s.excluded:
        shown = ", ".join(s.excluded[:5]) + (", …" if len(s.excluded) > 5 else "")
        text = msg(
            "{problems} could not be graded for at least one model: {ids}. Left out of comparisons and means over "
            "seeds, for all models alike.",
            problems=count(len(s.excluded), "problem"),
            ids=shown,
        )
        out.append(Prose(text, "warning"))
    else:
        text = msg("Every problem of {suite} was graded for every model: {n}.", suite=s.suite, n=len(s.problems))
        out.append(Prose(text))
    return out


STATES: dict[str, Text] = {"done": msg("done"), "failed": msg("failed"), "interrupted": msg("interrupted")}


def provenance(exp: StoredExperiment) -> list[Block]:
    """Return identities, versions and machines of all runs."""
    named: list[tuple[Text, StoredRun]] = [(msg("base"), exp.base)] if exp.base else []
    named += [(f"{arm}/seed-{seed}", run) for arm, found in exp.runs.items() for seed, run in found.items()]
    if not named:
        return [Prose(msg("No run is stored."), "note")]
    runs = [run for _, run in named]
    columns = [
        msg("run"), msg("id"), msg("state"), msg("attempts"), msg("started (UTC)"), msg("machine"), msg("threads"),
        msg("code"), msg("git"),
    ]  # fmt: skip
    out: list[Block] = [Table(columns, [_run_row(name, run) for name, run in named], labels=9, name="runs")]
    grader = runs[0].info.grader
    attempts = [a for run in runs for a in run.info.attempts]
    told = msg(
        "{name}, policy {policy}, version {version}", name=grader.name, policy=grader.policy, version=grader.version
    )
    facts: list[list[Text]] = [
        [msg("grader"), told],
        *(
            [msg("data: {use}", use=use), _data(runs, use)]
            for use in sorted({u for run in runs for u in run.info.data})
        ),
        [msg("determinism"), "; ".join(dict.fromkeys(a.determinism for a in attempts))],
        [msg("platform"), "; ".join(dict.fromkeys(f"Python {a.python}, {a.platform}" for a in attempts))],
        [msg("packages"), "; ".join(dict.fromkeys(value(a.packages) for a in attempts))],
        [msg("experiment written"), exp.info.created],
    ]
    out.append(Table([msg("fact"), msg("value")], facts, labels=2, name="facts"))
    changed = [name for name, run in named if machine_changed(run)]
    if changed:
        text = msg("Resumed with other code, threads or hardware, so not bit-exact: {runs}.", runs=listing(changed))
        out.append(Prose(text, "warning"))
    if len({a.code for a in attempts}) > 1:
        out.append(Prose(msg("Not all runs were made by the same version of the code."), "warning"))
    text = msg(
        "Accuracy, examples and the inference profile are computed from eval/, curves from steps.jsonl, cost and "
        "memory from timing.jsonl, settings from experiment.json, all in the experiment's folder."
    )
    out.append(Prose(text, "note"))
    return out


def _run_row(name: Text, run: StoredRun) -> list[Text]:
    last = run.info.attempts[-1]
    capacity = f", {last.device_bytes / 2**30:.1f} GiB" if last.device_bytes else ""
    return [
        name,
        run.info.id[:12],
        STATES[run.status],
        str(len(run.info.attempts)),
        run.info.attempts[0].started[:19].replace("T", " "),
        f"{last.host}: {last.device}{capacity}",
        str(last.threads),
        last.code[:12],
        _commit(last.git),
    ]


def _commit(git: str | None) -> Text:
    if git is None:
        return DASH
    commit, dirty, _ = git.partition("-")
    return msg("{commit} (changed)", commit=commit[:12]) if dirty else commit[:12]


def _data(runs: Sequence[StoredRun], use: str) -> Text:
    found = dict.fromkeys((d.name, d.split, d.n, d.hash) for run in runs if (d := run.info.data.get(use)))
    return Joined(
        [
            msg(
                "{name}, {split}, {problems}, hash {hash}",
                name=name,
                split=split,
                problems=count(n, "problem"),
                hash=hash_,
            )
            for name, split, n, hash_ in found
        ],
        "; ",
    )


def machine_changed(run: StoredRun) -> bool:
    """Return whether a run was resumed with other code, threads or hardware."""
    return len({(a.code, a.threads, a.device, a.host) for a in run.info.attempts}) > 1
