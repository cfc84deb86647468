"""Files for SkyPilot: a managed job for the base, one for each arm and seed after it, one for the report."""

from __future__ import annotations

import importlib.metadata
import shlex
from collections.abc import Sequence
from pathlib import Path

from paribus.errors import ConfigError
from paribus.experiment import Experiment
from paribus.launch.commands import Commands, write_scripts

MOUNT = "/paribus-runs"  # where the storage of all runs is found on every machine
ENV = "~/paribus-env"  # where Paribus is installed on every machine

TASK = """name: {name}
workdir: .
resources:
{resources}
{storage}
setup: |
  python3 -m pip install -q uv
  test -d {env} || uv venv -q --python 3.12 {env}
  uv pip install -q --python {env} 'paribus[train]=={version}'
run: |
  {command}
"""

RUN_ENVS = """envs:
  arm: {arm}
  seed: "{seed}"
"""

SUBMIT = """#!/bin/bash
# Submit all jobs, from the folder that holds what the experiment reads; options for sky may follow: --use-spot
# Done again, it skips finished runs and goes on with interrupted ones: but not while jobs of the last time are at work.
set -euo pipefail
here=$(dirname "$0")
sky jobs launch -y "$@" "$here"/base.yaml
while read -r arm seed; do
  sky jobs launch -y -d -n {name}-"$arm"-"$seed" --env arm="$arm" --env seed="$seed" "$@" "$here"/run.yaml < /dev/null
done <<'RUNS'
{runs}
RUNS
echo "when 'sky jobs queue' shows them done: sky jobs launch $here/report.yaml"
"""


def write_skypilot(
    exp: Experiment, file: Path, folder: Path, storage: str, gpu: str = "", overrides: Sequence[str] = ()
) -> list[Path]:
    """Write `base.yaml`, `run.yaml`, `report.yaml` and `submit.sh` into `folder`, and return their paths.

    `storage` is a bucket's URL or the name of a SkyPilot volume, `gpu` SkyPilot's name of the GPU of each run. Raises
    ConfigError where the file leaves open what a run takes, or lies outside the working folder, which is uploaded.
    """
    if file.is_absolute() or ".." in file.parts:
        raise ConfigError(f"{file}: name it from the folder that SkyPilot is to upload, which holds all that it reads")
    commands = Commands(exp, f"{ENV}/bin/paribus", file.as_posix(), MOUNT, overrides)
    needs, every = commands.needs, commands.arms_and_seeds
    if needs.gpus and not gpu:
        raise ConfigError('machine.device = "cuda": say which GPU each run gets, by SkyPilot\'s name, e.g. --gpu L4')
    resources = [f"  cpus: {needs.cpus}+"] + [f"  accelerators: {gpu}:1"] * needs.gpus
    if "://" in storage:
        mount = ["file_mounts:", f"  {MOUNT}:", f"    source: {storage}", "    mode: MOUNT_CACHED"]
    else:
        mount = ["volumes:", f"  {MOUNT}: {storage}"]

    def task(job: str, command: str, resources: Sequence[str]) -> str:
        return TASK.format(
            name=f"{exp.name}-{job}",
            resources="\n".join(resources),
            storage="\n".join(mount),
            env=ENV,
            version=importlib.metadata.version("paribus"),
            command=command,
        )

    first = every[0]
    texts = {
        "base.yaml": task("base", commands.base, resources),
        "run.yaml": task("run", commands.arm, resources) + RUN_ENVS.format(arm=first.arm, seed=first.seed),
        "report.yaml": task("report", commands.report, ["  cpus: 2+"]),
        "submit.sh": SUBMIT.format(
            name=shlex.quote(exp.name), runs="\n".join(f"{job.arm} {job.seed}" for job in every)
        ),
    }
    return write_scripts(folder, texts)
