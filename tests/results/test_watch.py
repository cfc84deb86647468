"""The live view: where every run is, what looks unhealthy and by which threshold, and nothing is ever written."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest
from rich.console import Console

from paribus.errors import DataError
from paribus.results.progress import Reader, RunProgress, alerts
from paribus.results.watch import COLUMNS, as_lines, as_table, fitting_columns, fitting_runs, watch
from paribus.store import ExperimentPaths
from storedruns import begin, eval_rows, step_row, write_experiment_of


def experiment(tmp_path: Path) -> Path:
    """ppo/0 is done, grpo/0 at work after 2 of 4 steps, the seeds 1 have not begun."""
    root = write_experiment_of(tmp_path / "toy", {"ppo": {0: "1101"}, "grpo": {}}, base="1000", seeds=(0, 1))
    begin(ExperimentPaths(root).run("grpo", 0), steps=2, seconds=3.0)
    return root


def listing(root: Path) -> list[tuple[str, int, int]]:
    return [(str(p), s.st_size, s.st_mtime_ns) for p in sorted(root.rglob("*")) for s in [p.stat()]]


def test_the_state_of_every_run(tmp_path: Path) -> None:
    state = Reader(experiment(tmp_path)).read()
    assert [(run.label, run.state) for run in state.runs] == [
        ("base", "done"), ("ppo/seed-0", "done"), ("grpo/seed-0", "running"), ("ppo/seed-1", "waiting"),
        ("grpo/seed-1", "waiting"),
    ]  # fmt: skip
    done, running = state.runs[1], state.runs[2]
    assert done.accuracy == 0.75 and done.memory == 10**9 and state.runs[0].accuracy == 0.25
    assert (running.step, running.total, running.step_seconds, running.left) == (2, 4, 3.0, 6.0)
    assert running.reward == 6 / 16 and running.entropy == 0.5 and running.length == 30 and running.truncated == 1 / 16
    assert state.left == 6.0 + 8.0 + 8.0  # what is running, then as long as the run that is done
    assert not state.over


def test_torn_lines_and_files_that_are_not_there_yet_are_no_fault(tmp_path: Path) -> None:
    root = experiment(tmp_path)
    run = ExperimentPaths(root).run("grpo", 0)
    with run.steps.open("ab") as file:
        file.write(b'{"step":3,"samples":48,"tok')
    with run.timing.open("ab") as file:
        file.write(b'{"step":3')
    assert Reader(root).read().runs[2].step == 2
    run.steps.unlink()
    run.timing.unlink()
    run.config.unlink()
    assert Reader(root).read().runs[2].step == 0
    with pytest.raises(DataError, match="not an experiment folder"):
        Reader(tmp_path / "nothing").read()


def test_a_reader_sees_new_rows_and_keeps_what_did_not_change(tmp_path: Path) -> None:
    root = experiment(tmp_path)
    reader = Reader(root)
    first = reader.read()
    writer_paths = ExperimentPaths(root).run("grpo", 1)
    run = begin(writer_paths, steps=1)
    second = reader.read()
    assert second.runs[4].state == "running" and second.runs[1] is first.runs[1]
    run.write_eval("test", 1, eval_rows("1111"))
    run.done({})
    assert reader.read().runs[4].accuracy == 1.0


def test_silence_is_told_from_work(tmp_path: Path) -> None:
    root = experiment(tmp_path)
    now = time.time()
    assert Reader(root).read(now + 60).runs[2].state == "running"
    late = Reader(root).read(now + 3600).runs[2]
    assert late.state == "silent" and "no row for 60 min" in late.alerts[-1]
    assert Reader(root).read(now + 3600).runs[1].state == "done"


@pytest.mark.parametrize(
    ("stats", "message"),
    [
        ({"uniform_groups": {"sum": 9.0, "count": 10.0}}, "90 % of groups without variance (> 80 %)"),
        ({"truncated": {"sum": 8.0, "count": 16.0}}, "50 % of responses cut (> 30 %)"),
        (
            {"value_error": {"sum": 0.0, "square": 30.0, "count": 10.0},
             "value_target": {"sum": 0.0, "square": 20.0, "count": 10.0}},
            "explained variance of the critic −0.500 (< 0)",
        ),
        ({"nonfinite": {"sum": 1.0, "count": 1.0}}, "1 steps with a gradient that is not finite"),
        ({"policy_loss": {"sum": None, "count": 1.0}}, "not a finite number: policy_loss"),
    ],
)  # fmt: skip
def test_alerts_state_their_threshold(stats: dict[str, dict[str, float | None]], message: str) -> None:
    assert alerts([step_row(1)]) == []
    assert alerts([step_row(1, **stats)]) == [message]


def test_entropy_collapse_is_relative_to_the_beginning() -> None:
    low: dict[str, float | None] = {"sum": 4.0, "count": 200.0}
    rows = [step_row(1), *(step_row(i, entropy=low) for i in range(2, 8))]
    assert alerts(rows) == ["entropy collapsed: 0.02 nats a token, began at 0.5 (< 10 % of it)"]
    assert alerts([step_row(i, entropy=low) for i in range(1, 8)]) == []


def test_failures_are_alerts_and_the_text_is_harmless(tmp_path: Path) -> None:
    root = write_experiment_of(tmp_path / "toy", {"ppo": {0: "11"}}, seeds=(0, 1))
    begin(ExperimentPaths(root).run("ppo", 1)).failed(ValueError("\x1b[31mloss\nis nan"))
    state = Reader(root).read()
    assert state.over and state.runs[1].state == "failed"
    text = "\n".join(as_lines(state))
    assert "\x1b" not in text and "1 failed" in text and "! ppo/seed-1: ValueError: ⟨U+001B⟩[31mloss is nan" in text


def test_once_prints_and_writes_nothing(tmp_path: Path) -> None:
    root = experiment(tmp_path)
    before, out = listing(root), io.StringIO()
    watch(root, once=True, console=Console(file=out, width=200))
    assert listing(root) == before
    text = out.getvalue()
    assert "toy: 2 of 5 runs done, 1 running, 2 waiting, about 22.0 s left if one run follows the other" in text
    assert "grpo/seed-0" in text and "2/4" in text and "75.0 %" in text


def test_it_ends_with_the_last_run_and_quietly_by_ctrl_c(tmp_path: Path) -> None:
    root = experiment(tmp_path)
    console, looks = Console(file=io.StringIO(), width=200), []

    def finish(seconds: float) -> None:
        looks.append(seconds)
        paths = ExperimentPaths(root)
        if len(looks) == 1:
            for arm in ("ppo", "grpo"):
                begin(paths.run(arm, 1)).done({})
        else:
            paths.run("grpo", 0).done.write_text("{}")

    watch(root, every=0.5, console=console, sleep=finish)
    assert looks == [0.5, 0.5]

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    paths = ExperimentPaths(root)
    paths.run("grpo", 0).done.unlink()
    for terminal in (False, True):
        screen = Console(file=io.StringIO(), force_terminal=terminal, width=200)
        watch(root, console=screen, sleep=interrupt)
        assert "4 of 5 runs done" in screen.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [50, 80, 120])
def test_a_narrow_terminal_gets_fewer_columns_not_torn_ones(tmp_path: Path, width: int) -> None:
    console = Console(file=io.StringIO(), width=width)
    console.print(as_table(Reader(experiment(tmp_path)).read(), width, 40))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in text and "grpo/seed-0" in text and "2/4" in text and "75.0 %" in text
    assert ("memory" in text) == (width == 120)
    assert fitting_columns([COLUMNS], 1000) == list(range(len(COLUMNS)))


def test_a_low_terminal_keeps_the_runs_that_need_a_look() -> None:
    states = ["done"] * 5 + ["running", "failed"] + ["waiting"] * 5
    runs = [RunProgress(f"r{i}", state) for i, state in enumerate(states)]  # type: ignore[arg-type]
    assert fitting_runs(runs, 12) == runs
    assert [run.label for run in fitting_runs(runs, 4)] == ["r5", "r6", "r10", "r11"]
    assert [run.label for run in fitting_runs(runs, 0)] == ["r5", "r6"]
