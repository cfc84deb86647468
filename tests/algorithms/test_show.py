"""What a person reads of a method: nothing that changes a number may be missing."""

from __future__ import annotations

import pytest

from paribus.algorithms import CATALOG
from paribus.algorithms.catalog import GRPO, PPO, REINFORCE, VERL_05_GRPO, VERL_05_PPO
from paribus.algorithms.show import WIDTH, diff_text, differences, show_text
from paribus.part import diff, replace


@pytest.mark.parametrize("entry", CATALOG.values(), ids=CATALOG)
def test_every_field_and_formula_is_on_one_screen(entry):
    text = show_text(entry)
    lines = text.splitlines()
    assert len(lines) <= 48 and max(map(len, lines)) <= 125
    flat = " ".join(text.split())
    for part in entry.slots.values():
        assert " ".join(part.formula.split()) in flat
        assert f"{type(part).__name__}(" in text
        for name, value in part:
            assert name == "type" or f"{name}={'—' if value is None else ''}" in text


def test_a_ratio_that_is_not_used_is_not_shown():
    assert "TokenRatio" in show_text(GRPO) and "TokenRatio" not in show_text(REINFORCE)


def test_weights_that_are_no_parts_are_shown_too():
    lines = [line.split() for line in show_text(CATALOG["vapo"]).splitlines()]
    assert ["imitation", "0.1"] in lines and ["entropy", "0"] in lines


def test_an_own_method_is_shown_without_sources():
    text = show_text(replace(GRPO, name="mine", **{"surrogate.high": 0.3}))
    assert "high=0.3" in text and "source:" not in text and "departs" not in text


def test_the_founding_experiments_hidden_variable():
    rows = differences(VERL_05_PPO, VERL_05_GRPO)
    declared = {row.path: row.declared for row in rows}
    assert {path.split(".")[0] for path, said in declared.items() if not said} == {"whiten"}
    assert {path.split(".")[0] for path, said in declared.items() if said} == {"advantage", "critic"}
    assert {"critic.init", "critic.head", "critic.head_std", "critic.warmup", "critic.lr"} <= set(declared)
    by_path = {row.path: (row.left, row.right) for row in rows}
    assert by_path["critic.warmup"] == (0, None) and by_path["whiten.over"] == ("tokens", None)
    lines = diff_text(VERL_05_PPO, VERL_05_GRPO).splitlines()
    whiten = [line for line in lines if line.startswith("whiten")]
    assert whiten and all(line.endswith("no") for line in whiten)
    assert lines[-1] == "undeclared: whiten"
    assert any(line.startswith("critic.init") and line.endswith("yes") for line in lines)


def test_no_source_declares_what_only_one_of_them_names():
    rows = differences(PPO, VERL_05_PPO)
    assert rows and not any(row.declared for row in rows)
    assert {row.path for row in rows} == {d.path for d in diff(PPO, VERL_05_PPO)} - {"name", "paper"}


def test_equal_methods_do_not_differ():
    assert diff_text(GRPO, replace(GRPO, name="other")) == "grpo and other do not differ."


def test_a_part_inside_a_part_is_shown_with_its_fields_and_formula():
    text = show_text(CATALOG["cppo_adaptive"])
    assert "divergence=TopkTv(k=20)" in text
    assert "    divergence: D = 1/2 sum |p_old - p|" in text
    assert "    budget: clip(quantile of the row's D, low, high)" in text
    assert max(map(len, text.splitlines())) <= WIDTH
