"""Sentences that can be said in several languages: a template, and what stands in its gaps.

What a report says is built once, as messages, and put into words when it is rendered. Plain strings are names, numbers
and text of other people: they are the same in every language.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Language = Literal["en", "zh"]


@dataclass(frozen=True, slots=True)
class Message:
    """An English template with `{gaps}`, its identity in every catalogue, and what fills them."""

    template: str
    fields: Mapping[str, Text]


@dataclass(frozen=True, slots=True)
class Listing:
    """Several things named one after another: "a, b and c"."""

    items: Sequence[Text]


@dataclass(frozen=True, slots=True)
class Joined:
    """Texts with a separator between them, the same in every language."""

    items: Sequence[Text]
    separator: str = " "


Text = str | Message | Listing | Joined


def msg(template: str, /, **fields: Text | int) -> Message:
    """Return a message; whole numbers are written with their thousands separated."""
    return Message(template, {k: f"{v:,}" if isinstance(v, int) else v for k, v in fields.items()})


def say(text: Text, language: Language = "en") -> str:
    """Return a text in a language. A template that its catalogue lacks is said in English."""
    match text:
        case str():
            return text
        case Message():
            template = catalogue(language).get(text.template, text.template)
            return template.format_map({k: say(v, language) for k, v in text.fields.items()})
        case Listing():
            return _listed([say(item, language) for item in text.items], language)
        case Joined():
            return text.separator.join(say(item, language) for item in text.items)


def catalogue(language: Language) -> Mapping[str, str]:
    """Return the templates of a language by their English ones; empty for English itself."""
    if language == "en":
        return {}
    from paribus.report.chinese import CHINESE

    return CHINESE


def _listed(items: Sequence[str], language: Language) -> str:
    comma, last = {"en": (", ", " and "), "zh": ("、", "和")}[language]
    return last.join([comma.join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)
