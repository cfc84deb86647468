"""Drawings: the same numbers give the same bytes, alone and inside the page."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

from paribus.report import build
from paribus.report.curves import Curves
from paribus.report.figures import Effect, draw_curves, draw_effects, draw_phases

RUNS = {
    "ppo": {0: "11110000", 1: "11100000", 2: "11111000"},
    "grpo": {0: "11110100", 1: "11000000", 2: "11101100"},
}


def test_the_same_runs_give_the_same_bytes(write: Any, tmp_path: Path) -> None:
    folder = write(RUNS)
    one, two = build(folder, tmp_path / "one").parent, build(folder, tmp_path / "two").parent
    names = [sorted(p.relative_to(d) for p in d.rglob("*") if p.is_file()) for d in (one, two)]
    assert names[0] == names[1] and len(names[0]) == 2 + 8  # page, text, effects, phases, six panels
    assert all((one / p).read_bytes() == (two / p).read_bytes() for p in names[0])
    for name in ("report.md", "report.html"):
        assert str(tmp_path) not in (one / name).read_text(encoding="utf-8")


def test_drawings_are_clean_svg_that_takes_the_colour_of_the_page() -> None:
    line = [(1, 0.25), (2, 0.5)]
    drawn = [
        draw_curves(Curves("a", "a", {"ppo": {0: line, 1: line}, "grpo": {0: line}}), ["ppo", "grpo"]),
        draw_effects([Effect("ppo − base", 5.0, -1.0, 11.0, [4.0, 6.0])]),
        draw_phases(
            {"ppo": {"rollout": 2.0, "critic_update": 1.0}, "grpo": {"rollout": 2.0}},
            {"rollout": "r", "critic_update": "c"},
        ),
    ]
    for svg in drawn:
        root = ET.fromstring(svg)
        assert root.tag == "{http://www.w3.org/2000/svg}svg" and "viewBox" in root.attrib
        assert "currentColor" in svg and "metadata" not in svg and "matplotlib" not in svg.lower()
    assert drawn[1] == draw_effects([Effect("ppo − base", 5.0, -1.0, 11.0, [4.0, 6.0])])


def test_the_mean_stands_only_where_every_seed_has_a_value() -> None:
    panel = Curves("a", "a", {"ppo": {0: [(1, 1.0), (2, 3.0), (3, 9.0)], 1: [(1, 3.0), (3, 1.0)]}, "grpo": {}})
    assert panel.mean("ppo") == [(1, 2.0), (3, 5.0)] and panel.mean("grpo") == []
