"""`paribus export` and `paribus ingest` from the command line, with the embedded tokenizer."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from exports import experiment, table, write_data
from paribus.cli import app
from paribus.errors import ConfigError
from paribus.part import to_toml
from paribus.store import read_experiment


def test_an_arm_goes_out_and_comes_back(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    file, out = tmp_path / "sums.toml", tmp_path / "runs"
    file.write_text(to_toml(table(data)))
    run = CliRunner().invoke

    done = run(app, ["export", "verl", str(file), "--arm", "grpo", "--micro-batch", "16", "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    folder = tmp_path / "out" / "grpo"
    assert done.output.split() == [str(folder)]
    assert json.loads((folder / "manifest.json").read_text())["version"] == "0.9.1"

    place = folder / "runs" / "seed-1" / "validation" / "test" / "6.jsonl"
    place.parent.mkdir(parents=True)
    rows = [
        {"input": "user\n", "output": f"\\boxed{{{p.gold}}}", "score": 1.0, "step": 6, "problem_id": p.id}
        for p in experiment(data).setting.task.problems("test")
    ]
    place.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run(app, ["ingest", "verl", str(folder), "--tokenizer", "tiny", "-o", str(out)])
    assert done.exit_code == 0, done.output
    (stored,) = read_experiment(out).runs["grpo"].values()
    assert stored.info.seed == 1 and [row.score for row in stored.eval("test")] == [1.0] * 6
    assert all(row.tokens > 0 for row in stored.eval("test"))


def test_a_refusal_names_every_reason(tmp_path: Path) -> None:
    file = tmp_path / "sums.toml"
    file.write_text(to_toml(table(write_data(tmp_path / "data"))))
    done = CliRunner().invoke(app, ["export", "verl", str(file), "--target", "0.5.0", "-o", str(tmp_path / "out"),
                                    "--micro-batch", "4"])  # fmt: skip
    assert isinstance(done.exception, ConfigError)
    assert "algorithm.aggregate" in str(done.exception) and "algorithm.critic.coef" in str(done.exception)
    assert not (tmp_path / "out").exists()
