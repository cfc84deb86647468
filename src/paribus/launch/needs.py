"""What one run takes of a machine that the scheduler of a cluster chooses."""

from __future__ import annotations

from typing import NamedTuple

from paribus.engines.machine import threads_of
from paribus.errors import ConfigError
from paribus.experiment import Experiment
from paribus.pipeline.crew import Job


class Needs(NamedTuple):
    """CPU cores and GPUs of one run."""

    cpus: int
    gpus: int

    def __str__(self) -> str:
        return f"{self.cpus} CPU{'s' * (self.cpus > 1)}" + (f" and {self.gpus} GPU" if self.gpus else "")


def needs_of(exp: Experiment, job: Job) -> Needs:
    """Return what a run takes. Raises ConfigError where the file leaves it to the machine that the run happens to get.

    Left open, it would differ from node to node, and with it the last bits and the cost of the runs to be compared.
    """
    setting = exp.setting if job.arm is None else exp.arms[job.arm].setting(exp.setting)
    machine, model = setting.machine, setting.model
    if machine.device not in ("cpu", "cuda"):
        raise ConfigError(
            f"machine.device = '{machine.device}': on other machines the scheduler chooses the device, of the kind "
            'that the file names: "cuda" (one GPU for each run) or "cpu", e.g. --set machine.device=cpu'
        )
    threads = threads_of(machine, model)
    if threads is None:
        raise ConfigError(
            "machine.threads is not set: on other machines each run takes as many CPU cores as it has threads; "
            "e.g. --set machine.threads=4"
        )
    return Needs(threads, int(machine.device == "cuda"))
