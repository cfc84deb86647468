"""Card: what the catalogue says about one entry, and the phrases that several of them share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Card(NamedTuple):
    """`sources` by slot (see `PolicyGradient.slots`); `declared` are the fields that the source itself names as what
    sets the method apart from the one it is compared with. `flavour_of` is the entry that a library ships under this
    one's settings; `reward_model` marks a recipe that goes with a learned reward, which the experiment's table
    `reward` gives."""

    title: str
    sources: Mapping[str, str]
    deviations: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()
    flavour_of: str = ""
    reward_model: bool = False


OUTCOME = "score of the whole response, on its last token"
RATIO_GUARD = "the log-ratio is held within +-20, so that exp stays finite; the paper has no bound"
K3_GUARD = "lp_ref - lp is capped at 20 inside k3, so that exp stays finite; the paper has no cap"
NO_REWARD_MODEL = "the reward is the task's score; the paper trains a reward model"
