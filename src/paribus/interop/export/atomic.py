"""Patterns without possessive quantifiers, which Python's `re` has only since 3.11, that match the same texts.

`X*+` and `X++` of a single character become `X*(?!X)` and `X+(?!X)`: giving a character back leaves one that may not
follow. Any other possessive quantifier becomes a look-ahead that captures, and the capture again: a look-ahead is never
entered twice, so nothing is given back. Texts of any shape are then still read in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from paribus.errors import ConfigError

_ATOM = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\.|[^\\()|*+?{}\[\]]", re.DOTALL)
_QUANTIFIER = re.compile(r"([*+?]|\{[0-9]+(?:,[0-9]*)?\})(\+?)")


def without_possessive(pattern: str) -> str:
    """Return a pattern of the same meaning for Python 3.10. Raises ConfigError where that would renumber groups."""
    names = (f"atomic{i}" for i in range(1, 1000))
    out, end = _alternatives(pattern, 0, names)
    if end < len(pattern):
        raise ConfigError(f"not a regular expression that can be exported: {pattern!r}")
    before = re.compile(pattern)
    if "(?P<atomic" in out and before.groups > len(before.groupindex):
        raise ConfigError(f"numbered groups would move: {pattern!r}")
    return out


def _alternatives(pattern: str, start: int, names: Iterator[str]) -> tuple[str, int]:
    """Return the converted text from `start` to the closing parenthesis or the end, and where that is."""
    out, at = "", start
    while at < len(pattern) and pattern[at] != ")":
        if pattern[at] == "|":
            out, at = out + "|", at + 1
            continue
        atom, single, at = _item(pattern, at, names)
        quantifier = _QUANTIFIER.match(pattern, at)
        if quantifier is None:
            out += atom
            continue
        at = quantifier.end()
        if not quantifier[2]:
            out += atom + quantifier[1]
        elif single and quantifier[1] in "*+":
            out += f"{atom}{quantifier[1]}(?!{atom})"
        else:
            name = next(names)
            out += f"(?=(?P<{name}>{atom}{quantifier[1]}))(?P={name})"
        if pattern[at : at + 1] == "?":  # lazy
            out, at = out + "?", at + 1
    return out, at


def _item(pattern: str, at: int, names: Iterator[str]) -> tuple[str, bool, int]:
    """Return one atom converted, whether it is a single character, and where it ends."""
    if pattern[at] == "(":
        head = re.compile(r"\((?:\?(?:P<[^>]+>|P=[^)]+|:|=|!|<=|<!))?").match(pattern, at)
        assert head is not None
        inner, end = _alternatives(pattern, head.end(), names)
        return f"{head[0]}{inner})", False, end + 1
    found = _ATOM.match(pattern, at)
    if found is None:  # a brace that counts nothing is itself
        return pattern[at], True, at + 1
    return found[0], True, found.end()
