"""Offline: a method that trains on given answers, as one value; also the objective that a learner trains."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from paribus import tensors
from paribus.algorithms.keep import All
from paribus.algorithms.metrics import mean
from paribus.algorithms.preference import Dpo, Given, Hinge, Ipo, Orpo, Rows, SimPo
from paribus.algorithms.slot import Memory, Need, Slot, required
from paribus.algorithms.unpaired import Kto, Sft
from paribus.batch import Batch, Loss, Scores, Signal, Stats, Totals
from paribus.errors import ConfigError
from paribus.lazy import torch
from paribus.part import Part, without_defaults
from paribus.settings import Commit

Sampled = Literal["start", "policy"]  # by the policy that starts the run, or as it is now


class OwnPairs(Slot):
    """Two responses to one prompt whose scores differ by more than `min_gap`; at most `per_prompt` such pairs."""

    type: Literal["own_pairs"] = "own_pairs"
    of: Sampled = "start"
    per_prompt: int | None = Field(default=None, ge=1)  # None: every pair
    min_gap: float = Field(default=0.0, ge=0)

    gives: ClassVar[Given] = "pairs"
    samples: ClassVar[bool] = True  # its rows have to be sampled first
    needs: ClassVar[frozenset[Need]] = frozenset({Need.GROUP})
    formula: ClassVar[str] = "(good, bad): responses to one prompt with score_good - score_bad > min_gap"


class OwnLabels(Slot):
    """Every scored response, desirable from `threshold` on; and each prompt with another's response, to measure."""

    type: Literal["own_labels"] = "own_labels"
    of: Sampled = "start"
    threshold: float = 0.5

    gives: ClassVar[Given] = "labels"
    samples: ClassVar[bool] = True  # its rows have to be sampled first
    formula: ClassVar[str] = "good where score >= threshold, else bad; mismatched: another prompt's response"


class OwnRight(Slot):
    """Responses that score at least `threshold`: rejection sampling; at most `per_prompt` different ones."""

    type: Literal["own_right"] = "own_right"
    of: Sampled = "start"
    per_prompt: int | None = Field(default=None, ge=1)
    threshold: float = 0.5

    gives: ClassVar[Given] = "demonstrations"
    samples: ClassVar[bool] = True  # its rows have to be sampled first
    formula: ClassVar[str] = "demonstrations: responses with score >= threshold"


class PairColumns(Part):
    """Which column is what; None: the one of that name."""

    prompt: str | None = None
    chosen: str | None = None
    rejected: str | None = None


class LabelColumns(Part):
    """Which column is what; None: the one of that name."""

    prompt: str | None = None
    completion: str | None = None
    label: str | None = None


class DemonstrationColumns(Part):
    """Which column is what; None: the one of that name."""

    prompt: str | None = None
    completion: str | None = None
    messages: str | None = None


class GivenFile(Slot):
    """Rows of a file, of a folder's training split, or of `owner/name` of the hub: docs/data.md."""

    path: str
    config: str | None = None  # of a hub id, as are the next two
    revision: Commit | None = None
    split: str | None = None  # None: train

    samples: ClassVar[bool] = False

    @model_serializer(mode="wrap")
    def _as_stored(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the keys that came after `path` where they are not used: stored configurations stay the same."""
        return without_defaults(self, fields(self), ("config", "revision", "split", "columns"))


class PairFile(GivenFile):
    """Pairs of a file; see docs/preference-data.md for what it may look like."""

    type: Literal["pair_file"] = "pair_file"
    columns: PairColumns = PairColumns()

    gives: ClassVar[Given] = "pairs"
    formula: ClassVar[str] = "(good, bad): the chosen and the rejected answer of a row"


class LabelFile(GivenFile):
    """Answers of a file, each labelled as good or bad; see docs/preference-data.md."""

    type: Literal["label_file"] = "label_file"
    columns: LabelColumns = LabelColumns()

    gives: ClassVar[Given] = "labels"
    formula: ClassVar[str] = "good where the row's label is true, else bad; mismatched: another row's answer"


class DemonstrationFile(GivenFile):
    """Answers of a file to learn by heart; see docs/preference-data.md."""

    type: Literal["demonstration_file"] = "demonstration_file"
    columns: DemonstrationColumns = DemonstrationColumns()

    gives: ClassVar[Given] = "demonstrations"
    formula: ClassVar[str] = "demonstrations: the answer of each row"


OwnSource = OwnPairs | OwnLabels | OwnRight
FileSource = PairFile | LabelFile | DemonstrationFile
Source = Annotated[OwnSource | FileSource, Field(discriminator="type")]
OfflineLoss = Annotated[Dpo | Ipo | Hinge | Orpo | SimPo | Kto | Sft, Field(discriminator="type")]


class Offline(Part):
    """A method that trains on answers which it did not have to sample itself: pairs, labelled ones, demonstrations.

    The pipeline builds the rows that `source` declares, calls `signal` once on all rows of a step, and the learner
    then calls `loss` on each micro-batch, the two rows of a pair always together.
    """

    kind: Literal["offline"] = "offline"
    name: str
    paper: str
    source: Source
    objective: OfflineLoss

    @property
    def critic(self) -> None:
        return None

    @property
    def entropy(self) -> float:
        return 0.0

    @property
    def topk(self) -> int:
        return 0

    @property
    def only_advantage(self) -> bool:
        return False

    @property
    def keep(self) -> All:
        return All()

    @property
    def explore(self) -> None:
        return None

    @property
    def slots(self) -> dict[str, Slot]:
        """The Parts in use, by slot, in the order in which they act."""
        return {"source": self.source, "objective": self.objective}

    @property
    def needs(self) -> frozenset[Need]:
        """What the pipeline must provide: the union of the Parts' needs."""
        starts = isinstance(self.source, OwnSource) and self.source.of == "start"
        return self.source.needs | self.objective.needs | (frozenset({Need.START}) if starts else frozenset())

    @model_validator(mode="after")
    def _suited(self) -> Offline:
        if self.source.gives != self.objective.takes:
            raise ValueError(
                f"objective {self.objective.type} trains on {self.objective.takes}, and source {self.source.type} "
                f"gives {self.source.gives}: take a source of {self.objective.takes}"
            )
        return self

    def check(self, samples_per_prompt: int, updates_per_rollout: int) -> None:
        """Refuse a setting in which the method means something else than it says. Raises ConfigError.

        Any number of updates per rollout is allowed: the answers stay as they are.
        """
        if Need.GROUP in self.needs and samples_per_prompt < 2:
            raise ConfigError(
                f"{self.name} pairs the samples of one prompt, and rollout.samples_per_prompt = {samples_per_prompt}: "
                "set it to 2 or more, or take a source without pairs"
            )

    def memory(self) -> Memory:
        """What `signal` starts from at the first step."""
        return {}

    def signal(self, batch: Batch, memory: Memory) -> tuple[Signal, Memory]:
        """What the loss takes from the step as a whole, measured under the policy that starts it."""
        with torch.no_grad():
            return Signal(self.objective.credit(batch)), memory

    def describe(self, batch: Batch, signal: Signal) -> Stats:
        """Nothing beside what the source counts and the loss measures."""
        return {}

    def loss(self, scores: Scores, batch: Batch, signal: Signal, total: Totals) -> Loss:
        """A micro-batch's share of the update's loss; shares of any split that keeps pairs whole add up to it."""
        # junk outside the mask is cut off here, before any arithmetic: 0 * NaN would survive a mask put on later
        mask, ref = batch.mask, batch.ref_logp
        rows = Rows(
            logp=tensors.keep(required(scores.logp, "logp"), mask),
            ref_logp=None if ref is None else tensors.keep(ref.detach(), mask),
            advantage=tensors.keep(signal.advantage.detach(), mask),
            mask=mask,
            role=required(batch.role, "role"),
            unit=required(batch.unit, "unit"),
        )
        value, stats = self.objective(rows, total)
        if scores.entropy is not None:
            stats["entropy"] = mean(scores.entropy, mask)
        return Loss(value, stats)
