"""The Chinese page is Chinese: every template has its translation, with the same gaps and the same care."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from string import Formatter
from typing import Any
from unittest.mock import MagicMock

import pytest

from paribus.report import build, figures, message
from paribus.report.chinese import CHINESE, merged
from paribus.store import CellRow, DifferenceRow, FactorRow, read_experiment
from paribus.store.files import write_rows
from paribus.store.layout import step_files

RUNS = {
    "ppo": {0: "11110000", 1: "11100000", 2: "1111t0u0"},
    "grpo": {0: "11110100", 1: "11000000", 2: "11101100"},
}
REPORT = Path(message.__file__).parent
SAYING = (REPORT, REPORT.parent / "planning")  # signals and rules of the planning are told in the report
HAN = "\u4e00-\u9fff"


def gaps(template: str) -> list[str]:
    return sorted(name for _, name, _, _ in Formatter().parse(template) if name is not None)


def literals(argument: ast.expr) -> list[str]:
    """Return what an argument can be: a literal, or either branch of a condition."""
    match argument:
        case ast.Constant(value=str() as text):
            return [text]
        case ast.IfExp(body=body, orelse=other):
            return [*literals(body), *literals(other)]
    return []


def nodes() -> Iterator[ast.AST]:
    for path in (path for folder in SAYING for path in folder.rglob("*.py") if "chinese" not in path.parts):
        yield from ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def page_words() -> set[str]:
    return set(re.findall(r'\bt\("([^"]*)"\)', (REPORT / "page.html").read_text(encoding="utf-8")))


def nouns(counted: ast.expr) -> set[str]:
    return {f"{{n}} {noun}{ending}" for noun in literals(counted) for ending in ("", "s")}


def written() -> set[str]:
    """Return every template that stands in the source as a literal: those that no test of a page may come by too."""
    found = page_words()
    for node in nodes():
        match node:
            case ast.Call(func=ast.Name(id="msg"), args=[template, *_]):
                found |= set(literals(template))
            case ast.Call(func=ast.Name(id="count"), args=[_, noun]):
                found |= nouns(noun)
    return {template for template in found if re.search("[a-z]", re.sub(r"\{\w+\}", "", template), re.IGNORECASE)}


def test_every_template_in_the_source_has_a_translation() -> None:
    assert sorted(written() - CHINESE.keys()) == []


def test_no_translation_is_of_a_template_that_is_gone() -> None:
    found = page_words()
    for node in nodes():
        match node:
            case ast.Constant(value=str() as text):
                found.add(text)
            case ast.Call(func=ast.Name(id="count"), args=[_, noun]):
                found |= nouns(noun)
    assert sorted(CHINESE.keys() - found) == []


def test_a_template_is_translated_once() -> None:
    with pytest.raises(ValueError, match="translated twice: run"):
        merged({"run": "运行", "arm": "实验臂"}, {"run": "一次运行"})


def test_every_translation_has_the_gaps_of_its_template() -> None:
    """`#` is the gap of what page.js says."""
    odd = [
        template
        for template, told in CHINESE.items()
        if gaps(template) != gaps(told) or template.count("#") != told.count("#")
    ]
    assert odd == []


def test_no_translation_says_that_there_is_no_difference() -> None:
    """What is not shown is not denied, and what is equivalent is not called the same."""
    for template, told in CHINESE.items():
        assert not re.search("没有差异|无差异|不存在差异|没有区别|无显著差异|相等", told), template
        if re.search("not shown|nor to be|neither a difference", template):
            assert "未显示" in told, template
        if "nconclusive" in template:
            assert "尚无定论" in told, template
        if "equivalen" in template:
            assert "等效" in told and ("相同" in told) == ("identical" in template), template
        for word, translation in {"checkpoint": "检查点", "algorithms": "算法"}.items():
            if word in template:
                assert translation in told, template


def test_translations_are_set_as_chinese_is() -> None:
    """Full-width punctuation beside Chinese, and a space between Chinese and Latin letters or numbers."""
    for template, told in CHINESE.items():
        assert not re.search(rf"[{HAN}][,;:!?()]|[,;:!?()][{HAN}]", told), template
        assert not re.search(rf"[{HAN}][A-Za-z0-9]|[A-Za-z0-9%][{HAN}]", told), template


class Strict(dict[str, str]):
    """A catalogue that remembers what it was asked for in vain."""

    def __init__(self, known: Mapping[str, str]) -> None:
        super().__init__(known)
        self.missing: set[str] = set()

    def get(self, template: str, default: Any = None) -> Any:
        if template not in self and re.search("[a-z]", re.sub(r"\{\w+\}", "", template), re.IGNORECASE):
            self.missing.add(template)
        return super().get(template, default)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say the words of every drawing without drawing it: that takes most of the time of a page."""

    def said(paint: Callable[[Any], None], canvas: figures.Canvas) -> str:
        paint(MagicMock())
        return "<svg></svg>"

    monkeypatch.setattr(figures, "_svg", said)
    monkeypatch.setattr(figures, "_png", lambda paint, canvas: b"")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, undrawn: None) -> Strict:
    strict = Strict(CHINESE)
    monkeypatch.setattr(message, "catalogue", lambda language: strict if language == "zh" else {})
    return strict


def test_no_sentence_of_a_report_is_left_in_english(write: Any, tmp_path: Path, asked: Strict) -> None:
    build(write(RUNS, margin=2.0), tmp_path / "plain", language="zh")
    build(write({"ppo": {0: "11110000"}, "grpo": {}}, name="one", seeds=[0]), tmp_path / "one", language="zh")
    build(write({"ppo": {}, "grpo": {}}, None, name="none"), tmp_path / "none", language="zh")
    build(write(RUNS, name="failed", failing=[("grpo", 2)]), tmp_path / "failed", language="zh")
    hidden = [DifferenceRow(path="whiten", values={"ppo": True, "grpo": None}, declared=False)]
    build(write(RUNS, name="open", differences=hidden), tmp_path / "open", language="zh")
    assert sorted(asked.missing) == []


def test_nor_of_one_with_factors_and_rewards(write: Any, tmp_path: Path, asked: Strict) -> None:
    noise = FactorRow(name="noise", levels=("0", "0.3"), changes={"0": {}, "0.3": {"reward.flip": 0.3}})
    names = [(f"{arm}.{level}", arm, level) for arm in RUNS for level in noise.levels]
    cells = [CellRow(arm=name, of=arm, levels=(level,)) for name, arm, level in names]
    folder = write({name: RUNS[arm] for name, arm, _ in names}, name="factors", factors=(noise,), cells=cells)
    for runs in read_experiment(folder).runs.values():
        for run in runs.values():
            path = step_files(run.paths.evals / "test")[max(run.eval_steps("test"))]
            rows = [row.model_copy(update={"reward": 0.5, "kl": 0.1 * i}) for i, row in enumerate(run.eval("test"))]
            write_rows(path, rows)
            steps = [json.loads(line) for line in run.paths.steps.read_text().splitlines()]
            for row in steps:
                row["stats"] |= {"reward/model": {"sum": row["step"], "count": 1.0}, "gold": {"sum": 1.0, "count": 2.0}}
            run.paths.steps.write_text("".join(json.dumps(row) + "\n" for row in steps))
    build(folder, tmp_path / "out", language="zh")
    assert sorted(asked.missing) == []


def test_the_page_links_to_its_other_language_in_that_language(write: Any, tmp_path: Path, undrawn: None) -> None:
    build(write(RUNS), tmp_path / "out", language="both")
    english, chinese = ((tmp_path / "out" / name).read_text() for name in ("report.html", "report.zh.html"))
    assert "阅读中文版" in english and "Read in English" in chinese
