"""Evaluations that Paribus stored: a run, all finished runs of an arm, the base, or the folder of `paribus eval`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from paribus.errors import DataError
from paribus.interop.outcomes import Outcomes, Run
from paribus.interop.rows import Choice, chosen
from paribus.store import EvalPaths, EvalRow, ExperimentPaths, RunPaths, StoredRun, read_eval
from paribus.store.files import read_rows
from paribus.store.layout import BASE
from paribus.store.reader import read_versioned
from paribus.store.schema import ExperimentInfo

SOURCE = "Paribus rows"


def stored_run(folder: Path) -> StoredRun:
    return StoredRun(RunPaths(folder, folder.parent.parent.name, folder.parent.name, 0))


def is_run(folder: Path) -> bool:
    return stored_run(folder).paths.run.exists()


def is_evaluated(folder: Path) -> bool:
    return EvalPaths(folder).info.exists()


def arm_runs(folder: Path) -> list[StoredRun]:
    """Return the runs in an arm's folder, by seed; none if it is another kind of folder."""
    runs = [stored_run(path) for path in folder.resolve().glob("seed-*") if is_run(path)]
    return sorted(runs, key=lambda run: run.info.seed)


def read_run(folder: Path, choice: Choice) -> Outcomes:
    """Return one run, or the base. Raises DataError if it has no evaluation."""
    run = stored_run(folder)
    info = run.info
    name = "base" if info.arm == BASE else f"{info.arm}/seed-{info.seed}"
    above = folder.resolve().parent
    root = above if info.arm == BASE else above.parent
    notes = [] if run.status == "done" else [f"{folder}: the run is {run.status}, not finished: its last evaluation"]
    return _outcomes(name, [run], root, folder, choice, notes)


def read_arm(folder: Path, choice: Choice) -> Outcomes:
    """Return all finished runs of an arm. Raises DataError if there is none."""
    runs = arm_runs(folder)
    done = [run for run in runs if run.status == "done"]
    if not done:
        raise DataError(f"{folder}: none of its {len(runs)} runs is finished")
    left = [f"seed {run.info.seed} {run.status}" for run in runs if run.status != "done"]
    notes = [f"{folder}: left out: {', '.join(left)}"] if left else []
    own = folder.resolve()
    return _outcomes(own.name, done, own.parent, folder, choice, notes)


def _outcomes(
    name: str, runs: Sequence[StoredRun], root: Path, where: Path, choice: Choice, notes: Sequence[str]
) -> Outcomes:
    suite = choice.suite or _primary(root, runs)
    common = [s for s in runs[0].suites if all(s in run.suites for run in runs)]
    suite = chosen(suite, common, what="evaluation suite", option="--suite", where=str(where))
    rows = {run.info.seed: run.eval(suite) for run in runs}
    found = [Run(f"seed-{seed}", seed, _scores(part)) for seed, part in rows.items()]
    if name == "base":
        found = [Run("base", None, run.scores) for run in found]
    return Outcomes(name, found, f"{SOURCE}, {suite}", _judged([r for part in rows.values() for r in part]), notes)


def _primary(root: Path, runs: Sequence[StoredRun]) -> str | None:
    """Return the suite that the experiment declared as its headline, where it is at hand."""
    paths = ExperimentPaths(root)
    if not paths.info.exists():
        return None
    suite = read_versioned(paths.info, ExperimentInfo).primary.split(":")[0]
    return suite if all(suite in run.suites for run in runs) else None


def read_evaluated(folder: Path, choice: Choice) -> Outcomes:
    """Return the rows of one suite that `paribus eval --out` wrote."""
    found = read_eval(folder)
    suites = list(found.info.suites)
    suite = chosen(choice.suite, suites, what="evaluation suite", option="--suite", where=str(folder))
    rows = found.rows(suite)
    return Outcomes(folder.resolve().name, [Run(str(folder), None, _scores(rows))], f"{SOURCE}, {suite}", _judged(rows))


def read_rows_file(name: str, path: Path) -> Outcomes:
    """Return one file of evaluation rows as one run."""
    rows = read_rows(path, EvalRow)
    return Outcomes(name, [Run(str(path), None, _scores(rows))], SOURCE, _judged(rows))


def _scores(rows: Sequence[EvalRow]) -> dict[str, list[float | None]]:
    out: dict[str, list[float | None]] = {}
    for row in {(row.problem_id, row.sample): row for row in rows}.values():
        out.setdefault(row.problem_id, []).append(row.score)
    return out


def _judged(rows: Sequence[EvalRow]) -> str:
    return f"grader {', '.join(sorted({row.grader for row in rows}))}"
