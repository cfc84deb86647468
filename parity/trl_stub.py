"""A trainer of TRL without its `__init__`: an object with the attributes that the methods under test read."""

from __future__ import annotations

import warnings
from collections import defaultdict
from typing import Any

from accelerate import Accelerator


def trainer_of(kind: Any, config: Any, **attributes: Any) -> Any:
    """A trainer of that class with what all of TRL's losses read."""
    trainer = object.__new__(kind)
    trainer.__dict__.update(
        args=config,
        accelerator=Accelerator(cpu=True),  # anew: making a config resets its shared state
        aux_loss_enabled=False,
        _metrics={"train": defaultdict(list)},
        **attributes,
    )
    return trainer


def config_of(kind: Any, settings: dict[str, Any]) -> Any:
    """TRL's defaults and the case's settings, for one process on the CPU."""
    own = {"output_dir": "unused", "use_cpu": True, "bf16": False, "gradient_checkpointing": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return kind(**own, **settings)
