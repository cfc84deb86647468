"""Putting the page together: stored experiment in, report.md, report.html and figures out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from paribus.report import provenance
from paribus.report.accuracy import accuracy
from paribus.report.advice import advice_section
from paribus.report.blocks import Block, Page, Section
from paribus.report.browser import browser
from paribus.report.cost import cost
from paribus.report.examples import examples
from paribus.report.export import export, figures
from paribus.report.fairness import fairness, uncontrolled
from paribus.report.inference import inference
from paribus.report.interactions import interactions
from paribus.report.limits import limits
from paribus.report.markdown import markdown
from paribus.report.memory import memory
from paribus.report.message import Language, msg
from paribus.report.panels import diagnostics, learning_curves
from paribus.report.planned import planned
from paribus.report.protocol import protocol
from paribus.report.render import FILES, html
from paribus.report.reproduction import reproduction
from paribus.report.results import Scores
from paribus.report.results import primary as primary_scores
from paribus.report.reward import reward_and_kl
from paribus.report.samples import many_samples
from paribus.report.verdict import judge, tiles, verdict
from paribus.stats.verdict import Verdict
from paribus.store import StoredExperiment, read_experiment
from paribus.store.files import replace_file

FOLDED = 60  # values from which a table of differences is folded away


def build(
    experiment_dir: str | Path,
    out_dir: str | Path,
    price_per_hour: float | None = None,
    language: Language | Literal["both"] = "en",
) -> Path:
    """Write the report as HTML and Markdown with its tables and figures as files; return the path of the HTML.

    `price_per_hour` is that of one device; None: the experiment's own. In Chinese the page is report.zh.html, with
    `both` it lies beside report.html. The same runs give the same bytes. Raises DataError if the folder holds no
    experiment, or its evaluations cannot be compared.
    """
    exp = read_experiment(experiment_dir)
    content = page(exp, exp.info.price_per_hour if price_per_hour is None else price_per_hour)
    out = Path(out_dir)
    drawn = {figure.name: [drawing.draw("en") for drawing in figure.drawings] for figure in figures(content)}
    export(content, drawn, out)
    languages: Sequence[Language] = ("en", "zh") if language == "both" else (language,)
    for code in languages:
        if code != "en":
            drawn = {figure.name: [drawing.draw(code) for drawing in figure.drawings] for figure in figures(content)}
        others = [other for other in languages if other != code]
        replace_file(out / f"{FILES[code]}.md", markdown(content, code).encode())
        replace_file(out / f"{FILES[code]}.html", html(content, drawn, code, others).encode())
    return out / f"{FILES[languages[0]]}.html"


def page(exp: StoredExperiment, price: float) -> Page:
    """Return the content of the report."""
    primary = primary_scores(exp)
    found = judge(exp.info, primary)
    controlled = not uncontrolled(exp)
    return Page(
        title=exp.info.name if controlled else msg("{experiment} (not controlled)", experiment=exp.info.name),
        question=exp.info.question,
        controlled=controlled,
        verdict=verdict(exp, primary, found),
        tiles=tiles(exp.info, primary, found),
        sections=[section for section in _sections(exp, price, primary, found) if section.blocks],
    )


def _sections(exp: StoredExperiment, price: float, primary: Scores, found: Sequence[Verdict]) -> list[Section]:
    """Return the parts of the page in their order; those without a block are left out."""
    held = sum(len(row.values) for row in exp.info.differences)
    return [
        _fairness(fairness(exp), not uncontrolled(exp)),
        Section(msg("What differs between the arms"), provenance.differences(exp), level=2, folded=held > FOLDED),
        Section(msg("Settings and protocol"), protocol(exp)),
        Section(msg("Shared setting"), provenance.shared(exp), level=2, folded=True),
        Section(msg("Accuracy"), accuracy(exp, primary, found)),
        Section(msg("Interactions"), interactions(exp.info, primary) if exp.info.factors else []),
        Section(msg("Several samples a problem"), many_samples(exp, primary)),
        Section(msg("Reward and KL"), reward_and_kl(exp)),
        Section(msg("Cost"), cost(exp, primary, price)),
        Section(msg("Memory"), memory(exp)),
        Section(msg("Inference profile"), inference(exp, primary)),
        Section(msg("Learning curves"), learning_curves(exp, primary.suite, price)),
        Section(msg("Signs of failure"), diagnostics(exp)),
        Section(msg("Problem by problem"), browser(exp, primary)),
        Section(msg("Examples"), examples(exp, primary), level=2),
        Section(msg("Failures and exclusions"), provenance.failures(exp, primary)),
        Section(msg("Planned and measured"), planned(exp, primary, exp.plan, price)),
        Section(msg("Advice before the runs"), advice_section(exp)),
        Section(msg("Limits"), limits(exp, primary, found)),
        Section(msg("Reproduction"), reproduction(exp)),
        Section(msg("Provenance"), provenance.provenance(exp), level=2, folded=True),
    ]


def _fairness(blocks: Sequence[Block], controlled: bool) -> Section:
    """Return the fairness box: its title says what its lines do not allow to be overlooked."""
    fails = any(line.ok is False for block in blocks if block.kind == "checks" for line in block.lines)
    title = msg("Fairness") if controlled else msg("Fairness: not controlled")
    return Section(title, blocks, tone="good" if controlled and not fails else "warning")
