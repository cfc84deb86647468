"""User functions: both signatures, the same numbers; what hangs or dies costs its call and nothing else."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from graded import respond
from paribus.errors import ConfigError
from paribus.part import dump, load, replace
from paribus.rewards import Composite, Function, TaskReward, Term, judge

BOTH = '''
    """Half a point for a short text, one for the gold."""
    from dataclasses import dataclass

    @dataclass
    class Points:
        gold: float = 1.0
        short: float = 0.5

    def points(text, gold):
        print("noise on standard output")
        return Points().gold * (gold in text) + Points().short * (len(text) < 5)

    def trl(prompts, completions, answer, **kwargs):
        return [points(text, gold) for text, gold in zip(completions, answer)]

    def chat(completions, ground_truth, **kwargs):
        return [points(c[0]["content"], gold) for c, gold in zip(completions, ground_truth)]

    def compute_score(data_source, solution_str, ground_truth, extra_info=None):
        return points(solution_str, ground_truth)

    def detailed(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
        return {"score": points(solution_str, ground_truth), "acc": 1}
    '''
TEXTS = ["33", "it is 33", "no", "nothing", ""]
POINTS = [1.5, 1, 0.5, 0, 0.5]
User = Callable[[str], str]


def test_ready_made_messages_and_verls_data_source_reach_the_function(user_file: User) -> None:
    path = user_file("""
    def trl(prompts, completions, **kwargs):
        return [10 * len(p) + len(p[0]["content"]) for p in prompts]

    def compute_score(data_source, solution_str, ground_truth, extra_info=None):
        return len(data_source) + len(extra_info.get("ability", ""))
    """)
    messages = ({"role": "system", "content": "abc"}, {"role": "user", "content": "d"})
    tags = {"data_source": "sums", "ability": "math"}
    made = dataclasses.replace(respond("x").problem, messages=messages, tags=tags)
    rows = [dataclasses.replace(respond("x"), problem=made)]
    for function, expected in [
        (Function(path=path, name="trl", conversational=True), 23),
        (Function(path=path, name="compute_score"), 8),
        (Function(path=path, name="compute_score", data_source="declared"), 12),
    ]:
        assert judge(function, rows, {}).total == [expected]


def test_both_signatures_give_the_same_numbers(user_file: User) -> None:
    path = user_file(BOTH)
    rows = [respond(text) for text in TEXTS]
    functions = {
        "trl": Function(path=path, name="trl"),
        "chat": Function(path=path, name="chat", conversational=True),
        "compute_score": Function(path=path, name="compute_score", workers=2),
        "detailed": Function(path=path, name="detailed"),
    }
    assert [f.signature for f in functions.values()] == ["trl", "trl", "verl", "verl"]
    for function in functions.values():
        judged = judge(function, rows, {})
        assert judged.total == judged.components["function"] == POINTS and judged.failed == 0


def test_functions_are_told_everything_that_is_known_of_a_row(user_file: User) -> None:
    path = user_file("""
    def trl(prompts, completions, **columns):
        want = {"problem_id", "question", "answer", "ground_truth", "solution", "truncated", "kind"}
        assert set(columns) == want, columns
        assert prompts == columns["question"] == ["How many?"] * 2 and completions == ["a", "b"]
        assert columns["truncated"] == [False, True] and columns["kind"] == ["inverse"] * 2
        return [len(s.splitlines()) for s in columns["solution"]]

    def verl(data_source, solution_str, ground_truth, extra_info):
        assert data_source == "mine" and ground_truth == extra_info["answer"] == "33"
        return extra_info["truncated"]
    """)
    rows = [respond("a"), respond("b", truncated=True)]
    assert judge(Function(path=path, name="trl"), rows, {}) == ([3, 3], {"function": [3, 3]}, 0, "")
    assert judge(Function(path=path, name="verl", data_source="mine"), rows, {}).total == [0, 1]


UNRULY = """
    import os, sys, time

    def one(data_source, solution_str, ground_truth, extra_info=None):
        if solution_str == "exit": os._exit(0)
        if solution_str == "quit": sys.exit()
        if solution_str == "loop":
            while True: pass
        if solution_str == "raise": raise KeyError("gold")
        return {"text": "7", "nan": float("nan"), "none": None, "inf": float("inf"), "list": [1]}.get(solution_str, 1)

    def many(completions, **kwargs):
        return [one("", text, "") for text in completions]

    def short(completions, **kwargs):
        return [1.0]
    """


def test_with_verls_signature_a_failure_costs_one_row(user_file: User) -> None:
    function = Function(path=user_file(UNRULY), name="one", seconds=0.3)
    texts = ["ok", "exit", "ok", "quit", "loop", "ok", "raise", "text", "inf", "list", "ok"]
    start = time.perf_counter()
    judged = judge(function, [respond(text) for text in texts], {})
    assert time.perf_counter() - start < 20
    assert judged.total == [1, None, 1, None, None, 1, None, None, None, None, 1]
    assert judged.failed == 7
    assert "mine.py: function 'one': TypeError" in judged.reason


def test_with_trls_signature_a_failure_costs_the_call(user_file: User) -> None:
    path = user_file(UNRULY)
    function = Function(path=path, name="many", seconds=0.3)
    for bad, reason in (("exit", "exit status 0"), ("loop", "killed after 0.3 s"), ("raise", "KeyError: 'gold'")):
        judged = judge(function, [respond("ok"), respond(bad)], {})
        assert judged.total == [None, None] and judged.failed == 1 and reason in judged.reason
    assert judge(function, [respond("ok")], {}).total == [1]
    judged = judge(Function(path=path, name="short"), [respond(), respond()], {})
    assert judged.total == [None, None] and "short returned 1 values, not 2" in judged.reason


def test_a_value_that_is_not_there_is_unknown_and_no_failure(user_file: User) -> None:
    path = user_file(UNRULY)
    rows = [respond(text) for text in ("nan", "none", "ok")]
    for name in ("one", "many"):
        judged = judge(Function(path=path, name=name), rows, {})
        assert judged.total == [None, None, 1] and judged.failed == 0


def test_failures_count_through_composites(user_file: User) -> None:
    function = Term(weight=0.5, reward=Function(path=user_file(UNRULY), name="one"))
    reward = Composite(terms={"correct": Term(reward=TaskReward()), "mine": function})
    judged = judge(reward, [respond("ok"), respond("raise")], {})
    assert judged.total == [1.5, None] and judged.failed == 1
    assert judged.components == {"correct": [1, 1], "mine": [1, None]}


def test_a_file_may_import_its_neighbours(user_file: User, tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_mine.py").write_text("ONE = 1.0\n")
    path = user_file("""
    from neighbour_of_mine import ONE

    def f(completions, **kwargs):
        return [ONE for _ in completions]
    """)
    assert judge(Function(path=path, name="f"), [respond()], {}).total == [1]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def other(completions, **kwargs): ...", r"no function 'f' at its top level; known: other"),
        ("def f(completions, **kwargs:\n", r"mine.py: not valid Python"),
        ("async def f(completions, **kwargs): ...", r"function 'f' is async: write it as a plain def"),
        ("def f(text): ...", r"function 'f': cannot tell TRL's signature .* state it: signature"),
        ("def f(completions, solution_str, **kwargs): ...", r"cannot tell TRL's signature"),
        ("def f(completions): ...", r"must take every column by keyword: end its parameters with \*\*kwargs"),
        ("def f(completions, difficulty, **kwargs): ...", r"function 'f' requires 'difficulty'; sure to be there are"),
        ("def f(data_source, solution_str, ground_truth): ...", r"does not take 'extra_info', which verl passes"),
        ("def f(solution_str, tokens, **kwargs): ...", r"requires 'tokens', which verl does not pass"),
        ("def f(completions, /, **kwargs): ...", r"positional-only"),
    ],
)
def test_a_function_that_cannot_be_called_is_refused_at_loading(user_file: User, source: str, message: str) -> None:
    path = user_file(source)
    with pytest.raises(ConfigError, match=rf"(?s){message}") as error:
        load(Function, {"type": "function", "path": path, "name": "f"})
    assert path in str(error.value)


def test_loading_runs_nothing_of_the_file(user_file: User, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    path = user_file(
        f"open({str(mark)!r}, 'w').close()\ndef f(completions, **kwargs):\n    return [1 for _ in completions]"
    )
    function = Function(path=path, name="f")
    assert not mark.exists()
    assert judge(function, [respond()], {}).total == [1] and mark.exists()


def test_a_missing_file_names_file_and_function(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none.py: cannot read the file of function 'f': No such file"):
        load(Function, {"type": "function", "path": str(tmp_path / "none.py"), "name": "f"})


@pytest.mark.parametrize("line", ["import no_such_module", "raise SystemExit(3)"])
def test_a_file_that_cannot_run_names_file_and_function(user_file: User, line: str) -> None:
    path = user_file(f"{line}\ndef f(completions, **kwargs): ...")
    with pytest.raises(ConfigError, match=rf"{path}: function 'f': .* could not start"):
        judge(Function(path=path, name="f"), [respond()], {})


def test_a_signature_that_cannot_be_told_may_be_stated(user_file: User) -> None:
    path = user_file("def f(**kwargs):\n    return len(kwargs['solution_str'])")
    assert judge(Function(path=path, name="f", signature="verl"), [respond("abc")], {}).total == [3]


def test_identity_is_the_files_content_and_a_changed_file_is_refused(user_file: User) -> None:
    source = "def f(completions, **kwargs):\n    return [{} for _ in completions]"
    path = user_file(source.format(1))
    first = Function(path=path, name="f")
    assert load(Function, dump(first)) == first == replace(first, seconds=10.0)
    assert judge(first, [respond()], {}).total == [1]
    user_file(source.format(2))
    assert judge(first, [respond()], {}).total == [1], "a run goes on with what it was started with"
    with pytest.raises(ConfigError, match="the file of function 'f' has changed"):
        load(Function, dump(first))
    second = Function(path=path, name="f")
    assert second.version != first.version and second != first
    assert judge(second, [respond()], {}).total == [2]


def test_text_of_any_kind_reaches_the_function(user_file: User) -> None:
    path = user_file("def f(completions, **kwargs):\n    return [len(text) for text in completions]")
    texts = ["", "\x00\n\"'", "é\u2028漢", "\ud800"]
    assert judge(Function(path=path, name="f"), [respond(t) for t in texts], {}).total == [len(t) for t in texts]
