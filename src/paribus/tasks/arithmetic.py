"""Evaluate arithmetic of rationals exactly: numbers, `+ - * / ^ !`, `\\frac`, mixed numbers, parentheses."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction

from paribus.tasks.numbers import numeral

MAX_BITS = 32_000  # of an exact intermediate value; 2006! has 19,000
_MAX_TOKENS = 400
_MAX_DEPTH = 60


class _NotExactError(Exception):
    """The text is not an arithmetic expression of rationals."""


class _TooLargeError(Exception):
    """The text is arithmetic, but its value or form is beyond every bound."""


_TOKEN = re.compile(
    r"(?P<fixed>[0-9]{0,20}\.[0-9]{0,20})\\overline\{(?P<repeated>[0-9]{1,50})\}"
    r"|(?P<number>(?:[1-9][0-9]{0,2}(?:,[0-9]{3}(?![0-9]))++|[0-9]++)(?:\.[0-9]++)?+|\.[0-9]++)"
    r"(?:[eE](?P<exponent>[+-]?[0-9]{1,4})(?![0-9A-Za-z.]))?+"
    r"|(?P<other>\\frac|\\div|[-+*/^!(){}])"
)


class _Parser:
    """Recursive descent over numbers, `+ - * / ^ !`, `\\frac`, parentheses and braces, with Fractions."""

    def __init__(self, text: str) -> None:
        self.tokens: list[Fraction | str] = []
        self.at = self.depth = end = 0
        for match in _TOKEN.finditer(text):
            if match.start() != end:
                break
            end = match.end()
            if match["other"]:
                self.tokens.append({"\\div": "/", "{": "(", "}": ")"}.get(match["other"], match["other"]))
                continue
            if match["repeated"]:
                self.tokens.append(_repeating(match["fixed"], match["repeated"]))
                continue
            value = numeral(match["number"])
            if value is None:
                raise _TooLargeError
            self.tokens.append(value * Fraction(10) ** int(match["exponent"] or 0))
        if end != len(text):
            raise _NotExactError
        if len(self.tokens) > _MAX_TOKENS:
            raise _TooLargeError
        self.tokens.append("end")

    def take(self, *wanted: str) -> str | None:
        token = self.tokens[self.at]
        if isinstance(token, str) and token in wanted:
            self.at += 1
            return token
        return None

    def nested(self, part: Callable[[], Fraction]) -> Fraction:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise _TooLargeError
        value = part()
        self.depth -= 1
        return value

    def total(self) -> Fraction:
        value = self.product()
        while sign := self.take("+", "-"):
            term = self.product()
            value = _bounded(value + term if sign == "+" else value - term)
        return value

    def product(self) -> Fraction:
        sign = 1
        while mark := self.take("+", "-"):
            sign = -sign if mark == "-" else sign
        start = self.at
        value = self.power()
        whole = self.at == start + 1 and value.denominator == 1
        if whole and self.tokens[self.at] == "\\frac":
            part = self.power()  # `1\frac{4}{5}` is a mixed number
            value = value + part if 0 < part < 1 else value * part
        while True:
            if self.take("*"):
                value = _bounded(value * self.factor())
            elif self.take("/"):
                value = _bounded(_divide(value, self.factor()))
            elif self.tokens[self.at] in ("(", "\\frac"):
                value = _bounded(value * self.power())
            else:
                return sign * value

    def factor(self) -> Fraction:
        return -self.power() if self.take("-") else self.power()

    def power(self) -> Fraction:
        base = self.atom()
        while self.take("!"):
            if base.denominator != 1 or base < 0:
                raise _NotExactError
            if base > 3000:
                raise _TooLargeError
            base = Fraction(math.factorial(int(base)))
        if not self.take("^"):
            return base
        exponent = self.nested(self.factor)
        size = max(base.numerator.bit_length(), base.denominator.bit_length())
        if exponent.denominator != 1 or (not base and exponent < 0):
            raise _NotExactError
        if abs(exponent) * size > MAX_BITS and abs(base) != 1:
            raise _TooLargeError
        return base ** int(exponent)

    def atom(self) -> Fraction:
        token = self.tokens[self.at]
        self.at += 1
        if isinstance(token, Fraction):
            return token
        if token == "(":
            value = self.nested(self.total)
            if not self.take(")"):
                raise _NotExactError
            return value
        if token == "\\frac":
            return _divide(self.nested(self.atom), self.nested(self.atom))
        raise _NotExactError


def _repeating(fixed: str, repeated: str) -> Fraction:
    """The value of `0.1\\overline{6}`: what is repeated, over as many nines, behind the fixed decimals."""
    unit = Fraction(1, 10 ** len(fixed.partition(".")[2]))
    return Fraction(f"0{fixed}0") + unit * Fraction(int(repeated), 10 ** len(repeated) - 1)


def _divide(above: Fraction, below: Fraction) -> Fraction:
    if not below:
        raise _NotExactError
    return above / below


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise _TooLargeError
    return value


def arithmetic(cleaned: str) -> tuple[bool, Fraction | None]:
    """Return whether a cleaned text is arithmetic of rationals, and its value unless that is too large.

    >>> arithmetic("\\\\frac{2^{10}+1}{3*4!}"), arithmetic("9^{9^{9}}"), arithmetic("2x")
    ((True, Fraction(1025, 72)), (True, None), (False, None))
    """
    try:
        parser = _Parser(cleaned)
        value = parser.total()
        return parser.tokens[parser.at] == "end", value
    except _NotExactError:
        return False, None
    except _TooLargeError:
        return True, None
