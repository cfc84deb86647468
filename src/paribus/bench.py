"""`make bench`: seconds per phase of a training step of each arm of an experiment, interleaved, on this machine."""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from paribus.experiment import Experiment, load_experiment
from paribus.part import replace
from paribus.pipeline.compare import run_experiment
from paribus.planning.text import table
from paribus.store import PHASES, read_experiment


def bench(exp: Experiment, steps: int, folder: Path) -> list[str]:
    """Run `steps` steps of every arm and seed; return a table of median seconds by phase, the first step left out."""
    exp = replace(exp, **{"setting.budget": {"steps": steps}, "setting.eval": _one_problem(exp)})
    stored = read_experiment(run_experiment(exp, folder).root)
    header, rows = ["seconds a step, median", *exp.arms], []
    times = {
        arm: [row for run in runs.values() for row in run.timing if row.suite is None and row.step > 1]
        for arm, runs in stored.runs.items()
    }
    for phase in PHASES:
        medians = [statistics.median(r.seconds.get(phase, 0.0) for r in times[arm]) for arm in exp.arms]
        if any(medians):
            rows.append([phase, *(f"{m:.3f}" for m in medians)])
    walls = {arm: [r.wall for r in times[arm]] for arm in exp.arms}
    rows.append(["whole step", *(f"{statistics.median(walls[a]):.3f}" for a in exp.arms)])
    rows.append(["  min - max", *(f"{min(walls[a]):.3f} - {max(walls[a]):.3f}" for a in exp.arms)])
    rate = {arm: statistics.median(r.tokens / r.wall for r in times[arm]) for arm in exp.arms}
    rows.append(["sampled tokens a second", *(f"{rate[a]:,.0f}" for a in exp.arms)])
    return [f"{len(next(iter(times.values())))} steps of each arm", *table(header, rows)]


def _one_problem(exp: Experiment) -> dict[str, object]:
    return {suite: replace(spec, limit=1) for suite, spec in exp.setting.eval.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m paribus.bench", description=__doc__)
    parser.add_argument("experiment", nargs="?", default="experiments/quickstart.toml")
    parser.add_argument("--steps", type=int, default=6)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print("\n".join(bench(load_experiment(arguments.experiment), arguments.steps, Path(folder))))


if __name__ == "__main__":
    main()
