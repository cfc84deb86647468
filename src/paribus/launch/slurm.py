"""Files for Slurm: a job for the base, an array with a task for each arm and seed after it, a job for the report."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from paribus.experiment import Experiment
from paribus.launch.commands import Commands, write_scripts

LEAD = 300  # seconds before its time limit when a job is asked to stop after its step

JOB = """#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --chdir={cwd}
#SBATCH --output={log}
#SBATCH --open-mode=append
#SBATCH --ntasks=1
{resources}
# before its time limit a run ends its step, saves and stops; submitted or queued again, it goes on from there
#SBATCH --signal=B:TERM@{lead}
#SBATCH --requeue
"""

RUNS = """#SBATCH --array=0-{last}
runs=(
{runs}
)
read -r arm seed <<< "${{runs[$SLURM_ARRAY_TASK_ID]}}"
exec {command}
"""

REPORT = """#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --chdir={cwd}
#SBATCH --output={log}
#SBATCH --ntasks=1
exec {command}
"""

SUBMIT = """#!/bin/bash
# Submit all jobs; options for sbatch may follow: bash submit.sh --partition=gpu --time=12:00:00 --mem=16G
# Done again, it skips finished runs and goes on with interrupted ones: but not while jobs of the last time are at work.
set -euo pipefail
cd "$(dirname "$0")"
base=$(sbatch --parsable "$@" base.sh)
runs=$(sbatch --parsable --dependency=afterok:"${base%%;*}" --kill-on-invalid-dep=yes "$@" runs.sh)
report=$(sbatch --parsable --dependency=afterany:"${runs%%;*}" "$@" report.sh)
echo "base ${base%%;*}, then runs ${runs%%;*}, then report ${report%%;*}"
"""


def write_slurm(
    exp: Experiment,
    file: Path,
    folder: Path,
    runs: Path,
    overrides: Sequence[str] = (),
    program: str = f"{shlex.quote(sys.executable)} -m paribus",
) -> list[Path]:
    """Write `base.sh`, `runs.sh`, `report.sh` and `submit.sh` into `folder`, and return their paths.

    Paths and the program are those of this machine: every node must share them. Raises ConfigError where the file
    leaves open what a run takes.
    """
    commands = Commands(exp, program, str(file.resolve()), str(runs.resolve()), overrides)
    needs, every = commands.needs, commands.arms_and_seeds
    resources = [f"#SBATCH --cpus-per-task={needs.cpus}"] + ["#SBATCH --gres=gpu:1"] * needs.gpus

    def head(job: str, log: str, text: str = JOB) -> str:
        return text.format(
            name=f"{exp.name}-{job}",
            cwd=shlex.quote(str(Path.cwd())),
            log=shlex.quote(str(folder.resolve() / log)),
            resources="\n".join(resources),
            lead=LEAD,
            command=commands.report,
        )

    rows = "\n".join(f"  '{job.arm} {job.seed}'" for job in every)
    array = RUNS.format(last=len(every) - 1, runs=rows, command=commands.arm)
    texts = {
        "base.sh": f"{head('base', 'base-%j.log')}exec {commands.base}\n",
        "runs.sh": head("runs", "runs-%A_%a.log") + array,
        "report.sh": head("report", "report-%j.log", REPORT),
        "submit.sh": SUBMIT,
    }
    return write_scripts(folder, texts)
