"""The maths of every method: Parts (pure functions with declared fields), composed into values that can be compared."""

from paribus.algorithms.advantage import (
    BatchBaseline,
    EmaBaseline,
    FixedBaseline,
    Gae,
    GroupMean,
    GroupZScore,
    LeaveOneOut,
)
from paribus.algorithms.aggregate import Constant, SequenceMeanTokenMean, SequenceMeanTokenSum, TokenMean
from paribus.algorithms.catalog import CATALOG, find
from paribus.algorithms.critic import Critic
from paribus.algorithms.keep import All, DropUniform
from paribus.algorithms.kl import Kl
from paribus.algorithms.metrics import signal_stats
from paribus.algorithms.shaping import KlInReward, OutcomeAtEnd, SoftOverlong
from paribus.algorithms.slot import Memory, Need
from paribus.algorithms.spec import PolicyGradient
from paribus.algorithms.surrogate import Clip, Reinforce, SequenceRatio, TokenRatio
from paribus.algorithms.whiten import Whiten

__all__ = [
    "CATALOG",
    "All",
    "BatchBaseline",
    "Clip",
    "Constant",
    "Critic",
    "DropUniform",
    "EmaBaseline",
    "FixedBaseline",
    "Gae",
    "GroupMean",
    "GroupZScore",
    "Kl",
    "KlInReward",
    "LeaveOneOut",
    "Memory",
    "Need",
    "OutcomeAtEnd",
    "PolicyGradient",
    "Reinforce",
    "SequenceMeanTokenMean",
    "SequenceMeanTokenSum",
    "SequenceRatio",
    "SoftOverlong",
    "TokenMean",
    "TokenRatio",
    "Whiten",
    "find",
    "signal_stats",
]
