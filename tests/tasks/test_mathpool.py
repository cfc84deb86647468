"""The pool: what one call does to the others, in order, in number and in time."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from unruly import broken_start, pid, unruly

from paribus.errors import RunError
from paribus.pipeline.score import counted, refuse_failures
from paribus.tasks.mathpool import Pool, shared_pool
from paribus.types import Verdict


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    pool = Pool(unruly, workers=2, warm_up=("", 0))
    yield pool
    pool.close()


def test_crash_exit_and_hang_cost_one_verdict_each(pool: Pool) -> None:
    behaviours = ["", "raise", "", "exit", "spin", "", "sleep", "eat", ""]
    outcomes = pool.map([(b, i) for i, b in enumerate(behaviours)], seconds=0.5)
    statuses = ["ok", "error", "ok", "error", "timeout", "ok", "timeout", "error", "ok"]
    assert [o.status for o in outcomes] == statuses
    assert [o.value for o in outcomes if o.status == "ok"] == [0, 2, 5, 8]
    assert "ValueError: no such answer" in outcomes[1].detail and "exit status 1" in outcomes[3].detail
    assert "MemoryError" in outcomes[7].detail
    assert (pool.counts.calls, pool.counts.errors, pool.counts.timeouts) == (9, 3, 2)


def test_crashes_are_counted_apart_from_wrong_answers_and_stop_a_run_when_many(pool: Pool) -> None:
    outcomes = pool.map([("raise", 0), ("exit", 0), ("slow", 1), ("", 1)], seconds=20)
    verdicts = [Verdict(score=float(o.value or 0), answer=None, status=o.status) for o in outcomes]
    assert [counted(v) for v in verdicts] == [None, None, 1, 1]
    refuse_failures(verdicts, 0.5, step=3)
    with pytest.raises(RunError, match="step 3: the grader failed on 2 of 4 rows"):
        refuse_failures(verdicts, 0.05, step=3)


def test_outcomes_keep_their_order_whatever_order_they_finish_in(pool: Pool) -> None:
    outcomes = pool.map([("slow" if i % 3 == 0 else "", i) for i in range(12)], seconds=20)
    assert [o.value for o in outcomes] == list(range(12))


def test_threads_may_share_a_pool(pool: Pool) -> None:
    with ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(lambda i: pool.call("", i, seconds=20), range(40)))
    assert [o.value for o in outcomes] == list(range(40))


def test_what_a_function_prints_is_no_reply(pool: Pool) -> None:
    assert pool.call("print", 7, seconds=20).value == 7


def test_a_killed_process_is_replaced_at_once(pool: Pool) -> None:
    start = time.perf_counter()
    for _ in range(3):
        assert pool.call("spin", 0, seconds=0.1).status == "timeout"
    assert pool.call("", 1, seconds=20).value == 1
    assert time.perf_counter() - start < 5


def test_a_pool_starts_again_after_its_close() -> None:
    pool = Pool(pid, warm_up=(0,))
    first = pool.call(0, seconds=20).value
    assert pool.call(0, seconds=20).value == first, "the process is kept"
    pool.close()
    assert pool.call(0, seconds=20).value != first
    pool.close()


def test_one_pool_per_function_and_number_of_workers() -> None:
    assert shared_pool(pid, workers=1, warm_up=(0,)) is shared_pool(pid, workers=1, warm_up=(0,))
    assert shared_pool(pid, workers=1, warm_up=(0,)) is not shared_pool(pid, workers=2, warm_up=(0,))


def test_a_function_that_cannot_start_is_an_error_of_the_run() -> None:
    with pytest.raises(RunError, match="broken_start could not start: RuntimeError: a library is missing"):
        Pool(broken_start, warm_up=(0,)).call(0, seconds=20)


def test_a_script_without_a_main_guard_may_grade_and_leaves_no_process(tmp_path) -> None:  # type: ignore[no-untyped-def]
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        from paribus.tasks.grading import Math
        print(Math().grade(r"\\boxed{\\sqrt{4}}", "2").score)
        """)
    )
    path = f"import sys; sys.path[:0] = {sys.path!r}; import runpy; runpy.run_path({str(script)!r})"
    done = subprocess.run([sys.executable, "-c", path], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "1.0", done.stderr
