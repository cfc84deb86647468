"""Generated job files: shells and YAML readers take them, their commands are ours, and each run is there once."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from typer.testing import CliRunner

from paribus.cli import app
from paribus.errors import ConfigError
from paribus.experiment import load_experiment
from paribus.launch import write_skypilot, write_slurm
from paribus.launch.needs import Needs, needs_of
from paribus.pipeline.compare import jobs
from paribus.pipeline.crew import Job

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = Path("experiments/quickstart.toml")
SETS = ["machine.device=cpu", 'question="what\'s better?"']
ECHO = "printf '%s\\n'"  # in place of the program: prints its arguments, one a line


@pytest.fixture(autouse=True)
def _at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def parsed(words: list[str]) -> dict[str, Any]:
    """Return the arguments of a command as our command line reads them. Raises where it would refuse them."""
    verb: Any = typer.main.get_command(app).commands[words[0]]  # type: ignore[attr-defined]
    return verb.make_context(words[0], words[1:]).params


def shell(path: Path, **environment: object) -> str:
    assert subprocess.run(["bash", "-n", path], capture_output=True).returncode == 0
    env = {**os.environ, **{k: str(v) for k, v in environment.items()}}
    done = subprocess.run(["bash", path], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def expected(exp: Any) -> list[tuple[str, int]]:
    return [(job.arm, job.seed) for job in jobs(exp) if job.arm is not None]


@pytest.fixture
def slurm(tmp_path: Path) -> Path:
    exp = load_experiment(QUICKSTART, SETS)
    write_slurm(exp, QUICKSTART, tmp_path / "a b", tmp_path / "all runs", SETS, program=ECHO)
    return tmp_path / "a b"


def test_slurm_tasks_are_every_arm_and_seed_once(slurm: Path, tmp_path: Path) -> None:
    exp = load_experiment(QUICKSTART, SETS)
    text = (slurm / "runs.sh").read_text()
    assert "#SBATCH --array=0-5\n" in text and "#SBATCH --cpus-per-task=1\n" in text and "gres" not in text
    found = []
    for task in range(6):
        words = parsed(shell(slurm / "runs.sh", SLURM_ARRAY_TASK_ID=task).splitlines())
        assert words["file"] == ROOT / QUICKSTART and words["runs"] == tmp_path / "all runs"
        assert words["overrides"] == [*SETS, "machine.parallel=1"] and not words["report"]
        found += [(arm, seed) for arm in words["arm"] for seed in words["seed"]]
    assert found == expected(exp) and len(set(found)) == 6


def test_slurm_does_the_base_alone_and_then_the_report(slurm: Path, tmp_path: Path) -> None:
    assert parsed(shell(slurm / "base.sh").splitlines())["arm"] == ["_base"]
    assert parsed(shell(slurm / "report.sh").splitlines())["folder"] == tmp_path / "all runs" / "quickstart"


def test_slurm_directives_stand_before_the_first_command(slurm: Path) -> None:
    for name in ("base.sh", "runs.sh", "report.sh"):
        lines = (slurm / name).read_text().splitlines()
        first = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
        assert not any(line.startswith("#SBATCH") for line in lines[first:])
        directives = [line.removeprefix("#SBATCH --") for line in lines[:first] if line.startswith("#SBATCH")]
        options = dict(line.split("=", 1) for line in directives if "=" in line)
        assert shlex.split(options["chdir"]) == [str(ROOT)]
        assert Path(shlex.split(options["output"])[0]).parent == slurm


def test_slurm_jobs_wait_for_each_other(slurm: Path, tmp_path: Path) -> None:
    log, tool = tmp_path / "log", tmp_path / "bin" / "sbatch"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/bash\necho "$@" >> {log}\necho "$(wc -l < {log});cluster"\n')
    tool.chmod(0o755)
    said = subprocess.run(
        ["bash", slurm / "submit.sh", "--partition=gpu", "--mem=16G"],
        capture_output=True, text=True, env={**os.environ, "PATH": f"{tool.parent}:{os.environ['PATH']}"}, cwd="/",
    )  # fmt: skip
    assert said.stdout == "base 1, then runs 2, then report 3\n", said.stderr
    options = "--partition=gpu --mem=16G"
    assert log.read_text().splitlines() == [
        f"--parsable {options} base.sh",
        f"--parsable --dependency=afterok:1 --kill-on-invalid-dep=yes {options} runs.sh",
        f"--parsable --dependency=afterany:2 {options} report.sh",
    ]


@pytest.fixture
def sky(tmp_path: Path) -> Path:
    exp = load_experiment(QUICKSTART, [*SETS[1:], "machine.device=cuda", "machine.threads=4"])
    overrides = [*SETS[1:], "machine.device=cuda", "machine.threads=4"]
    write_skypilot(exp, QUICKSTART, tmp_path / "sky", "s3://bucket/runs", "L4", overrides)
    return tmp_path / "sky"


def test_skypilot_tasks_are_yaml_and_their_commands_ours(sky: Path) -> None:
    for name in ("base.yaml", "run.yaml", "report.yaml"):
        task = yaml.safe_load((sky / name).read_text())
        assert task["workdir"] == "." and "paribus[train]==" in task["setup"]
        assert task["file_mounts"] == {"/paribus-runs": {"source": "s3://bucket/runs", "mode": "MOUNT_CACHED"}}
        program, *words = shlex.split(task["run"])
        assert program == "~/paribus-env/bin/paribus" and task["run"].startswith("~/")  # which the shell expands
        if name == "report.yaml":
            assert parsed(words)["folder"] == Path("/paribus-runs/quickstart")
            continue
        assert task["resources"] == {"cpus": "4+", "accelerators": "L4:1"}
        read = parsed([w.replace("$seed", "0") for w in words])
        assert read["file"] == QUICKSTART and read["runs"] == Path("/paribus-runs")
        assert read["arm"] == (["_base"] if name == "base.yaml" else ["$arm"])


def test_skypilot_launches_every_arm_and_seed_once(sky: Path, tmp_path: Path) -> None:
    log, tool = tmp_path / "log", tmp_path / "bin" / "sky"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/bash\ncat > /dev/null\necho "$@" >> {log}\n')
    tool.chmod(0o755)
    assert subprocess.run(["bash", "-n", sky / "submit.sh"]).returncode == 0
    env = {**os.environ, "PATH": f"{tool.parent}:{os.environ['PATH']}"}
    subprocess.run(["bash", sky / "submit.sh", "--use-spot"], check=True, env=env, stdin=subprocess.DEVNULL)
    base, *lines = log.read_text().splitlines()
    assert base == f"jobs launch -y --use-spot {sky}/base.yaml"  # not detached: the runs are launched once it is over
    launched = []
    for line in lines:
        words = line.split()
        given = dict(w.split("=") for w in words if w.startswith(("arm=", "seed=")))
        assert words[-1] == f"{sky}/run.yaml" and "-d" in words
        launched.append((given["arm"], int(given["seed"])))
    assert launched == expected(load_experiment(QUICKSTART))


def test_a_volume_is_mounted_as_one(tmp_path: Path) -> None:
    exp = load_experiment(QUICKSTART, SETS)
    write_skypilot(exp, QUICKSTART, tmp_path, "shared-runs", overrides=SETS)
    task = yaml.safe_load((tmp_path / "run.yaml").read_text())
    assert task["volumes"] == {"/paribus-runs": "shared-runs"} and task["resources"] == {"cpus": "1+"}
    assert task["envs"] == {"arm": "ppo", "seed": "0"}


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ([], "machine.device = 'auto'.*--set machine.device=cpu"),
        (["machine.device=cuda:1"], "the scheduler chooses the device"),
        (["machine.device=cpu", "model.path=some/model"], "machine.threads is not set"),
        (["machine.device=cuda", "machine.threads=2"], "--gpu L4"),
    ],
)
def test_what_a_run_takes_must_be_said(sets: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        write_skypilot(load_experiment(QUICKSTART, sets), QUICKSTART, tmp_path, "runs", overrides=sets)


def test_a_run_on_a_gpu_takes_one_and_its_threads() -> None:
    exp = load_experiment(QUICKSTART, ["machine.device=cuda", "machine.threads=4"])
    assert needs_of(exp, Job("ppo", 0)) == needs_of(exp, Job(None, 0)) == Needs(cpus=4, gpus=1)


def test_a_file_that_would_not_be_uploaded_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the folder that SkyPilot is to upload"):
        write_skypilot(load_experiment(QUICKSTART, SETS), ROOT / QUICKSTART, tmp_path, "runs", overrides=SETS)


def test_the_command_line_writes_the_files_and_names_them(tmp_path: Path) -> None:
    command = ["launch", "slurm", str(QUICKSTART), "-o", str(tmp_path), "--set", SETS[0]]
    said = CliRunner().invoke(app, command)
    assert said.exit_code == 0, said.output
    names = ["base.sh", "runs.sh", "report.sh", "submit.sh"]
    assert said.stdout.splitlines() == [str(tmp_path / name) for name in names]
    assert sys.executable in (tmp_path / "base.sh").read_text()


def test_arms_that_differ_undeclared_are_not_launched(tmp_path: Path) -> None:
    said = CliRunner().invoke(
        app, ["launch", "slurm", str(QUICKSTART), "-o", str(tmp_path / "jobs"), "--set", SETS[0], "--set", "differs=[]"]
    )
    assert said.exit_code == 1 and not (tmp_path / "jobs").exists()
