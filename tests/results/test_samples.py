"""Queries find what they say, can do nothing else, and print other people's text harmlessly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paribus.errors import ConfigError, DataError
from paribus.results.query import parse
from paribus.results.samples import as_json, as_text, search
from paribus.store import ProblemRow
from storedruns import eval_rows, write_experiment_of

MODELS = ("base", "ppo", "grpo", "clip-higher")
ASKED = ProblemRow(problem_id="p", question="How many apples?", gold="3")
HOSTILE = "\x1b[2J\x1b]8;;http://x\x07<script>alert(1)</script>\u202e321\u202c\r\x00 end" + "x" * 100_000


def holds(text: str, pattern: str = "011t", response: str = "so 1") -> bool:
    """Ask a query of one answer each of base, ppo, grpo and clip-higher."""
    rows = {name: eval_rows(c, response)[0] for name, c in zip(MODELS, pattern, strict=True)}
    return parse(text, MODELS).holds(rows, ASKED)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ppo", True),
        ("base", False),
        ("ppo and not base", True),
        ("ppo and grpo and base", False),
        ("base or ppo", True),
        ("ppo == grpo", True),
        ("ppo != base", True),
        ('models["clip-higher"]', False),
        ('models["clip-higher"].truncated', True),
        ("ppo.tokens == 50", True),
        ("10 < ppo.tokens < 50", False),
        ("-1 < base.score <= 0", True),
        ('ppo.status == "ok" and ppo.format', True),
        ('"so" in ppo.response and len(ppo.response) == 4', True),
        ('ppo.answer in ("0", "7")', True),
        ('ppo.answer not in ["0"]', False),
        ('"apples" in question and gold == "3"', True),
        ("True", True),
    ],
)
def test_what_a_query_says(text: str, expected: bool) -> None:
    assert holds(text) is expected


def test_not_counted_is_not_right_and_nothing_compares_with_it() -> None:
    assert holds("not base and base.score == None", "x111") and not holds("base.score < 1", "x111")
    assert holds("ppo.score >= 0", "x111") and not holds("base", "x111")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pppo", "no model 'pppo'; did you mean 'ppo'?"),
        ("clip", "no model 'clip'"),
        ("ppo.token > 3", "no field 'token' of an answer; did you mean 'tokens'?"),
        ("ppo and", "cannot be read"),
        ("ppo.tokens", "50 is neither true nor false; compare it with something"),
        ("ppo.tokens and grpo", "neither true nor false"),
        ("ppo.tokens < 'a'", "not supported between"),
        ("1 in ppo.response", "requires string"),
        ("ppo\x00", "cannot be read"),
        ("(" * 300, "cannot be read"),
        ("ppo or " * 100 + "ppo", "703 characters, at most 500"),
    ],
)
def test_faults_of_a_query_are_explained(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as fault:
        holds(text)
    assert message in str(fault.value)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "ppo.__class__",
        "ppo.response.upper()",
        "(1).__class__",
        "[x for x in (1,)]",
        "(lambda: 1)()",
        "len(ppo.response, 1)",
        "len(x=ppo.response)",
        "exec('1')",
        "f'{ppo}'",
        "ppo if grpo else base",
        "ppo.tokens ** 99 > 1",
        "(x := 3)",
        "models[ppo]",
        "models['ppo']['x']",
        "~ppo",
        "ppo is grpo",
        "{1: 2}",
        "b'x' == 1",
    ],
)
def test_nothing_else_is_ever_evaluated(text: str) -> None:
    with pytest.raises(ConfigError, match=r"not allowed|not a model|no field|no model"):
        parse(text, MODELS)


@given(st.text(max_size=60))
def test_any_text_is_a_query_or_a_clear_fault(text: str) -> None:
    try:
        holds(text)
    except ConfigError as fault:
        assert str(fault).startswith("--where: ")


def test_a_search_finds_and_orders_by_id(tmp_path: Path) -> None:
    patterns = {"ppo": {0: "1101101100110", 1: "0" * 13}, "grpo": {0: "1001001000110", 1: "0" * 13}}
    root = write_experiment_of(tmp_path / "toy", patterns, base="0" * 13)
    found = search(root, "ppo and not grpo")
    assert (found.suite, found.seed, found.searched, found.total) == ("test", 0, 13, 3)
    assert [s.asked.problem_id for s in found.shown] == ["test-1", "test-4", "test-7"]
    assert search(root, "not ppo and not grpo", seed=1, limit=2).total == 13
    assert [s.asked.problem_id for s in search(root, "True", limit=11).shown][-1] == "test-10"
    # by De Morgan's law the two halves make the whole
    assert search(root, "ppo and not grpo").total + search(root, "not ppo or grpo").total == 13
    text = as_text(found)
    assert "3 of 13 answers where ppo and not grpo; all by id" in text and "✓ ppo: read as 1, 51 tokens" in text


def test_faults_of_a_search(tmp_path: Path) -> None:
    root = write_experiment_of(tmp_path / "toy", {"ppo": {0: "10"}, "grpo": {1: "10"}}, base="10")
    for arguments, message in (
        ({"where": "ppo", "suite": "tset"}, "no suite 'tset'"),
        ({"where": "ppo", "seed": 7}, "no run with seed 7; evaluated seeds: 0, 1"),
        ({"where": "ppo"}, "no seed in common; choose one with --seed"),
        ({"where": "grpo", "seed": 0}, "no model 'grpo'"),
    ):
        with pytest.raises((ConfigError, DataError), match=message):
            search(root, **arguments)
    with pytest.raises(DataError, match="not an experiment folder"):
        search(tmp_path, "ppo")


def test_hostile_answers_are_shown_harmlessly(tmp_path: Path) -> None:
    root = write_experiment_of(
        tmp_path / "toy", {"ppo": {0: "10"}, "grpo": {0: "01"}}, base="00", question=HOSTILE, response=HOSTILE
    )
    found = search(root, "True")
    text = as_text(found)
    assert not any(c in text for c in "\x1b\x07\u202e\u202c\r\x00") and "⟨U+001B⟩[2J" in text and "⟨U+202E⟩321" in text
    assert max(map(len, text.split("\n"))) < 2500 and "more characters" in text
    data = json.loads(as_json(found))
    assert data["samples"][0]["answers"]["ppo"]["response"] == HOSTILE and as_json(found).isascii()
