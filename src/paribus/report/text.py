"""Numbers as people read them, and untrusted text made harmless."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from paribus.report.message import Joined, Listing, Message, Text, msg
from paribus.stats import Interval, Paired

DASH = "–"
_SPECIAL = re.compile(r"[\\`*_\[\]<>|~&$]|:(?=//)|(?<=www)\.|^[=#]|^(?:[-+]|\d+[.)])(?= |$)")
_UNUSUAL = re.compile(r"[^\n\t -~]")  # what has to be looked up: most text has none
_INVISIBLE = {"Cc", "Cf", "Zl", "Zp", "Cs", "Co", "Cn"}


def visible(text: str) -> str:
    """Return `text` with every control, formatting and bidirectional character spelt out, as in ⟨U+202E⟩.

    Such characters can hide text or turn its order round; newline and tab stay.
    """
    return _UNUSUAL.sub(lambda m: _spelt(m[0]), text)


@lru_cache(maxsize=1 << 14)
def _spelt(character: str) -> str:
    return f"⟨U+{ord(character):04X}⟩" if unicodedata.category(character) in _INVISIBLE else character


def cut(text: str, longest: int) -> Text:
    """Return the beginning of a text, and how much of it is left out."""
    if len(text) <= longest:
        return text
    return msg("{beginning} … ({n} more characters)", beginning=text[:longest], n=len(text) - longest)


def markdown(text: str) -> str:
    """Return `text` as one line of Markdown that shows it literally: no markup, HTML, link or cell begins in it."""
    return _SPECIAL.sub(lambda m: f"{m[0][:-1]}\\{m[0][-1]}", " ".join(visible(text).split()))


def fenced(text: str) -> str:
    """Return `text` as a fenced block whose fence is longer than any run of backticks in it."""
    shown = visible(text)
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{shown}\n{fence}"


def number(value: float | None, digits: int = 2) -> str:
    """Return a number with thousands separated and a true minus sign; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return DASH
    return f"{value:,.{digits}f}".replace("-", "−")


def percent(share: float | None, digits: int = 2) -> str:
    return DASH if share is None or not math.isfinite(share) else f"{number(100 * share, digits)} %"


def points(difference: float, digits: int = 2) -> str:
    """Return a difference of shares in percentage points, always with its sign."""
    return f"{round(100 * difference, digits) + 0.0:+,.{digits}f}".replace("-", "−")  # never a zero with a minus


def span(low: Text, high: Text) -> Message:
    """Return the two ends of an interval."""
    return msg("{low} to {high}", low=low, high=high)


def point_range(interval: Interval | Paired) -> Message:
    return span(points(interval.low), points(interval.high))


def duration(seconds: float) -> str:
    """Return seconds in the units that suit them: 9.7 s, 3 min 42 s, 8.47 h."""
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds) // 60} min {int(seconds) % 60} s"
    return f"{seconds / 3600:.2f} h"


def gigabytes(size: float | None) -> str:
    """Return bytes in GB = 10^9 bytes."""
    return DASH if size is None else f"{number(size / 1e9, 2)} GB"


def ratio(interval: Interval) -> Text:
    """Return a ratio as ×0.77 (−23 %), with its interval where there is one."""
    change = f"{100 * (interval.estimate - 1):+.0f} %".replace("-", "−")
    told = f"×{interval.estimate:.2f} ({change})"
    if not math.isfinite(interval.high):
        return told
    return Joined([told, span(f"{interval.low:.2f}", f"{interval.high:.2f}")], ", ")


def value(data: Any) -> str:
    """Return a configuration value as text."""
    if data is None:
        return "none"
    if isinstance(data, bool):
        return "yes" if data else "no"
    if isinstance(data, float):
        return f"{data:g}"
    if isinstance(data, Mapping):
        return ", ".join(f"{k} = {value(v)}" for k, v in data.items()) or "{}"
    if isinstance(data, Sequence) and not isinstance(data, str):
        return ", ".join(map(value, data)) or "(none)"
    return str(data)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of equally many cells as lines whose columns start at the same place."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def listing(names: Sequence[Text]) -> Listing:
    """Return "a", "a and b" or "a, b and c"."""
    return Listing(names)


def count(n: int, noun: str) -> Message:
    """Return "1 run", "3 runs"; each noun is two templates, as languages count in their own ways."""
    return msg(f"{{n}} {noun}" if n == 1 else f"{{n}} {noun}s", n=n)
