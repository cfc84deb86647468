"""The maths of every method: Parts (pure functions with declared fields), composed into values that can be compared."""

from paribus.algorithms.advantage import (
    BatchBaseline,
    Bnpo,
    EmaBaseline,
    FixedBaseline,
    GroupMean,
    GroupMeanBatchStd,
    GroupStepZScore,
    GroupZScore,
    LeaveOneOut,
)
from paribus.algorithms.aggregate import Constant, SequenceMeanTokenMean, SequenceMeanTokenSum, TokenMean
from paribus.algorithms.bradley_terry import BradleyTerry
from paribus.algorithms.catalog import CATALOG, Algorithm, find
from paribus.algorithms.correction import GeometricMask, MaskedSequence, MaskedToken, TruncatedSequence, TruncatedToken
from paribus.algorithms.critic import Critic
from paribus.algorithms.divergence import BinaryKl, BinaryTv, TopkKl, TopkTv
from paribus.algorithms.explore import NeighbourMix
from paribus.algorithms.keep import All, DropUniform, Keep, Refill
from paribus.algorithms.kl import Kl
from paribus.algorithms.metrics import signal_stats
from paribus.algorithms.offline import (
    DemonstrationFile,
    FileSource,
    LabelFile,
    Offline,
    OwnLabels,
    OwnPairs,
    OwnRight,
    OwnSource,
    PairFile,
)
from paribus.algorithms.preference import Dpo, Hinge, Ipo, Orpo, SimPo
from paribus.algorithms.returns import Gae, GreedyBaseline, ReturnToGo
from paribus.algorithms.selection import TopEntropy
from paribus.algorithms.shaping import AdaptiveKl, KlInReward, MissingEos, OutcomeAtEnd, SoftOverlong, StepRewards
from paribus.algorithms.slot import Memory, Need
from paribus.algorithms.soft import Cispo, Gmpo, Sapo
from paribus.algorithms.spec import PolicyGradient
from paribus.algorithms.surrogate import Clip, Reinforce, SequenceRatio, TokenRatio
from paribus.algorithms.trust import AdaptiveBudget, DivergenceMask, FixedBudget, PrefixBudget
from paribus.algorithms.unpaired import Kto, Sft
from paribus.algorithms.whiten import Whiten

__all__ = [
    "CATALOG",
    "AdaptiveBudget",
    "AdaptiveKl",
    "Algorithm",
    "All",
    "BatchBaseline",
    "BinaryKl",
    "BinaryTv",
    "Bnpo",
    "BradleyTerry",
    "Cispo",
    "Clip",
    "Constant",
    "Critic",
    "DemonstrationFile",
    "DivergenceMask",
    "Dpo",
    "DropUniform",
    "EmaBaseline",
    "FileSource",
    "FixedBaseline",
    "FixedBudget",
    "Gae",
    "GeometricMask",
    "Gmpo",
    "GreedyBaseline",
    "GroupMean",
    "GroupMeanBatchStd",
    "GroupStepZScore",
    "GroupZScore",
    "Hinge",
    "Ipo",
    "Keep",
    "Kl",
    "KlInReward",
    "Kto",
    "LabelFile",
    "LeaveOneOut",
    "MaskedSequence",
    "MaskedToken",
    "Memory",
    "MissingEos",
    "Need",
    "NeighbourMix",
    "Offline",
    "Orpo",
    "OutcomeAtEnd",
    "OwnLabels",
    "OwnPairs",
    "OwnRight",
    "OwnSource",
    "PairFile",
    "PolicyGradient",
    "PrefixBudget",
    "Refill",
    "Reinforce",
    "ReturnToGo",
    "Sapo",
    "SequenceMeanTokenMean",
    "SequenceMeanTokenSum",
    "SequenceRatio",
    "Sft",
    "SimPo",
    "SoftOverlong",
    "StepRewards",
    "TokenMean",
    "TokenRatio",
    "TopEntropy",
    "TopkKl",
    "TopkTv",
    "TruncatedSequence",
    "TruncatedToken",
    "Whiten",
    "find",
    "signal_stats",
]
