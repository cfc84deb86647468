"""Numbers as people read them, and untrusted text made harmless."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from paribus.stats import Interval, Paired

DASH = "–"
_SPECIAL = re.compile(r"[\\`*_\[\]<>|~&$]|:(?=//)|(?<=www)\.|^[=#]|^(?:[-+]|\d+[.)])(?= |$)")
_INVISIBLE = {"Cc", "Cf", "Zl", "Zp", "Cs", "Co", "Cn"}


def visible(text: str) -> str:
    """Return `text` with every control, formatting and bidirectional character spelt out, as in ⟨U+202E⟩.

    Such characters can hide text or turn its order round; newline and tab stay.
    """
    return "".join(c if c in "\n\t" or unicodedata.category(c) not in _INVISIBLE else f"⟨U+{ord(c):04X}⟩" for c in text)


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
    return f"{100 * difference:+,.{digits}f}".replace("-", "−")


def point_range(interval: Interval | Paired) -> str:
    return f"{points(interval.low)} to {points(interval.high)}"


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


def ratio(interval: Interval) -> str:
    """Return a ratio as ×0.77 (−23 %), with its interval where there is one."""
    change = f"{100 * (interval.estimate - 1):+.0f} %".replace("-", "−")
    text = f"×{interval.estimate:.2f} ({change})"
    return f"{text}, {interval.low:.2f} to {interval.high:.2f}" if math.isfinite(interval.high) else text


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


def listing(names: Sequence[str]) -> str:
    """Return "a", "a and b" or "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def count(n: int, noun: str) -> str:
    """Return "1 run", "3 runs"."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
