"""The command line: quick to start, and every fault one clear message with a non-zero exit."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXPERIMENT = """
name = "cli"
question = "q"
primary = "test:accuracy"
seeds = [0]
differs = ["advantage", "whiten", "critic", "shaping", "kl", "aggregate"]
[model]
path = "{model}"
[task]
type = "jsonl"
path = "{data}"
[rollout]
prompts_per_step = 2
samples_per_prompt = 2
max_prompt = {max_prompt}
overlong = "{overlong}"
max_response = 4
[optim]
lr = 1e-4
[budget]
steps = 1
[eval.test]
max_response = 4
[machine]
device = "cpu"
threads = 1
[arm.ppo]
base = "ppo"
[arm.grpo]
base = "grpo"
"""


def paribus(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paribus", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300)


def refused(result: subprocess.CompletedProcess[str], *parts: str) -> None:
    """A clear error: non-zero, at most a screen, no traceback, and it names what has to be named."""
    assert result.returncode not in (0, -9), result.stdout + result.stderr
    text = result.stderr
    assert "Traceback" not in text and len(text.splitlines()) <= 24, text
    for part in parts:
        assert part in text, text


def write(tmp: Path, *, rows: list[dict[str, object]] | None = None, **changes: object) -> Path:
    """Write an experiment with its data folder; `changes` fill the template."""
    data = tmp / "data"
    data.mkdir(exist_ok=True)
    rows = [{"question": f"What is {a} + 1?", "answer": str(a + 1)} for a in range(3)] if rows is None else rows
    for split in ("train", "test"):
        (data / f"{split}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    values = {"model": "tiny", "data": data, "max_prompt": 64, "overlong": "error"} | changes
    file = tmp / "exp.toml"
    file.write_text(EXPERIMENT.format(**values), encoding="utf-8")
    return file


def test_list_show_diff_and_plan_print_what_they_promise() -> None:
    assert "grpo" in paribus("list").stdout
    assert "std" in paribus("show", "grpo").stdout
    toml = paribus("show", "grpo", "--toml").stdout
    assert 'type = "group_z_score"' in toml
    rows = paribus("diff", "verl_05_ppo", "verl_05_grpo").stdout
    assert "whiten" in rows and "critic.warmup" in rows and "critic.init" in rows
    plan = paribus("plan", ROOT / "experiments" / "gsm8k-qwen05b.toml")
    assert plan.returncode == 0 and "Controlled" in plan.stdout


def test_plan_exits_1_when_a_difference_is_undeclared(tmp_path: Path) -> None:
    file = write(tmp_path)
    file.write_text(file.read_text().replace('"whiten", ', ""))
    result = paribus("plan", file)
    assert result.returncode == 1 and "NOT CONTROLLED" in result.stdout and "whiten" in result.stdout
    assert paribus("run", file, "--runs", tmp_path).returncode == 1  # and it does not run by accident


@pytest.mark.parametrize("verb", ["--help", "list"])
def test_light_verbs_start_quickly(verb: str) -> None:
    """Half a second is the promise on a quiet machine; CPU seconds of the process are what a busy one can tell."""
    code = "import resource, sys; from paribus.cli import main; sys.argv = ['paribus', sys.argv[1]]\n"
    code += "try:\n    main()\nexcept SystemExit:\n    pass\n"
    code += "u = resource.getrusage(resource.RUSAGE_SELF); print(u.ru_utime + u.ru_stime)"
    best = min(
        float(subprocess.run([sys.executable, "-c", code, verb], capture_output=True, text=True).stdout.split()[-1])
        for _ in range(3)
    )
    assert best < 0.8


def test_faults_of_the_experiment_file(tmp_path: Path) -> None:
    refused(paribus("run", tmp_path / "absent.toml"), "absent.toml", "no such file")
    file = write(tmp_path)
    refused(paribus("run", file, "--set", "optim.lrr=1"), "optim.lrr", "did you mean 'lr'")
    refused(paribus("run", file, "--arm", "gppo"), "no arm 'gppo'", "ppo, grpo")
    refused(paribus("run", file, "--set", "rollout.samples_per_prompt=1"), "samples_per_prompt")
    refused(paribus("run", file, "--set", 'arm.ppo.critic="none"'), "critic")
    refused(paribus("show", "gppo"), "did you mean")
    refused(paribus("report", tmp_path / "nothing"), "nothing")


def test_faults_of_the_data(tmp_path: Path) -> None:
    runs = ("--runs", tmp_path / "runs")
    refused(paribus("run", write(tmp_path, rows=[]), *runs), "jsonl", "no problems")
    rows: list[dict[str, object]] = [{"qustion": "1+1?", "answer": "2"}]
    refused(paribus("run", write(tmp_path, rows=rows), *runs), "jsonl", "question")
    rows = [{"question": "1+1?", "answer": "2"}, {"question": "1+2?", "answer": None}]
    refused(paribus("run", write(tmp_path, rows=rows), *runs), "test.jsonl, row 1:", "answer")


def test_faults_of_the_model(tmp_path: Path) -> None:
    runs = ("--runs", tmp_path / "runs")
    refused(paribus("run", write(tmp_path, model=tmp_path / "none"), *runs), "no such model folder")
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "config.json").write_text('{"model_type": "llama"}')
    refused(paribus("run", write(tmp_path, model=bare), *runs), "no tokenizer")


def test_a_long_prompt_follows_the_declared_policy(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"question": "What is 1 + 1? " * n, "answer": "2"} for n in (1, 1, 20)]
    runs = ("--runs", tmp_path / "runs")
    file = write(tmp_path, rows=rows, max_prompt=40)
    refused(paribus("run", file, "--arm", "grpo", *runs), "rollout.max_prompt = 40", '"drop"')
    dropped = paribus("run", write(tmp_path, rows=rows, max_prompt=40, overlong="drop"), "--arm", "grpo",
                      "--set", 'name="drop"', *runs)  # fmt: skip
    assert dropped.returncode == 0 and "1 training prompts longer" in dropped.stderr, dropped.stderr
    cut = paribus("run", write(tmp_path, rows=rows, max_prompt=40, overlong="cut"), "--arm", "grpo",
                  "--set", 'name="cut"', *runs)  # fmt: skip
    assert cut.returncode == 0, cut.stderr


def test_a_second_run_only_reports_and_another_configuration_is_refused(tmp_path: Path) -> None:
    file, runs = write(tmp_path), ("--runs", tmp_path / "runs")
    first = paribus("run", file, *runs)
    assert first.returncode == 0, first.stderr
    page = Path(first.stdout.splitlines()[-1])
    assert page.name == "report.html" and page.exists()
    began = time.perf_counter()
    second = paribus("run", file, *runs)
    assert second.returncode == 0 and second.stderr.count("finished earlier") == 3
    assert time.perf_counter() - began < 60 and second.stdout.splitlines()[-1] == str(page)
    changed = paribus("run", file, "--set", "optim.lr=1e-3", *runs)
    refused(changed, "another configuration")
