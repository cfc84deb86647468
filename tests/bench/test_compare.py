"""Ratios of pairs by hand, the page made of them, and the line protocol with a stand-in for a library."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import compare
import page
import pytest
import run

OURS = [
    {"seconds": {"step": s, "rollout": s / 2}, "tokens": 100, "peak_rss": int(1e9), "flops": {"rollout": 10},
     "inside": {"model": 0.9 * s, "draw": 0.05 * s, "weights": 0.0}}
    for s in (1.0, 2.0, 4.0)
]  # fmt: skip
OTHER = [
    {"seconds": {"step": s, "rollout": 1.0, "update": 1.0}, "tokens": 200, "peak_rss": r} for s, r in
    ((3.0, int(4e9)), (4.0, int(5e9)), (4.0, int(3e9)))
]  # fmt: skip
STAND_IN = """
import sys
sys.path.insert(0, {folder!r})
from peer import Line
line = Line()
print("a library's own words")
if {fails}:
    sys.exit("no such model: fix the path")
line._say({{"ready": True, "versions": {{}}, "threads": 1}})
for number in range(100):
    line.wait()
    line.answer({{"step": 0.5 + number}}, 7)
"""


def test_ratios_are_of_pairs_and_not_of_medians() -> None:
    found = compare.ratios(OURS, OTHER)
    assert found["step"] == {"median": 2.0, "min": 1.0, "max": 3.0}  # 3/1, 4/2, 4/4; that of medians is also 2
    assert found["rollout"] == {"median": 1.0, "min": 0.5, "max": 2.0}
    assert "update" not in found  # ours has none
    assert compare.per_token(OURS, OTHER) == {"median": 1.0, "min": 0.5, "max": 1.5}


def test_summary_by_hand() -> None:
    found = compare.summary(OURS, OTHER, rate=20.0)
    assert found["memory"] == 5.0  # the highest of each side
    assert found["efficiency"]["rollout"] == {"median": 0.5, "min": 0.25, "max": 1.0}  # 10 in 1 s of 20 a second
    assert found["outside"]["all"]["median"] == pytest.approx(0.1)
    assert found["outside"]["draw"]["median"] == pytest.approx(0.05)
    assert found["ours"]["tokens_per_second"]["median"] == 50
    assert "critic" not in found


def test_what_a_critic_adds_in_units_of_its_need() -> None:
    other = [{**step, "flops": {"values": 10, "critic_update": 30, "rollout": 9}} for step in OTHER]
    found = compare.summary(OURS, other, rate=20.0)["critic"]
    assert found["needed"] == 2.0
    assert found["seconds"] == {"median": 2.0, "min": 0.0, "max": 2.0} and found["ratio"]["median"] == 1.0


def facts() -> dict[str, Any]:
    machine = {"date": "2026-01-02", "processor": "P", "threads": 2, "memory": 8e9, "python": "3.11.0",
               "packages": {"torch": "2", "transformers": "5"}}  # fmt: skip
    pair = {"names": ["paribus", "TRL"], "versions": [{}, {"trl": "1.16.0"}], "pairs": 3,
            "flops": {"median": 20e9, "min": 19e9, "max": 21e9}, "steps": [OURS, OTHER],
            }  # fmt: skip
    return {"title": "GRPO", "model": "tiny", "machine": machine, "against": [pair]}


def test_the_page_holds_the_tables_of_all_files_and_its_own_words(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.json").write_text(json.dumps(facts() | {"title": name.upper()}))
    text = page.tables(tmp_path, ["a", "b", "absent"])
    assert text.index("### A") < text.index("### B")
    assert "| step, s | 2 (1 to 4) | 4 (3 to 4) | ×2.00 (1.00 to 3.00) |" in text
    assert "| peak RSS, GB | 1.00 | 5.00 | 5.00 |" in text and "2026-01-02, P, 2 threads" in text
    file = tmp_path / "page.md"
    file.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
    page.write(file, text)
    page.write(file, text)
    assert file.read_text() == f"before\n{page.BEGIN}\n{text}\n{page.END}\nafter\n"


def start(tmp_path: Path, fails: bool = False) -> run.Process:
    code = STAND_IN.format(folder=str(Path(run.__file__).parent), fails=fails)
    return run.Process([sys.executable, "-c", code], dict(os.environ), tmp_path / "side.log")


def test_a_side_answers_one_step_a_line_whatever_its_library_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "SETTLE", 0.0)
    side = start(tmp_path)
    assert [side.ask()["seconds"]["step"] for _ in range(3)] == [0.5, 1.5, 2.5]
    side.rest()  # asks for no step
    last = side.ask()
    assert last["seconds"]["step"] == 3.5 and last["peak_rss"] > 1e6
    side.close()
    assert "own words" in side.log.read_text()


def test_a_side_that_ends_is_reported_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"(?s)side ended with status 1.*no such model: fix the path"):
        start(tmp_path, fails=True)


def test_our_peak_memory_is_that_of_steps_without_rests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rest between two steps would hide what the heap keeps; the other library is given the benefit of it."""
    monkeypatch.setattr(run, "SETTLE", 0.0)
    runner = run.Runner(argparse.Namespace(out=tmp_path, threads=1, smollm2=None, pairs=2))
    monkeypatch.setattr(runner, "roofline", lambda: {"roofline": {"flops": 1.0}, "machine": {}})
    sides = [run.Side("a", "ours", "", ()), run.Side("b", "trl", "", ())]
    asked: list[str] = []
    found = list(runner._pairs("dpo-smollm2", sides, [Told("a", asked), Told("b", asked)]))  # type: ignore[list-item]
    pair, _ = found[-1]
    assert [one["pairs"] for one, _ in found] == [1, 2, 2]
    assert asked == ["a", "a rests", "b", "b rests"] * 3 + ["b ends", "a", "a", "a ends"]
    assert [s["peak_rss"] for s in pair["steps"][0]] == [2, 5] and [s["peak_rss"] for s in pair["steps"][1]] == [2, 3]


def test_none_rests_where_both_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "SETTLE", 0.0)
    runner = run.Runner(argparse.Namespace(out=tmp_path, threads=1, smollm2=None, pairs=2))
    monkeypatch.setattr(runner, "roofline", lambda: {"roofline": {"flops": 1.0}, "machine": {}})
    asked: list[str] = []
    sides = [run.Side("a", "ours", "", ()), run.Side("b", "trl", "", ())]
    list(runner._pairs("dpo-tiny", sides, [Told("a", asked), Told("b", asked)]))  # type: ignore[list-item]
    assert asked == ["a", "b"] * 3


def test_what_was_measured_is_kept_pair_by_pair_and_beside_other_libraries(tmp_path: Path) -> None:
    """Each other has its place in the file; one measured anew replaces itself; another machine's figures go."""
    runner = run.Runner(argparse.Namespace(out=tmp_path, threads=1, smollm2=None, pairs=2))
    others = [other.name for other in run.COMPARISONS["grpo-smollm2"].others]
    here, elsewhere = {"processor": "here"}, {"processor": "elsewhere"}

    def keep(number: int, pairs: int, machine: dict[str, str]) -> list[tuple[str, int]]:
        runner._keep("grpo-smollm2", {"names": ["paribus", others[number]], "pairs": pairs}, machine)
        listed = json.loads((tmp_path / "grpo-smollm2.json").read_text())["against"]
        return [(pair["names"][1], pair["pairs"]) for pair in listed]

    assert keep(1, 1, here) == [(others[1], 1)]
    assert keep(0, 1, here) == [(others[0], 1), (others[1], 1)]
    assert keep(0, 2, here) == [(others[0], 2), (others[1], 1)]
    assert keep(1, 5, elsewhere) == [(others[1], 5)]


class Told:
    """A side that writes down what it is told; its peak is the number of its steps."""

    def __init__(self, name: str, asked: list[str]) -> None:
        self.name, self.asked, self.steps, self.facts = name, asked, 0, {"versions": {}, "threads": 1}

    def ask(self) -> dict[str, Any]:
        self.asked.append(self.name)
        self.steps += 1
        return {"seconds": {"step": 1.0}, "tokens": 1, "peak_rss": self.steps}

    def rest(self) -> None:
        self.asked.append(f"{self.name} rests")

    def close(self) -> None:
        self.asked.append(f"{self.name} ends")


def test_every_comparison_names_a_script_that_is_there() -> None:
    for comparison in run.COMPARISONS.values():
        for side in (comparison.ours, *comparison.others):
            assert (run.HERE / side.script).is_file()
            assert "paribus" not in (run.HERE / side.script).read_text() or side.tool == "ours"
