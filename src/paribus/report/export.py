"""Every table and figure of a page as files: CSV, JSON and LaTeX; SVG, PNG and the numbers drawn."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from paribus.report.blocks import Drawing, Figure, Page, Picture, Section, Table
from paribus.report.message import say
from paribus.report.text import visible
from paribus.store.files import replace_file

_FORMULA = re.compile(r"^[=@\t\r]|^[+-](?!\d[\d.,]*( %)?$)")  # what a spreadsheet would run
_LATEX = {
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "|": "\\textbar{}",
    "−": "$-$",
    "×": "$\\times$",
    "→": "$\\to$",
    "±": "$\\pm$",
    "≥": "$\\ge$",
    "≤": "$\\le$",
    "–": "--",
    "·": "$\\cdot$",
    "⟨": "$\\langle$",
    "⟩": "$\\rangle$",
    "[": "{[}",  # at the beginning of a row it would be an option of the line before
    "]": "{]}",
    "\n": " ",
    "\t": " ",
}


def export(page: Page, pictures: Mapping[str, Sequence[Picture]], out: Path) -> None:
    """Write `tables/`, `figures/` and `report.json`, which lists them, in English.

    Cells are as the page shows them; `pictures` are the drawings of each figure by its name. Of a figure with several
    drawings the first is PNG too, and the numbers are written once where all drawings show the same.
    """
    for name, table in tables(page):
        for ending, write in FORMATS.items():
            replace_file(out / "tables" / f"{name}.{ending}", write(table).encode())
    for figure in figures(page):
        drawn = zip(figure_files(figure), figure.drawings, pictures[figure.name], strict=True)
        for names, drawing, picture in drawn:
            for name in names:
                replace_file(out / name, _figure_file(name, drawing, picture))
    replace_file(out / "report.json", _json(index(page)).encode())


def _figure_file(name: str, drawing: Drawing, picture: Picture) -> bytes:
    match name.rpartition(".")[2]:
        case "svg":
            return picture.svg.encode() + b"\n"
        case "png":
            return picture.png()
        case _:
            return as_csv(drawing.data).encode()


def tables(page: Page) -> Iterator[tuple[str, Table]]:
    """Return every table with its file name: its own, or its section's with a number from the second on."""
    taken: set[str] = set()
    for section in page.sections:
        for table in _tables(section):
            stem = table.name or section.anchor
            name, n = stem, 1
            while name in taken:
                n += 1
                name = f"{stem}-{n}"
            taken.add(name)
            yield name, table


def _tables(section: Section) -> list[Table]:
    return [block for block in section.blocks if block.kind == "table"]


def figures(page: Page) -> list[Figure]:
    return [block for section in page.sections for block in section.blocks if block.kind == "figure"]


def figure_names(figure: Figure) -> list[str]:
    """Return a file name for each of a figure's drawings; the first is the figure's own."""
    slugs = [re.sub(r"[^a-z0-9]+", "-", say(drawing.label).lower()).strip("-") for drawing in figure.drawings]
    return [figure.name, *(f"{figure.name}-{slug}" for slug in slugs[1:])]


def figure_files(figure: Figure) -> list[list[str]]:
    """Return the paths of each drawing's files."""
    own = figure.drawings[0].data
    out = []
    for i, (name, drawing) in enumerate(zip(figure_names(figure), figure.drawings, strict=True)):
        endings = ["svg", *(["png", "csv"] if i == 0 else ["csv"] if drawing.data != own else [])]
        out.append([f"figures/{name}.{ending}" for ending in endings])
    return out


def as_csv(table: Table) -> str:
    """Return the table as CSV (RFC 4180); a cell that a spreadsheet would run as a formula begins with a quote."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    for row in [table.columns, *table.rows]:
        writer.writerow([_inert(_cell(cell)) for cell in row])
    return buffer.getvalue()


def as_json(table: Table) -> str:
    """Return caption, columns and rows; columns may share a name, so rows are lists."""
    rows = [[_cell(cell) for cell in row] for row in table.rows]
    return _json({"caption": _cell(table.caption), "columns": [_cell(c) for c in table.columns], "rows": rows})


def as_latex(table: Table) -> str:
    """Return a `tabular` that needs the package booktabs; every character of a cell stands for itself."""

    def line(cells: Sequence[Any]) -> str:
        return f"{' & '.join(latex(_cell(cell)) for cell in cells)} \\\\"

    kinds = "".join("l" if i < table.labels else "r" for i in range(len(table.columns)))
    caption = [f"% {' '.join(_cell(table.caption).split())}"] if table.caption else []
    body = [f"\\begin{{tabular}}{{{kinds}}}", "\\toprule", line(table.columns), "\\midrule", *map(line, table.rows)]
    return "\n".join([*caption, *body, "\\bottomrule", "\\end{tabular}", ""])


def latex(text: str) -> str:
    """Return text that LaTeX prints as it is."""
    return "".join(_LATEX.get(c, c) for c in visible(text))


def index(page: Page) -> dict[str, Any]:
    """Return what the page says in short, and the files that hold its tables and figures by section."""
    named = {id(table): name for name, table in tables(page)}
    return {
        "title": visible(say(page.title)),
        "question": visible(say(page.question)),
        "controlled": page.controlled,
        "verdict": [_cell(sentence) for sentence in page.verdict],
        "tiles": [{"label": _cell(t.label), "value": _cell(t.value), "detail": _cell(t.detail)} for t in page.tiles],
        "sections": [
            {
                "title": _cell(section.title),
                "anchor": section.anchor,
                "tables": [f"tables/{named[id(table)]}.{e}" for table in _tables(section) for e in FORMATS],
                "figures": [
                    {"title": _cell(block.title), "files": [name for names in figure_files(block) for name in names]}
                    for block in section.blocks
                    if block.kind == "figure"
                ],
            }
            for section in page.sections
        ],
    }


FORMATS: Mapping[str, Callable[[Table], str]] = {"csv": as_csv, "json": as_json, "tex": as_latex}


def _cell(text: Any) -> str:
    return visible(say(text))


def _inert(cell: str) -> str:
    """Return a cell of CSV: numbers with a plain minus sign, and nothing that a spreadsheet runs."""
    plain = cell.replace("−", "-") if re.fullmatch(r"−[\d.,]+( %)?", cell) else cell
    return f"'{plain}" if _FORMULA.search(plain) else plain


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
