"""Tables and figures as files: nothing lost, nothing that another program would run, the same bytes again."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paribus.report.blocks import Drawing, Figure, Page, Picture, Section, Table
from paribus.report.export import as_csv, as_json, as_latex, export, figure_names, latex, tables
from paribus.report.message import msg
from paribus.report.text import visible

PLAIN = {
    "\\textbackslash{}": "\\", "\\textasciitilde{}": "~", "\\textasciicircum{}": "^", "\\textless{}": "<",
    "\\textgreater{}": ">", "\\textbar{}": "|", "$-$": "−", "$\\times$": "×", "$\\to$": "→", "$\\pm$": "±",
    "$\\ge$": "≥", "$\\le$": "≤", "$\\cdot$": "·", "$\\langle$": "⟨", "$\\rangle$": "⟩", "{[}": "[", "{]}": "]",
    "--": "–", **{f"\\{c}": c for c in "&%$#_{}"},
}  # fmt: skip


def printed(text: str) -> str:
    """Read our LaTeX back, longest commands first."""
    pattern = "|".join(map(re.escape, sorted(PLAIN, key=len, reverse=True)))
    return re.sub(pattern, lambda m: PLAIN[m[0]], text)


def drawing(label: str, rows: list[list[str]], svg: str = "<svg></svg>") -> Drawing:
    return Drawing(label, lambda _: Picture(svg, lambda: b"png"), Table(["x", "y"], rows))


def example() -> Page:
    """A page of two sections, with two tables and one figure that can be drawn over two axes."""
    axes = [drawing("steps", [["1", "2"]]), drawing("time, s", [["3", "2"]], "<svg>t</svg>")]
    blocks = [Table(["a", "b"], [["x", "1"]]), Table(["a"], [["y"]], caption="second"), Figure("score", "Score", axes)]
    sections = [Section(msg("Cost"), blocks), Section(msg("Cost"), [Table(["c"], [["z"]], name="phases")])]
    return Page("t", "q", True, [msg("a & b")], [], sections)


@given(st.lists(st.lists(st.text(max_size=20), min_size=2, max_size=2), max_size=5))
def test_a_csv_reader_gets_the_cells_back(rows: list[list[str]]) -> None:
    read = list(csv.reader(io.StringIO(as_csv(Table(["one", "two"], rows)), newline="")))
    for got, row in zip(read[1:], rows, strict=True):
        for cell, told in zip(got, row, strict=True):
            assert cell.removeprefix("'") == visible(told).removeprefix("'")
            assert not cell.startswith(("=", "@", "\t", "\r"))


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=1+1", "'=1+1"),
        ("@x", "'@x"),
        ("+cmd|'/c'!A0", "'+cmd|'/c'!A0"),
        ("-x", "'-x"),
        ("−1.36", "-1.36"),
        ("+25.00", "+25.00"),
        ("−0.5 %", "-0.5 %"),
        ("−0.69 to +1.40", "−0.69 to +1.40"),
        ("plain", "plain"),
    ],
)
def test_a_spreadsheet_runs_no_cell_and_reads_numbers(cell: str, written: str) -> None:
    assert next(csv.reader([as_csv(Table([cell], [])).strip()])) == [written]


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="–\n\t"), max_size=40))
def test_latex_prints_the_text_itself(text: str) -> None:
    """No character is left that TeX would take for a command, but in what stands for a character."""
    written = latex(text.replace("--", "- -"))
    assert printed(written) == visible(text.replace("--", "- -"))
    assert not re.search(r"[&%#_~^]", re.sub(r"\\[&%#_]", "", written))


def test_a_table_by_hand() -> None:
    table = Table([msg("arm"), "%"], [["a_b", "−1"], ["[x]", "2"]], caption="One\ntwo", marked=frozenset({1}))
    assert as_latex(table).splitlines() == [
        "% One two",
        "\\begin{tabular}{lr}",
        "\\toprule",
        "arm & \\% \\\\",
        "\\midrule",
        "a\\_b & $-$1 \\\\",
        "{[}x{]} & 2 \\\\",
        "\\bottomrule",
        "\\end{tabular}",
    ]
    assert json.loads(as_json(table)) == {
        "caption": "One\ntwo",
        "columns": ["arm", "%"],
        "rows": [["a_b", "−1"], ["[x]", "2"]],
    }


def test_names_are_unique_and_figures_have_one_a_drawing() -> None:
    assert [name for name, _ in tables(example())] == ["cost", "cost-2", "phases"]
    figure = example().sections[0].blocks[2]
    assert isinstance(figure, Figure) and figure_names(figure) == ["score", "score-time-s"]


def test_the_index_names_every_file_and_no_other(tmp_path: Path) -> None:
    page = example()
    drawn = {"score": [d.draw("en") for d in page.sections[0].blocks[2].drawings]}  # type: ignore[union-attr]
    for name in ("one", "two"):
        export(page, drawn, tmp_path / name)
    files = {p.relative_to(tmp_path / "one").as_posix(): p.read_bytes() for p in (tmp_path / "one").rglob("*.*")}
    again = {p.relative_to(tmp_path / "two").as_posix(): p.read_bytes() for p in (tmp_path / "two").rglob("*.*")}
    assert files == again
    index: Any = json.loads(files.pop("report.json"))
    listed = [name for section in index["sections"] for name in section["tables"]]
    listed += [name for section in index["sections"] for figure in section["figures"] for name in figure["files"]]
    assert set(files) == set(listed)
    assert {"figures/score.svg", "figures/score.png", "figures/score-time-s.csv", "tables/cost-2.tex"} <= set(listed)
    assert index["verdict"] == ["a & b"]
