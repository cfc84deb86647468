"""Drawings as SVG text: the same numbers give the same bytes, and text takes the colour of the page around it."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from paribus.report.curves import Curves

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


class Effect(NamedTuple):
    """One row of the effects figure, in points: an estimate, its interval, and the runs behind it."""

    label: str
    estimate: float
    low: float
    high: float
    runs: Sequence[float]


class Reached(NamedTuple):
    """Where a model ended: its mean KL and mean reward, and those of the runs behind it."""

    label: str
    kl: float
    reward: float
    runs: Sequence[tuple[float, float]]


def colour(arms: Sequence[str], arm: str) -> str:
    return COLOURS[list(arms).index(arm) % len(COLOURS)]


def draw_curves(panel: Curves, arms: Sequence[str]) -> str:
    """Draw a thin line for each seed and a thick one for the mean of an arm's seeds."""

    def draw(axes: Any) -> None:
        for i, arm in enumerate(a for a in arms if panel.lines.get(a)):
            style = {"color": colour(arms, arm), "linestyle": DASHES[i % len(DASHES)]}
            for line in panel.lines[arm].values():
                if len(panel.lines[arm]) > 1:
                    axes.plot(*_columns(line), color=style["color"], linewidth=0.7, alpha=0.4)
            mean = panel.mean(arm)
            marker = "o" if len(mean) < 12 else None
            axes.plot(*_columns(mean), linewidth=1.8, marker=marker, markersize=3.5, label=arm, **style)
        axes.set_xlabel("steps")
        axes.grid(True)
        axes.legend(loc="best", handlelength=2.2, borderaxespad=0.2)

    return _svg(draw, 4.0, 2.5, left=0.52)


def draw_effects(effects: Sequence[Effect]) -> str:
    """Draw estimates with their intervals against zero, and a ring for every run."""

    def draw(axes: Any) -> None:
        axes.axvline(0, color=INK, linewidth=0.8, alpha=0.5)
        for i, e in enumerate(reversed(effects)):
            axes.plot([e.low, e.high], [i, i], color=COLOURS[0], linewidth=2.2, solid_capstyle="round")
            axes.plot([e.estimate], [i], "o", color=COLOURS[0], markersize=6)
            axes.plot(e.runs, [i + 0.24] * len(e.runs), "o", mfc="none", mec=INK, alpha=0.6, markersize=3.5, mew=0.8)
        axes.set_yticks(range(len(effects)), [e.label for e in reversed(effects)])
        axes.set_ylim(-0.6, len(effects) - 0.4)
        axes.set_xlabel("percentage points")
        axes.grid(True, axis="x")

    return _svg(draw, 7.6, 0.65 + 0.42 * len(effects), left=_label_width(e.label for e in effects))


def draw_frontier(points: Sequence[Reached], arms: Sequence[str]) -> str:
    """Draw reward against KL: a mark for each model, a ring for every run; what is no arm (the base) is in ink."""

    def draw(axes: Any) -> None:
        for i, p in enumerate(points):
            shade, marker = colour(arms, p.label) if p.label in arms else INK, MARKERS[i % len(MARKERS)]
            for run in p.runs:
                axes.plot(*run, marker, mfc="none", mec=shade, alpha=0.6, markersize=4.5, mew=0.8)
            axes.plot(p.kl, p.reward, marker, color=shade, markersize=7.5, linestyle="none", label=p.label)
        axes.set_xlabel("KL to the starting policy, nats a response")
        axes.set_ylabel("mean reward")
        axes.grid(True)
        axes.set_axisbelow(True)
        axes.legend(loc="best", handlelength=1, borderaxespad=0.4)

    return _svg(draw, 7.6, 3.4, left=0.72)


def draw_phases(seconds: Mapping[str, Mapping[str, float]], names: Mapping[str, str]) -> str:
    """Draw each arm's training seconds as a bar split by phase."""
    phases = [p for p in PHASE_COLOURS if any(p in split for split in seconds.values())]
    arms = list(seconds)

    def draw(axes: Any) -> None:
        left = dict.fromkeys(arms, 0.0)
        for phase in phases:
            widths = [seconds[arm].get(phase, 0.0) for arm in reversed(arms)]
            starts = [left[arm] for arm in reversed(arms)]
            axes.barh(range(len(arms)), widths, 0.62, left=starts, color=PHASE_COLOURS[phase], label=names[phase])
            for arm in arms:
                left[arm] += seconds[arm].get(phase, 0.0)
        axes.set_yticks(range(len(arms)), list(reversed(arms)))
        axes.set_xlabel("seconds of training, mean over seeds")
        axes.grid(True, axis="x")
        axes.set_axisbelow(True)
        axes.legend(ncols=5, loc="lower left", bbox_to_anchor=(0, 1.0), handlelength=1, columnspacing=1.2)

    return _svg(draw, 7.6, 1.1 + 0.42 * len(arms), left=_label_width(arms), top=0.62)


def _label_width(labels: Iterable[str]) -> float:
    return 0.2 + 0.078 * max(map(len, labels))


def _columns(line: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [x for x, _ in line], [y for _, y in line]


def _svg(draw: Callable[[Any], None], width: float, height: float, left: float, top: float = 0.12) -> str:
    """Return the drawing as an SVG element: no prolog, no metadata, transparent, ink as `currentColor`.

    All lengths are in inches; `left` and `top` are the margins that labels and legend need.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=(width, height))
        FigureCanvasSVG(figure)
        figure.patch.set_visible(False)
        bottom, right = 0.48, 0.1
        box = (left / width, bottom / height, 1 - (left + right) / width, 1 - (bottom + top) / height)
        axes = figure.add_axes(box)
        axes.patch.set_visible(False)
        draw(axes)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _clean(buffer.getvalue())


def _clean(svg: str) -> str:
    text = svg[svg.index("<svg") :].replace(INK, "currentColor")
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]*">', "<g>", text)  # nothing refers to them, and a page may hold a name only once
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    text = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', rf'<svg viewBox="\1" {names} role="img">', text, count=1)
    return text.strip()
