"""The command lines that jobs of other schedulers run: the base, one arm with one seed, the report."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paribus.experiment import Experiment
from paribus.launch.needs import Needs, needs_of
from paribus.pipeline.compare import jobs
from paribus.pipeline.crew import Job
from paribus.store import BASE


@dataclass(frozen=True)
class Commands:
    """What the jobs of an experiment run; `program` is how a shell calls Paribus, `runs` the folder of all runs."""

    exp: Experiment
    program: str
    file: str
    runs: str
    overrides: Sequence[str] = ()

    @property
    def arms_and_seeds(self) -> list[Job]:
        """Return every run but the base, in the order in which they begin."""
        return [job for job in jobs(self.exp) if job.arm is not None]

    @property
    def needs(self) -> Needs:
        """Return what every run takes, or the largest of them. Raises ConfigError as `needs_of` does."""
        every = [needs_of(self.exp, job) for job in jobs(self.exp)]
        return Needs(max(n.cpus for n in every), max(n.gpus for n in every))

    @property
    def base(self) -> str:
        """The base's evaluation and the trials of [tune], which must be over before any other job begins."""
        return f"{self._run} --arm={BASE}"

    @property
    def arm(self) -> str:
        """One run, by the shell variables `arm` and `seed`."""
        return f'{self._run} --arm="$arm" --seed="$seed"'

    @property
    def report(self) -> str:
        return f"{self.program} report {shlex.quote(f'{self.runs}/{self.exp.name}')}"

    @property
    def _run(self) -> str:
        """A run by itself, as far as its job knows; what else is at work on its machine the recorded times tell."""
        sets = [word for value in (*self.overrides, "machine.parallel=1") for word in ("--set", value)]
        words = shlex.join([self.file, "--runs", self.runs, "--no-report", *sets])
        return f"{self.program} run {words}"


def write_scripts(folder: Path, texts: dict[str, str]) -> list[Path]:
    """Write files into a folder, which is made where it is not there, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]
