"""`paribus calibrate`: the spread of stored runs by hand, A/A splits, and a page that is its seed."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from paribus import calibration
from paribus.cli import app
from paribus.errors import DataError
from paribus.experiment import load_experiment
from paribus.planning.calibrate import Calibration, calibrate, judge_again, text
from paribus.stats import spread, verdicts
from paribus.stats.simulate import Design, draw
from storedruns import write_experiment_of


def answers(seed: int, arms: int = 2, seeds: int = 3, spread: float = 0.05) -> np.ndarray:
    return draw(Design(seeds, 80, spread, arms=arms), np.random.default_rng(seed))[0]


def stored(folder: Path, right: np.ndarray) -> Path:
    patterns = {
        f"arm{i}": {s: "".join("01"[int(x)] for x in row) for s, row in enumerate(arm)} for i, arm in enumerate(right)
    }
    return write_experiment_of(folder / "trial", patterns, base="1" * 40 + "0" * 40)


def quiet(line: str) -> None:
    pass


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Calibration:
    folder = stored(tmp_path_factory.mktemp("runs"), answers(0))
    return calibrate(folder, repeats=200, margin=12.0, report=quiet)


def test_the_spread_is_that_of_all_arms_with_its_chi_squared_interval(found: Calibration) -> None:
    tables = answers(0).astype(float)
    parts = spread({"a": tables[0], "b": tables[1]})
    assert found.between.parts == pytest.approx(parts)
    square = 80 * np.mean([t.mean(1).var(ddof=1) for t in tables])
    low = math.sqrt(max(0.0, square * 4 / 11.143287 - parts.residual**2) / 80)
    high = math.sqrt((square * 4 / 0.484419 - parts.residual**2) / 80)
    assert (found.between.low, found.between.high) == pytest.approx((low, high), rel=1e-5)
    assert (found.between.runs, found.between.arms) == (6, 2)
    assert found.between.accuracy == pytest.approx(tables.mean())


def test_the_design_is_simulated_at_none_half_and_the_detectable_difference_and_the_margin(found: Calibration) -> None:
    effect = found.detectable[0]
    assert list(found.simulated) == sorted([0.0, effect / 2, effect, 0.12])
    assert found.detectable[1] <= effect <= found.detectable[2]
    null, at = found.simulated[0.0], found.simulated[effect]
    assert null.wrong <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 200)
    assert at.better == pytest.approx(0.8, abs=0.1)


def test_the_text_says_where_the_numbers_come_from(found: Calibration) -> None:
    said = text(found)
    assert "trial, test:accuracy: 2 arms x 3 seeds x 80 problems, margin 12 points" in said
    assert "From 6 finished runs of 2 arms" in said
    assert f"{found.simulated[0.0].wrong:.1%}" in said
    assert "none is held against itself" in said


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    folder = stored(tmp_path, answers(1))
    one, other = (text(calibrate(folder, repeats=100, report=quiet)) for _ in "ab")
    assert one == other
    assert one != text(calibrate(folder, repeats=100, seed=1, report=quiet))
    assert "no margin declared" in one and "within the margin" not in one


def test_six_runs_of_an_arm_have_twenty_splits_judged_as_verdicts_do() -> None:
    runs = answers(2, seeds=6, spread=0.02)[0].astype(float)
    got = judge_again("ppo", runs, 0.15)
    assert (got.splits, got.possible, got.size) == (20, 20, 3)
    kinds = []
    for mask in range(64):
        one = [i for i in range(6) if mask >> i & 1]
        if len(one) == 3:
            other = [i for i in range(6) if i not in one]
            kinds.append(verdicts({"a": runs[one], "b": runs[other]}, [("a", "b")], margin=0.15)[0].kind)
    assert got.better == sum(k in ("better", "better_within") for k in kinds)
    assert got.close == sum(k in ("equivalent", "better_within") for k in kinds)


def test_identical_runs_are_called_identical() -> None:
    runs = np.repeat(answers(3)[0, :1], 4, axis=0).astype(float)
    got = judge_again("ppo", runs, None)
    assert (got.splits, got.better, got.identical) == (6, 0, 6)


def test_odd_and_many_runs(tmp_path: Path) -> None:
    five = judge_again("a", answers(4, seeds=5)[0].astype(float), None)
    assert (five.size, five.splits) == (2, 30)
    many = judge_again("a", answers(4, seeds=13)[0].astype(float), None)
    assert many.splits == 1000 < many.possible == math.comb(13, 6) * 7
    said = text(calibrate(stored(tmp_path, answers(5, seeds=4)), repeats=100, report=quiet))
    assert "A/A, arm0 against itself: 6 ordered splits of its 4 runs into 2 + 2" in said


def test_more_arms_are_judged_with_holm(tmp_path: Path) -> None:
    got = calibrate(stored(tmp_path, answers(6, arms=3)), repeats=150, report=quiet)
    assert len(got.plan.design.pairs) == 3 and "Holm over 3 pairs" in text(got)
    assert got.simulated[0.0].wrong <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 150)


def test_a_file_plans_other_numbers_than_its_runs_had(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    file = tmp_path / "trial.toml"
    written = (root / "experiments" / "quickstart.toml").read_text(encoding="utf-8")
    file.write_text(written.replace('name = "quickstart"', 'name = "trial"'), encoding="utf-8")
    exp = load_experiment(file)
    stored(tmp_path, answers(8))
    got = calibrate(file, tmp_path, repeats=100, report=quiet)
    assert got.plan.design[:2] == (len(exp.seeds), 80) and got.plan.name == "trial"
    assert got.plan.margin == (None if exp.margin is None else exp.margin / 100)


def test_on_the_command_line_progress_is_apart_from_the_result(tmp_path: Path) -> None:
    folder = stored(tmp_path, answers(9))
    got = CliRunner().invoke(app, ["calibrate", str(folder), "--repeats", "100", "--margin", "10"])
    assert got.exit_code == 0, got.output
    assert got.stdout.strip() == text(calibrate(folder, repeats=100, margin=10.0, report=quiet))
    assert "simulated 1 of 4" in got.stderr


def test_one_arm_is_planned_against_itself(tmp_path: Path) -> None:
    got = calibrate(stored(tmp_path, answers(10, seeds=6)[:1]), repeats=100, report=quiet)
    assert got.plan.design[:2] == (3, 80) and got.plan.design.arms == 2
    assert [(a.arm, a.splits) for a in got.again] == [("arm0", 20)]
    assert "3 + 3 seeds of one arm x 80 problems" in text(got) and "From 6 finished runs of 1 arm" in text(got)


def test_what_cannot_be_calibrated_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="one seed an arm"):
        calibrate(stored(tmp_path / "a", answers(7, seeds=1)), report=quiet)
    with pytest.raises(DataError, match="fewer than four"):
        calibrate(stored(tmp_path / "b", answers(7)[:1]), report=quiet)
    with pytest.raises(DataError, match="between 0 and 1"):
        calibrate(stored(tmp_path / "d", np.zeros((2, 2, 80))), report=quiet)
    patterns = {"a": {0: "10" * 9}, "b": {1: "01" * 9}}
    with pytest.raises(DataError, match="two finished runs"):
        calibrate(write_experiment_of(tmp_path / "c", patterns), report=quiet)


def test_the_tables_of_the_documentation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "PROBLEMS", (40,))
    monkeypatch.setattr(calibration, "SPREADS", (0.0, 0.03))
    monkeypatch.setattr(calibration, "SEEDS", (3,))
    monkeypatch.setattr(calibration, "PAIRED_REPEATS", 100)
    monkeypatch.setattr(calibration, "AGAIN", 2)
    lines: list[str] = []
    page = calibration.page(60, 0, lines.append)
    assert page == calibration.page(60, 0, quiet)
    assert lines[0].startswith("1 of 4") and sum("unequal" in line for line in lines) == 4
    rows = [line for line in page.splitlines() if line.startswith("| 40 |")]
    assert len(rows) == 4 and all(row.count("|") == 14 for row in rows)
    assert "of 4 |" in page and "| both floors |" in page
