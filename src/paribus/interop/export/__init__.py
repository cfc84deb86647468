"""Experiments as folders for other trainers: every factor written, relied on by name, or refused with the reason.

export_arms(exp, "verl", Path("export"), "0.9.1")    -> [export/ppo, export/grpo]
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from paribus.experiment import Experiment


def export_arms(
    exp: Experiment,
    tool: Literal["verl", "trl"],
    out: Path,
    target: str = "",
    *,
    arms: Sequence[str] = (),
    gpus: int = 1,
    micro_batch: int = 16,
    allow_approximate: bool = False,
) -> list[Path]:
    """Write `out/<arm>` for each arm (or those named) and return the folders; an empty `target` is the newest release.

    Raises ConfigError with every reason why an arm cannot be the same there; then nothing is written.
    """
    if tool == "verl":
        from paribus.interop.export.verl import NEWEST, export_verl

        return export_verl(
            exp,
            out,
            target or NEWEST,
            arms=arms,
            gpus=gpus,
            micro_batch=micro_batch,
            allow_approximate=allow_approximate,
        )
    from paribus.interop.export.trl import RELEASE, export_trl

    return export_trl(
        exp,
        out,
        target or RELEASE,
        arms=arms,
        gpus=gpus,
        micro_batch=micro_batch,
        allow_approximate=allow_approximate,
    )
