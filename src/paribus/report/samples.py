"""Several samples a problem: pass@k and maj@k of the base and of every arm, k by k."""

from __future__ import annotations

import numpy as np

from paribus.report.blocks import Block, Drawing, Figure, Prose, Table
from paribus.report.figures import Series, draw_series, series_data
from paribus.report.message import Text, msg
from paribus.report.results import Scores, rescored, scores, suites
from paribus.report.text import number, percent
from paribus.stats import Interval, simple_effect
from paribus.store import StoredExperiment
from paribus.suites import KS


def many_samples(exp: StoredExperiment, s: Scores) -> list[Block]:
    """Return the curves and their table, suite by suite, `s` first; nothing where every problem was asked once."""
    every = [s if name == s.suite else scores(exp, name) for name in suites(exp)]
    return [block for found in every if found.samples > 1 and found.problems for block in _at_k(exp, found)]


def _at_k(exp: StoredExperiment, s: Scores) -> list[Block]:
    ks = [k for k in KS if k <= s.samples]
    x = msg("k, samples")
    out: list[Block] = []
    tabled: list[list[Text]] = []
    for kind in ("pass", "maj"):
        scored = [(k, rescored(s, metric=f"{kind}@{k}")) for k in ks]
        found = [(k, _estimates(told)) for k, told in scored if told.problems]
        series = [
            Series(model, *_ends([(k, estimates[i][1]) for k, estimates in found]))
            for i, (model, _) in enumerate(found[0][1])
        ]
        y, name = msg("{metric}, %", metric=f"{kind}@k"), f"{s.suite}-{kind}-at-k"
        drawing = Drawing("", draw_series(series, exp.info.arms, x, y), series_data(series, x, y, name))
        title = msg("{metric} on {suite}, with 95 % intervals", metric=f"{kind}@k", suite=s.suite)
        out.append(Figure(name, title, [drawing]))
        tabled += [[f"{kind}@{k}", *(_told(i) for _, i in estimates)] for k, estimates in found]
    text = msg(
        "pass@k: the chance that at least one of k samples is right, unbiased (1 − C(n−c, k)/C(n, k)). maj@k: the "
        "chance that the most frequent answer of k samples is right, over all choices of k; ties are shared equally, a "
        "missing answer does not vote, all right answers count as one. Means over problems and seeds; intervals: "
        "two-way t (seeds x problems), of the base t over problems. Where the base overtakes an arm as k grows, "
        "training has sharpened what the base could do rather than added to it."
    )
    columns: list[Text] = [msg("metric"), *(model for model, _ in found[0][1])]
    return [*out, Table(columns, tabled, name=f"{s.suite}-at-k"), Prose(text, "note")]


def _estimates(s: Scores) -> list[tuple[Text, Interval]]:
    """Return every model's mean with its interval; the same models for every metric of the same evaluations."""
    tables: list[tuple[Text, np.ndarray]] = [(msg("base"), s.base[None, :])] if s.base is not None else []
    tables += [(arm, table) for arm, table in s.table.items() if len(table)]
    return [(model, simple_effect(table, np.zeros_like(table))) for model, table in tables]


def _ends(found: list[tuple[int, Interval]]) -> tuple[list[float], list[float], list[float], list[float]]:
    """Return the ks, and estimates and bounds in percent."""
    percents = [(100 * i.estimate, 100 * i.low, 100 * i.high) for _, i in found]
    y, low, high = (list(column) for column in zip(*percents, strict=True))
    return [float(k) for k, _ in found], y, low, high


def _told(i: Interval) -> Text:
    return msg(
        "{share} ({low} to {high})", share=percent(i.estimate), low=number(100 * i.low), high=number(100 * i.high)
    )
