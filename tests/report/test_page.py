"""The page around the content: its order, its links, its switches and its languages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

import pytest

from paribus.report import message
from paribus.report.blocks import (
    Block,
    Check,
    Checks,
    Code,
    Drawing,
    Figure,
    Page,
    Picture,
    Prose,
    Section,
    Table,
    Tile,
)
from paribus.report.markdown import markdown
from paribus.report.message import Language, msg
from paribus.report.page import page
from paribus.report.render import html
from paribus.store import DifferenceRow, read_experiment

TWO = {"ppo": {0: "11110000"}, "grpo": {0: "11100110"}}


def made(*sections: Section, **changes: Any) -> Page:
    fields: dict[str, Any] = {
        "title": "toy",
        "question": "Which?",
        "controlled": True,
        "verdict": [msg("{a} is better", a="ppo")],
        "tiles": [Tile(msg("base"), "50 %", msg("{n} problems", n=1319))],
        "sections": sections,
    }
    return Page(**{**fields, **changes})


def drawn(found: Page) -> dict[str, Sequence[Picture]]:
    figures = [b for s in found.sections for b in s.blocks if isinstance(b, Figure)]
    return {f.name: [Picture(f'<svg role="img"><text>{f.name}{i}</text></svg>', bytes) for i in range(len(f.drawings))]
            for f in figures}  # fmt: skip


def figure(name: str, *labels: str) -> Figure:
    return Figure(
        name, msg("the {name}", name=name), [Drawing(x, lambda _: NotImplemented, Table([], [])) for x in labels]
    )


class Document(HTMLParser):
    """What a browser would see: ids, links, and the text of each element by its class."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.radios: list[tuple[str, bool]] = []
        self.headings: list[int] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.attributes += attrs
        if found.get("id"):
            self.ids.append(str(found["id"]))
        if tag == "a":
            self.links.append(str(found["href"]))
        if found.get("type") == "radio":
            self.radios.append((str(found["name"]), "checked" in found))
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))


def test_every_link_of_the_contents_leads_somewhere_and_names_are_unique(write: Any) -> None:
    found = page(read_experiment(write(TWO, seeds=[0])), 1.5)
    sections = [section.anchor for section in found.sections]
    document = Document(html(found, drawn(found)))
    assert len(document.ids) == len(set(document.ids))
    assert [link.removeprefix("#") for link in document.links] == ["content", *sections]
    assert set(sections) < set(document.ids)
    assert document.headings[0] == 1 and document.headings.count(1) == 1


def test_the_order_of_the_page(write: Any) -> None:
    found = page(read_experiment(write(TWO, seeds=[0])), 1.5)
    order = ["fairness", "accuracy", "cost", "memory", "inference-profile", "learning-curves", "problem-by-problem"]
    order += ["limits", "reproduction"]
    anchors = [section.anchor for section in found.sections]
    assert [a for a in anchors if a in order] == order and all(section.blocks for section in found.sections)
    assert found.sections[0].tone == "good" and found.title == "toy"


def test_an_undeclared_difference_is_in_the_title_the_fairness_box_and_the_head(write: Any) -> None:
    rows = [DifferenceRow(path="whiten", values={"ppo": True, "grpo": None}, declared=False)]
    found = page(read_experiment(write(TWO, seeds=[0], differences=rows)), 1.5)
    assert message.say(found.title) == "toy (not controlled)" and found.sections[0].tone == "warning"
    text = html(found, drawn(found))
    head = text[: text.index('<div class="shell">')]
    assert "Not controlled: the arms differ" in head and "<title>toy (not controlled)" in text


def test_an_anchor_is_the_same_in_every_language(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message, "catalogue", lambda language: {"Cost of it all": "成本"} if language == "zh" else {})
    found = made(Section(msg("Cost of it all"), [Prose("x")]))
    assert found.sections[0].anchor == "cost-of-it-all"
    texts = {language: html(found, {}, language, others) for language, others in LANGUAGES.items()}
    assert '<a href="#cost-of-it-all">成本</a>' in texts["zh"] and '<html lang="zh-Hans">' in texts["zh"]
    assert '<a href="#cost-of-it-all">Cost of it all</a>' in texts["en"]
    assert 'href="report.zh.html" hreflang="zh"' in texts["en"] and 'href="report.html" hreflang="en"' in texts["zh"]
    assert "# toy" in markdown(found, "zh") and "## 成本" in markdown(found, "zh")


LANGUAGES: dict[Language, list[Language]] = {"en": ["zh"], "zh": ["en"]}


def test_figures_with_the_same_labels_share_a_switch() -> None:
    axes = ("steps", "time")
    blocks: list[Block] = [figure("a", *axes), figure("b", *axes), figure("alone", ""), figure("c", *axes)]
    found = made(Section("Curves", blocks))
    text = html(found, drawn(found))
    names = [name for name, _ in Document(text).radios]
    assert names == ["curves-a"] * 2 + ["curves-c"] * 2
    assert [checked for _, checked in Document(text).radios] == [True, False] * 2
    assert text.count('data-switch="steps|time"') == 2 and text.count('<div class="drawing">') == 7
    assert ".drawing:nth-of-type(2)" in text and ".drawing:nth-of-type(3)" not in text
    assert 'aria-label="the a"><text>a1</text>' in text


def test_checks_say_in_words_what_their_signs_say() -> None:
    lines = [Check(msg("seeds"), True), Check(msg("prompts"), False, "a < b"), Check(msg("tuning"), None)]
    found = made(Section("Fairness", [Checks(lines), Code("paribus run x.toml\n", msg("Commands"))]))
    text = html(found, {})
    assert re.findall(r'<b class="state">(.*?)</b> (\w+)', text) == [
        ("ok", "seeds"), ("not ok", "prompts"), ("not known", "tuning"),
    ]  # fmt: skip
    assert "a &lt; b" in text and "<code>paribus run x.toml" in text
    assert "- **not ok:** prompts a \\< b" in markdown(found) and "```text\nparibus run x.toml" in markdown(found)


def test_what_is_folded_is_in_the_page_all_the_same() -> None:
    found = made(Section("All of it", [Prose("deep inside")], level=2, folded=True))
    text = html(found, {})
    assert re.search(r"<details><summary><h3 .*?>All of it</h3></summary>\s*<p class=\"plain\">deep inside", text)
    assert "deep inside" in markdown(found) and "### All of it" in markdown(found)


def test_numbers_stay_on_a_line_and_long_text_may_break() -> None:
    table = Table(["arm", "points", "method"], [["ppo", "1", "two-way t over seeds and problems, paired"]])
    text = html(made(Section("t", [table])), {})
    assert re.findall(r'<td class="(\w+)">', text) == ["word", "number", "text"]
