"""Sampling and judging a step: refills and greedy probes, and everything sampled is charged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

import toymodels
from fakeruns import EOS, questions, rows, sampler, session, setting
from paribus.algorithms import PolicyGradient, Refill, find
from paribus.batch import Rollout
from paribus.engines.learner import TorchLearner
from paribus.engines.local import LocalSampler
from paribus.engines.protocols import Sampler, SamplingPlan
from paribus.engines.scripted import ScriptedLearner, ScriptedSampler
from paribus.errors import RunError
from paribus.part import replace
from paribus.pipeline.collect import Graded, collect
from paribus.pipeline.evaluate import evaluate
from paribus.pipeline.order import problems_of_step
from paribus.pipeline.score import refuse_rewards, refuse_steps
from paribus.pipeline.session import Session
from paribus.pipeline.train import train
from paribus.rewards import Judged
from paribus.settings import MachineSpec
from paribus.store import RolloutRow
from paribus.store.files import read_rows
from paribus.suites import EvalSpec
from paribus.tasks import Answer
from paribus.types import Key, Prompt, Verdict

N = 20
DAPO = replace(find("dapo"), keep=Refill(rounds=4))
REMAX = find("remax")


@dataclass
class Recorder:
    """Passes requests on to a sampler and keeps what it gave."""

    inner: Sampler
    given: list[tuple[SamplingPlan, Key, Rollout]] = field(default_factory=list)

    def sample(self, prompts: Sequence[Prompt], plan: SamplingPlan, key: Key) -> Rollout:
        rollout = self.inner.sample(prompts, plan, key)
        self.given.append((plan, key, rollout))
        return rollout

    def load(self, weights: Any, version: int) -> None:
        self.inner.load(weights, version)


def partly_mixed(n: int, mixed: Sequence[int]) -> ScriptedSampler:
    """Problems outside `mixed` are always answered right: their groups teach nothing. Greedily, odd ones are wrong."""
    table = {}
    for i in range(n):
        right, wrong = ((7, EOS), f"#### {i}"), ((8, 9, EOS), "#### -1")
        table[f"p/{i}"] = ([wrong, right] if i % 2 else [right, wrong]) if i in mixed else [right]
    return ScriptedSampler(table, stop_ids=(EOS,))


def collected(
    folder: Path, algorithm: PolicyGradient, inner: Sampler, step: int = 0, n: int = N, **changes: Any
) -> tuple[Graded, Recorder, Session]:
    recorder = Recorder(inner)
    run = session(folder, setting(**changes), algorithm=algorithm, samples=recorder, asked=questions(n))
    return collect(run, step, recorder), recorder, run


def right(rollout: Rollout) -> list[float]:
    rows = zip(rollout.text, rollout.problem_id, strict=True)
    return [float(text == f"#### {problem[2:]}") for text, problem in rows]


def by_group(rollout: Rollout) -> list[list[int]]:
    """Rows of each group of what a sampler gave: prompt by prompt, four samples each."""
    return [list(range(first, first + 4)) for first in range(0, rollout.rows, 4)]


@pytest.mark.parametrize("step", range(6))
def test_refills_draw_until_the_step_is_full_and_charge_everything(step: int, tmp_path: Path) -> None:
    graded, recorder, _ = collected(tmp_path, DAPO, partly_mixed(N, range(0, N, 3)), step)
    wanted, drawn, groups = 3, [], 0
    for _, _, rollout in recorder.given:
        assert len(drawn) < wanted, "a refill although the step was full"
        score = right(rollout)
        groups += rollout.rows // 4
        drawn += [
            [(rollout.problem_id[i], rollout.text[i], score[i]) for i in members]
            for members in by_group(rollout)
            if len({score[i] for i in members}) == 2
        ]
    assert len(drawn) >= wanted or len(recorder.given) == 5
    got = zip(graded.rollout.problem_id, graded.rollout.text, graded.score.tolist(), strict=True)
    assert list(got) == [row for group in drawn[:wanted] for row in group]
    assert graded.samples == sum(rollout.rows for _, _, rollout in recorder.given)
    assert graded.tokens == sum(int(rollout.mask.sum()) for _, _, rollout in recorder.given)
    assert graded.stats["refills"].row() == {"sum": len(recorder.given) - 1, "count": 1}
    assert graded.stats["kept_groups"].row() == {"sum": len(drawn), "count": groups}


def test_refills_have_prompts_and_draws_of_their_own(tmp_path: Path) -> None:
    _, recorder, run = collected(tmp_path, DAPO, partly_mixed(N, []), step=2)
    assert [key for _, key, _ in recorder.given] == [Key(0, "sample", 2, round=r) for r in range(5)]
    for number, (_, _, rollout) in enumerate(recorder.given):
        asked = [f"p/{i}" for i in problems_of_step(N, 3, 0, 2, number)]
        assert list(dict.fromkeys(rollout.problem_id)) == asked == [p.problem_id for p in run.prompts(2, number)]
    # what a method without refills asks and draws is the first round
    _, plain, _ = collected(tmp_path / "plain", find("grpo"), partly_mixed(N, []), step=2)
    assert plain.given[0][2].text == recorder.given[0][2].text and len(plain.given) == 1


def test_refills_end_at_their_limit_and_what_there_is_trains(tmp_path: Path) -> None:
    graded, recorder, _ = collected(tmp_path, DAPO, partly_mixed(N, [4]))
    assert len(recorder.given) == 5
    kept = {p for _, _, r in recorder.given for p, s in zip(r.problem_id, right(r), strict=True) if not s}
    assert kept <= {"p/4"} and set(graded.rollout.problem_id) == (kept or set(recorder.given[0][2].problem_id))


def test_one_problem_in_two_rounds_is_two_groups(tmp_path: Path) -> None:
    """With three problems and three a step, a refill asks the same again: its draws differ, and groups stay apart."""
    graded, recorder, _ = collected(tmp_path, DAPO, partly_mixed(3, [1]), n=3)
    texts = [[r.text[i] for i in range(r.rows) if r.problem_id[i] == "p/1"] for _, _, r in recorder.given]
    assert len(texts) > 2 and any(text != texts[0] for text in texts)
    rollout = graded.rollout
    members = [[i for i in range(rollout.rows) if rollout.group[i] == g] for g in rollout.group.unique().tolist()]
    assert [len(rows) for rows in members] == [4] * len(members) and len(members) >= 2
    assert set(rollout.problem_id) == {"p/1"}
    assert all(rollout.sample[rows].tolist() == [0, 1, 2, 3] for rows in members)


def test_nothing_worth_training_makes_no_update_and_the_run_goes_on(tmp_path: Path) -> None:
    spec = setting(budget={"steps": 3})
    loaded = toymodels.loaded(toymodels.llama())
    before = {name: value.clone() for name, value in loaded.model.state_dict().items()}
    learner = TorchLearner(loaded, optim=spec.optim, rollout=spec.rollout, machine=MachineSpec(), key=Key(0, "critic"))
    run = session(tmp_path, spec, learner, algorithm=DAPO, samples=partly_mixed(N, []), asked=questions(N))
    train(run)
    stored = rows(run)
    assert [r["samples"] for r in stored] == [60, 120, 180]  # 5 rounds of 3 x 4
    assert all(value is not None for r in stored for stat in r["stats"].values() for value in stat.values())
    assert all("updates" not in r["stats"] and r["stats"]["trained"]["sum"] == 0 for r in stored)
    assert all(torch.equal(before[name], value) for name, value in loaded.model.state_dict().items())


def test_a_resumed_run_refills_alike(tmp_path: Path) -> None:
    made = {"algorithm": DAPO, "samples": partly_mixed(N, range(0, N, 4)), "asked": questions(N)}
    whole = session(tmp_path / "whole", setting(), **made)
    train(whole)
    cut = session(tmp_path / "cut", setting(budget={"steps": 3}), **made)
    train(cut)
    cut.writer.close()
    learner = ScriptedLearner()
    again = session(tmp_path / "cut", setting(), learner, **made)
    again.resume()
    assert again.step == 3
    train(again)
    assert again.paths.steps.read_bytes() == whole.paths.steps.read_bytes() and learner.updated == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("name", "per_step"), [("grpo", 12), ("remax", 15), ("dapo", 12 * 10)])
def test_a_budget_of_samples_counts_probes_and_refills(name: str, per_step: int, tmp_path: Path) -> None:
    """Believed: samples / (prompts x samples per prompt) steps use up the budget. A refilling arm took ten times it."""
    never = partly_mixed(N, [])
    run = session(tmp_path, setting(budget={"samples": 60}), algorithm=find(name), samples=never, asked=questions(N))
    train(run)
    assert [r["samples"] for r in rows(run)] == list(range(per_step, max(60, per_step) + 1, per_step))


def test_a_greedy_probe_is_charged_and_belongs_to_its_prompt_in_every_round(tmp_path: Path) -> None:
    method = replace(REMAX, keep=Refill(rounds=3))
    graded, recorder, _ = collected(tmp_path, method, partly_mixed(N, range(0, N, 5)))
    probes = [(plan, key, r) for plan, key, r in recorder.given if key.purpose == "greedy"]
    assert len(probes) == len(recorder.given) // 2 > 1
    assert all(plan.temperature == 0 and plan.samples == 1 and plan.max_tokens == 4 for plan, _, _ in probes)
    assert graded.samples == len(probes) * (12 + 3)
    assert graded.tokens == sum(int(r.mask.sum()) for _, _, r in recorder.given)
    expected = [0.0 if int(problem[2:]) % 2 else 1.0 for problem in graded.rollout.problem_id]
    assert graded.greedy_score is not None and graded.greedy_score.tolist() == expected and len(set(expected)) == 2


def test_the_probe_has_noise_of_its_own(tmp_path: Path) -> None:
    """Believed: the greedy response is sample 0 of its prompt. With that key it shared the noise of a real sample."""
    reward = {"type": "noisy", "inner": {"type": "task"}, "sigma": 1.0}
    graded, _, _ = collected(tmp_path, REMAX, partly_mixed(N, []), reward=reward)  # all right: what differs is noise
    noise = (graded.score - graded.parts["reward/noisy.clean"]).tolist()
    assert graded.greedy_score is not None
    assert not {round(x - 1, 5) for x in graded.greedy_score.tolist()} & {round(x, 5) for x in noise}


def test_the_probe_is_what_greedy_evaluation_says(tmp_path: Path) -> None:
    own = LocalSampler(toymodels.loaded(toymodels.llama()))
    asked = questions(6)
    recorder = Recorder(own)
    run = session(tmp_path, setting(), algorithm=REMAX, samples=recorder, asked=asked)
    collect(run, 0, recorder)
    probe = next(r for _, key, r in recorder.given if key.purpose == "greedy")
    evaluated = evaluate(own, asked.problems, asked.prompts, EvalSpec(max_response=4), Answer(), 0)
    found = {r.problem_id: r for r in evaluated}
    assert probe.rows == 3
    for i, problem in enumerate(probe.problem_id):
        assert probe.text[i] == found[problem].response and int(probe.response_length[i]) == found[problem].tokens


def test_a_step_without_any_reward_names_the_function_that_failed() -> None:
    good, broken = Verdict(score=1.0, answer="1"), Verdict(score=0.0, answer=None, status="error")
    judged = Judged([1.0] * 19 + [None], {}, 1, "boom")
    refuse_rewards(judged, [good] * 20, 0.05, 1)
    with pytest.raises(RunError, match=r"2 of 20 rows have no reward.*boom"):
        refuse_rewards(judged._replace(total=[1.0] * 18 + [None] * 2, failed=2), [good] * 20, 0.05, 1)
    # rows that the grader lost are not the function's, and None without a failure is a function's own word
    refuse_rewards(judged._replace(total=[1.0] * 18 + [None] * 2), [good] * 18 + [broken] * 2, 0.05, 1)
    refuse_rewards(judged._replace(total=[None] * 20, failed=0), [good] * 20, 0.05, 1)


def test_a_step_scorer_that_can_tell_nothing_ends_the_run() -> None:
    good = [Verdict(score=1.0, answer="1")] * 3
    refuse_steps([None, [], None], good, 7)
    with pytest.raises(RunError, match=r"step 7: the steps of none of the 3 rows.*\[steps\]"):
        refuse_steps([None] * 3, good, 7)


def test_proxy_and_gold_are_recorded_side_by_side(tmp_path: Path) -> None:
    reward = {
        "type": "composite",
        "terms": {
            "right": {"reward": {"type": "task"}},
            "noise": {"weight": 0.5, "reward": {"type": "noisy", "inner": {"type": "task"}, "flip": 0.5}},
        },
    }
    graded, _, run = collected(tmp_path, find("grpo"), sampler(N), reward=reward)
    gold = torch.tensor(right(graded.rollout))
    noise = graded.parts["reward/noise"]
    assert torch.equal(graded.parts["reward/right"], gold) and not torch.equal(noise, gold)
    assert torch.equal(graded.score, gold + 0.5 * noise)
    train(run)
    stats = rows(run)[0]["stats"]
    assert stats["gold"] == {"sum": gold.sum().item(), "count": 12.0} == stats["reward/right"]
    assert stats["reward/noise"]["sum"] == noise.sum().item() and stats["score"]["sum"] == graded.score.sum().item()
    assert stats["reward/noise.clean"]["sum"] == gold.sum().item()
    stored = read_rows(run.paths.rollouts(1), RolloutRow)
    assert [row.score for row in stored] == gold.tolist()
    assert [row.parts["reward/noise"] for row in stored] == noise.tolist()
