"""Session: one run (an arm with a seed) between its files and the loop; counts, records, saves, resumes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from paribus import tensors
from paribus.algorithms import Algorithm
from paribus.batch import Rollout, Signal, Stats
from paribus.engines.protocols import Learner, Sampler
from paribus.errors import RunError
from paribus.experiment import Setting
from paribus.pipeline.clock import Clock
from paribus.pipeline.evaluate import evaluate_suite
from paribus.pipeline.order import problems_of_step
from paribus.pipeline.questions import Questions
from paribus.pipeline.sources import Source, Taken
from paribus.pipeline.stop import StopRequest
from paribus.rewards import ModelScorer, counted
from paribus.store import RolloutRow, RunPaths, RunWriter, StepRow, TimingRow, checkpoint
from paribus.types import Prompt

Report = Callable[..., None]  # report(kind, **fields): what a person watching is told


class Session:
    """Holds what the loop needs of one run and everything that must survive a restart.

    `train` are the training questions, `suites` the evaluation questions by suite. `source` gives the rows of a step;
    `start_sampler` samples from the policy that started the run, `reward_models` score responses, by folder.
    """

    def __init__(
        self,
        *,
        paths: RunPaths,
        writer: RunWriter,
        setting: Setting,
        algorithm: Algorithm,
        source: Source,
        train: Questions,
        suites: dict[str, Questions],
        sampler: Sampler,
        learner: Learner,
        clock: Clock,
        stop: StopRequest,
        report: Report,
        tokenizer: Any = None,
        start_sampler: Sampler | None = None,
        reward_models: Mapping[str, ModelScorer] | None = None,
    ) -> None:
        self.paths, self.writer, self.setting, self.algorithm = paths, writer, setting, algorithm
        self.train, self.suites, self.sampler, self.learner = train, suites, sampler, learner
        self.clock, self.stop, self.report = clock, stop, report
        self.source, self.tokenizer, self.start_sampler = source, tokenizer, start_sampler or sampler
        self.reward_models = reward_models or {}
        self.grader = setting.task.grader
        self.by_id = {p.id: p for p in train.problems}
        self.asked = {p.problem_id: p for p in train.prompts}
        self.step = self.samples = self.tokens = 0
        self.seconds = 0.0
        self.memory: Any = algorithm.memory()
        self._saved = 0

    @property
    def seed(self) -> int:
        return self.paths.seed

    def resume(self) -> None:
        """Go on from the newest complete checkpoint, if there is one; rows past it are dropped and done again."""
        found = checkpoint.latest_good(self.paths.checkpoints)
        for text in found.warnings:
            self.report("note", text=text)
        if found.path is not None:
            self.learner.restore(found.path)
            state = found.state
            self.step, self.samples, self.tokens = found.step, state["samples"], state["tokens"]
            self.seconds, self.memory = state["seconds"], state["memory"]
        self._saved = self.step
        self.writer.truncate_after(self.step)
        self.sampler.load(self.learner.weights(), version=self.step)

    def steps(self) -> Iterator[int]:
        """Yield the index of each step to do while the budget lasts; between two steps a requested stop is obeyed."""
        self._evaluate_where_due()  # what a stop left undone
        while self._budget_left():
            yield self.step
            self._obey_stop()
        self.save()

    def prompts(self, step: int, refill: int = 0) -> list[Prompt]:
        """Return the prompts that `step` asks, or its n-th refill: the same for every arm with this seed."""
        per_step = self.setting.rollout.prompts_per_step
        chosen = problems_of_step(len(self.train.prompts), per_step, self.seed, step, refill)
        return [self.train.prompts[i] for i in chosen]

    def record(self, taken: Taken, signal: Signal, stats: Stats, memory: Any) -> None:
        """Count and store a finished step, then evaluate and save where it is due."""
        graded = taken.graded
        samples, tokens = (graded.samples, graded.tokens) if graded is not None else (0, 0)
        self.step, self.memory = self.step + 1, memory
        self.samples, self.tokens = self.samples + samples, self.tokens + tokens
        rows = {name: stat.row() for name, stat in sorted(stats.items())}
        self.writer.append_step(StepRow(step=self.step, samples=self.samples, tokens=self.tokens, stats=rows))
        every = self.setting.save.rollouts_every
        if every is not None and (self.step == 1 or self.step % every == 0):
            self.writer.write_rollouts(self.step, self._rollout_rows(taken, signal))
        self._time(tokens)
        self.report("step", step=self.step, total=self.setting.total_steps, stats=stats)
        self._refuse_nonfinite(stats)
        self._evaluate_where_due()
        if self.step % self.setting.save.every == 0:
            self.save()

    def evaluate(self, suite: str) -> None:
        """Evaluate the current policy on one suite and store its rows."""

        def tick(done: int, total: int) -> None:
            self.report("eval", suite=suite, done=done, total=total)
            self._obey_stop()

        with self.clock("eval"):
            rows = evaluate_suite(
                self.sampler, self.suites[suite], self.setting.eval[suite], self.setting.task, self.seed,
                tokenizer=self.tokenizer, rows_at_once=self.setting.machine.decode_rows, tick=tick,
                reward=self.setting.reward, models=self.reward_models, divergence=self._divergence,
            )  # fmt: skip
            self.writer.write_eval(suite, self.step, rows)
        self._time(sum(r.tokens for r in rows), suite=suite)
        scores = [r.score for r in rows if r.score is not None]
        self.report("evaluated", suite=suite, step=self.step, correct=sum(scores), total=len(scores))

    def _divergence(self, rollout: Rollout) -> list[float]:
        """Log-prob of each response under the policy as it is, less that under the policy that started the run."""
        gap = self.learner.logp(rollout) - self.learner.logp(rollout, of="reference")
        return tensors.keep(gap, rollout.mask).sum(1).tolist()

    def save(self) -> None:
        """Write a checkpoint of this step, unless it is written already."""
        if self._saved == self.step:
            return
        state = {"samples": self.samples, "tokens": self.tokens, "seconds": self.seconds, "memory": self.memory}
        with self.clock("save"):
            checkpoint.commit(self.paths.checkpoints, self.step, self.setting.save.keep, self.learner.save, state)
        self._saved = self.step

    def _obey_stop(self) -> None:
        """Save and stop if asked to: called between steps and in evaluations, where no step is half done."""
        if self.stop.number is not None:
            self.save()
            self.stop.check()

    def _evaluate_where_due(self) -> None:
        for suite, spec in self.setting.eval.items():
            due = spec.every is not None and self.step > 0 and self.step % spec.every == 0 and self._budget_left()
            if due and not self.writer.has_eval(suite, self.step):
                self.evaluate(suite)

    def _budget_left(self) -> bool:
        budget = self.setting.budget
        if budget.samples is not None:  # refills and probes count, so an arm that needs them makes fewer steps
            return self.samples < budget.samples
        if budget.tokens is not None:
            return self.tokens < budget.tokens
        if budget.seconds is not None:
            return self.seconds < budget.seconds
        total = self.setting.total_steps
        assert total is not None
        return self.step < total

    def _refuse_nonfinite(self, stats: Stats) -> None:
        """Raise RunError when gradients were not finite for too long: skipped updates only burn the budget."""
        streak, limit = stats.get("nonfinite_streak"), self.setting.limit.nonfinite_streak
        if streak is not None and (streak.value or 0) >= limit:
            raise RunError(
                f"step {self.step}: the gradient was not finite in {limit} consecutive updates "
                "(limit.nonfinite_streak): lower optim.lr or look at the rewards; the last checkpoint is from before"
            )

    def _time(self, tokens: int, suite: str | None = None) -> None:
        row = self.clock.take()
        self.writer.append_timing(TimingRow(step=self.step, suite=suite, tokens=tokens, **row))
        if suite is None:
            self.seconds += sum(row["seconds"].values())

    def _rollout_rows(self, taken: Taken, signal: Signal) -> list[RolloutRow]:
        """The first groups of what was sampled; credit and reward terms where those very rows were trained."""
        graded, batch = taken.graded, taken.batch
        if graded is None:
            return []
        rollout, verdicts = graded.rollout, graded.verdicts
        parts: Mapping[str, Any] = graded.parts
        advantage: list[float | None] = [None] * rollout.rows
        if batch.rollout is rollout:
            parts = batch.parts
            advantage = (signal.advantage.sum(1) / batch.mask.sum(1).clamp(min=1)).tolist()
        groups = list(dict.fromkeys(rollout.group.tolist()))[: self.setting.save.rollout_groups]
        return [
            RolloutRow(
                problem_id=rollout.problem_id[i],
                sample=int(rollout.sample[i]),
                prompt=self.asked[rollout.problem_id[i]].text,
                response=rollout.text[i],
                score=counted(verdicts[i]),
                parts={name: float(value[i]) for name, value in parts.items()},
                advantage=advantage[i],
                tokens=int(rollout.mask[i].sum()),
                stop=rollout.stop[i],
            )
            for i in range(rollout.rows)
            if int(rollout.group[i]) in groups
        ]
