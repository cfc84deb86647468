"""Graders: what each policy reads, what it refuses, and the laws that hold whatever the text."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paribus.part import dump, load
from paribus.tasks import mathcheck
from paribus.tasks.data import strip_annotations
from paribus.tasks.grading import Answer, Item, Math, last_box, last_tag
from paribus.tasks.numbers import canonical, last_number
from paribus.tasks.rows import read_rows

STRICT, BOXED, FLEXIBLE, OFFICIAL = (Answer(policy=p) for p in ("strict", "boxed", "flexible", "official-gsm8k"))
MATH = Math()


@pytest.mark.parametrize(
    ("response", "strict", "boxed", "flexible", "official"),
    [
        ("#### 18", 1, 0, 1, 1),
        ("#### 18.", 1, 0, 1, 0),
        ("#### $18", 1, 0, 1, 0),
        ("#### 18.00", 1, 0, 1, 0),
        ("####18", 1, 0, 1, 0),
        ("#### **18**", 1, 0, 1, 0),
        ("so it is \\boxed{18}.", 0, 1, 1, 0),
        ("\\boxed{18 dollars}", 0, 1, 1, 0),
        ("\\boxed{\\$18}", 0, 1, 1, 0),
        ("**Answer: 18**", 0, 0, 1, 0),
        ("... makes 18 dollars per day.", 0, 0, 1, 0),
        ("#### 18\nand a note that ends in 16", 1, 0, 1, 1),
        ("#### 18\n" + "and so on. " * 40, 1, 0, 1, 1),
        ("\\boxed{18} eggs, then 5 left", 0, 1, 1, 0),
        ("#### \\boxed{18}", 1, 1, 1, 0),
        ("####\n18", 1, 0, 1, 0),
        ("#### Answer: 18", 1, 0, 1, 0),
        ("#### Step 1\n6 + 12\n#### 18", 1, 0, 1, 1),
        ("#### 18\n#### Check", 1, 0, 1, 1),
        ("#### 17\n#### 18", 1, 0, 1, 0),
        ("#### 18\n#### 17", 0, 0, 0, 1),
        ("#### 18\n#### 1,7", 0, 0, 0, 1),
        ("\\boxed{17} no, \\boxed{18}", 0, 1, 1, 0),
        ("\\boxed{18} or \\boxed{17}", 0, 0, 0, 0),
        ("\\boxed{17 or 18}", 0, 0, 0, 0),
        ("\\boxed{18", 0, 0, 1, 0),
        ("<answer>18</answer>, not 17", 0, 0, 1, 0),
        ("the answer is 18, since 9 * 2 = 18, not 17", 0, 0, 1, 0),
        ("the answer is 17. Or 18", 0, 0, 0, 0),
        ("17", 0, 0, 0, 0),
        ("", 0, 0, 0, 0),
    ],
)
def test_policies(response: str, strict: int, boxed: int, flexible: int, official: int) -> None:
    graders = (STRICT, BOXED, FLEXIBLE, OFFICIAL)
    assert [g.grade(response, "18").score for g in graders] == [strict, boxed, flexible, official]


@pytest.mark.parametrize(
    ("response", "truncated", "score"),
    [
        ("He pays 5 * 1", True, 0),
        ("He pays 5 * 1", False, 1),
        ("The answer is 1", True, 0),
        ("#### 1", True, 1),
        ("\\boxed{1} and", True, 1),
        ("<answer>1</answer>", True, 1),
        ("<answer>1", True, 0),
    ],
)
def test_a_truncated_response_gets_no_credit_from_the_fallback(response: str, truncated: bool, score: int) -> None:
    assert FLEXIBLE.grade(response, "1", truncated=truncated).score == score


@given(st.text(max_size=80), st.booleans(), st.sampled_from(["18", "-3", "x"]))
def test_truncation_changes_no_verdict_of_the_other_policies(response: str, box: bool, gold: str) -> None:
    response += "\\boxed{18}" if box else "\n#### 18"
    for grader in (STRICT, BOXED, OFFICIAL):
        assert grader.grade(response, gold, truncated=True) == grader.grade(response, gold)


def test_statuses_tell_a_missing_answer_from_a_useless_gold() -> None:
    assert STRICT.grade("no idea", "18").status == "unparsable"
    assert STRICT.grade("#### 18", "see figure").status == "ungradable"
    assert STRICT.grade("#### 18", "").status == "ungradable"
    assert STRICT.grade("#### 17", "18").status == "ok"
    assert MATH.grade("\\boxed{1}", "\\text{see figure}").status == "ungradable"
    assert MATH.grade("\\boxed{1}", "\\nonsense{").status == "ungradable"
    assert MATH.grade("none", "1").status == "unparsable"


def test_the_answer_is_recorded_in_one_spelling() -> None:
    answers = [FLEXIBLE.grade(r, "18").answer for r in ("#### 18", "18.0", "$18", "\\boxed{\\frac{36}{2}}")]
    assert answers == ["18"] * 4


def test_format_is_recorded_and_never_changes_a_score() -> None:
    texts = [
        "<think></think>\\boxed{4}",
        "</think><think>\\boxed{4}",
        "<think>2+2=4</think>\\boxed{4}",
        "2+2=4</think>\\boxed{4}",
    ]
    verdicts = [BOXED.grade(text, "4") for text in texts]
    assert [v.format for v in verdicts] == [False, False, True, True]
    assert [v.score for v in verdicts] == [1, 1, 1, 1]
    assert FLEXIBLE.grade("so 4", "4").format is False and FLEXIBLE.grade("#### 4", "4").format is True


def test_a_stop_string_ends_the_response_before_it_is_read() -> None:
    response = "40+2=42\n#### 42\n\nQuestion: Tom has 3 pens and buys 4.\nAnswer: 3+4=7\n#### 7"
    assert STRICT.grade(response, "42").score == 0
    assert Answer(stop=("Question:", "\n\n\n")).grade(response, "42").score == 1


def test_a_marker_may_be_tied_to_the_start_of_a_line() -> None:
    response = "At Job A: 30000\nA: 25"
    assert Answer(marker="\nA:").grade(response, "25").score == Answer(marker="A:").grade(response, "25").score == 1
    assert Answer(marker="\nA:", policy="official-gsm8k").grade(response, "25").score == 1
    assert Answer(marker="A:", policy="official-gsm8k").grade(response, "30000").score == 1


NUMBERS = st.fractions(max_denominator=1000)


@given(NUMBERS, NUMBERS, st.sampled_from(["#### {}", "\\boxed{{{}}}", "<answer>{}</answer>", "The answer is {}."]))
def test_a_verdict_is_equality_of_values(gold: Fraction, answer: Fraction, form: str) -> None:
    for value in (gold, answer):
        verdict = FLEXIBLE.grade(form.format(canonical(value)), canonical(gold))
        assert verdict.score == (value == gold) and verdict.answer == canonical(value)


@given(st.integers(-(10**6), 10**6), st.text(), st.text(alphabet=st.characters(exclude_characters="#\\")))
def test_distance_from_the_end_does_not_matter(n: int, before: str, after: str) -> None:
    assert STRICT.grade(f"{before}\n#### {n}\n{after * 20}", str(n)).score == 1
    assert BOXED.grade(f"{before}\n\\boxed{{{n}}} {after * 20}", str(n)).score == 1


@given(st.text(), st.text())
def test_no_response_and_no_gold_makes_a_grader_fail(response: str, gold: str) -> None:
    for grader in (STRICT, BOXED, FLEXIBLE, OFFICIAL):
        grader.grade(response, gold), grader.grade(f"\\boxed{{{response}}} #### {response}", "1", truncated=True)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=8))
def test_grade_many_is_grade_of_each_in_order(pairs: list[tuple[int, int]]) -> None:
    items = [Item(f"\\boxed{{{a}}}", str(b)) for a, b in pairs]
    for grader in (BOXED, MATH):
        assert grader.grade_many(items) == [grader.grade(i.response, i.gold) for i in items]
        assert [v.score for v in grader.grade_many(items)] == [float(a == b) for a, b in pairs]


def test_boxes_and_tags() -> None:
    assert last_box("\\boxed{\\frac{1}{2}} and \\boxed{ }") == "\\frac{1}{2}"
    assert last_box("\\fbox{a{b}c} }{") == "a{b}c"
    assert last_box("\\boxed{x = \\boxed{4}}") == "4"
    assert last_box("\\boxed 42.") == "42"
    assert last_box("\\boxed{\\{1, 2\\}}") == "\\{1, 2\\}"
    assert last_box("\\boxed{4 and so on") is None and last_box("\\boxed") is None and last_box("\\boxed. {4}") is None
    assert last_tag("<answer>1</answer><answer>2</answer><answer>") == "2" and last_tag("</answer>") is None


HOSTILE = ["\\boxed{" * 15_000, "#### " * 20_000, "#### x" * 15_000, "answer is " * 10_000, "<answer>" * 12_000]
HOSTILE += [
    "</answer>" * 12_000,
    "<answer></answer>" * 6_000,
    "\\boxed " * 14_000,
    "}" * 100_000,
    "\\boxed{1}" * 11_000,
]
HOSTILE += [
    "\\boxed{" + "9" * 90_000 + "}",
    "<think>" * 14_000,
    "#" * 100_000,
    "\\boxed{" + "{" * 90_000,
    "answer: $" * 11_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda t: repr(t[:12]))
def test_hostile_responses_are_graded_in_linear_time(text: str) -> None:
    for grader in (STRICT, BOXED, FLEXIBLE, OFFICIAL, MATH):
        start = time.thread_time()
        assert grader.grade(text, "18").score == 0
        assert time.thread_time() - start < 2


def test_ten_thousand_strict_verdicts_take_less_than_two_seconds() -> None:
    response = "She sells 16 - 3 - 4 = 9 eggs a day.\nShe makes 9 * 2 = $18 every day.\n" * 4 + "#### 18"
    items = [Item(response, str(i % 30)) for i in range(10_000)]
    start = time.process_time()
    verdicts = STRICT.grade_many(items)
    assert time.process_time() - start < 2
    assert sum(v.score for v in verdicts) == sum(i % 30 == 18 for i in range(10_000))


def test_version_follows_the_settings_and_nothing_else() -> None:
    assert STRICT.version == Answer().version == load(Answer, dump(STRICT)).version
    assert len({g.version for g in (STRICT, BOXED, Answer(marker="\nA:"), Answer(stop=("Q:",)), MATH)}) == 5
    assert (STRICT.name, MATH.name) == ("answer/strict", "math/math-verify")


def _scores(grader: Math) -> list[float]:
    items = [
        Item("\\boxed{\\frac{\\sqrt{4}}{6}}", "\\frac{1}{3}"),
        Item("\\boxed{8}", "7"),
        Item("\\boxed{2k+2}", "2(k+1)"),
    ]
    return [v.score for v in grader.grade_many(items)]


def test_verdicts_are_the_same_in_threads_processes_and_event_loops() -> None:
    here = _scores(MATH)
    assert here == [1, 0, 1]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(_scores, [MATH] * 8)) == [here] * 8
    with ProcessPoolExecutor(1) as processes:
        assert processes.submit(_scores, MATH).result(60) == here

    async def in_loop() -> list[float]:
        return await asyncio.get_running_loop().run_in_executor(None, _scores, MATH)

    assert asyncio.run(in_loop()) == here
    assert _scores(MATH) == here, "the processes of a forked child are not ours"


def test_a_hanging_verification_is_a_timeout_and_the_next_one_works() -> None:
    grader = Math(seconds=0.3)
    before = grader.pool.counts.timeouts
    verdicts = grader.grade_many([Item("\\boxed{9^{9^{9}}x}", "4y"), Item("\\boxed{\\sqrt{9}}", "3")])
    assert [(v.status, v.score) for v in verdicts] == [("timeout", 0), ("ok", 1)]
    assert grader.pool.counts.timeouts == before + 1


def test_gold_goes_first_to_the_verifier(monkeypatch: pytest.MonkeyPatch) -> None:
    import math_verify

    seen = []
    verify = math_verify.verify

    def spy(gold, answer, **options):  # type: ignore[no-untyped-def]
        seen.append((str(gold[0]), str(answer[0]), options))
        return verify(gold, answer, **options)

    monkeypatch.setattr(math_verify, "verify", spy)
    assert mathcheck.judge("x<3", "(-\\infty,3)") == "right"
    assert mathcheck.judge("(-\\infty,3)", "x<3") == "wrong"
    assert [(g, a) for g, a, _ in seen] == [("x < 3", "Interval.open(-oo, 3)"), ("Interval.open(-oo, 3)", "x < 3")]
    assert all(options == {"timeout_seconds": None} for _, _, options in seen)


@pytest.mark.parametrize(
    ("gold", "answer", "verdict"),
    [
        ("\\frac{\\sqrt{2}}{2^{99}}", "\\frac{\\sqrt{2}}{2^{98}}", "wrong"),
        ("\\sqrt{2}", "1.41421356", "right"),
        ("\\sqrt{2}", "1.4142", "wrong"),
        ("1-\\frac{1}{e}", "1+\\frac{1}{e}", "wrong"),
        ("1\\pm\\sqrt{19}", "1-\\sqrt{19},1+\\sqrt{19}", "right"),
        ("(-\\sqrt{3},\\sqrt{3})", "(\\sqrt{3},-\\sqrt{3})", "wrong"),
        ("x^5-x", "x(x^4-1)", "right"),
        ("y=2x+3", "2x+3", "right"),
        ("n=3k", "3", "wrong"),
        ("(-\\infty,2)\\cup(3,\\infty)", "(3,\\infty)\\cup(-\\infty,2)", "right"),
        ("\\cot x", "\\frac{1}{\\tan x}", "right"),
        ("@@", "1", "ungradable"),
    ],
)
def test_judgements_of_what_is_not_rational(gold: str, answer: str, verdict: str) -> None:
    assert mathcheck.judge(gold, answer) == verdict


def test_the_official_policy_reproduces_the_data_sets_own_verdicts(shared: Path) -> None:
    rows = read_rows(shared / "cases" / "gsm8k_solutions.jsonl")
    grader = Answer(policy="official-gsm8k", marker="\nA:")
    verdicts = grader.grade_many([Item(r["solution"], r["ground_truth"]) for r in rows])
    assert len(rows) == 300
    assert [bool(v.score) for v in verdicts] == [r["is_correct"] for r in rows]
    assert [v.answer for v in verdicts] == [r["official_extracted"] for r in rows]
    robust = Answer(marker="\nA:").grade_many([Item(r["solution"], r["ground_truth"]) for r in rows])
    assert [bool(v.score) for v in robust] == [r["is_correct"] for r in rows], "the robust reading agrees on these"


@pytest.mark.parametrize(("split", "share"), [("train", 0.972), ("test", 0.973)])
def test_the_last_number_of_right_human_solutions_is_the_answer_in_97_percent(
    shared: Path, split: str, share: float
) -> None:
    rows = [row["answer"] for row in read_rows(shared / "data" / "gsm8k" / f"{split}.jsonl")]
    pairs = [strip_annotations(row).rsplit("####", 1) for row in rows]
    agreed = [last_number(worked) == Fraction(gold.strip().replace(",", "")) for worked, gold in pairs]
    assert sum(agreed) / len(agreed) == pytest.approx(share, abs=0.001)
    exact = STRICT.grade_many([Item(row, row.rsplit("####", 1)[1].strip()) for row in rows])
    assert all(v.score == 1 and v.format for v in exact), "with the marker all are right"


def math500(shared: Path) -> list[str]:
    return [row["answer"] for row in read_rows(shared / "data" / "math500.jsonl")]


def test_every_gold_of_math_500_is_right_however_it_is_spelled(shared: Path) -> None:
    golds = math500(shared)
    spellings = [
        golds,
        [g.replace("\\frac", "\\dfrac").replace("-", "\u2212").replace("+", " + ") for g in golds],
        [f"$ {g} $." for g in golds],
        [g.replace("\\left", "").replace("\\right", "").replace("\\!", "") for g in golds],
    ]
    for spelled in spellings:
        verdicts = MATH.grade_many([Item(f"\\boxed{{{s}}}", g) for s, g in zip(spelled, golds, strict=True)])
        assert [g for g, v in zip(golds, verdicts, strict=True) if v.score != 1] == []


def test_a_gold_of_math_500_is_right_for_no_other_problem(shared: Path) -> None:
    golds = math500(shared)
    pairs = [(g, golds[(i + 7) % 500]) for i, g in enumerate(golds)][::3]
    verdicts = MATH.grade_many([Item(f"\\boxed{{{a}}}", g) for g, a in pairs])
    assert [p for p, v in zip(pairs, verdicts, strict=True) if v.score == 1 and p[0] != p[1]] == []
    assert {v.status for v in verdicts} == {"ok"}
