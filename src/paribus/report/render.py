"""A page as one HTML file; all text is escaped here and in `plain`, and only there."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from paribus.report.blocks import Browser, Checks, Figure, Page, Picture, Sample, Table
from paribus.report.message import Language, Message, Text, msg, say
from paribus.report.text import visible

if TYPE_CHECKING:
    pass

MARKS = {"right": msg("right"), "wrong": msg("wrong"), "not counted": msg("not counted")}
SIGNS = {"right": "✓", "wrong": "✗", "not counted": "?"}
RELATIONS = (  # of the two models that are shown, in the order in which page.js tells them
    msg("left right, right wrong"),
    msg("left wrong, right right"),
    msg("both right"),
    msg("both wrong"),
    msg("not counted for one of them"),
)
WORDS = {  # what page.js says; `#` stands for a number
    "all": msg("all"),
    "relation": msg("left against right"),
    "kind": msg("chosen for"),
    "found": msg("# of # problems"),
    "none": msg("no problem fits"),
    "gold": msg("gold answer"),
    "read": msg("read as"),
    "unread": msg("no answer read"),
    "tokens": msg("# tokens"),
    "cut": msg("cut at the limit"),
    "more": msg("(# more characters)"),
    "missing": msg("no response is stored"),
}
LINE = 24  # characters of a cell from which it may be broken
FILES: Mapping[Language, str] = {"en": "report", "zh": "report.zh"}
Pictures = Mapping[str, Sequence[Picture]]  # a figure's name -> its drawings


class Group(NamedTuple):
    """Neighbouring figures that are switched together."""

    labels: Sequence[Text]
    figures: Sequence[Figure]


def html(page: Page, pictures: Pictures, language: Language = "en", others: Sequence[Language] = ()) -> str:
    """Return one self-contained document: styles, script and drawings inline, nothing fetched, readable unscripted.

    `pictures` are the drawings in the page's language; `others` the languages in which the page lies beside it.
    """
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["say"] = lambda text: visible(say(text, language))
    script = _resource("page.js")
    # a link to another language is said in that language: its readers have to find it
    links = [(f"{FILES[other]}.html", other, say(msg("Read in English"), other)) for other in others]
    return environment.from_string(_resource("page.html")).render(
        page=page,
        language=language,
        t=lambda template: say(msg(template), language),
        marks={name: f"{SIGNS[name]} {say(mark, language)}" for name, mark in MARKS.items()},
        tally=lambda checks: say(_tally(checks), language),
        columns=lambda table: _columns(table, language),
        groups=_groups,
        picture=lambda figure, i: Markup(_labelled(pictures[figure.name][i].svg, say(figure.title, language))),
        cases=lambda block: Markup(inert(_cases(block, language))),
        most=max((len(b.drawings) for s in page.sections for b in s.blocks if b.kind == "figure"), default=1),
        style=Markup(_resource("page.css")),
        script=Markup(script),
        script_hash=f"sha256-{b64encode(sha256(script.encode()).digest()).decode()}",
        links=links,
    )


def _resource(name: str) -> str:
    return files("paribus.report").joinpath(name).read_text(encoding="utf-8")


def _groups(blocks: Sequence[Figure]) -> list[Group]:
    found = groupby(blocks, key=lambda figure: [say(drawing.label) for drawing in figure.drawings])
    out = []
    for _, same in found:
        figures = list(same)
        out.append(Group([drawing.label for drawing in figures[0].drawings], figures))
    return out


def _tally(checks: Checks) -> Message:
    states = [line.ok for line in checks.lines]
    good, bad, unknown = states.count(True), states.count(False), states.count(None)
    return msg("{ok} ok, {bad} not ok, {unknown} not known", ok=good, bad=bad, unknown=unknown)


def _columns(table: Table, language: Language) -> list[str]:
    """Return what each column holds, as the class of its cells: words and numbers stay on a line, text may break."""
    longest = [max((len(say(row[i], language)) for row in table.rows), default=0) for i in range(len(table.columns))]
    return ["text" if n > LINE else "word" if i < table.labels else "number" for i, n in enumerate(longest)]


def _labelled(svg: str, title: str) -> str:
    """Return the drawing with what it shows for those who cannot see it."""
    from markupsafe import escape

    return svg.replace('role="img"', f'role="img" aria-label="{escape(visible(title))}"', 1)


def inert(data: object) -> str:
    """Return JSON in which no tag and no comment can begin, whatever the text in it."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029]", lambda m: f"\\u{ord(m[0]):04x}", text)


def _cases(block: Browser, language: Language) -> dict[str, object]:
    """Return what the page's script leafs through, with the words that it needs."""

    def told(text: Text) -> str:
        return visible(say(text, language))

    return {
        "models": [f"{told(name)}, {told(run)}" if run else told(name) for name, run in block.models],
        "shown": block.shown,
        "kinds": [told(text) for text in block.kinds],
        "words": {name: told(text) for name, text in WORDS.items()}
        | {"marks": [told(MARKS[name]) for name in MARKS], "relations": [told(text) for text in RELATIONS]},
        "cases": [
            {
                "id": visible(case.problem),
                "kind": case.kind,
                "question": case.question,
                "left": case.left_out,
                "gold": case.gold,
                "samples": [_sample(sample) if sample else None for sample in case.samples],
            }
            for case in block.cases
        ],
    }


def _sample(sample: Sample) -> list[object]:
    judged = list(MARKS).index(sample.verdict)
    return [judged, sample.tokens, int(sample.truncated), sample.read, sample.text, sample.left_out]
