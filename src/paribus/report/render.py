"""A page as HTML or as Markdown; all text is escaped here, and only here."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from paribus.report import text
from paribus.report.blocks import Answer, Block, Example, Page, Table

MARKS = {"right": "✓ right", "wrong": "✗ wrong", "not counted": "? not counted"}


def html(page: Page) -> str:
    """Return one self-contained HTML document: styles and drawings inline, no script, nothing fetched."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["visible"] = text.visible
    source = files("paribus.report").joinpath("page.html").read_text(encoding="utf-8")
    return environment.from_string(source).render(page=page, marks=MARKS)


def markdown(page: Page) -> str:
    """Return the page as GitHub-flavoured Markdown; figures are files beside it."""
    lines = [f"# {text.markdown(page.title)}", ""]
    for sentence in page.verdict:
        lines += [f"**{text.markdown(sentence)}**", ""]
    for section in page.sections:
        lines += [f"## {text.markdown(section.title)}", ""]
        for block in section.blocks:
            lines += [*_block(block), ""]
    return "\n".join(lines)


def _block(block: Block) -> list[str]:
    match block.kind:
        case "prose":
            shown = text.markdown(block.text)
            return [{"plain": shown, "note": f"*{shown}*", "warning": f"> **{shown}**"}[block.tone]]
        case "figure":
            return [f"![{text.markdown(block.title)}](figures/{block.name}.svg)"]
        case "table":
            return _table(block)
        case "example":
            return _example(block)


def _table(table: Table) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(text.markdown(cell) for cell in cells)} |"

    rule = ["---" if i < table.labels else "---:" for i in range(len(table.columns))]
    head = [text.markdown(table.caption), ""] if table.caption else []
    return [*head, line(table.columns), f"| {' | '.join(rule)} |", *map(line, table.rows)]


def _example(example: Example) -> list[str]:
    out = [f"### Problem {text.markdown(example.problem)}", "", text.fenced(example.question), ""]
    out += [f"Gold answer: {text.markdown(example.gold)}"] if example.gold else []
    for answer in example.answers:
        out += ["", _heading(answer), "", text.fenced(answer.text)]
    return out


def _heading(answer: Answer) -> str:
    read = f"read as {text.markdown(answer.read)}" if answer.read else "no answer read"
    return f"**{text.markdown(answer.model)}**: {MARKS[answer.verdict]}, {read}, {text.markdown(answer.detail)}"
