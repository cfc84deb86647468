"""advice.json: what a pilot measured, what the rules made of it, and the prediction that the real runs will score."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from paribus.store import files, provenance
from paribus.store.schema import SCHEMA_VERSION, Row

FILE = "advice.json"
Outcome = Literal["above", "below", "straddles", "not measured"]


class SaidRow(Row):
    """A sentence that can be said in several languages: its English template and what fills the gaps."""

    template: str
    fields: Mapping[str, str] = {}


class MeasuredRow(Row):
    """A number with its 95 % interval; `n` counts the units that were resampled. A null bound is infinite."""

    estimate: float
    low: float | None
    high: float | None
    n: int


class SignalRow(Row):
    """One quantity of the pilot."""

    name: SaidRow
    value: MeasuredRow


class FindingRow(Row):
    """What one rule found: its measure against its boundary, and what follows for the choice of method.

    `more` is how many further units (prompts, timed steps) would part interval and boundary where they straddle; None
    where no number does. `favours` names traits of methods, as the rules declare them; `arm` the arm that a finding is
    about, where it is about one.
    """

    rule: int
    name: str
    signal: SaidRow
    value: MeasuredRow | None
    boundary: float
    outcome: Outcome
    effect: SaidRow
    source: str
    favours: tuple[str, ...] = ()
    more: int | None = None
    arm: str | None = None


class ArmAdvice(Row):
    """An arm that was weighed: `votes` of the rules, and the predicted cost of a run and of all its seeds."""

    arm: str
    base: str | None  # catalogue entry, of an arm that the file does not have
    votes: int
    dropped: bool  # by the memory rule
    training: MeasuredRow  # seconds of a run, evaluations left out
    run: MeasuredRow  # seconds of a run from its start to its end
    seeds: int


class Advice(Row):
    """What `paribus advise` recommends: two arms, the likelier winner first where the rules tell one (`ahead`)."""

    schema_version: int = SCHEMA_VERSION
    experiment: str
    created: str = ""  # ISO 8601, UTC; filled in by the writing
    prompts: int
    samples: int
    excluded: int  # prompts with a response that could not be judged
    signals: tuple[SignalRow, ...]
    findings: tuple[FindingRow, ...]
    arms: tuple[ArmAdvice, ...]
    recommended: tuple[str, str]
    ahead: str | None
    whole: MeasuredRow  # seconds of both recommended arms with all seeds, and the base
    price_per_hour: float


def write_advice(folder: Path, advice: Advice) -> Path:
    """Store the advice in an experiment's folder; a later one takes its place."""
    path = folder / FILE
    files.write_json(path, advice.model_copy(update={"created": provenance.now()}))
    return path
