"""What an answer costs after training: its length, its speed, and whether it ends in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from paribus.report.blocks import Block, Prose, Table
from paribus.report.flags import rate_flags
from paribus.report.message import Text, msg
from paribus.report.results import Scores, finished
from paribus.report.text import DASH, duration, number, percent
from paribus.store import EvalRow, StoredExperiment, StoredRun, TimingRow

Evaluations = Sequence[tuple[StoredRun, Sequence[EvalRow]]]


def inference(exp: StoredExperiment, s: Scores) -> list[Block]:
    """Return what the final evaluations say of length, speed and form of the answers."""
    models: list[tuple[Text, Evaluations]] = []
    if exp.base is not None and s.base_rows:
        models.append((msg("base"), [(exp.base, s.base_rows)]))
    done = finished(exp)
    models += [(arm, [(done[arm][seed], s.rows[arm, seed]) for seed in s.seeds[arm]]) for arm in exp.info.arms]
    models = [(name, found) for name, found in models if found]
    rows = [[name, *_profile(s.suite, found)] for name, found in models]
    columns = [
        msg("model"), msg("output tokens, mean"), msg("of right answers"), msg("of wrong ones"),
        msg("tokens per right answer"), msg("time"), msg("tokens/s"), msg("cut at the limit"), msg("no answer found"),
        msg("format kept"), msg("right among finished"),
    ]  # fmt: skip
    text = msg(
        "From the final evaluations, all seeds of an arm together; time is the mean of one evaluation, grading "
        "included. Right among finished leaves out responses cut at the length limit."
    )
    return [Table(columns, rows, name="inference"), *_checked(s.suite, models), Prose(text, "note")]


def _profile(suite: str, found: Evaluations) -> list[Text]:
    rows = [row for _, part in found for row in part]
    known = [row for row in rows if row.score is not None]
    right = [row for row in known if row.score == 1]
    wrong = [row for row in known if row.score != 1]
    ended = [row for row in known if not row.truncated]
    tokens = sum(row.tokens for row in rows)
    last = [last_timing(run, suite) for run, _ in found]
    seconds = [row.seconds.get("eval", 0.0) for row in last if row is not None]
    full = len(seconds) == len(found) and sum(seconds) > 0
    return [
        number(_mean_tokens(rows), 1),
        number(_mean_tokens(right), 1),
        number(_mean_tokens(wrong), 1),
        number(tokens / len(right) if right else None, 1),
        duration(sum(seconds) / len(seconds)) if full else DASH,
        number(tokens / sum(seconds), 0) if full else DASH,
        percent(share(rows, lambda row: row.truncated), 1),
        percent(share(rows, lambda row: row.status == "unparsable"), 1),
        percent(share(rows, lambda row: row.format), 1),
        percent(share(ended, lambda row: row.score == 1), 1),
    ]


def _checked(suite: str, models: Sequence[tuple[Text, Evaluations]]) -> list[Block]:
    """Return whether the tokens of the rows over the timer's seconds are the rate that the timer counted."""
    out: list[Block] = []
    for name, found in models:
        for run, rows in found:
            last = last_timing(run, suite)
            seconds = last.seconds.get("eval", 0.0) if last is not None else 0.0
            stated = last.tokens / seconds if last is not None and seconds else None
            for text in rate_flags(sum(row.tokens for row in rows), seconds, stated):
                where = msg("{model}, seed {seed}: {text}", model=name, seed=str(run.info.seed), text=text)
                out.append(Prose(where, "warning"))
    return out


def last_timing(run: StoredRun, suite: str) -> TimingRow | None:
    """Return the timing row of the run's last evaluation of the suite."""
    last = max(run.eval_steps(suite))
    found = [row for row in run.timing if (row.suite, row.step) == (suite, last)]
    return found[-1] if found else None


def _mean_tokens(rows: Sequence[EvalRow]) -> float | None:
    return sum(row.tokens for row in rows) / len(rows) if rows else None


def share(rows: Sequence[EvalRow], test: Callable[[EvalRow], bool]) -> float | None:
    """Return the share of rows that pass a test; None of no rows."""
    return sum(map(test, rows)) / len(rows) if rows else None
