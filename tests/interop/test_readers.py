"""Every kind of source gives the same outcomes; what is open or wrong is refused with file, line and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interop_rows import lm_eval_row, verl_row
from paribus.errors import ConfigError, DataError
from paribus.interop import Choice, Counts, Outcomes, Published, join, read

SCORES = [1.0, 0.0, 1.0, 1.0]


def outcomes(source: str | Path, **choice: Any) -> Outcomes:
    found = read(str(source), Choice(**choice))
    assert isinstance(found, Outcomes)
    return found


def means(found: Outcomes) -> list[float]:
    return join([found]).tables[found.name].mean(1).tolist()


def plain(scores: list[float], **more: Any) -> list[dict[str, Any]]:
    return [{"problem_id": f"p/{i}", "correct": bool(x), **more} for i, x in enumerate(scores)]


def test_plain_rows_in_all_their_forms(write: Any) -> None:
    assert means(outcomes(write("a.jsonl", plain(SCORES)))) == [0.75]
    assert means(outcomes(write("a.jsonl.gz", plain(SCORES)))) == [0.75]
    assert means(outcomes(write("misnamed.txt", plain(SCORES)))) == [0.75]  # content decides, not the name
    scored = [{"problem_id": i, "score": x / 2} for i, x in enumerate(SCORES)]
    assert means(outcomes(write("b.jsonl", scored))) == [0.375]
    both = [{**row, "score": 0.25} for row in plain(SCORES)]
    with pytest.raises(DataError, match="'correct' and 'score': choose one with --metric"):
        outcomes(write("c.jsonl", both))
    assert means(outcomes(write("c.jsonl", both), metric="score")) == [0.25]


def test_a_column_of_seeds_makes_runs_and_one_of_samples_means(write: Any) -> None:
    rows = plain([1, 0], seed=3) + plain([1, 1], seed=1) + plain([0, 0], seed=2)
    found = outcomes(write("a.jsonl", rows))
    assert [run.seed for run in join([found]).runs[found.name]] == [1, 2, 3]
    assert means(found) == [1.0, 0.0, 0.5]
    sampled = [row for k in range(4) for row in plain([k < 3, k < 1], sample=k)]
    assert means(outcomes(write("b.jsonl", sampled))) == [0.5]


def test_repeated_rows_count_once_and_contradictions_are_named(write: Any) -> None:
    numbered = plain(SCORES, sample=0)
    found = outcomes(write("a.jsonl", [*numbered, numbered[1]]))
    assert means(found) == [0.75] and "1 repeated rows counted once" in found.notes[0]
    with pytest.raises(DataError, match=r"a.jsonl, line 5: problem 'p/1' \(sample 0\) was scored 0.0 at line 2 and 1"):
        outcomes(write("a.jsonl", [*numbered, {**numbered[1], "correct": True}]))
    bare = plain(SCORES)
    assert means(outcomes(write("b.jsonl", [*bare, bare[1], bare[1]]))) == [0.75]
    with pytest.raises(DataError, match=r'problems have 1 to 2 rows .*number the samples in a column "sample"'):
        outcomes(write("b.jsonl", [*bare, {**bare[1], "correct": True}]))
    assert means(outcomes(write("b.jsonl", [*bare, *bare]))) == [0.75]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"problem_id": "x", "correct": NaN}', "line 2: correct: expected true, false or a number"),
        ('{"problem_id": "x", "correct": "yes"}', "line 2: correct: expected true, false or a number from 0 to 1"),
        ('{"problem_id": "x", "correct": -1}', "line 2: correct: -1 is outside 0 to 1"),
        ('{"problem_id": "x"}', "line 2: missing key 'correct'; found: problem_id"),
        ('{"problem_id": ["x"], "correct": 1}', "line 2: problem_id: expected text or a whole number"),
        ('{"problem_id": "x", "correct": 1', "line 2: not a line of JSON"),
        ("[1, 2]", "line 2: expected an object with keys, got list"),
    ],
)
def test_a_faulty_row_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"problem_id": "p", "correct": 1}\n' + line + "\n")
    with pytest.raises(DataError) as fault:
        read(str(path))
    assert f"{path}, {message}" in str(fault.value)


def test_null_is_not_counted_and_leaves_the_problem_out_for_all(write: Any) -> None:
    one = outcomes(write("a.jsonl", [*plain(SCORES)[:3], {"problem_id": "p/3", "correct": None}]))
    other = outcomes(write("b.jsonl", plain([0, 0, 1, 1])))
    joined = join([one, other])
    assert list(joined.excluded) == ["p/3"] and joined.tables["b"].tolist() == [[0, 0, 1]]


def test_lm_eval_samples_need_a_filter_where_there_are_two(write: Any) -> None:
    strict = [lm_eval_row(i, x) for i, x in enumerate(SCORES)]
    loose = [lm_eval_row(i, 1.0, "flexible-extract") for i in range(4)]
    path = write("samples_gsm8k_2026-11-30T10-00-00.jsonl", strict + loose)
    with pytest.raises(
        DataError, match=r"holds 2 filters \(flexible-extract, strict-match\): choose one with --filter"
    ):
        outcomes(path)
    with pytest.raises(DataError, match="no filter 'strict'; did you mean 'strict-match'"):
        outcomes(path, filter="strict")
    found = outcomes(path, filter="strict-match")
    assert means(found) == [0.75] and found.judged == "exact_match, filter strict-match"
    assert means(outcomes(path, filter="flexible-extract")) == [1.0]
    assert means(outcomes(write("copied.jsonl", strict + strict[:2]))) == [0.75]


def test_lm_eval_metrics_are_chosen_and_two_tasks_never_join(write: Any) -> None:
    rows = [lm_eval_row(i, x, metrics=["acc", "acc_norm"], acc=x, acc_norm=1.0) for i, x in enumerate(SCORES)]
    path = write("a.jsonl", rows)
    with pytest.raises(DataError, match=r"holds 2 metrics \(acc, acc_norm\): choose one with --metric"):
        outcomes(path)
    assert means(outcomes(path, metric="acc")) == [0.75]
    other = [lm_eval_row(i, x, doc_hash=f"{i:064x}") for i, x in enumerate(SCORES)]
    with pytest.raises(DataError, match="different problems"):
        join([outcomes(path, metric="acc"), outcomes(write("b.jsonl", other))])


def test_old_lm_eval_rows_do_not_name_their_filter(write: Any) -> None:
    """Before pull request 2517 a document came once per filter, and nothing in the row said which."""

    def old(i: int, x: float) -> dict[str, Any]:
        return {k: v for k, v in lm_eval_row(i, x).items() if k not in ("filter", "metrics")}

    rows = [old(i, x) for i, x in enumerate(SCORES)]
    assert means(outcomes(write("a.jsonl", rows))) == [0.75]
    twice = write("b.jsonl", rows + [old(i, 1.0) for i in range(4)])
    with pytest.raises(DataError, match=r"2 filters \(unnamed 1, unnamed 2\)"):
        outcomes(twice)
    assert means(outcomes(twice, filter="unnamed 2")) == [1.0]


def test_verl_validation_rows_pair_by_prompt(write: Any) -> None:
    rows = [verl_row(i, x, acc=1.0, pred="7") for i, x in enumerate(SCORES)]
    found = outcomes(write("58.jsonl", rows))
    assert means(found) == [0.75] and found.source == "verl validation, step 58"
    assert means(outcomes(write("58.jsonl", rows), metric="acc")) == [1.0]
    sampled = [verl_row(i, x, k) for k in (58, 58) for i, x in enumerate(SCORES)]
    assert "2 rows for each problem, taken as samples" in outcomes(write("58.jsonl", sampled)).notes[0]
    v05 = [{k: v for k, v in row.items() if k != "gts"} for row in rows]
    shuffled = outcomes(write("0.jsonl", v05[::-1]))
    assert join([found, shuffled]).tables["58"].tolist() == join([found, shuffled]).tables["0"].tolist()
    with pytest.raises(DataError, match="holds steps 58, 59"):
        outcomes(write("c.jsonl", [*rows, verl_row(0, 1.0, 59)]))
    with pytest.raises(DataError, match=r"line 1: score: -1.0 is outside 0 to 1.*--metric"):
        outcomes(write("d.jsonl", [verl_row(0, -1.0, acc=False)]))


def completions(path: Path, rewards: dict[str, list[float | None]], prompts: list[Any], step: int = 10) -> Path:
    """Write a file as TRL 1.16.0 does: pandas' columns step, prompt, completion, rewards, advantage."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    n = len(prompts)
    table = {"step": [step] * n, "prompt": prompts, "completion": ["7"] * n, **rewards, "advantage": [0.5] * n}
    parquet.write_table(pa.table(table), path)
    return path


def test_trl_completions(tmp_path: Path) -> None:
    prompts = [f"What is {i}?" for i in (0, 0, 1, 1)]
    one = completions(tmp_path / "completions_00010.parquet", {"accuracy_reward": SCORES}, prompts)
    found = outcomes(one)
    assert means(found) == [0.75] and found.judged == "accuracy_reward" and found.source == "TRL completions, step 10"
    assert any("training prompts" in note for note in found.notes)
    two = completions(tmp_path / "b.parquet", {"accuracy_reward": SCORES, "format_reward": [1.0] * 4}, prompts)
    with pytest.raises(DataError, match=r"2 reward columns \(accuracy_reward, format_reward\).*--metric"):
        outcomes(two)
    assert means(outcomes(two, metric="format_reward")) == [1.0]
    chat = [[{"role": "user", "content": p}] for p in prompts]
    spoken = completions(tmp_path / "c.parquet", {"r": [1.0, None, float("nan"), 0.0]}, chat)
    assert means(outcomes(spoken)) == [0.5]
    broken = tmp_path / "d.parquet"
    broken.write_bytes(one.read_bytes()[:60])
    with pytest.raises(DataError, match=r"d.parquet: not readable as parquet"):
        outcomes(broken)


def test_counts_and_their_faults() -> None:
    assert read("776/1319") == Counts("776/1319", 776, 1319)
    for bad in ("3/2", "0/0"):
        with pytest.raises(DataError, match="RIGHT/PROBLEMS"):
            read(bad)
    with pytest.raises(DataError, match="no such file or folder, nor counts"):
        read("absent.jsonl")


def test_published_numbers_are_strict(tmp_path: Path) -> None:
    path = tmp_path / "table.toml"
    path.write_text('title = "t"\nproblems = 10\n[model.a]\ncorrect = 7\n[model.b]\ncorrect = 11\n')
    with pytest.raises(ConfigError, match=r"model.b.correct: 11 of 10 problems"):
        read(str(path))
    path.write_text('title = "t"\nproblems = 10\n[model.a]\ncorrct = 7\n')
    with pytest.raises(ConfigError, match="did you mean 'correct'"):
        read(str(path))
    path.write_text("not toml at all\n")
    with pytest.raises(ConfigError, match="neither JSON lines, parquet nor TOML"):
        read(str(path))
    path.write_text('title = "t"\nproblems = 10\n[model.a]\ncorrect = 7\n')
    found = read(str(path))
    assert isinstance(found, Published) and found.counts == [Counts("a", 7, 10)]


def test_unknown_rows_and_folders_say_what_is_known(write: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 1: unknown rows with keys x, y; known: .*problem_id.*doc_id.*verl"):
        read(str(write("a.jsonl", [{"x": 1, "y": 2}])))
    with pytest.raises(DataError, match=r"give one of the things in it: a.jsonl"):
        read(str(tmp_path))
    empty = tmp_path / "empty.jsonl"
    empty.write_text("{")
    with pytest.raises(DataError, match="line 1: not a line of JSON"):
        read(str(empty))


def test_torn_gzip_is_named(tmp_path: Path, write: Any) -> None:
    path = write("a.jsonl.gz", plain(SCORES))
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(DataError, match=r"a.jsonl.gz: not readable"):
        read(str(path))


def test_faults_quote_hostile_text_harmlessly(write: Any) -> None:
    for rows in (
        [{"\x1b[2J": 1}],
        [{"problem_id": "\x1b[2J", "correct": x, "sample": 0} for x in (0, 1)],
        [lm_eval_row(0, 1.0, "\u202ea"), lm_eval_row(0, 1.0, "\x1b[31m")],
    ):
        with pytest.raises(DataError) as fault:
            outcomes(write("a.jsonl", rows))
        assert str(fault.value).isprintable() and "\\x1b[" in str(fault.value)


def test_verl_rows_with_the_problems_id_join_rows_of_other_tools(write: Any) -> None:
    """The exported scorer writes the id beside each score; the prompt then need not stand for it."""
    theirs = write("58.jsonl", [verl_row(i, x, problem_id=f"p/{i}") for i, x in enumerate([0.0, 1.0, 0.0])])
    joined = join([outcomes(theirs), outcomes(write("mine.jsonl", plain([1.0, 0.0, 1.0])))])
    assert list(joined.problems) == ["p/0", "p/1", "p/2"]
    assert joined.tables["58"].tolist() == [[0, 1, 0]] and joined.tables["mine"].tolist() == [[1, 0, 1]]
