"""Drawings: the same numbers give the same bytes, alone and inside the page."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from paribus.report import build, figures, message, panels
from paribus.report.curves import Axis, Curves, axes
from paribus.report.figures import (
    Effect,
    Reached,
    Series,
    Sketch,
    Threshold,
    draw_curves,
    draw_effects,
    draw_phases,
    draw_points,
    draw_series,
)
from paribus.report.message import msg

RUNS = {
    "ppo": {0: "11110000", 1: "11100000", 2: "11111000"},
    "grpo": {0: "11110100", 1: "11000000", 2: "11101100"},
}


def test_the_same_runs_give_the_same_bytes(write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(RUNS)
    monkeypatch.setattr(panels, "axes", lambda exp, price: axes(exp, price)[-1:])  # one of five: drawing takes seconds
    monkeypatch.setattr(figures, "_png", lambda *_: b"")
    one, two = build(folder, tmp_path / "one").parent, build(folder, tmp_path / "two").parent
    names = [sorted(p.relative_to(d) for p in d.rglob("*") if p.is_file()) for d in (one, two)]
    assert names[0] == names[1]
    assert {p.stem for p in names[0] if p.match("figures/*.svg") and "." not in p.stem} >= {
        "effects", "phases", "accuracy-per-dollar", "score", "length", "kl", "entropy", "grad-norm", "trust-region",
        "upper-clip",
    }  # fmt: skip
    assert all((one / p).read_bytes() == (two / p).read_bytes() for p in names[0])
    for name in ("report.md", "report.html"):
        assert str(tmp_path) not in (one / name).read_text(encoding="utf-8")


STEPS = Axis(msg("steps"), msg("steps"), {arm: {k: {1: 1.0, 2: 2.0} for k in (0, 1)} for arm in ("ppo", "grpo")})
LINE = [(1, 0.25), (2, 0.5)]


def drawn() -> list[Sketch]:
    panel = Curves("a", "a", {"ppo": {0: LINE, 1: LINE}, "grpo": {0: LINE}})
    return [
        draw_curves(panel, STEPS, ["ppo", "grpo"], [Threshold(0.4, "limit")]),
        draw_effects([Effect("ppo − base", 5.0, -1.0, 11.0, [4.0, 6.0])]),
        draw_phases(
            {"ppo": {"rollout": 2.0, "critic_update": 1.0}, "grpo": {"rollout": 2.0}},
            {"rollout": "r", "critic_update": "c"},
        ),
        draw_points([Reached("base", 0.0, 0.1, []), Reached("ppo", 3.0, 0.9, [(2.0, 1.4)])], ["ppo"], "x", "y"),
        draw_series([Series("ppo", [1, 2], [10.0, 20.0], [5.0, 15.0], [15.0, 25.0])], ["ppo"], "k", "%"),
    ]


def test_drawings_are_clean_svg_that_takes_the_colour_of_the_page() -> None:
    for sketch, again in zip(drawn(), drawn(), strict=True):
        svg = sketch("en").svg
        root = ET.fromstring(svg)
        assert root.tag == "{http://www.w3.org/2000/svg}svg" and "viewBox" in root.attrib
        assert "currentColor" in svg and "metadata" not in svg and "matplotlib" not in svg.lower()
        assert svg == again("en").svg


def test_a_png_is_one_and_the_same_twice() -> None:
    one, two = (drawn()[1]("en").png() for _ in range(2))
    assert one == two and one.startswith(b"\x89PNG")


def test_other_words_take_the_places_of_the_english_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names stay; a text that is part of another one is not touched."""
    monkeypatch.setattr(message, "catalogue", lambda language: {"en": {}, "zh": {"steps": "步 & 数"}}[language])
    sketch = drawn()[0]
    english, chinese = sketch("en").svg, sketch("zh").svg
    assert ">steps</text>" in english and ">步 &amp; 数</text>" in chinese and ">steps</text>" not in chinese
    assert english.replace(">steps</text>", ">步 &amp; 数</text>") == chinese and ">ppo</text>" in chinese
