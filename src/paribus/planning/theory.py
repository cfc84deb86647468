"""The theoretical table of memory, models times bytes per parameter, and the readings of "GRPO saves a third" in it."""

from __future__ import annotations

from typing import NamedTuple

FROZEN = 2  # bytes of a parameter in half precision
TRAINED = 2 + 2 + 4 + 4 + 4  # mixed-precision Adam: weights, gradients, float32 master copy, two moments


class Setup(NamedTuple):
    """Which models are in memory at once."""

    name: str
    trained: int
    frozen: int

    def weights(self, parameters: float) -> float:
        """Bytes of all weights alone."""
        return FROZEN * parameters * (self.trained + self.frozen)

    def training(self, parameters: float) -> float:
        """Bytes of weights, gradients and optimizer."""
        return parameters * (TRAINED * self.trained + FROZEN * self.frozen)


PPO_RM = Setup("PPO with a reward model", 2, 2)
PPO = Setup("PPO, verifiable reward", 2, 1)
GRPO_RM = Setup("GRPO with a reward model", 1, 2)
GRPO = Setup("GRPO, verifiable reward, KL", 1, 1)
GRPO_ALONE = Setup("GRPO, verifiable reward, no KL", 1, 0)
SETUPS = (PPO_RM, PPO, GRPO_RM, GRPO, GRPO_ALONE)


class Saving(NamedTuple):
    """One reading of what GRPO saves: of which two setups, counted how."""

    of: Setup
    against: Setup
    counted: str
    share: float


def savings(parameters: float) -> list[Saving]:
    """Return the readings that are in use; each share is less memory than PPO of the same reward."""
    return [
        Saving(mine, other, counted, 1 - count(mine) / count(other))
        for counted, count in (
            ("weights alone", lambda s: s.weights(parameters)),
            ("weights, gradients, optimizer", lambda s: s.training(parameters)),
        )
        for mine, other in ((GRPO, PPO), (GRPO_RM, PPO_RM))
    ]


def rows(parameters: float) -> list[list[str]]:
    """Return the table's lines: setup, models, GB of weights, GB with gradients and optimizer."""
    return [
        [s.name, str(s.trained + s.frozen), f"{s.weights(parameters) / 1e9:g}", f"{s.training(parameters) / 1e9:g}"]
        for s in SETUPS
    ]


HEADER = ["all models of one size", "models", "weights alone, GB", "with gradients and Adam, GB"]


def readings(parameters: float) -> list[str]:
    """Return each reading of the saving as a sentence."""
    return [
        f"{s.of.name} against {s.against.name}, {s.counted}: {100 * s.share:.0f} % less" for s in savings(parameters)
    ]
