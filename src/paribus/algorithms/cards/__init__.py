"""Cards: where each setting of a catalogue entry comes from, and where the entry departs from its source.

A source names the place in the paper or in the code; words in quotation marks are the source's own.
"""

from __future__ import annotations

from collections.abc import Mapping

from paribus.algorithms.cards import credit, flavours, grpo, offline, ppo, ratio, reinforce, rollout, trust, verl
from paribus.algorithms.cards.card import Card

CARDS: Mapping[str, Card] = {
    **reinforce.CARDS,
    **ppo.CARDS,
    **grpo.CARDS,
    **ratio.CARDS,
    **trust.CARDS,
    **credit.CARDS,
    **rollout.CARDS,
    **verl.CARDS,
    **offline.CARDS,
    **flavours.CARDS,
}

__all__ = ["CARDS", "Card"]
