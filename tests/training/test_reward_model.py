"""Training reward models: which pairs, the exact mean over an update, resuming bit for bit, and the whole way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from paribus.errors import ConfigError, DataError
from paribus.models.hf import save_model
from paribus.models.reward import RewardModel, load_reward_model, make_reward_model
from paribus.part import load, read_toml, replace
from paribus.settings import ModelSpec
from paribus.store.files import read_json
from paribus.tasks import Stories
from paribus.training import comparisons as pairing
from paribus.training import reward_model as training
from paribus.training.comparisons import Comparison, FilePairs, OwnPairs, Sampled
from toymodels import EOS, llama, tokenizer
from toyrewards import oracle, reward_model

RECIPES = Path(__file__).resolve().parents[2] / "experiments"
FILE = """
name = "small"
epochs = {epochs}
batch = 4
save_every = 2
[pairs]
type = "file"
path = "{pairs}"
held_out = 0.3
[model]
path = "{model}"
[loss]
centre = 0.01
[optim]
lr = 3e-3
[machine]
device = "cpu"
threads = 1
"""
OWN = """
name = "own"
batch = 2
save_every = 1
[task]
type = "stories"
train = 4
validation = 4
[pairs]
type = "own"
problems = 4
held_out = 4
samples = 4
max_response = 48
[optim]
lr = 1e-3
[machine]
device = "cpu"
threads = 1
"""
COMPARISONS = [
    Comparison(((5, 6, 7, EOS), (8, 9, EOS), (10, EOS)), ((0, 1), (0, 2), (1, 2))),
    Comparison(((11, 12, EOS), (13, 14, 15, 16, 17, EOS)), ((1, 0),)),
    Comparison(((18, EOS), (19, 20, EOS)), ((0, 1),)),
    Comparison(((21, 22, 23, EOS), (24, EOS), (25, 26, EOS)), ((0, 1), (0, 2))),
]


def silent(text: str) -> None:
    pass


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """On 24 prompts of a file, where the answer with an `a` is always the good one."""
    save_model(llama(), tokenizer(), tmp_path / "lm")
    rows = []
    for i in range(24):
        filler = "xyz"[i % 3] * (1 + i % 4)
        chosen, rejected = f"{filler}a{filler}", f"{filler}b{filler}{filler}"
        rows.append(json.dumps({"prompt": f"ask {i}", "chosen": chosen, "rejected": rejected}))
    (tmp_path / "pairs.jsonl").write_text("\n".join(rows) + "\n")
    path = tmp_path / "small.toml"
    path.write_text(FILE.format(epochs=6, pairs=tmp_path / "pairs.jsonl", model=tmp_path / "lm"))
    return path


@pytest.fixture
def spec(recipe: Path) -> training.RewardModelSpec:
    # a large eps makes AdamW's first step proportional to the gradient
    return replace(load(training.RewardModelSpec, read_toml(recipe)), **{"optim.eps": 1e3})


def test_pairs_are_those_of_different_score_and_a_text_counts_once() -> None:
    answers = Sampled(problem="p", texts=("7", "8", "7", "nine", "6"), scores=(1.0, 0.0, 1.0, None, 0.0))
    assert pairing.draw_pairs(answers, 16, 0) == [("7", "8"), ("7", "6")]
    (one,) = pairing.draw_pairs(answers, 1, 0)
    assert one in [("7", "8"), ("7", "6")]
    assert {tuple(pairing.draw_pairs(answers, 1, seed)) for seed in range(20)} == {(("7", "8"),), (("7", "6"),)}


def test_rows_of_a_comparison_stand_once_whatever_pairs_they_are_in(tmp_path: Path) -> None:
    model = reward_model(tmp_path)
    messages = [{"role": "user", "content": "3+4?"}]
    too_long = "9" * 128
    compared = pairing.compare(model, messages, [("7", "8"), ("7", "6"), ("7", too_long), ("7", "7")])
    assert compared.pairs == ((0, 1), (0, 2))
    assert compared.rows == tuple(tuple(model.encode(messages, text)) for text in "786")


def test_dropped_problems_are_counted(tmp_path: Path) -> None:
    task = Stories(train=4)
    problems = task.problems("train")
    scores = [(1.0, 0.0), (1.0, 1.0), (0.0, 0.0), (None, None)]
    answers = [Sampled(problem=p.id, texts=("1", "2"), scores=s) for p, s in zip(problems, scores, strict=True)]
    model = reward_model(tmp_path)
    model.model.config.max_position_embeddings = 4096  # the toy tokenizer needs a token per letter
    spec = OwnPairs(max_response=4)
    made = pairing.from_answers(model, task, problems, answers, spec, 0, "train")
    assert made.counts == {"problems": 4, "compared": 1, "dropped_all_right": 1, "dropped_all_wrong": 2, "pairs": 1}
    assert len(made.rows) == 8
    with pytest.raises(DataError, match="no train prompt has a good and a bad answer"):
        pairing.from_answers(model, task, problems[1:], answers[1:], spec, 0, "train")


def test_pairs_of_a_prompt_are_on_one_side_of_the_split(tmp_path: Path) -> None:
    lines = [{"prompt": f"q{i // 3}", "chosen": f"good {i}", "rejected": "bad"} for i in range(60)]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    model = reward_model(tmp_path / "lm")
    sides = pairing.from_file(model, FilePairs(path=str(tmp_path / "pairs.jsonl"), held_out=0.3))
    assert sum(side.counts["prompts"] for side in sides) == 20
    for side in sides:
        assert side.counts["pairs"] == 3 * side.counts["prompts"] > 0
        assert all(len(c.rows) == 4 and c.pairs == ((0, 1), (2, 1), (3, 1)) for c in side.comparisons)


def one_step(spec: training.RewardModelSpec, micro_tokens: int) -> tuple[float, dict[str, torch.Tensor]]:
    """The loss and the change of each parameter by one step of plain gradient size, in float64."""
    model = _double(make_reward_model(spec.model))
    trainer = training.Trainer(replace(spec, **{"machine.micro_tokens": micro_tokens}), model, COMPARISONS)
    before = {name: p.detach().clone() for name, p in model.model.named_parameters()}
    loss = trainer.step(1).loss
    return loss, {name: p.detach() - before[name] for name, p in model.model.named_parameters()}


def test_any_split_into_micro_batches_gives_the_same_update(spec: training.RewardModelSpec) -> None:
    loss, whole = one_step(spec, 100_000)
    for budget in (1, 14, 20):
        again, parts = one_step(spec, budget)
        assert again == pytest.approx(loss, rel=1e-10)
        for name, change in whole.items():
            assert torch.allclose(parts[name], change, rtol=0, atol=1e-9 * float(change.abs().max())), name


def test_the_loss_gives_every_problem_one_vote_and_shares_it_among_its_pairs(spec: training.RewardModelSpec) -> None:
    """By hand: -log sig(good - bad) + 0.01 (good + bad)^2 of each pair, mean per problem, mean over problems."""
    model = _double(make_reward_model(spec.model))
    means = []
    for comparison in COMPARISONS:
        scores = torch.tensor([oracle(model, row) for row in comparison.rows], dtype=torch.float64)
        good, bad = (scores[list(side)] for side in zip(*comparison.pairs, strict=True))
        means.append(float((torch.log1p(torch.exp(bad - good)) + 0.01 * (good + bad) ** 2).mean()))
    found = training.Trainer(spec, model, COMPARISONS).step(0).loss
    assert found == pytest.approx(sum(means) / len(means), rel=1e-9)


def test_accuracy_is_over_pairs_and_over_problems() -> None:
    measured = training.measure([[True, True, True, True], [False], [True]], seed=0)
    assert measured["pairs"]["estimate"] == pytest.approx(5 / 6) and measured["pairs"]["n"] == 6
    assert measured["problems"]["estimate"] == pytest.approx(2 / 3) and measured["problems"]["n"] == 3
    assert measured["pairs"]["method"] == "Wilson"


class Stopped(Exception):
    """Stands for Ctrl-C."""


def test_a_stopped_run_goes_on_bit_for_bit(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = training.run(recipe, tmp_path / "whole", progress=silent)
    step = training.Trainer.step

    def stop_at_three(self: training.Trainer, number: int) -> Any:
        if number == 3:
            raise Stopped
        return step(self, number)

    with monkeypatch.context() as patch:
        patch.setattr(training.Trainer, "step", stop_at_three)
        with pytest.raises(Stopped):
            training.run(recipe, tmp_path / "parts", progress=silent)
    lines: list[str] = []
    parts = training.run(recipe, tmp_path / "parts", progress=lines.append)
    assert any("resuming after step 2" in line for line in lines)
    assert (parts / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert read_json(parts / training.RECORD) == read_json(whole / training.RECORD)


def test_it_learns_what_makes_an_answer_good_and_says_how_well(recipe: Path, tmp_path: Path) -> None:
    out = training.run(recipe, tmp_path / "out", progress=silent)
    record = read_json(out / training.RECORD)
    assert load(training.RewardModelSpec, record["recipe"]) == load(training.RewardModelSpec, read_toml(recipe))
    held_out, trained = record["data"]["held_out"], record["data"]["train"]
    assert held_out["pairs"] + trained["pairs"] == 24 and held_out["hash"] != trained["hash"]
    assert record["held_out_accuracy"]["pairs"]["estimate"] == 1
    assert record["curve"][-1]["step"] == record["steps"]
    model = load_reward_model(str(out))
    messages = [{"role": "user", "content": "ask something new"}]
    good, bad = model.score([model.encode(messages, text) for text in ("zzazz", "zzbzz")], micro_tokens=99)
    assert good > bad
    assert abs(record["held_out_scores"]["mean"]) < 1, "centred"
    lines: list[str] = []
    training.run(recipe, out, progress=lines.append)
    assert len(lines) == 1 and "already" in lines[0]


def test_own_pairs_of_the_embedded_model(tmp_path: Path) -> None:
    """The whole way on a handful of stories; what was sampled before a stop is not sampled again."""
    recipe = tmp_path / "own.toml"
    recipe.write_text(OWN)
    out = training.run(recipe, tmp_path / "out", progress=silent)
    record = read_json(out / training.RECORD)
    assert record["data"]["train"]["problems"] == record["data"]["held_out"]["problems"] == 4
    assert record["held_out_scores"]["rows"] == 16 and record["held_out_scores"]["std"] > 0
    assert not (out / "checkpoints").exists()


def test_recipes_that_cannot_be_meant_are_refused(recipe: Path, tmp_path: Path) -> None:
    text = recipe.read_text()
    for change, message in (
        (("lr = 3e-3", "lr = 3e-3\nepochs = 2"), "set epochs and batch"),
        (("centre = 0.01", "margin = true"), "needs margins in the data"),
        (("[pairs]", '[task]\ntype = "stories"\n[pairs]'), "pairs of a file have none"),
        (("held_out = 0.3", "held_ot = 0.3"), "did you mean 'held_out'"),
    ):
        recipe.write_text(text.replace(*change))
        with pytest.raises(ConfigError, match=message):
            training.run(recipe, tmp_path / "out", progress=silent)


def test_the_shipped_recipe_loads() -> None:
    spec = load(training.RewardModelSpec, read_toml(RECIPES / "reward-tiny.toml"))
    assert spec.model == ModelSpec() and isinstance(spec.pairs, OwnPairs)


def _double(model: RewardModel) -> RewardModel:
    """With a head that has an opinion, so that gradients reach the trunk."""
    torch.manual_seed(1)
    torch.nn.init.normal_(model.head.weight)
    model.model.double()
    return model
