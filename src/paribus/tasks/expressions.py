"""Compare mathematical answers: exactly where they are rational or built of parts, else by a given comparison of atoms.

The conventions are those of the MATH data set: units, degree, percent and currency signs are dropped, `x = 5` is 5,
a bare list `1, -2` or `\\{1, -2\\}` is a set, `\\pm a` is the set of both, pairs and intervals are ordered and their
brackets count, a base suffix (`52_8`) may be left out, words are compared as words.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from paribus.tasks.arithmetic import arithmetic

Atom = Callable[[str, str], bool | None]

_MAX_PARTS = 24
_MAX_NESTING = 12

_UNICODE = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\uff0d", "-"),
        **dict.fromkeys("\u00a0\u2007\u2009\u202f", " "),
        **{"\u00d7": "*", "\u00b7": "*", "\u22c5": "*", "\u00f7": "/", "\u00b0": "", "\u00b1": "\\pm "},
        **{"\u03c0": "\\pi ", "\u221e": "\\infty ", "\u222a": "\\cup ", "\u2264": "\\le ", "\u2265": "\\ge "},
        **{"\u2208": "\\in ", "\u00b2": "^2", "\u00b3": "^3"},
    }
)
_REWRITES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), new)
    for pattern, new in (
        (r"\\\\", "\1"),  # the row break of a matrix, kept apart from `\ `
        (r"\\!\s*", ""),
        (r"\\(?:left|right|displaystyle|[bB]igg?[lr]?)(?![A-Za-z])\.?", ""),
        (r"\\[,;: ]|~|\\q?quad(?![A-Za-z])", " "),
        (r"\{,\}", ","),
        (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
        (r"\s*\\?%|\\?\$|\\[()]|\\\[|\\\]", ""),
        (r"\s*\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z]))|\\degree(?![A-Za-z])", ""),
        (r"\\(?:mathrm|mathbf|mathit|bf|rm)(?![A-Za-z])", ""),
        (r"\\(?:text|textbf|textit|textrm|mbox|hbox)\s*\{\s*(?:and|or)\s*\}", ","),
        (r"\\frac\s*([0-9])\s*(?=[0-9{])", r"\\frac{\1}"),
        (r"(\\frac\s*\{[^{}]*\})\s*([0-9])", r"\1{\2}"),
        (r"\\sqrt\s*([0-9])", r"\\sqrt{\1}"),
        (r"\\(?:leq|leqslant)(?![A-Za-z])", r"\\le "),
        (r"\\(?:geq|geqslant)(?![A-Za-z])", r"\\ge "),
        (r"\\(?:cdot|times|ast)(?![A-Za-z])", "*"),
    )
)
_TEXT = re.compile(r"\\(?:text|textbf|textit|textrm|mbox|hbox)\s*+\{([^{}]*)\}(?:\s*\^\s*(?:\{[0-9]\}|[0-9]))?+")
_UNIT = re.compile(
    r"(?<=[0-9}])\s+(?!(?:pi|sin|cos|tan|cot|log|ln|sqrt|and|or|mod)\b)[A-Za-z]{2,}+(?:[ /-][A-Za-z]{2,}+)*+"
    r"(?:\s*\^\s*(?:\{[0-9]\}|[0-9]))?\.?$"
)
# a space is dropped unless it parts two digits, ends a command before a letter, or tells `1, 200` from `1,200`
_SPACE = re.compile(r"(?<![0-9])(?<![0-9],)\s+(?=[0-9])|(?<=[0-9],)\s+(?=[0-9])(?![0-9]{3}(?![0-9]))|\s+(?![0-9])")
_WORDS = re.compile(r"[A-Za-z]{2,}(?:[ '-]+[A-Za-z]+)*+")
_COMMAND_SPACE = re.compile(r"(\\[A-Za-z]++)\s+(?=[A-Za-z])")


def clean(text: str) -> str:
    """Return `text` in one spelling: no layout commands, units, percent, degree or currency signs, no idle spaces."""
    text = " ".join(text.translate(_UNICODE).split())
    for pattern, new in _REWRITES:
        text = pattern.sub(new, text)
    whole = _TEXT.fullmatch(text.strip().rstrip(". "))
    text = whole[1] if whole else _TEXT.sub(lambda m: "" if m.start() else m[1], text)
    text = _UNIT.sub("", text.strip())
    if _WORDS.fullmatch(text):
        return " ".join(text.split())
    text = _COMMAND_SPACE.sub("\\1\0", text)
    return _SPACE.sub("", text).replace("\0", " ").removesuffix(".").replace("\1", r"\\")


def is_prose(cleaned: str) -> bool:
    """Say whether a cleaned gold is nothing that an answer could be compared with: empty, or several words."""
    return not cleaned or (" " in cleaned and bool(_WORDS.fullmatch(cleaned)))


_NAMED = re.compile(r"([A-Za-z](?:_\{?[A-Za-z0-9]+\}?|\([a-z]\))?|\\[a-z]+)(?:=|\\in(?![A-Za-z]))([^=]+)")
_MATRIX = re.compile(r"\\begin\{[pbv]?matrix\}(.*)\\end\{[pbv]?matrix\}", re.DOTALL)
_CLOCK = re.compile(r"[0-9]+(?::[0-9]+)+")
_BASED = re.compile(r"([0-9]+)_\{?([0-9]+)\}?")
_RELATION = re.compile(r"[<>=]|\\(?:le|ge|ne)(?![A-Za-z])")


def compare(gold: str, answer: str, atom: Atom) -> bool | None:
    """Say whether two cleaned answers are equal; None where that hangs on an atom that `atom` could not decide.

    `atom(gold, answer)` is asked only for what is neither rational nor built of parts, always gold first.
    """
    if gold == answer:
        return bool(gold)
    if not answer or not gold:
        return False
    (exact, left), (other_exact, right) = arithmetic(gold), arithmetic(answer)
    if exact and other_exact:
        return left is not None and left == right
    if _is_word(gold) or _is_word(answer):
        return gold.strip("()").casefold() == answer.strip("()").casefold()
    if _CLOCK.fullmatch(gold) or _CLOCK.fullmatch(answer):
        return [part.lstrip("0") for part in gold.split(":")] == [part.lstrip("0") for part in answer.split(":")]
    if _BASED.fullmatch(gold) or _BASED.fullmatch(answer):
        (digits, base), (others, other_base) = _based(gold), _based(answer)
        return digits == others and (not base or not other_base or base == other_base)
    return _compare_parts(gold, answer, atom)


def _is_word(text: str) -> bool:
    return bool(len(text) > 2 and _WORDS.fullmatch(text)) or bool(re.fullmatch(r"\([A-Z]\)", text))


def _based(text: str) -> tuple[str, str]:
    match = _BASED.fullmatch(text)
    return (match[1], match[2]) if match else (text, "")


def _compare_parts(gold: str, answer: str, atom: Atom) -> bool | None:
    name, other_name = _NAMED.fullmatch(gold), _NAMED.fullmatch(answer)
    if (name or other_name) and not (name and other_name and name[1] != other_name[1]):
        return compare(name[2] if name else gold, other_name[2] if other_name else answer, atom)
    ordered, other_ordered = _enclosed(gold), _enclosed(answer)
    if (ordered or other_ordered) and (_RELATION.search(gold) or _RELATION.search(answer)):
        return atom(gold, answer)
    if ordered and other_ordered:
        same = ordered[0] == other_ordered[0] and len(ordered[1]) == len(other_ordered[1])
        return _compare_in_order(ordered[1], other_ordered[1], atom) if same else False
    members, other_members = _elements(gold), _elements(answer)
    if ordered and ordered[0] == "()" and other_members and len(other_members) == len(ordered[1]):
        return _compare_in_order(ordered[1], other_members, atom)
    if other_ordered and other_ordered[0] == "()" and members and len(members) == len(other_ordered[1]):
        return _compare_sets(members, other_ordered[1], atom)
    if members and other_members and not ordered and not other_ordered and len(members) + len(other_members) > 2:
        return _compare_sets(members, other_members, atom)
    return atom(gold, answer)


def _split(text: str) -> list[str] | None:
    """Split at the commas outside all brackets; None where the brackets do not match up or go too deep."""
    parts, depth, start = [], 0, 0
    for i, character in enumerate(text):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
        if not 0 <= depth <= _MAX_NESTING:
            return None
    return None if depth else [*parts, text[start:].strip()]


def _enclosed(text: str) -> tuple[str, list[str]] | None:
    """Return the brackets and elements of `(a, b]` or of a matrix, or None where the text is neither."""
    if matrix := _MATRIX.fullmatch(text):
        rows = [row.split("&") for row in matrix[1].split(r"\\")]
        return f"matrix {[len(row) for row in rows]}", [cell for row in rows for cell in row]
    if len(text) < 2 or text[0] not in "([" or text[-1] not in ")]":
        return None
    parts = _split(text[1:-1])
    return (text[0] + text[-1], parts) if parts and len(parts) > 1 else None


def _elements(text: str) -> list[str] | None:
    """Return the members that a bare or braced list names, with both signs of each `\\pm`."""
    if text.startswith("\\{") and text.endswith("\\}"):
        text = text[2:-2]
    parts = _split(text)
    if parts is None or len(parts) > _MAX_PARTS:
        return None
    both = [
        [part] if part.count("\\pm") != 1 else [re.sub(r"\\pm ?", sign, part).removeprefix("+") for sign in "+-"]
        for part in parts
    ]
    return list(dict.fromkeys(part for signs in both for part in signs))


def _compare_in_order(gold: list[str], answer: list[str], atom: Atom) -> bool | None:
    verdicts = [compare(g, a, atom) for g, a in zip(gold, answer, strict=True)]
    return False if False in verdicts else None if None in verdicts else True


def _compare_sets(gold: list[str], answer: list[str], atom: Atom) -> bool | None:
    if len(gold) != len(answer):
        return False
    left, unsure = list(answer), False
    for member in gold:
        verdicts = [compare(member, other, atom) for other in left]
        if True in verdicts:
            left.pop(verdicts.index(True))
        elif None in verdicts:
            unsure = True
        else:
            return False
    return None if unsure else True
