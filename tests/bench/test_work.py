"""Steps of fixed length through the pipeline: every row trained, every phase counted, nothing left patched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from paribus.bench import inside, measure
from paribus.bench.flops import Count, Group, decode, prefill
from paribus.bench.inputs import Inputs, prepare
from paribus.bench.roofline import Roofline
from paribus.bench.roofline import measure as measured
from paribus.bench.work import Kind, Size, Workbench
from paribus.cli import app
from paribus.errors import ConfigError
from paribus.models.hf import load_tokenizer, load_weights
from paribus.planning.shapes import find_shape
from paribus.settings import MachineSpec, ModelSpec

CPU = MachineSpec(device="cpu")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return prepare("tiny", tmp_path_factory.mktemp("inputs"))


def test_the_tiny_inputs_have_the_stated_sizes(tiny: Inputs) -> None:
    spec = ModelSpec(path=tiny.model)
    assert find_shape(spec).shape.parameters == 918_656
    tokenizer, rows = load_tokenizer(tiny.model, spec), tiny.read()
    assert {len(tokenizer(row["prompt"]).input_ids) for row in rows} == {16}
    assert {len(tokenizer(row[side]).input_ids) for row in rows for side in ("chosen", "rejected")} == {32}
    assert all(eval(row["prompt"].strip("= ")) == int(row["answer"]) for row in rows[:20])
    assert prepare("tiny", Path(tiny.model).parents[1]) == tiny  # made once


@pytest.mark.parametrize("kind", ["grpo", "ppo", "ppo_without_kl", "dpo", "rollout"])
def test_a_step_trains_every_row_at_its_full_length(tiny: Inputs, kind: Kind) -> None:
    bench = Workbench(tiny, kind, Size(3, 2, 40), CPU)
    seen = []
    update = bench.learner.update
    bench.learner.update = lambda batch, signal, *rest: seen.append((batch, signal)) or update(batch, signal, *rest)  # type: ignore[method-assign]
    before = {name: tensor.clone() for name, tensor in bench.loaded.model.named_parameters()}
    step = bench.step()
    bench.close()
    length = 33 if kind == "dpo" else 40  # an answer of the file and its end marker
    assert step.tokens == 6 * length
    timed = set(step.seconds) - {"step", "update", "other", "grade"}
    assert timed == set(step.needed)
    assert sum(step.inside.values()) < step.seconds["step"] and step.inside["model"] > 0
    assert all((step.inside[k] > 0) == (kind != "dpo") for k in ("draw", "weights"))
    moved = any(not torch.equal(before[name], tensor) for name, tensor in bench.loaded.model.named_parameters())
    assert moved == (kind != "rollout")
    if kind in ("grpo", "ppo", "ppo_without_kl"):
        ((batch, signal),) = seen
        assert bool(batch.mask.any(1).all()) and bool((signal.advantage[batch.mask] != 0).all())


def test_the_same_step_again_samples_the_same_rows(tiny: Inputs) -> None:
    bench = Workbench(tiny, "rollout", Size(2, 2, 5), CPU)
    one, two = bench.sample(3), bench.sample(3)
    bench.close()
    assert torch.equal(one.tokens, two.tokens) and one.problem_id == ["6", "6", "7", "7"]


def test_too_few_rows_are_refused_by_name(tiny: Inputs) -> None:
    with pytest.raises(ConfigError, match=r"rows.jsonl: 512 rows, and a step takes 513"):
        Workbench(tiny, "grpo", Size(513, 2, 4), CPU)


def test_watching_restores_what_it_wrapped_and_counts_the_outermost_call() -> None:
    plain = [getattr(owner, name) for owner, name, _ in inside.points()]
    x = torch.ones((), requires_grad=True)
    with inside.watched() as seconds:
        (x * 2).backward()
    assert seconds["model"] > 0 and seconds["draw"] == 0
    assert [getattr(owner, name) for owner, name, _ in inside.points()] == plain


def test_a_phase_is_held_against_the_nearer_limit() -> None:
    limit = Roofline(flops=100.0, read=10.0, copy=20.0)
    assert limit.seconds(200, 10) == 2 and limit.seconds(200, 50) == 5
    found = measure.phase([4.0, 8.0, 5.0], tokens=10, needed=Count(200, 10), limit=limit)
    assert found["seconds"] == {"median": 5.0, "min": 4.0, "max": 8.0}
    assert found["flops_per_second"] == 40 and found["percent_of_roofline"] == 40
    assert measure.phase([1.0], 1, Count(), limit)["percent_of_roofline"] is None


def test_the_roofline_is_positive_and_a_copy_counts_both_ways() -> None:
    found = measured(sides=(64,), buffer=1 << 16)
    assert min(found) > 0


def test_the_verb_tells_every_phase_and_writes_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paribus.bench.roofline.measure", lambda device: Roofline(1e11, 1e10, 2e10))
    monkeypatch.setenv("PARIBUS_CACHE", str(tmp_path))
    sizes = ["--prompts", "2", "--samples", "2", "--max-new", "4", "--repeats", "1", "--device", "cpu"]
    done = CliRunner().invoke(app, ["bench", "--ppo", *sizes, "--json", str(tmp_path / "report.json")])
    assert done.exit_code == 0, done.output
    (model,) = json.loads((tmp_path / "report.json").read_text())["models"]
    assert tuple(sorted(model["phases"])) == tuple(sorted(measure.PHASES))
    shape = find_shape(ModelSpec(path=str(tmp_path / "bench" / "tiny" / "model"))).shape
    groups = [Group(16, (4, 4))] * 2
    assert model["phases"]["prefill"]["flops"] == prefill(shape, groups).flops
    assert model["phases"]["decode"]["flops"] == decode(shape, groups).flops
    assert model["phases"]["eval"]["tokens"] == 8 and model["phases"]["decode"]["tokens"] == 16
    assert all(f"\n{phase}" in done.output for phase in measure.PHASES) and "918,656 parameters" in done.output


def test_weights_of_the_tiny_model_are_the_same_everywhere(tmp_path: Path, tiny: Inputs) -> None:
    again = prepare("tiny", tmp_path)
    from transformers import AutoModelForCausalLM

    one, two = (load_weights(x.model, ModelSpec(path=x.model), AutoModelForCausalLM)[0] for x in (tiny, again))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
