"""Rewards: what training optimises, made of verdicts, user functions, reward models, noise; and rewards of steps."""

from __future__ import annotations

from paribus.rewards.base import Judged, ModelScorer, Response, counted
from paribus.rewards.combine import Composite, Noisy, RewardSpec, Term, judge, models_of, row_functions
from paribus.rewards.function import Function
from paribus.rewards.kinds import ModelReward, Sentiment, TaskReward
from paribus.rewards.steps import FunctionSteps, Lines, ModelSteps, StepScore, StepSpec, StoriesSteps, step_scores

__all__ = [
    "Composite",
    "Function",
    "FunctionSteps",
    "Judged",
    "Lines",
    "ModelReward",
    "ModelScorer",
    "ModelSteps",
    "Noisy",
    "Response",
    "RewardSpec",
    "Sentiment",
    "StepScore",
    "StepSpec",
    "StoriesSteps",
    "TaskReward",
    "Term",
    "counted",
    "judge",
    "models_of",
    "row_functions",
    "step_scores",
]
