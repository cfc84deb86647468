"""Read numbers out of text, exactly: every value is a Fraction, never a float.

US English is assumed ('.' is decimal, ',' groups threes). What is read: `1,080`, `10,00,000`, `1'000'000`, `118 000`,
`-$5.50`, `1.5e3`, `1.5 \\times 10^{3}`, `3/4`, `\\frac{3}{4}`, `1 1/2`, `50%` (as 50), `1.8 billion`; every kind of
minus sign; units, emphasis and LaTeX wrappers around the number are dropped. What is refused because it is malformed or
ambiguous: `1,08`, `1,1.1`, `3,5`, `1.234,56`, `12:30`, `2^{10}`, `3k`, `nan`, numerals of more than 10,000 digits.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

MAX_DIGITS = 10_000  # far beyond any real answer; longer numerals are refused, so that no text can stall a grader
_MAX_EXPONENT = 9_999


class Reading(NamedTuple):
    """A number met in a text: its value, or None where what stands there is no well-formed number; and its end."""

    value: Fraction | None
    end: int


def _translation() -> dict[int, str]:
    def ascii_form(character: str) -> str:
        return unicodedata.normalize("NFKC", character).replace("\u2044", "/")

    table = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d"), "-")  # hyphens, en dash, minus signs
    table |= dict.fromkeys(map(ord, "\u00a0\u2007\u2009\u202f\u2014"), " ")  # spaces that group digits; the em dash
    table |= dict.fromkeys(map(ord, "\u00d7\u00b7\u22c5"), "*") | {0x2044: "/", 0x00F7: "/", 0x2019: "'"}
    table |= {ord(c): ascii_form(c) for c in "\uff0c\uff0e" + "".join(map(chr, range(0xFF10, 0xFF1A)))}
    table |= {ord(c): "^" + ascii_form(c) for c in "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"}
    table |= {ord(c): " " + ascii_form(c) for c in "\u00bc\u00bd\u00be\u2153\u2154\u215b"}
    return table


_CHARACTERS = _translation()
_BRACED_EXPONENT = re.compile(r"\^\s*+\{\s*+([+-]?[0-9]{1,6})\s*+\}")
_PIECE = r"(?:\{{\s*+(?P<{0}>[0-9,.]++)\s*+\}}|(?P<{0}1>[0-9]))"
_LATEX = re.compile(
    r"(?P<drop>\\!\s*|\\(?:left|right|displaystyle|big|Big)(?![A-Za-z]))"
    r"|(?P<comma>\{,\})"
    rf"|(?P<frac>\\[dtc]?frac\s*+{_PIECE.format('a')}\s*+{_PIECE.format('b')})"
    r"|(?P<times>\\(?:times|cdot|ast)(?![A-Za-z]))"
    r"|(?P<sign>\\[$%#])"
    r"|(?P<equals>\\(?:approx|simeq)(?![A-Za-z]))"
    r"|\\(?:text[a-z]*+|math[a-z]{2,3}|[mhf]box|boxed|underline|emph|bf|rm|large|Large)(?![A-Za-z])\s*+\{?"
    r"|\\[,;: ()\[\]]|\\q?quad(?![A-Za-z])|[{}~]"
)


def _latex(match: re.Match[str]) -> str:
    if match["frac"]:
        return f" {match['a'] or match['a1']}/{match['b'] or match['b1']}"
    return {"drop": "", "comma": ",", "times": "*", "equals": "=", "sign": match[0][1:]}.get(match.lastgroup or "", " ")


def plain(text: str) -> str:
    """Return `text` with LaTeX commands, Unicode signs and spaces put into plain characters."""
    if not text.isascii():
        text = text.translate(_CHARACTERS)
    if "\\" in text or "{" in text or "~" in text:
        text = _LATEX.sub(_latex, _BRACED_EXPONENT.sub(r"^\1", text))
    return text


# Possessive quantifiers throughout: a text of any shape is read in linear time.
_NUMERAL = (
    r"(?:(?P<spaced>[0-9]{1,3}(?: [0-9]{3}(?![0-9]|[,'][0-9]))++(?:\.[0-9]++)?+)"
    r"|(?P<run>[0-9]++(?:[,.'][0-9]++)*+|\.[0-9]++))"
)
_CURRENCY = r"(?:(?:US|USD|EUR|GBP|Rs\.?|R)?[$\u20ac\u00a3\u00a5\u20b9]|(?:USD|EUR|GBP|Rs\.?)\s?)"
_TAIL = r"(?P<exponent>[eE][+-]?[0-9]++)?+(?P<power>\s{0,2}[*x]\s{0,2}10\s?\^\s?[+-]?[0-9]++)?+"
_STATED = re.compile(rf"(?P<sign>[+-]?)\s{{0,2}}{_CURRENCY}?(?P<inner>[+-]?)\s?{_NUMERAL}{_TAIL}")
# in running text a sign stands apart from what is before it (`12-7` ends in 7), or follows `=`, `:` or `(`
_RUNNING = re.compile(
    rf"(?<![A-Za-z0-9_^])(?P<sign>(?:(?<![0-9A-Za-z)\]}}%$])[+-]|(?<=[=:(])\s{{1,2}}[+-]\s)?)"
    rf"{_CURRENCY}?(?P<inner>[+-]?){_NUMERAL}{_TAIL}"
)
_DENOMINATOR = re.compile(rf"\s{{0,2}}/\s{{0,2}}{_NUMERAL}")
_MIXED = re.compile(r"\s{1,2}([0-9]{1,6})\s?/\s?([0-9]{1,6})(?![0-9/.,]*[0-9])")
_SCALE = re.compile(r"[\s-]{0,2}(hundred|thousand|million|billion|trillion)(?![A-Za-z])", re.IGNORECASE)
_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_GLUED = re.compile(r"[:_][0-9]|\s?\^\s?[+-]?[0-9(]|[eE][+-]?[0-9]")


def numeral(run: str) -> Fraction | None:
    """Return the value of an unsigned numeral with its grouping signs, or None where it is badly grouped.

    >>> numeral("1,080"), numeral("10,00,000"), numeral("1,08")
    (Fraction(1080, 1), Fraction(1000000, 1), None)
    """
    whole, _, decimals = run.partition(".")
    mark = next((c for c in ",' " if c in whole), None)
    if mark:
        first, *middle, last = whole.split(mark)
        sizes = {len(group) for group in middle}
        western = len(first) <= 3 and sizes <= {3}
        indian = mark == "," and len(first) <= 2 and sizes == {2}
        if len(last) != 3 or not first or not (western or indian):
            return None
        whole = "".join((first, *middle, last))
    digits = whole + decimals
    if not digits.isdecimal() or len(digits) > MAX_DIGITS:
        return None
    if len(digits) <= 300:
        return Fraction(int(digits), 10 ** len(decimals))
    # Decimal converts any number of digits, where int() refuses more than 4300
    return Fraction(int(Decimal(digits)), 10 ** len(decimals))


def _exponent(text: str) -> int | None:
    value = int(text) if len(text) <= 6 else _MAX_EXPONENT + 1
    return value if abs(value) <= _MAX_EXPONENT else None


def _value(match: re.Match[str]) -> Fraction | None:
    value = numeral(match["spaced"] or match["run"])
    for power in (match["exponent"] and match["exponent"][1:], match["power"] and match["power"].partition("^")[2]):
        if power and value is not None:
            exponent = _exponent(power.strip())
            value = None if exponent is None else value * Fraction(10) ** exponent
    return -value if value and (match["sign"].strip() == "-") != (match["inner"] == "-") else value


def _finish(text: str, match: re.Match[str]) -> Reading:
    """Add what may follow a numeral (`/4`, ` 1/2`, ` billion`) and refuse what may not (`:30`, `^2`)."""
    value, end = _value(match), match.end()
    if over := _DENOMINATOR.match(text, end):
        below = numeral(over["spaced"] or over["run"])
        end = over.end()
        value = value / below if value is not None and below and not _DENOMINATOR.match(text, end) else None
    elif value is not None and value.denominator == 1 and (part := _MIXED.match(text, end)):
        above, parts = int(part[1]), int(part[2])
        if 0 < above < parts:
            negative = value < 0 or (not value and "-" in (match["sign"].strip(), match["inner"]))
            value += Fraction(-above if negative else above, parts)
            end = part.end()
    for _ in range(2):  # `5 hundred thousand`
        if value is not None and (word := _SCALE.match(text, end)):
            value, end = value * 10 ** _SCALES[word[1].lower()], word.end()
    return Reading(None if _GLUED.match(text, end) else value, end)


_LEAD = re.compile(r"[\s*_`\"'$:=\u2248(\[]*+")
_LABEL = re.compile(r"(?:the\s)?(?:final\s)?answer\s{0,2}(?:is\b|[:=])\s*:?|(?:[A-Za-z]++ ?+){1,4}+[:=]", re.IGNORECASE)
_OPERATOR = re.compile(r"[\s)$*_]{0,3}=|\s{0,2}[-+*/x]\s{0,2}[$(]?[0-9]")
_VARIABLE = re.compile(r"[a-fi-kn-rt-z](?![A-Za-z])")  # `3k`, `2x`; but 3 m, g, s, h, l are units
_UNIT_POWER = re.compile(r"(?<=[A-Za-z)\]])\s*+\^\s*+\(?[0-9]\)?")


def _skip(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match else start


def stated(text: str, *, whole: bool = False) -> Reading | None:
    """Read the number that `text` states at its start; None where no number starts there.

    A label (`x =`, `Answer:`) and emphasis before it are skipped; for an equation (`9 * 2 = 18`) the value after the
    last `=` of its line is taken, and an expression without one is malformed. With `whole` (the content of a box)
    a second number anywhere makes it malformed too: `3 or 4` is no answer. `end` is meant in `plain(text)`.
    """
    flat = plain(text)
    start = _skip(_LEAD, flat, _skip(_LABEL, flat, _skip(_LEAD, flat, 0)))
    match = _STATED.match(flat, start)
    if not match:
        return None
    reading = _finish(flat, match)
    line_end = flat.find("\n", reading.end)
    rest = flat[reading.end :] if whole or line_end < 0 else flat[reading.end : line_end]
    if operator := _OPERATOR.match(rest):
        right = rest.rpartition("=")[2] if "=" in rest else ""
        inner = stated(right, whole=whole) if right else None
        if inner and inner.value is not None:
            return Reading(inner.value, len(flat))
        return reading if "=" in operator[0] and not whole else Reading(None, reading.end)
    if _VARIABLE.match(rest) or (whole and re.search(r"[0-9]", _UNIT_POWER.sub("", rest))):
        return Reading(None, reading.end)
    return reading


def numbers(text: str) -> Iterator[Reading]:
    """Yield every number of running text, in order; `end` is meant in `plain(text)`."""
    flat, end = plain(text), 0
    for match in _RUNNING.finditer(flat):
        if match.start() >= end:
            reading = _finish(flat, match)
            end = reading.end
            yield reading


def last_number(text: str) -> Fraction | None:
    """Return the last number of running text, or None where there is none or it is malformed.

    Right human solutions of GSM8K end in another number in about 3 % of cases: a fallback, not a measure.
    """
    last = deque(numbers(text), maxlen=1)
    return last[0].value if last else None


def canonical(value: Fraction) -> str:
    """Return the one spelling of a value: an integer or a decimal where it ends, else `p/q`.

    >>> canonical(Fraction("18.50")), canonical(Fraction(1, 3))
    ('18.5', '1/3')
    """
    if value.denominator == 1 and abs(value) < 10**300:
        return str(value.numerator)
    sign, above, rest = "-" if value < 0 else "", abs(value.numerator), value.denominator
    twos = (rest & -rest).bit_length() - 1
    rest >>= twos
    fives = 0
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    # str(int) refuses more than 4300 digits, Decimal does not
    if rest > 1:
        return f"{sign}{Decimal(above)}/{Decimal(value.denominator)}"
    places = max(twos, fives)
    digits = f"{Decimal(above * 10**places // value.denominator)}".rjust(places + 1, "0")
    return sign + (f"{digits[:-places]}.{digits[-places:]}" if places else digits)
