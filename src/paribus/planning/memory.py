"""Memory of one run by component and phase, from shapes alone: what this code holds at once, at full lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from paribus.algorithms import Algorithm, Need, Offline, OwnPairs, OwnSource, PairFile, PolicyGradient
from paribus.experiment import Setting
from paribus.planning import passes
from paribus.planning.passes import FLOAT, Piece, Pieces
from paribus.planning.shapes import ModelShape
from paribus.store import Phase
from paribus.suites import EvalSpec

BYTES = {"float32": 4, "bfloat16": 2}
ADAM = 2 * FLOAT  # of each trained parameter: two moments
LIBRARIES = 69_000_000  # code and tables that loading any model brings in (CPU): measured, see docs/memory.md
TRAIN = "train"
ADDED = "gradients being added"  # of the embedding, which comes last; and all of one pass below float32
KEPT = "freed, kept by the heap"
PASSING = ("activations", "logits", "KV cache", "rollout copy of weights")  # components that no phase leaves behind
GIVEN_BACK = ("policy_update", "eval")  # phases at whose end the process gives freed pages back
ROW_BYTES = 2 * (8 + 1 + 8 * 4)  # of a padded token: its id, the mask and eight numbers, with an update's copy of them

Held = dict[str, int]  # component -> bytes


class Memory(NamedTuple):
    """What each phase holds at its fullest moment, by component, and the most that each component ever holds; bytes.

    The components' sum is more than the peak, since not all is held at once.
    """

    live: dict[Phase, Held]
    components: Held

    @property
    def phases(self) -> dict[Phase, int]:
        return {phase: sum(held.values()) for phase, held in self.live.items()}

    @property
    def peak_phase(self) -> Phase:
        phases = self.phases
        return max(phases, key=lambda phase: phases[phase])

    @property
    def peak(self) -> int:
        return self.phases[self.peak_phase]


class Task(NamedTuple):
    """Everything that decides a run's memory. `started`: updates were made, so that the optimizer has its state.
    `heap`: tensors come from the C library, which keeps freed pages until the step's updates are done (a CPU run).
    `problems` of each suite and tokens of the longest of the `prompts` (of "train" and of each suite), where known."""

    shape: ModelShape
    setting: Setting
    algorithm: Algorithm
    scorers: Sequence[ModelShape]
    started: bool
    heap: bool
    problems: Mapping[str, int]
    prompts: Mapping[str, int]

    @property
    def b(self) -> int:
        return BYTES[self.setting.model.dtype]

    @property
    def prompt(self) -> int:
        return min(self.prompts.get(TRAIN, self.setting.rollout.max_prompt), self.setting.rollout.max_prompt)

    @property
    def response(self) -> int:
        return self.setting.rollout.max_response

    @property
    def samples(self) -> bool:
        """Whether anything is sampled in training."""
        return isinstance(self.algorithm, PolicyGradient) or isinstance(self.algorithm.source, OwnSource)

    @property
    def rows_per_prompt(self) -> int:
        """Rows that training makes of a prompt, at most."""
        source = self.algorithm.source if isinstance(self.algorithm, Offline) else None
        samples = self.setting.rollout.samples_per_prompt
        if isinstance(source, OwnPairs):  # better by worse: the most where half of them are
            pairs = (samples // 2) * (samples - samples // 2)
            return 2 * (min(pairs, source.per_prompt) if source.per_prompt else pairs)
        if source is not None and not isinstance(source, OwnSource):
            return 2 if isinstance(source, PairFile) else 1
        return samples

    @property
    def pairs(self) -> bool:
        return isinstance(self.algorithm, Offline) and isinstance(self.algorithm.source, OwnPairs | PairFile)

    @property
    def has_critic(self) -> bool:
        return self.algorithm.critic is not None

    @property
    def by_hand(self) -> bool:
        """Whether the trunk's passes are `models.trunk`'s."""
        return self.heap and self.b == FLOAT and self.shape.kind in passes.SHARING

    @property
    def apart(self) -> bool:
        """Whether the critic is a model of its own."""
        return self.algorithm.critic is not None and not self.algorithm.critic.shared

    def pieces(self, prompts: int, *, measured: bool = False) -> Pieces:
        """How the rows of `prompts` prompts are cut; measured ones include those that only a statistic needs."""
        rows, per_group = prompts * self.rows_per_prompt, self.rows_per_prompt
        if measured and isinstance(self.algorithm, Offline) and self.algorithm.objective.takes == "labels":
            rows, per_group = 2 * rows, 2 * per_group
        unit = 2 if self.pairs and not measured else 1
        budget = self.setting.machine.micro_tokens
        return passes.cut(rows, per_group, self.prompt, self.response, budget, self.shape.kind, unit)


def memory(
    shape: ModelShape,
    setting: Setting,
    algorithm: Algorithm,
    *,
    scorers: Sequence[ModelShape] = (),
    started: bool = True,
    heap: bool = False,
    problems: Mapping[str, int] = MappingProxyType({}),
    prompts: Mapping[str, int] = MappingProxyType({}),
) -> Memory:
    """Return what a run of `algorithm` holds, every response at its limit, and every prompt where `prompts` lacks it.

    `scorers` are the shapes of reward models. `started` False: before the first update. Not counted: the process
    before any model, and what a GPU's libraries reserve for themselves.
    """
    task = Task(shape, setting, algorithm, scorers, started, heap, problems, prompts)
    resident, reached = _resident(task), 0
    live: dict[Phase, Held] = {}
    most: Held = {}
    for phase, moments in _phases(task).items():
        whole = []
        for moment in moments:
            used = sum(moment.get(name, 0) for name in PASSING)
            whole.append(resident | moment | {KEPT: max(0, reached - used)})
            reached = max(reached, used if heap else 0)
        for held in whole:
            most |= {name: max(most.get(name, 0), size) for name, size in held.items()}
        fullest = max(whole, key=lambda held: sum(held.values()))
        live[phase] = {name: size for name, size in fullest.items() if size}
        if phase in GIVEN_BACK:
            reached = 0
    return Memory(live, {name: size for name, size in most.items() if size})


def _resident(task: Task) -> Held:
    """What stays from phase to phase."""
    shape, setting, b = task.shape, task.setting, task.b
    measured = any(suite.kl for suite in setting.eval.values())
    frozen = measured or bool(task.algorithm.needs & {Need.REFERENCE, Need.START})
    head = shape.hidden + 1
    critic = shape.trunk if task.apart else 0
    lower = FLOAT if b < FLOAT else 0
    policy = shape.parameters + (head if task.has_critic and not task.apart else 0)
    state = ADAM if task.started else 0
    return {
        "policy weights": shape.parameters * b,
        "policy master weights": shape.parameters * lower,
        "policy optimizer": policy * state,
        "critic weights": critic * b + (head * FLOAT if task.has_critic else 0),
        "critic master weights": critic * lower,
        "critic optimizer": (critic + head) * state if task.apart else 0,
        "reference weights": shape.parameters * b if frozen else 0,
        "libraries": LIBRARIES if task.heap else 0,
        "reward model weights": sum((s.trunk + s.hidden) * FLOAT for s in task.scorers),
        "batch": _batch(task),
    }


def _batch(task: Task) -> int:
    """The step's rows as tensors; refills are kept until the step has enough."""
    spec, keep = task.setting.rollout, task.algorithm.keep
    rows = spec.prompts_per_step * max(spec.samples_per_prompt if task.samples else 1, task.rows_per_prompt)
    listed = 2 * 12 * task.algorithm.topk
    return rows * (1 + keep.rounds) * (task.prompt + task.response) * (ROW_BYTES + listed)


def _phases(task: Task) -> dict[Phase, list[Held]]:
    """The moments of each phase at which most may be held, beside what is always there."""
    needs, step = task.algorithm.needs, task.setting.rollout.prompts_per_step
    pieces = task.pieces(step, measured=True)
    phases: dict[Phase, list[Held]] = {}
    if task.samples:
        rows = min(task.setting.machine.decode_rows, step * task.setting.rollout.samples_per_prompt)
        per_prompt = task.setting.rollout.samples_per_prompt
        phases["rollout"] = _decoding(task, rows, per_prompt, task.prompt, task.response, True)
        phases["grade"] = [*(_rewarding(task, s, step) for s in task.scorers), {}]
    if _old_pass(task):
        phases["old_logp"] = _scoring(task, pieces.largest, entropy=Need.ENTROPY in needs)
    if Need.REFERENCE in needs:
        phases["ref_logp"] = _scoring(task, pieces.largest, entropy=False)
    if Need.VALUES in needs:
        phases["values"] = [_reading(task, pieces.largest)]
    update = task.pieces(min(task.setting.optim.minibatch_prompts or step, step))
    if task.apart or (task.algorithm.critic is not None and task.algorithm.critic.warmup):
        phases["critic_update"] = _critic_update(task, update)
    phases["policy_update"] = _policy_update(task, update)
    phases["save"] = [{}]
    phases["eval"] = [held for name, suite in task.setting.eval.items() for held in _evaluating(task, name, suite)]
    return phases


def _old_pass(task: Task) -> bool:
    """Whether the learner computes old log-probs before the updates, if only of a probe."""
    setting, algorithm = task.setting, task.algorithm
    if isinstance(algorithm, Offline):
        return Need.OLD in algorithm.needs
    return algorithm.old_source(setting.updates_per_rollout, setting.machine.old_gap) in ("pass", "probe")


def _decoding(task: Task, rows: int, per_prompt: int, prompt: int, response: int, sampled: bool) -> list[Held]:
    """Reading the prompts, and choosing the last token."""
    shape, b = task.shape, task.b
    prompts = -(-rows // per_prompt)
    own = shape.kind in passes.SHARING
    copy = passes.decoding_copy(shape, b) if own else 0
    start = passes.cache(shape, b, prompts, prompt)
    cache = start + passes.cache(shape, b, rows, response) if own else passes.cache(shape, b, rows, prompt + response)
    logits = passes.decoding_logits(shape, b, rows)
    mix = task.algorithm.explore if sampled else None
    near = (1 << 24) * 2 * FLOAT + shape.vocabulary * mix.neighbours * 8 if mix is not None else 0
    return [
        {
            "rollout copy of weights": copy,
            "activations": passes.passing(shape, b, prompts * prompt),
            "KV cache": start,
        },
        {"rollout copy of weights": copy, "KV cache": cache, "logits": logits, "activations": near},
    ]


def _evaluating(task: Task, name: str, suite: EvalSpec) -> list[Held]:
    rows, asked = task.setting.machine.decode_rows, task.problems.get(name, suite.limit)
    rows = rows if asked is None else min(rows, asked * suite.samples)
    prompt = task.prompts.get(name, task.setting.rollout.max_prompt)
    moments = _decoding(task, rows, suite.samples, prompt, suite.max_response, suite.temperature > 0)
    if suite.kl:
        budget = task.setting.machine.micro_tokens
        piece = passes.cut(rows, suite.samples, prompt, suite.max_response, budget, task.shape.kind).largest
        moments += _scoring(task, piece, entropy=False)
    return moments


def _scoring(task: Task, piece: Piece, *, entropy: bool) -> list[Held]:
    """Log-probs without gradients: through the trunk, then through the head."""
    logits = passes.scoring_logits(task.shape, task.b, piece.scored, entropy=entropy)
    hidden = (piece.tokens + piece.scored) * task.shape.hidden * task.b
    return [_reading(task, piece), {"activations": hidden, "logits": logits}]


def _reading(task: Task, piece: Piece) -> Held:
    return {
        "activations": passes.passing(task.shape, task.b, piece.tokens),
        "KV cache": passes.response_cache(task.shape, task.b, piece),
    }


def _rewarding(task: Task, scorer: ModelShape, prompts: int) -> Held:
    width = task.prompt + task.response
    rows = prompts * task.setting.rollout.samples_per_prompt
    tokens = min(rows, max(1, task.setting.machine.micro_tokens // width)) * width
    return {"activations": passes.passing(scorer, FLOAT, tokens)}


def _policy_update(task: Task, pieces: Pieces) -> list[Held]:
    shape, b, piece = task.shape, task.b, pieces.largest
    train = passes.training_logits(shape, b, piece.scored, entropy=bool(task.algorithm.entropy))
    head = shape.embedding * b  # the output embedding's gradient, which comes first
    return _update(task, "policy gradients", shape.parameters, pieces, train, head)


def _critic_update(task: Task, pieces: Pieces) -> list[Held]:
    if not task.apart:  # the warm-up of a shared trunk: its head alone learns
        return [_reading(task, pieces.largest)]
    return _update(task, "critic gradients", task.shape.trunk, pieces, 0, 0)


def _update(task: Task, name: str, trained: int, pieces: Pieces, logits: int, head: int) -> list[Held]:
    """Forward, the turn to the backward pass, and its end; the optimizer's step is in place.

    From the second micro-batch on, the gradients so far stand beside all of it. Below float32 they are summed in
    float32, and those of one backward pass stand beside the sum.
    """
    shape, b, piece, again = task.shape, task.b, pieces.largest, task.setting.machine.recompute
    summed = trained * FLOAT if pieces.number > 1 else 0
    if task.by_hand:  # gradients are added where they belong, as they are made
        kept, momentary = passes.saved_by_hand(shape, b, piece), passes.passing_by_hand(shape, b, piece.tokens)
        kept = passes.recomputed(shape, b, piece, kept) if again else kept
        return [
            {name: summed or head, "activations": kept, "logits": logits},
            {name: trained * FLOAT, "activations": kept + momentary},
        ]
    lower = trained * b if b < FLOAT else 0
    activations = passes.saved(shape, b, piece) + (passes.holes(shape, b, piece) if task.heap else 0)
    activations = passes.recomputed(shape, b, piece, activations) if again else activations
    momentary = passes.passing(shape, b, piece.tokens)
    grouped = shape.key != shape.query and not again  # else the cache holds the very tensors that attention keeps
    return [
        {
            name: summed,
            "activations": activations + momentary,
            "KV cache": passes.response_cache(shape, b, piece) if grouped else 0,
        },
        {name: summed, ADDED: head, "activations": activations, "logits": logits},
        {name: trained * FLOAT, ADDED: lower + shape.embedding * b, "activations": momentary},
    ]
