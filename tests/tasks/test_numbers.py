"""Reading numbers: every supported way of writing a value gives that value, and no other text gives one."""

from __future__ import annotations

import sys
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paribus.tasks.numbers import MAX_DIGITS, canonical, last_number, plain, stated


def read(text: str) -> Fraction | None:
    reading = stated(text)
    return reading.value if reading else None


def read_whole(text: str) -> Fraction | None:
    reading = stated(text, whole=True)
    return reading.value if reading else None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,080", "1080"),
        ("10,00,000", "1000000"),
        ("1'000'000", "1000000"),
        ("118 000", "118000"),
        ("118\u202f000", "118000"),
        ("1{,}080", "1080"),
        ("11,\\! 111,\\! 111,\\! 100", "11111111100"),
        ("\\$32,\\!348", "32348"),
        (".35", "0.35"),
        ("40.00.", "40"),
        ("033", "33"),
        ("000", "0"),
        ("\u221210", "-10"),
        ("\u201310", "-10"),
        ("- 10", "-10"),
        ("+10", "10"),
        ("-$5.50", "-5.5"),
        ("$-5", "-5"),
        ("US$50", "50"),
        ("\u20ac3", "3"),
        ("50\\%", "50"),
        ("1.5e3", "1500"),
        ("1E-1", "1/10"),
        ("1.5\\times 10^{3}", "1500"),
        ("1.5 \u00d7 10\u00b3", "1500"),
        ("2 * 10^-2", "1/50"),
        ("3/4", "3/4"),
        ("-\\frac{3}{4}", "-3/4"),
        ("\\dfrac34", "3/4"),
        ("1 1/2", "3/2"),
        ("-1\\frac{1}{2}", "-3/2"),
        ("2\u00bd", "5/2"),
        ("-1.8 billion", "-1800000000"),
        ("5 hundred thousand", "500000"),
        ("18 dollars", "18"),
        ("18\\text{ cm}^2", "18"),
        ("5 cm^{2}", "5"),
        ("90^{\\circ}", "90"),
        ("**18**", "18"),
        ("`18`", "18"),
        ("\\(18\\)", "18"),
        ("\\mathbf{18}", "18"),
        ("(18)", "18"),
        ("x = 18", "18"),
        ("x \\approx 18", "18"),
        ("\\underline{18}", "18"),
        ("Total: 18", "18"),
        ("The final answer is $18$.", "18"),
        ("9 * 2 = 18", "18"),
        ("$20 - $2 = $18", "18"),
        ("36/2 = 18", "18"),
        ("\uff11\uff18", "18"),
    ],
)
def test_numbers_are_read(text: str, value: str) -> None:
    assert read(text) == read_whole(text) == Fraction(value)


@pytest.mark.parametrize(
    "text",
    [
        "1,08",
        "1,1.1",
        "1,23",
        "3,5",
        "1.234,56",
        "1.2.3",
        "12:30",
        "10-12",
        "9*2",
        "2^{10}",
        "52_8",
        "3k",
        "2x",
        "3/0",
        "1/2/3",
        "1e99999",
        "9" * (MAX_DIGITS + 1),
        "1e5e5",
    ],
)
def test_malformed_numbers_have_no_value(text: str) -> None:
    """They are met, so that nothing else is read in their place, and have no value."""
    reading = stated(text)
    assert reading is not None and reading.value is None


@pytest.mark.parametrize(
    "text", ["", " ", ",", ", 72", "nan", "inf", "-", "$", "none", "\\boxed{}", "eighteen", "\\frac{x}{2}"]
)
def test_no_number_is_met(text: str) -> None:
    assert stated(text) is None


def test_a_box_holds_one_number() -> None:
    assert read("3 or 4") == 3 and read_whole("3 or 4") is None
    assert read_whole("18 (and 2 left)") is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("They bought 3 4", "4"),
        ("totals: 12-7", "7"),
        ("it fell to -7", "-7"),
        ("5 - 15 = - 10 degrees", "-10"),
        ("from 3\u20135", "5"),
        ("in 2021 300 people came", "300"),
        ("net: $400 000 - $282 000 = $118 000.", "118000"),
        ("kept 18 kg of CO2", "18"),
        ("an area of 5 cm^2", "5"),
        ("1 1/2 cups", "3/2"),
        ("72, which", "72"),
    ],
)
def test_last_number_of_running_text(text: str, value: str) -> None:
    assert last_number(text) == Fraction(value)


def test_a_malformed_last_number_hides_the_ones_before() -> None:
    assert last_number("5 and then 1,08") is None


def test_long_numerals_are_exact_and_the_interpreter_limit_is_untouched() -> None:
    limit = sys.get_int_max_str_digits()
    nines, round_one = "9" * 400, "1" + "0" * 400
    assert read(nines) != read(round_one) and read(nines) + 1 == read(round_one)
    assert read("9" * 5000) == 10**5000 - 1
    assert len(canonical(Fraction(10**5000 - 1))) == 5000
    assert canonical(Fraction(1, 10**5000)) == "0." + "0" * 4999 + "1"
    assert sys.get_int_max_str_digits() == limit


def _grouped(n: int, sign: str) -> str:
    return f"{n:,}".replace(",", sign)


INTEGER_FORMS = [
    lambda n: str(n),
    lambda n: f"{n:,}",
    lambda n: _grouped(n, "\u202f"),
    lambda n: _grouped(n, " "),
    lambda n: _grouped(n, "'"),
    lambda n: _grouped(n, "{,}"),
    lambda n: f"{n}.00",
    lambda n: f"00{n}",
    lambda n: f"{n}e0",
    lambda n: f"{n}0 \\times 10^{{-1}}",
    lambda n: f"\\frac{{{2 * n}}}{{2}}",
    lambda n: f"{3 * n}/3",
]
WRAPS = [
    "{}",
    "${}",
    "**{}**",
    "\\text{{{}}}",
    "\\({}\\)",
    "({})",
    "{}%",
    "{} apples",
    "x = {}",
    "\\${}",
    "  {}.",
    "${}$",
    "2 + 2 = {}",
]


@given(
    st.integers(0, 10**12),
    st.sampled_from(INTEGER_FORMS),
    st.sampled_from(WRAPS),
    st.sampled_from(["", "-", "\u2212", "- "]),
)
def test_every_way_of_writing_an_integer_reads_the_same(n: int, form, wrap: str, sign: str) -> None:  # type: ignore[no-untyped-def]
    text = wrap.format(sign + form(n))
    assert read(text) == (-n if sign else n), text


@given(st.fractions(max_denominator=10**6), st.sampled_from(WRAPS))
def test_every_value_survives_its_canonical_spelling(value: Fraction, wrap: str) -> None:
    assert read(wrap.format(canonical(value))) == value


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**9), max_value=10**9))
def test_decimals_are_exact(value) -> None:  # type: ignore[no-untyped-def]
    assert read(str(value)) == Fraction(value) == last_number(f"so it is {value} in all")


@given(st.text())
def test_no_text_makes_the_reader_fail(text: str) -> None:
    stated(text), stated(text, whole=True), last_number(text), plain(text)


@given(st.text(alphabet="0123456789,.'$%^{}\\/*-+=eE: xfrac\u2212\u202f\n", max_size=60))
def test_no_numeric_text_makes_the_reader_fail(text: str) -> None:
    stated(text), stated(text, whole=True), last_number(text)


HOSTILE = [
    "9" * 100_000, "1," * 50_000, "1" + ",11" * 30_000, "1" + " 111" * 25_000, "1 " * 30_000, "1." * 50_000,
    "-" * 100_000, "$" * 100_000, "{" * 100_000, "\\frac{" * 16_000, "\\frac{1}{" * 12_000, "1/" * 50_000,
    "a " * 50_000, " " * 100_000, "1e1" * 30_000, "^{" * 50_000, "1=" * 50_000, "\\! " * 30_000, "1 1/2 " * 15_000,
    "1 hundred" * 10_000, "*" * 100_000, "1e9999 " * 400, "1" + " trillion" * 10_000, "(" * 100_000, "\n" * 100_000,
    "answer is " * 10_000, "word " * 20_000, "\\text" * 16_000, "\\textaa" * 14_000,
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=lambda t: repr(t[:10]))
def test_hostile_texts_are_read_in_linear_time(text: str) -> None:
    for function in (stated, last_number):
        start = time.thread_time()
        function(text)
        assert time.thread_time() - start < 2, "100,000 characters must take well under a second"
