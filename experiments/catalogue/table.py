"""The table of docs/catalogue-runs.md: `python experiments/catalogue/table.py RUNS/EXPERIMENT ... > docs/...`."""

from __future__ import annotations

import sys

import numpy as np

from paribus.stats import paired
from paribus.store import StoredRun, read_experiment, stat_value

OUTSIDE = ("clip_low", "clip_high", "clip_dual", "masked", "capped", "gated", "mismatch_corrected")
HEAD = """# Every method of the catalogue on the embedded model

One run (seed 0) of each entry, on 2 CPU cores; accuracy is greedy, on 1,319 held-out problems; the interval is that of
the two checkpoints on the same problems (Newcombe, paired), p is McNemar's mid-p. *Outside* is the largest share of
tokens in a step that the method's own bound clipped, masked, capped or gated; a dash where it has none. One seed says
that a method works here, not which is better: learning rates were not tuned for each. Methods with wide bounds make 8
updates a step (CISPO at twice the learning rate) so that the bounds are met, which costs them accuracy. Sampler and
learner are one model here, so corrections of their mismatch have nothing to correct. Flavours, which are made of the
same Parts, were not run.
Made by `paribus run experiments/catalogue/online.toml`, the same with `offline.toml`, and
`python experiments/catalogue/table.py runs/catalogue-online runs/catalogue-offline`.
"""


def scores(run: StoredRun, suite: str) -> np.ndarray:
    return np.array([row.score for row in sorted(run.eval(suite), key=lambda row: row.problem_id)], float)


def outside(run: StoredRun) -> str:
    found = [
        sum(stat_value(row.stats[name]) or 0.0 for name in OUTSIDE if name in row.stats)
        for row in run.steps
        if any(name in row.stats for name in OUTSIDE)
    ]
    return f"{100 * max(found):.2f} %" if found else "-"


def section(folder: str) -> list[str]:
    exp = read_experiment(folder)
    suite = exp.info.primary.split(":")[0]
    assert exp.base is not None
    base = scores(exp.base, suite)
    lines = [
        "",
        f"## {exp.info.name}",
        "",
        f"{exp.info.question} Base: {100 * base.mean():.2f} % ({base.sum():.0f}/{base.size}).",
        "",
        "| method | updates a step | steps | samples | accuracy | gain, points | 95 % interval | p | outside |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for arm, runs in exp.runs.items():
        for run in runs.values():
            if run.status != "done":
                continue
            now = scores(run, suite)
            found, last = paired(now, base), run.steps[-1]
            updates = round(float(np.mean([(row.stats.get("updates") or {}).get("sum") or 0 for row in run.steps])))
            lines.append(
                f"| {arm} | {updates} | {last.step} | {last.samples:,} | {100 * now.mean():.2f} % "
                f"| {100 * found.estimate:+.2f} | {100 * found.low:+.2f} to {100 * found.high:+.2f} "
                f"| {found.p:.2g} | {outside(run)} |"
            )
    return lines


if __name__ == "__main__":
    print("\n".join([HEAD.rstrip(), *(line for folder in sys.argv[1:] for line in section(folder))]))
