"""Drawings: the same numbers give the same bytes, and text takes the colour of the page around it."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import numpy as np

from paribus.report.blocks import Picture, Table
from paribus.report.curves import Axis, Curves
from paribus.report.message import Language, Message, Text, msg, say

INK = "#010203"  # stands for the colour of the surrounding text
COLOURS = ("#2f7ed8", "#e0771a", "#1a9c72", "#9a5bd0", "#d6455d", "#7d8a2e", "#0f9fb5", "#b0689b")
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
PHASE_COLOURS = {
    "rollout": "#2f7ed8",
    "grade": "#8a94a6",
    "old_logp": "#61b3e4",
    "ref_logp": "#1a9c72",
    "values": "#c79be8",
    "policy_update": "#e0771a",
    "critic_update": "#9a5bd0",
    "save": "#b9a37a",
    "other": "#c3c8d0",
}
DOTS = 200  # of a PNG, an inch
MOST = 150  # points of a drawn line; a panel is 300 points of a page wide
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "paribus",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.12,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
}

Word = Callable[[Text], str]
Paint = Callable[[Any, Word], None]


class Effect(NamedTuple):
    """One row of the effects figure, in points: an estimate, its interval, and the runs behind it."""

    label: Text
    estimate: float
    low: float
    high: float
    runs: Sequence[float]


class Reached(NamedTuple):
    """Where a model ended: the means of two quantities, and those of the runs behind them."""

    label: Text
    x: float
    y: float
    runs: Sequence[tuple[float, float]]


class Series(NamedTuple):
    """A line with an interval at each of its points."""

    label: Text
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


class Threshold(NamedTuple):
    """A line across a panel, and what it is called."""

    value: float
    label: Text


class Canvas(NamedTuple):
    """Sizes in inches: of the drawing, and of the margins that its labels and legend need."""

    width: float
    height: float
    left: float
    top: float = 0.12


class Sketch:
    """A drawing to be made when asked for: called with a language it gives the picture.

    The layout is made once, in English; texts are anchored at a point, so other words can take their places.
    """

    def __init__(self, paint: Paint, canvas: Canvas) -> None:
        self.paint, self.canvas = paint, canvas

    def __call__(self, language: Language) -> Picture:
        svg, words = self._english
        for text in words:
            svg = svg.replace(f">{escape(say(text))}</text>", f">{escape(say(text, language))}</text>")
        return Picture(svg, partial(_png, lambda axes: self.paint(axes, lambda text: say(text, language)), self.canvas))

    @cached_property
    def _english(self) -> tuple[str, list[Text]]:
        words: list[Text] = []

        def word(text: Text) -> str:
            if isinstance(text, Message) and text not in words:
                words.append(text)
            return say(text)

        return _svg(lambda axes: self.paint(axes, word), self.canvas), words


def colour(arms: Sequence[str], model: Text) -> str:
    """Return an arm's colour, the same in every drawing; what is no arm (the base) is in ink."""
    return COLOURS[list(arms).index(model) % len(COLOURS)] if isinstance(model, str) and model in arms else INK


def draw_curves(panel: Curves, axis: Axis, arms: Sequence[str], thresholds: Sequence[Threshold] = ()) -> Sketch:
    """Draw a thin line for each seed, a thick one for the mean of an arm's seeds, and one s.d. to either side of it."""
    drawn = [arm for arm in arms if any(panel.lines.get(arm, {}).values())]
    zero = all(y == 0 for arm in drawn for line in panel.lines[arm].values() for _, y in line)

    def paint(axes: Any, word: Word) -> None:
        for i, arm in enumerate(drawn):
            shade, points = colour(arms, arm), thinned(panel.points(arm, axis))
            if len(panel.lines[arm]) > 1 and points:
                for line in panel.over(arm, axis).values():
                    axes.plot(*_columns(thinned(line)), color=shade, linewidth=0.6, alpha=0.4)
                low, high = [mean - sd for _, mean, sd in points], [mean + sd for _, mean, sd in points]
                axes.fill_between([x for x, *_ in points], low, high, color=shade, alpha=0.14, linewidth=0)
            style = {"color": shade, "linestyle": DASHES[i % len(DASHES)], "marker": "o" if len(points) < 12 else None}
            axes.plot(*_columns(points), linewidth=1.8, markersize=3.5, label=arm, **style)
        for threshold in thresholds:
            axes.axhline(threshold.value, color=INK, linewidth=0.9, alpha=0.6, linestyle=(0, (2, 2)))
            place = axes.get_yaxis_transform()
            axes.text(1, threshold.value, word(threshold.label), transform=place, ha="right", va="bottom", fontsize=7.5)
        if zero:
            axes.set_ylim(-0.005, 0.105)  # left alone, the axis would reach below what a share can be
        axes.set_xlabel(word(axis.title))
        axes.grid(True)
        axes.locator_params(nbins=5)
        axes.legend(ncols=4, loc="lower left", bbox_to_anchor=(-0.02, 0.99), handlelength=2.2, columnspacing=1.2)

    top = 0.12 + 0.18 * -(-len(drawn) // 4)  # a row of the legend holds four arms
    return Sketch(paint, Canvas(4.0, 2.43 + top, 0.56, top))


def draw_effects(effects: Sequence[Effect]) -> Sketch:
    """Draw estimates with their intervals against zero, and a ring for every run."""

    def paint(axes: Any, word: Word) -> None:
        axes.axvline(0, color=INK, linewidth=0.8, alpha=0.5)
        for i, e in enumerate(reversed(effects)):
            axes.plot([e.low, e.high], [i, i], color=COLOURS[0], linewidth=2.2, solid_capstyle="round")
            axes.plot([e.estimate], [i], "o", color=COLOURS[0], markersize=6)
            axes.plot(e.runs, [i + 0.24] * len(e.runs), "o", mfc="none", mec=INK, alpha=0.6, markersize=3.5, mew=0.8)
        axes.set_yticks(range(len(effects)), [word(e.label) for e in reversed(effects)])
        axes.set_ylim(-0.6, len(effects) - 0.4)
        axes.set_xlabel(word(msg("percentage points")))
        axes.grid(True, axis="x")

    width = _label_width(say(e.label) for e in effects)
    return Sketch(paint, Canvas(7.6, 0.65 + 0.42 * len(effects), width))


def effects_data(effects: Sequence[Effect], name: str) -> Table:
    """Return the numbers of the drawing, in points."""
    rows = [
        [e.label, *(f"{x:.6g}" for x in (e.estimate, e.low, e.high)), " ".join(f"{x:.6g}" for x in e.runs)]
        for e in effects
    ]
    return Table([msg("difference"), msg("points"), msg("low"), msg("high"), msg("runs")], rows, name=name)


def draw_points(points: Sequence[Reached], arms: Sequence[str], x: Text, y: Text) -> Sketch:
    """Draw one quantity against another: a mark for each model, a ring for every run."""

    def paint(axes: Any, word: Word) -> None:
        for i, p in enumerate(points):
            shade, marker = colour(arms, p.label), MARKERS[i % len(MARKERS)]
            for run in p.runs:
                axes.plot(*run, marker, mfc="none", mec=shade, alpha=0.6, markersize=4.5, mew=0.8)
            axes.plot(p.x, p.y, marker, color=shade, markersize=7.5, linestyle="none", label=word(p.label))
        axes.set_xlabel(word(x))
        axes.set_ylabel(word(y))
        axes.grid(True)
        axes.set_axisbelow(True)
        axes.legend(loc="best", handlelength=1, borderaxespad=0.4)

    return Sketch(paint, Canvas(7.6, 3.4, 0.72))


def points_data(points: Sequence[Reached], x: Text, y: Text, name: str) -> Table:
    """Return the numbers of the drawing: the mean of a model, then its runs."""
    rows: list[list[Text]] = []
    for p in points:
        rows.append([p.label, msg("mean"), f"{p.x:.6g}", f"{p.y:.6g}"])
        rows += [[p.label, msg("run"), f"{a:.6g}", f"{b:.6g}"] for a, b in p.runs]
    return Table([msg("model"), msg("of"), x, y], rows, labels=2, name=name)


def draw_series(series: Sequence[Series], arms: Sequence[str], x: Text, y: Text) -> Sketch:
    """Draw lines with intervals over a quantity that doubles from tick to tick."""

    def paint(axes: Any, word: Word) -> None:
        for i, s in enumerate(series):
            shade = colour(arms, s.label)
            axes.fill_between(s.x, s.low, s.high, color=shade, alpha=0.14, linewidth=0)
            axes.plot(s.x, s.y, marker=MARKERS[i % len(MARKERS)], markersize=4, color=shade, label=word(s.label))
        ticks = sorted({k for s in series for k in s.x})
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [f"{k:g}" for k in ticks])
        axes.set_xlabel(word(x))
        axes.set_ylabel(word(y))
        axes.grid(True)
        axes.legend(loc="best", handlelength=2, borderaxespad=0.4)

    return Sketch(paint, Canvas(4.0, 2.7, 0.62))


def series_data(series: Sequence[Series], x: Text, y: Text, name: str) -> Table:
    """Return the numbers of the drawing."""
    rows = [[s.label, *(f"{v:.6g}" for v in row)] for s in series for row in zip(s.x, s.y, s.low, s.high, strict=True)]
    return Table([msg("model"), x, y, msg("low"), msg("high")], rows, name=name)


def draw_phases(seconds: Mapping[str, Mapping[str, float]], names: Mapping[str, Text]) -> Sketch:
    """Draw each arm's training seconds as a bar split by phase."""
    phases = [p for p in PHASE_COLOURS if any(p in split for split in seconds.values())]
    arms = list(seconds)

    def paint(axes: Any, word: Word) -> None:
        left = dict.fromkeys(arms, 0.0)
        for phase in phases:
            widths = [seconds[arm].get(phase, 0.0) for arm in reversed(arms)]
            starts = [left[arm] for arm in reversed(arms)]
            axes.barh(range(len(arms)), widths, 0.62, left=starts, color=PHASE_COLOURS[phase], label=word(names[phase]))
            for arm in arms:
                left[arm] += seconds[arm].get(phase, 0.0)
        axes.set_yticks(range(len(arms)), list(reversed(arms)))
        axes.set_xlabel(word(msg("seconds of training, mean over seeds")))
        axes.grid(True, axis="x")
        axes.set_axisbelow(True)
        axes.legend(ncols=5, loc="lower left", bbox_to_anchor=(0, 1.0), handlelength=1, columnspacing=1.2)

    return Sketch(paint, Canvas(7.6, 1.1 + 0.42 * len(arms), _label_width(arms), top=0.62))


def phases_data(seconds: Mapping[str, Mapping[str, float]], names: Mapping[str, Text], name: str) -> Table:
    """Return the numbers of the drawing, in seconds."""
    rows = [[arm, names[p], f"{x:.6g}"] for arm, split in seconds.items() for p, x in split.items()]
    return Table([msg("arm"), msg("phase"), msg("seconds")], rows, labels=2, name=name)


def _label_width(labels: Iterable[str]) -> float:
    return 0.2 + 0.078 * max(map(len, labels))


def thinned(points: Sequence[tuple[float, ...]]) -> Sequence[tuple[float, ...]]:
    """Return at most MOST points, each the mean of its neighbours: what a panel is too narrow to show apart."""
    if len(points) <= MOST:
        return points
    return [tuple(part.mean(0).tolist()) for part in np.array_split(np.asarray(points, float), MOST)]


def _columns(points: Sequence[tuple[float, ...]]) -> tuple[list[float], list[float]]:
    return [p[0] for p in points], [p[1] for p in points]


def _svg(paint: Callable[[Any], None], canvas: Canvas) -> str:
    """Return the drawing as an SVG element: no prolog, no metadata, transparent, ink as `currentColor`."""
    from matplotlib import rc_context

    with rc_context(STYLE):
        buffer = io.StringIO()
        drawn = _painted(paint, canvas)
        drawn.patch.set_visible(False)
        drawn.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _clean(buffer.getvalue())


def _png(paint: Callable[[Any], None], canvas: Canvas) -> bytes:
    """Return the drawing on white, as bytes of a PNG file."""
    from matplotlib import rc_context

    with rc_context(STYLE):
        buffer = io.BytesIO()
        drawn = _painted(paint, canvas)
        drawn.savefig(buffer, format="png", dpi=DOTS, facecolor="white", metadata={"Software": None})
    return buffer.getvalue()


def _painted(paint: Callable[[Any], None], canvas: Canvas) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(canvas.width, canvas.height))
    bottom, right = 0.48, 0.1
    box = (
        canvas.left / canvas.width,
        bottom / canvas.height,
        1 - (canvas.left + right) / canvas.width,
        1 - (bottom + canvas.top) / canvas.height,
    )
    axes = figure.add_axes(box)
    axes.patch.set_visible(False)
    paint(axes)
    return figure


def _clean(svg: str) -> str:
    text = svg[svg.index("<svg") :].replace(INK, "currentColor")
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]*">', "<g>", text)  # nothing refers to them, and a page may hold a name only once
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    text = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', rf'<svg viewBox="\1" {names} role="img">', text, count=1)
    return text.strip()
