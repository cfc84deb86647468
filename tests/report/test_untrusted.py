"""Text that models wrote stays text: it cannot become markup, hide, turn round or leave its place."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from paribus.report import build
from paribus.report.message import say
from paribus.report.render import inert
from paribus.report.text import cut, fenced, markdown, visible

ATTACKS = [
    "<script>alert(1)</script>",
    "</pre></section><img src=x onerror=alert(1)>",
    '"><a href="https://example.com">x</a>',
    "&lt;b&gt; &amp; &#x3c;",
    "{{ 7*7 }} {% raw %}",
    "```\n</code>\n# heading\n````\n~~~\n<b>out</b>",
    "| a | b |\n|---|---|\n| c | d |",
    "[x](javascript:alert(1)) ![y](z.png) <https://example.com> https://example.com www.example.com",
    "1. one\n- two\n> three\n=====\n$x$ *y* __z__",
    "pay \u202e001$\u202c \u2066x\u2069 \u200b\ufeff\x00\x1b[31m\x07 \u2028 end\r\n",
]


def parse(text: str) -> list[Token]:
    tokens = MarkdownIt("commonmark", {"linkify": True}).enable(["table", "strikethrough"]).parse(text)
    return [t for token in tokens for t in (token, *(token.children or []))]


class Tags(HTMLParser):
    """Collects the elements and attributes that a browser would see."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, int] = {}
        self.attributes: set[tuple[str, str | None]] = set()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] = self.seen.get(tag, 0) + 1
        self.attributes |= set(attrs)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def tags(path: Path) -> Tags:
    parser = Tags()
    parser.feed(path.read_text(encoding="utf-8"))
    return parser


def test_invisible_characters_are_spelt_out() -> None:
    assert visible("a\u202eb\u200bc\x00d\re\u2028f") == "a⟨U+202E⟩b⟨U+200B⟩c⟨U+0000⟩d⟨U+000D⟩e⟨U+2028⟩f"
    plain = "x\ty\nπ ≠ 3, 雪, é, 💡"
    assert visible(plain) == plain


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_fence_holds_whatever_is_in_it(attack: str) -> None:
    tokens = parse(f"before\n\n{fenced(attack)}\n\nafter")
    assert [t.type for t in tokens if t.type not in ("text", "inline")] == [
        "paragraph_open", "paragraph_close", "fence", "paragraph_open", "paragraph_close",
    ]  # fmt: skip
    assert next(t for t in tokens if t.type == "fence").content == visible(attack) + "\n"


@pytest.mark.parametrize("attack", ATTACKS)
def test_inline_text_shows_itself_and_nothing_else(attack: str) -> None:
    tokens = parse(markdown(attack))
    assert {t.type for t in tokens} <= {"paragraph_open", "inline", "text", "text_special", "paragraph_close"}
    shown = "".join(t.content for t in tokens if t.type in ("text", "text_special"))
    assert shown == " ".join(visible(attack).split())


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_table_cell_stays_one_cell(attack: str) -> None:
    tokens = parse(f"| a | b |\n| --- | --- |\n| {markdown(attack)} | second |\n")
    assert sum(t.type == "td_open" for t in tokens) == 2
    assert not {t.type for t in tokens} & {"html_inline", "html_block", "link_open", "image", "code_inline", "s_open"}


def test_a_report_of_hostile_models_has_the_elements_of_a_harmless_one(write: Any, tmp_path: Path) -> None:
    runs = {"ppo": {0: "11100000"}, "grpo": {0: "10110000"}}
    calm = build(write(runs, seeds=[0]), tmp_path / "calm")
    evil = "\n".join(ATTACKS)
    loud = build(write(runs, seeds=[0], text=evil, question=evil, name="loud"), tmp_path / "loud")
    assert tags(loud).seen == tags(calm).seen
    assert tags(loud).attributes - tags(calm).attributes <= {("d", d) for _, d in tags(loud).attributes}
    assert "<script>alert(1)</script>" in "".join(tags(loud).text)
    (cases,) = re.findall(
        r'<script type="application/json" class="cases">(.*?)</script>', loud.read_text(encoding="utf-8"), re.DOTALL
    )
    held = json.loads(cases)["cases"][0]
    assert held["question"] == visible(evil) and held["samples"][0][4].startswith(visible(evil))
    page = loud.read_text(encoding="utf-8")
    assert not {"\u202e", "\u2066", "\x00", "\x1b", "\u200b"} & set(page)
    kinds = [
        [t.type for t in parse((tmp_path / n / "report.md").read_text(encoding="utf-8"))] for n in ("calm", "loud")
    ]
    flat = [[k for k in found if k not in ("text", "text_special")] for found in kinds]
    assert flat[0] == flat[1]


def test_the_page_fetches_nothing_and_runs_nothing(write: Any, tmp_path: Path) -> None:
    page = build(write({"ppo": {0: "11100000"}, "grpo": {0: "10110000"}}, seeds=[0]), tmp_path / "out")
    seen = tags(page)
    assert not seen.seen.keys() & {"link", "img", "iframe", "object", "embed", "image", "form", "base"}
    assert not {name for name, _ in seen.attributes if name.startswith("on")}
    outside = [v for k, v in seen.attributes if k in ("src", "href", "xlink:href") and v and not v.startswith("#")]
    assert outside == []
    text = page.read_text(encoding="utf-8")
    assert "@import" not in text and "url(http" not in text
    # of its two scripts one is data, and the policy allows the other by what it holds
    data, own = re.findall(r"<script([^>]*)>(.*?)</script>", text, re.DOTALL)
    assert data[0] == ' type="application/json" class="cases"' and own[0] == "" and seen.seen["script"] == 2
    policy = next(v for k, v in seen.attributes if k == "content" and v and "default-src" in v)
    digest = b64encode(sha256(own[1].encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'"
    )


@pytest.mark.parametrize("attack", [*ATTACKS, "</script><script>alert(1)</script>", "<!--<script>", "]]>", "\u003c"])
def test_data_for_the_script_is_inert_and_comes_back(attack: str) -> None:
    text = visible(attack)
    told = inert({"a": [text], text: 1})
    assert not set("<>&\u2028\u2029") & set(told) and json.loads(told) == {"a": [text], text: 1}


def test_what_is_left_out_of_a_long_text_is_counted() -> None:
    assert cut("short", 5) == "short" and say(cut("a" * 100_000, 3)) == "aaa … (99,997 more characters)"
