"""`make calibration`: how often the verdict is right, by simulation; writes the tables of docs/statistics.md."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from paribus.stats import detectable, equivalence_margin
from paribus.stats.difference import combine
from paribus.stats.interval import z_quantile
from paribus.stats.simulate import FORMS, Design, Form, Operating, operating, sample, truth

SEEDS, PROBLEMS, SPREADS = (3, 5, 10), (500, 1319), (0.0, 0.015, 0.03)
GENERATORS = {"common difficulty": 0.0, "heterogeneous effects": 1.0}  # sd of an arm's own effect on a problem, logits
UNEQUAL = ((0.0, 0.03), (0.015, 0.03))  # spreads of the two arms
EQUIVALENCE_PLAN = 0.85  # planned for; at least 80 % must come out
AGAIN = 10  # times the repeats, for cells that break a promise
PAIRED_SHARES = ((0, 0, 1), (0.5, 0, 0.5), (0.9, 0, 0.1), (0.8, 0.15, 0.05), (0.5, 0.25, 0.25), (0, 0.5, 0.5))
PAIRED_REPEATS = 200_000
BEGIN, END = "<!-- made by `make calibration`: begin -->", "<!-- end -->"


class Cell(NamedTuple):
    """One design, simulated at three true differences: none, the detectable one, and the margin."""

    generator: str
    design: Design
    stream: tuple[int, ...]
    forms: dict[Form, Operating]  # without a difference
    found: float
    at_found: Operating
    margin: float
    at_margin: Operating

    @property
    def null(self) -> Operating:
        return self.forms["welch"]

    @property
    def name(self) -> str:
        d = self.design
        return f"{self.generator}, {d.problems:,} problems, spread {100 * d.spread:g}, {d.seeds} seeds"


class Promise(NamedTuple):
    """What must hold in every cell: the number to look at, its bound, and whether it is a lower one."""

    text: str
    value: Callable[[Cell], float]
    bound: float
    lower: bool
    show: str = "{:.1%}"

    def broken(self, cell: Cell) -> bool:
        value = self.value(cell)
        return value < self.bound if self.lower else value > self.bound


def promises(repeats: int) -> list[Promise]:
    """Return what the issue of the statistics promised; error rates get two Monte-Carlo standard errors."""
    error = 2 * math.sqrt(0.05 * 0.95 / repeats)
    return [
        Promise("coverage of the 95 % interval, at least 94.5 % less two Monte-Carlo errors",
                lambda c: min(c.null.covered, c.at_found.covered, c.at_margin.covered), 0.945 - error, True),
        Promise('"better" without a difference, at most 5 % plus two Monte-Carlo errors',
                lambda c: c.null.wrong, 0.05 + error, False),
        Promise('"better" at the planned detectable difference, at least 75 %',
                lambda c: c.at_found.better, 0.75, True),
        Promise('"better" at the planned detectable difference, at most 85 %',
                lambda c: c.at_found.better, 0.85, False),
        Promise("width over that with known variances, from 5 seeds on, at most 1.15",
                lambda c: c.null.width / c.null.known if c.design.seeds >= 5 else 1.0, 1.15, False, "{:.3f}"),
        Promise('"less than the margin apart" at a true difference of the margin, at most 5 % plus two errors',
                lambda c: c.at_margin.close, 0.05 + error, False),
        Promise('"less than the margin apart" without a difference, where planned, at least 80 %',
                lambda c: c.null.close, 0.80, True),
    ]  # fmt: skip


def cells(repeats: int, seed: int) -> Iterator[Cell]:
    """Simulate every design."""
    for i, (name, n, spread, s) in enumerate(product(GENERATORS, PROBLEMS, SPREADS, SEEDS)):
        yield simulated(name, Design(s, n, spread, own=GENERATORS[name]), repeats, (seed, i))


def simulated(generator: str, null: Design, repeats: int, stream: tuple[int, ...]) -> Cell:
    """Simulate one design from a stream of its own, so that it gives the same numbers whatever else is simulated."""
    parts = truth(null)
    found = detectable(parts, null.seeds, null.problems)
    margin = equivalence_margin(parts, null.seeds, null.problems, EQUIVALENCE_PLAN)
    none, better, edge = (
        (d, sample(d, np.random.default_rng([*stream, k]), repeats))
        for k, d in enumerate(null._replace(effect=effect) for effect in (0.0, found, margin))
    )
    return Cell(
        generator,
        null,
        stream,
        {form: operating(*none, margin=margin, form=form) for form in FORMS},
        found,
        operating(*better),
        margin,
        operating(*edge, margin=margin),
    )


def unequal(repeats: int, seed: int) -> Iterator[tuple[str, Design, dict[Form, Operating]]]:
    """Simulate arms whose runs spread differently, on the larger problem set, without a true difference."""
    for i, (name, (one, other), s) in enumerate(product(GENERATORS, UNEQUAL, SEEDS)):
        design = Design(s, PROBLEMS[-1], one, others=other, own=GENERATORS[name])
        found = sample(design, np.random.default_rng([seed, 1000 + i]), repeats)
        yield name, design, {form: operating(design, found, form=form) for form in FORMS}


def page(repeats: int, seed: int, report: Callable[[str], None]) -> str:
    """Return the tables as Markdown."""
    done: list[Cell] = []
    for cell in cells(repeats, seed):
        done.append(cell)
        report(f"{len(done)} of {len(GENERATORS) * len(PROBLEMS) * len(SPREADS) * len(SEEDS)}: {cell.name}")
    odd = []
    for name, design, judged in unequal(repeats, seed):
        odd.append((name, design, judged))
        report(f"unequal spreads, {len(odd)} of {len(GENERATORS) * len(UNEQUAL) * len(SEEDS)}")
    error = 100 * math.sqrt(0.05 * 0.95 / repeats)
    lines = [
        f"{repeats:,} repeats for each number, seed {seed}; a Monte-Carlo standard error is {error:.2f} points at 5 %",
        f"and {100 * math.sqrt(0.16 / repeats):.2f} at 80 %. Spread, differences and margins in points of accuracy.",
        "",
        *_promised(done, repeats),
        *_again(done, repeats, report),
    ]
    for name in GENERATORS:
        lines += ["", f"### {name.capitalize()}", "", *_cells([c for c in done if c.generator == name])]
    lines += ["", "### Forms of the standard error", "", *_forms(done)]
    lines += ["", "### Arms whose runs spread differently", "", *_unequal(odd)]
    lines += ["", "### Paired seeds", "", *_paired(seed)]
    return "\n".join(lines)


def _table(header: list[str], rows: list[list[str]], labels: int = 1) -> list[str]:
    rule = ["---" if i < labels else "---:" for i in range(len(header))]
    return [f"| {' | '.join(row)} |" for row in [header, rule, *rows]]


def _promised(done: list[Cell], repeats: int) -> list[str]:
    rows = []
    for promise in promises(repeats):
        worst = (min if promise.lower else max)(done, key=promise.value)
        broken = sum(promise.broken(cell) for cell in done)
        shown = f"{promise.show.format(promise.value(worst))} ({worst.name})"
        rows.append([promise.text, shown, f"{len(done) - broken} of {len(done)}"])
    single = [cell.null.single for cell in done if cell.design.spread]
    note = (
        f"Beside it the test of one checkpoint each (mid-p McNemar on the first run): with any spread between runs it "
        f"calls equal algorithms different in {min(single):.1%} to {max(single):.1%} of repeats."
    )
    return [*_table(["promise", "worst cell", "cells that hold"], rows), "", note]


def _again(done: list[Cell], repeats: int, report: Callable[[str], None]) -> list[str]:
    """Simulate cells that break a promise once more, longer and from fresh streams: is it so, or was it luck?

    Of 36 rates that are exactly 5 %, about one is expected beyond two Monte-Carlo errors. Cells that hold by luck are
    not looked at again, so this tells only what is wrong with those that break.
    """
    rows = []
    for before, after in zip(promises(repeats), promises(AGAIN * repeats), strict=True):
        for cell in filter(before.broken, done):
            longer = simulated(cell.generator, cell.design, AGAIN * repeats, (*cell.stream, 1))
            shown = [before.show.replace(".1", ".2").format(before.value(c)) for c in (cell, longer)]
            bound = after.show.replace(".1", ".2").format(after.bound)
            rows.append([before.text, cell.name, *shown, bound, "no" if after.broken(longer) else "yes"])
            report(f"again, with {AGAIN * repeats:,} repeats: {cell.name}")
    if not rows:
        return []
    header = ["promise", "cell", f"at {repeats:,}", f"at {AGAIN * repeats:,}", "its bound", "holds"]
    text = (
        f"Cells outside a bound, again with {AGAIN * repeats:,} repeats from fresh streams. Only these are run again; "
        "a cell that holds by luck is not found out."
    )
    return ["", text, "", *_table(header, rows, labels=2)]


def _cells(done: list[Cell]) -> list[str]:
    header = [
        "problems", "spread", "seeds", "coverage", 'false "better"', "one checkpoint, false", "width / known",
        "detectable", '"better" there', "coverage there", "margin", "within it, no difference",
        "within it, at the margin",
    ]  # fmt: skip
    rows = [
        [
            f"{c.design.problems:,}", f"{100 * c.design.spread:g}", str(c.design.seeds), f"{c.null.covered:.1%}",
            f"{c.null.wrong:.1%}", f"{c.null.single:.1%}", f"{c.null.width / c.null.known:.3f}", f"{100 * c.found:.2f}",
            f"{c.at_found.better:.1%}", f"{c.at_found.covered:.1%}", f"{100 * c.margin:.2f}", f"{c.null.close:.1%}",
            f"{c.at_margin.close:.1%}",
        ]
        for c in done
    ]  # fmt: skip
    return _table(header, rows, labels=0)


def _forms(done: list[Cell]) -> list[str]:
    rows = []
    for form in FORMS:
        covered = [c.forms[form].covered for c in done]
        wide = {s: [c.forms[form].width / c.forms[form].known for c in done if c.design.seeds == s] for s in SEEDS}
        rows.append(
            [form, f"{min(covered):.1%}", f"{np.mean(covered):.1%}", f"{max(covered):.1%}"]
            + [f"{np.mean(wide[s]):.3f}, {max(wide[s]):.3f}" for s in SEEDS]
        )
    header = ["form", "coverage, lowest", "mean", "highest"]
    return _table(header + [f"width / known at {s} seeds: mean, largest" for s in SEEDS], rows)


def _unequal(odd: list[tuple[str, Design, dict[Form, Operating]]]) -> list[str]:
    rows = [
        [name, f"{100 * d.spread:g} and {100 * (d.others or 0):g}", str(d.seeds)]
        + [f"{judged[form].covered:.1%}, {judged[form].width / judged[form].known:.3f}" for form in FORMS]
        for name, d, judged in odd
    ]
    header = ["generator", "spreads", "seeds", *(f"{form}: coverage, width / known" for form in FORMS)]
    return _table(header, rows, labels=2)


def _paired(seed: int) -> list[str]:
    """Judge paired seeds under a normal model, where mean squares can be drawn themselves: many repeats cost nothing.

    Each share is one of the variance of the difference: seeds, problems, residual. Beside the form in use stands that
    of the reference's example E30: both floors, Satterthwaite's degrees of freedom.
    """
    from scipy.special import ndtr, stdtrit

    rng, n, rows = np.random.default_rng([seed, 2000]), PROBLEMS[-1], []
    for s, (seeds, items, residual) in product(SEEDS, PAIRED_SHARES):
        own = _mean_squares(rng, seeds + residual, s - 1)
        item = _mean_squares(rng, items + residual, n - 1)
        within = _mean_squares(rng, residual, (s - 1) * (n - 1))
        floors = np.maximum(np.maximum(own + item - within, own), item)
        squares = own**2 / (s - 1) + item**2 / (n - 1) + within**2 / ((s - 1) * (n - 1))
        row = [str(s), f"{seeds:.0%}", f"{items:.0%}", f"{residual:.0%}"]
        for variance, df in (combine([own], [s], item, within, n), (floors, floors**2 / squares)):
            half = stdtrit(df, 0.975) * np.sqrt(variance)
            row.append(f"{np.mean(2 * ndtr(half) - 1):.1%}, {half.mean() / z_quantile(0.95):.3f}")
        rows.append(row)
    header = ["seeds", "of seeds", "of problems", "residual", "in use: coverage, width / known", "E30's form"]
    text = f"A normal model on {n:,} problems, {PAIRED_REPEATS:,} repeats; shares of the variance of the difference."
    return [text, "", *_table(header, rows, labels=0)]


def _mean_squares(rng: np.random.Generator, mean: float, df: int) -> np.ndarray:
    return mean * rng.chisquare(df, PAIRED_REPEATS) / df


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m paribus.calibration", description=__doc__)
    parser.add_argument("file", type=Path, help="Markdown file whose marked part is replaced.")
    parser.add_argument("--repeats", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    before, _, rest = arguments.file.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    tables = page(arguments.repeats, arguments.seed, lambda line: print(line, flush=True))
    arguments.file.write_text(f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
