"""A page as GitHub-flavoured Markdown; figures are files beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paribus.report import text
from paribus.report.blocks import Answer, Block, Check, Example, Page, Table
from paribus.report.export import figure_names
from paribus.report.message import Language, Text, msg, say
from paribus.report.render import MARKS, SIGNS


def markdown(page: Page, language: Language = "en") -> str:
    """Return the page; text of other people shows itself literally, whatever it holds."""
    return _Writer(language).page(page)


@dataclass(frozen=True)
class _Writer:
    """Writes blocks as lines in one language."""

    language: Language

    def page(self, page: Page) -> str:
        lines = [f"# {self.line(page.title)}", ""]
        for sentence in page.verdict:
            lines += [f"**{self.line(sentence)}**", ""]
        for section in page.sections:
            lines += [f"{'#' * (section.level + 1)} {self.line(section.title)}", ""]
            for block in section.blocks:
                lines += [*self.block(block), ""]
        return "\n".join(lines)

    def line(self, told: Text) -> str:
        return text.markdown(say(told, self.language))

    def block(self, block: Block) -> list[str]:
        match block.kind:
            case "prose":
                shown = self.line(block.text)
                return [{"plain": shown, "note": f"*{shown}*", "warning": f"> **{shown}**"}[block.tone]]
            case "figure":
                return [f"![{self.line(block.title)}](figures/{figure_names(block)[0]}.svg)"]
            case "table":
                return self.table(block)
            case "checks":
                return [self.check(check) for check in block.lines]
            case "code":
                return [*self.caption(block.caption), text.fenced(block.text)]
            case "example":
                return self.example(block)
            case "browser":  # what has to be leafed through is no Markdown
                return [self.line(msg("The problems themselves are in report.html, to be leafed through."))]

    def caption(self, told: Text) -> list[str]:
        return [self.line(told), ""] if told else []

    def table(self, table: Table) -> list[str]:
        def row(cells: Sequence[Text]) -> str:
            return f"| {' | '.join(map(self.line, cells))} |"

        rule = ["---" if i < table.labels else "---:" for i in range(len(table.columns))]
        return [*self.caption(table.caption), row(table.columns), f"| {' | '.join(rule)} |", *map(row, table.rows)]

    def check(self, check: Check) -> str:
        state = msg("not known") if check.ok is None else msg("ok") if check.ok else msg("not ok")
        detail = f" {self.line(check.detail)}" if check.detail else ""
        return f"- **{self.line(state)}:** {self.line(check.text)}{detail}"

    def example(self, example: Example) -> list[str]:
        problem = self.line(msg("Problem {problem}", problem=example.problem))
        out = [f"### {problem}", "", self.fenced(example.question), ""]
        out += [self.line(msg("Gold answer: {gold}", gold=example.gold))] if example.gold else []
        for answer in example.answers:
            out += ["", self.heading(answer), "", self.fenced(answer.text)]
        return out

    def heading(self, answer: Answer) -> str:
        read = msg("read as {answer}", answer=answer.read) if answer.read else msg("no answer read")
        mark = f"{SIGNS[answer.verdict]} {self.line(MARKS[answer.verdict])}"
        return f"**{self.line(answer.model)}**: {mark}, {self.line(read)}, {self.line(answer.detail)}"

    def fenced(self, told: Text) -> str:
        return text.fenced(say(told, self.language))
