"""Suites on the way to their rows: two limits, shots, references, other data, the folder that `paribus eval` keeps."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from paribus.cli import app
from paribus.engines.local import LocalSampler
from paribus.engines.scripted import ScriptedSampler
from paribus.errors import ConfigError, Interrupted, ModelError
from paribus.experiment import base_config, identity, run_config
from paribus.models.hf import LoadedModel, load_model
from paribus.part import dump, load, replace
from paribus.pipeline import standalone
from paribus.pipeline.compare import Job, _refuse_another_configuration
from paribus.pipeline.evaluate import evaluate_suite
from paribus.pipeline.questions import Questions, data_info, suite_questions
from paribus.pipeline.standalone import evaluate_model
from paribus.pipeline.summary import disagreement, shortened, summary
from paribus.settings import ModelSpec
from paribus.store import (
    EvalRow,
    ExperimentPaths,
    GraderInfo,
    RunFacts,
    RunWriter,
    ShortRow,
    check_same,
    read_eval,
    value_hash,
)
from paribus.store.files import write_json
from paribus.suites import LATER, EvalSpec, Suites
from paribus.tasks import BOXED_PROMPT, Answer, Gsm8k, Jsonl, Math, Stories, Svamp, Task, TaskSpec
from paribus.tasks.data import Columns, Files
from paribus.tasks.shots import demonstration
from paribus.types import Problem, Prompt
from tinyruns import experiment, write_materials

STORIES = Stories(train=200, test=24, validation=1)
SHORT = 20


@pytest.fixture(scope="module")
def tiny() -> LoadedModel:
    return load_model(ModelSpec())


def rows(loaded: LoadedModel, spec: EvalSpec, *, at_once: int = 512, order: int = 1) -> list[EvalRow]:
    asked = suite_questions("test", spec, STORIES, loaded)
    asked = Questions(asked.problems[::order], asked.prompts[::order])
    found = evaluate_suite(
        LocalSampler(loaded), asked, spec, STORIES, 7, tokenizer=loaded.tokenizer, rows_at_once=at_once, tick=ignore
    )
    return sorted(found, key=lambda row: (row.problem_id, row.sample))


def ignore(done: int, total: int) -> None:
    pass


def without(found: Sequence[EvalRow], *names: str) -> list[dict[str, Any]]:
    return [row.model_dump(exclude=set(names)) for row in found]


@pytest.mark.parametrize("draws", [{}, {"samples": 2, "temperature": 1.0, "limit": 40}], ids=["greedy", "sampled"])
def test_a_response_cut_shorter_is_the_response_under_the_shorter_limit(
    draws: dict[str, Any], tiny: LoadedModel
) -> None:
    spec = EvalSpec(max_response=64, short=SHORT, **draws)
    both, plain = rows(tiny, spec), rows(tiny, replace(spec, short=None))
    alone = rows(tiny, replace(spec, short=None, max_response=SHORT))
    assert [row.short for row in both] == [
        ShortRow(limit=SHORT, answer=r.answer, score=r.score, status=r.status, truncated=r.truncated) for r in alone
    ]
    cut = [row.tokens > SHORT for row in both]
    assert any(cut) and not all(cut) and [r.truncated for r in alone] == cut
    assert {r.score for r in alone} == {0.0, 1.0}
    assert without(both, "short") == without(plain, "short"), "the second limit changes nothing else"
    assert [r.response for r in both if r.tokens <= SHORT] == [r.response for r in alone if not r.truncated]
    # whatever the batch and the order
    assert rows(tiny, spec, at_once=5, order=-1) == both


def test_references_change_no_score(tiny: LoadedModel) -> None:
    spec = EvalSpec(max_response=40)
    none, usual = rows(tiny, replace(spec, references=())), rows(tiny, spec)
    other = rows(tiny, replace(spec, references=(Answer(marker="="), Answer(policy="boxed"))))
    assert without(none, "references") == without(usual, "references") == without(other, "references")
    assert all(row.references == {} for row in none)
    assert all(
        row.references == dict.fromkeys(("answer/official-gsm8k", "answer/flexible"), row.score) for row in usual
    )
    # `= 18` in the last equation is nearly always the answer, `\\boxed` never stands there
    assert disagreement(other)["answer/boxed"] == (sum(row.score or 0 for row in none), len(none))
    assert 0 < disagreement(other)["answer/strict"][0] < len(none) / 2


def test_shots_stand_in_the_prompt_and_are_stored_by_their_hash(tiny: LoadedModel) -> None:
    plain, shown = EvalSpec(max_response=16), EvalSpec(max_response=16, shots=2)
    one, two = (suite_questions("test", spec, STORIES, tiny) for spec in (plain, shown))
    for p, short, long in zip(one.problems, one.prompts, two.prompts, strict=True):
        assert long.text.endswith(short.text) and long.text.count(p.question) == 1
        assert long.text.count("<|assistant|>") == 3 and long.text.count("####") == 2
    a, b = data_info(STORIES, "test", one), data_info(STORIES, "test", two)
    assert a.hash == b.hash and a.prompts != b.prompts
    with pytest.raises(ModelError, match=r"eval.test: the prompt of story-\d+ has \d+ tokens.*fewer than 2 examples"):
        suite_questions("test", replace(shown, max_response=440), STORIES, tiny)


def oracle(task: TaskSpec, spec: EvalSpec) -> list[EvalRow]:
    """Rows of somebody who answers every problem by its worked solution or its gold."""
    problems = spec.problems(task)
    asked = Questions(problems, [Prompt(problem_id=p.id, ids=(5,), text=p.question) for p in problems])
    said = {p.id: [((7, 8, 2), known(spec.asks(task), p))] for p in problems}
    sampler = ScriptedSampler(said, stop_ids=(2,))
    return evaluate_suite(sampler, asked, spec, task, 0, tokenizer=None, rows_at_once=512, tick=ignore)


def known(task: Task, problem: Problem) -> str:
    text = demonstration(task, problem)
    assert text is not None, problem
    return text


def test_an_oracle_scores_everything_on_real_data(shared: Path) -> None:
    data = shared / "data"
    math500 = Jsonl(
        files=Files(test=str(data / "math500.jsonl")),
        columns=Columns(question="problem", id="id"),
        prompt=BOXED_PROMPT,
        grader=Math(),
    )
    gsm8k = Gsm8k(path=str(data / "gsm8k"))
    boxed = Gsm8k(path=gsm8k.path, prompt=BOXED_PROMPT, grader=Answer(policy="boxed"))
    for task, n in ((gsm8k, 1319), (boxed, 1319), (Svamp(path=str(data / "svamp.json")), 300), (math500, 500)):
        # under a training task of its own, which must not judge
        found = oracle(STORIES, EvalSpec(max_response=4, task=task))
        assert len(found) == n and all(row.score == 1.0 and row.format for row in found)
        assert {row.grader for row in found} == {task.grader.version}
        numbers = disagreement(found)
        assert len(numbers) == 2
        if task is not math500:
            assert set(numbers.values()) == {(0, n)}


def test_an_aime_like_file(tmp_path: Path) -> None:
    path = tmp_path / "aime.jsonl"
    items = [{"Problem": f"Find the {i}th remainder.", "Answer": 7 * i} for i in range(1, 31)]
    path.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
    task = Jsonl(
        files=Files(test=str(path)),
        columns=Columns(question="Problem", answer="Answer"),
        prompt=BOXED_PROMPT,
        grader=Answer(policy="boxed"),
    )
    found = oracle(task, EvalSpec(max_response=4))
    assert [row.answer for row in found] == [str(7 * i) for i in range(1, 31)]
    assert [row.references["math/math-verify"] for row in found] == [1.0] * 30


def row(problem: int, sample: int, answer: str | None, score: float | None, **fields: Any) -> EvalRow:
    base = EvalRow(
        problem_id=f"p{problem}", sample=sample, response="", answer=answer, score=score, format=True, truncated=False,
        status="ok" if answer else "unparsable", tokens=10, prompt_tokens=5, grader="g",
    )  # fmt: skip
    return base.model_copy(update=fields)


def test_the_summary_by_hand() -> None:
    cut = ShortRow(limit=5, answer=None, score=0.0, status="unparsable", truncated=True)
    found = [row(i, 0, "1", float(i < 6), references={"r": float(i < 5)}) for i in range(8)]
    found += [row(8, 0, None, 0.0, truncated=True, references={"r": 0.0}), row(9, 0, "1", None, references={"r": 1.0})]
    found = [r.model_copy(update={"short": cut}) for r in found]
    text = "\n".join(summary("s", EvalSpec(max_response=9, short=5), found))
    # Wilson for 6 of 9 and for 6 of 8, by the textbook formula
    assert "s: accuracy 66.67 % [35.42, 87.94] (6/9), 10 problems" in text
    assert "at 9 tokens: truncated 10.0 %, unparsable 10.0 %, accuracy among finished 75.00 % [40.93, 92.85]" in text
    assert "at 5 tokens: accuracy 0.00 % [0.00, 27.75], truncated 100.0 %, unparsable 100.0 %" in text
    assert "accuracy among finished unknown" in text and "not counted: 1" in text
    assert "grader r disagrees on 1 of 9 (11.11 %)" in text
    assert [r.tokens for r in shortened(found)] == [10] * 10

    several = [row(0, s, a, float(a == "1")) for s, a in enumerate(["1", "1", "2", "3"])]
    several += [row(1, s, "2", 0.0) for s in range(4)]
    lines = summary("s", EvalSpec(max_response=9, samples=4, temperature=1.0), several)
    assert lines[0].startswith("s: accuracy (avg@4) 25.00 % [0.00, 100.00] (2/8), 2 problems, 4 samples each")
    # of the 6 pairs of problem 0: 5 hold a right one; the vote is right in (1,1), and half in the 4 ties with a 1
    passed = f"pass@1 25.00 %, pass@2 {100 * 5 / 12:.2f} %, pass@4 50.00 %"
    assert lines[-1] == f"  {passed}, maj@1 25.00 %, maj@2 {100 * 3 / 12:.2f} %, maj@4 50.00 %"


def test_right_answers_in_two_spellings_are_one_vote_as_in_the_report() -> None:
    rows = [row(0, s, a, float(a in ("x+1", "1+x"))) for s, a in enumerate(["x+1", "1+x", "3", "3"])]
    lines = summary("s", EvalSpec(max_response=9, samples=4, temperature=1.0), rows)
    assert lines[-1].endswith("maj@4 50.00 %")  # two votes each, and ties are shared


def test_a_stopped_evaluation_keeps_finished_suites_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_materials(tmp_path)
    suite = {"max_response": 8, "limit": 2}
    asked = load(
        Suites,
        {
            "model": {"path": str(tmp_path / "model")},
            "task": {"type": "jsonl", "path": str(tmp_path)},
            "eval": {"a": suite, "b": {**suite, "shots": 1}},
            "machine": {"device": "cpu", "threads": 1},
        },
    )
    done: list[int] = []
    own = standalone.evaluate_suite

    def stopping(*arguments: Any, **options: Any) -> list[EvalRow]:
        done.append(len(done))
        if len(done) == 2:
            raise Interrupted(2)
        return own(*arguments, **options)

    monkeypatch.setattr(standalone, "evaluate_suite", stopping)
    said: list[str] = []
    out = tmp_path / "out"
    with pytest.raises(Interrupted):
        evaluate_model(asked, [], out, said.append)
    assert list(read_eval(out).info.suites) == ["a"] and said[0].startswith("a: accuracy")
    evaluate_model(asked, [], out, said.append)
    assert len(done) == 3, "suite a is not done again"
    stored = read_eval(out)
    assert list(stored.info.suites) == ["a", "b"] and len(stored.rows("b")) == 2
    assert stored.problems("b").keys() == {r.problem_id for r in stored.rows("b")}
    assert stored.info.suites["b"].data.graders[0].policy == "answer/strict"

    assert stored.info.suites["b"].data.source == str(tmp_path / "test.jsonl")
    moved = tmp_path / "elsewhere" / tmp_path.name
    moved.mkdir(parents=True)
    for split in ("train", "test"):
        shutil.copy(tmp_path / f"{split}.jsonl", moved)
    evaluate_model(replace(asked, **{"task.path": str(moved)}), [], out, said.append)
    assert len(done) == 3, "the same problems, wherever they lie"

    for changes, message in (
        ({"eval.a.limit": 1}, "suite 'a' was evaluated there with other settings"),
        ({"seed": 1}, "holds results of another seed"),
        ({"model.path": "tiny"}, "holds results of another model"),
    ):
        data = dump(asked)
        for path, value in changes.items():
            *parents, last = path.split(".")
            table = data
            for name in parents:
                table = table[name]
            table[last] = value
        with pytest.raises(ConfigError, match=message):
            evaluate_model(load(Suites, data), ["a"], out, said.append)
    with pytest.raises(ConfigError, match="no suite 'c' in this file"):
        evaluate_model(asked, ["c"], out, said.append)


def test_the_verb_takes_a_file_of_suites_and_an_experiment_alike(tmp_path: Path) -> None:
    write_materials(tmp_path)
    model, data = tmp_path / "model", f'[task]\ntype = "jsonl"\npath = "{tmp_path}"\n'
    suites = data + '[eval.test]\nmax_response = 8\n[machine]\ndevice = "cpu"\nthreads = 1\n'
    (tmp_path / "suites.toml").write_text(suites, encoding="utf-8")
    head = 'name = "e"\nquestion = "?"\nprimary = "test:accuracy"\nseeds = [0]\n'
    tables = "[rollout]\nprompts_per_step = 2\nsamples_per_prompt = 2\nmax_response = 8\n[optim]\nlr = 1e-3\n"
    tables += '[budget]\nsteps = 1\n[arm.a]\nbase = "grpo"\n'
    (tmp_path / "exp.toml").write_text(head + suites + tables, encoding="utf-8")
    for kind in ("suites", "exp"):
        out = tmp_path / kind
        arguments = ["eval", str(tmp_path / f"{kind}.toml"), "--model", str(model), "--out", str(out)]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        assert "test: accuracy 0.00 %" in result.stdout and result.stdout.splitlines()[-1] == str(out)
    a, b = read_eval(tmp_path / "suites"), read_eval(tmp_path / "exp")
    assert a.rows("test") == b.rows("test") and a.info.suites == b.info.suites and a.info.weights == b.info.weights


def test_a_run_from_before_the_later_keys_is_still_the_same_run(tmp_path: Path) -> None:
    exp = experiment(tmp_path, {"arm": {"base": "grpo"}})
    paths = ExperimentPaths(tmp_path / "runs" / "tiny")
    for job, config in ((Job(None, 0), base_config(exp)), (Job("arm", 0), run_config(exp, "arm"))):
        assert not set(LATER) & set(config["setting"]["eval"]["test"])
        run = paths.base if job.arm is None else paths.run(job.arm, job.seed)
        write_json(run.config, config)
        write_json(run.run, {})
        _refuse_another_configuration(exp, paths, [job])
        changed = replace(
            exp, setting=replace(exp.setting, **{"eval": {"test": {"max_response": 8, "limit": 2, "short": 4}}})
        )
        with pytest.raises(ConfigError, match=r"setting\.eval\.test\.short: None in the folder, 4 now"):
            _refuse_another_configuration(changed, paths, [job])

    asked = Questions([], [])
    then = data_info(STORIES, "test", asked)

    def facts(**changes: Any) -> RunFacts:
        return RunFacts(
            config_hash=value_hash(identity(run_config(exp, "arm"))),
            grader=GraderInfo(name="answer", policy="answer/strict", version="v"),
            data={"test": then.model_copy(update=changes)},
            device="cpu",
            device_bytes=None,
            threads=1,
            determinism="bitwise",
        )

    run = ExperimentPaths(tmp_path / "more").run("arm", 0)
    RunWriter.create(run, facts(prompts=None, graders=()), {}).close()
    check_same(run, facts())
    again = ExperimentPaths(tmp_path / "more").run("arm", 1)
    RunWriter.create(again, facts(), {}).close()
    check_same(again, facts())
    with pytest.raises(ConfigError, match="another data"):
        check_same(again, facts(prompts="asked in other words"))
    taught = facts().model_copy(update={"data": {**facts().data, "given": then}})
    check_same(again, taught)  # runs on files did not tell what they were given
    third = ExperimentPaths(tmp_path / "more").run("arm", 2)
    RunWriter.create(third, taught, {}).close()
    with pytest.raises(ConfigError, match="another data"):
        check_same(third, facts())
