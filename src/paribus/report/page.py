"""Putting the page together: stored experiment in, report.md, report.html and figures out."""

from __future__ import annotations

from pathlib import Path

from paribus.report import cost, provenance, verdict
from paribus.report.blocks import Block, Figure, Page, Prose, Section
from paribus.report.curves import curves
from paribus.report.examples import examples
from paribus.report.figures import Effect, draw_curves, draw_effects, draw_phases
from paribus.report.interactions import interactions
from paribus.report.render import html, markdown
from paribus.report.results import Scores, contrast, finished, gain, pairs, scores, suites, taught_by_start
from paribus.report.reward import reward_and_kl
from paribus.report.text import listing
from paribus.store import StoredExperiment, read_experiment
from paribus.store.files import replace_file


def build(experiment_dir: str | Path, out_dir: str | Path, price_per_hour: float | None = None) -> Path:
    """Write report.md, its figures and the self-contained report.html; return the path of the latter.

    `price_per_hour` is that of one device; None: the experiment's own. The same runs give the same bytes. Raises
    DataError if the folder holds no experiment, or its evaluations cannot be compared.
    """
    exp = read_experiment(experiment_dir)
    price = exp.info.price_per_hour if price_per_hour is None else price_per_hour
    content = page(exp, price)
    out = Path(out_dir)
    for section in content.sections:
        for block in section.blocks:
            if block.kind == "figure":
                replace_file(out / "figures" / f"{block.name}.svg", block.svg.encode() + b"\n")
    replace_file(out / "report.md", markdown(content).encode())
    replace_file(out / "report.html", html(content).encode())
    return out / "report.html"


def page(exp: StoredExperiment, price: float) -> Page:
    """Return the content of the report."""
    names = suites(exp)
    primary = scores(exp, names[0])
    controlled = not provenance.uncontrolled(exp)
    rewarded = reward_and_kl(exp)
    return Page(
        title=exp.info.name if controlled else f"{exp.info.name} (not controlled)",
        question=exp.info.question,
        controlled=controlled,
        verdict=verdict.verdict(exp.info, primary),
        tiles=verdict.tiles(exp.info, primary),
        sections=[
            Section("Question", _question(exp)),
            Section("What differs between the arms", provenance.differences(exp)),
            Section("Accuracy", _accuracy(exp, names, primary)),
            *([Section("Interactions", interactions(exp.info, primary))] if exp.info.factors else []),
            *([Section("Reward and KL", rewarded)] if rewarded else []),
            Section("Cost", _cost(exp, price)),
            Section("Memory", cost.memory(exp)),
            Section("Inference profile", cost.inference(exp, primary)),
            Section("Learning curves", _curves(exp, names[0])),
            Section("Examples", examples(exp, primary)),
            Section("Failures and exclusions", provenance.failures(exp, primary)),
            Section("Limits", provenance.limits(exp, primary)),
            Section("Shared setting", provenance.shared(exp)),
            Section("Provenance", provenance.provenance(exp)),
        ],
    )


def _question(exp: StoredExperiment) -> list[Block]:
    metric = (
        f"Primary metric, declared before the runs: {exp.info.primary}. The headline speaks of it and of nothing else."
    )
    return [Prose(exp.info.question), Prose(metric, "note")]


def _accuracy(exp: StoredExperiment, names: list[str], primary: Scores) -> list[Block]:
    effects = _effects(exp, primary)
    out: list[Block] = []
    if effects:
        title = "Gains over the base, and differences between arms, with intervals; rings are runs"
        out.append(Figure("effects", title, draw_effects(effects), wide=True))
    out += verdict.accuracy(exp.info, primary)
    for name in names[1:]:
        out.append(Prose(f"Secondary: {name}."))
        out += verdict.accuracy(exp.info, scores(exp, name))
    return out


def _effects(exp: StoredExperiment, s: Scores) -> list[Effect]:
    out = []
    arms = [arm for arm in exp.info.arms if s.table[arm].size]
    for arm in arms:
        g = gain(s, arm)
        if g is not None and s.base is not None:
            runs = [100 * float((row - s.base).mean()) for row in s.table[arm]]
            out.append(Effect(f"{arm} − base", 100 * g.estimate, 100 * g.low, 100 * g.high, runs))
    level = verdict.family_level(exp.info)
    for a, b in pairs(arms, exp.info.cells):
        c = contrast(s, a, b, level)
        common = [seed for seed in s.seeds[a] if seed in s.seeds[b]]
        rows = [(s.table[a][s.seeds[a].index(k)], s.table[b][s.seeds[b].index(k)]) for k in common]
        if c is not None:
            runs = [100 * float((x - y).mean()) for x, y in rows]
            out.append(Effect(f"{a} − {b}", 100 * c.estimate, 100 * c.low, 100 * c.high, runs))
    return out


def _cost(exp: StoredExperiment, price: float) -> list[Block]:
    split = {arm: cost.phase_means(runs) for arm, runs in finished(exp).items() if runs}
    tables = cost.cost(exp, price)
    if not any(split.values()):
        return tables
    figure = Figure("phases", "Training seconds by phase", draw_phases(split, cost.PHASE_NAMES), wide=True)
    return [figure, *tables]


def _curves(exp: StoredExperiment, suite: str) -> list[Block]:
    panels = curves(exp, suite)
    if not panels:
        return [Prose("No steps were recorded.", "note")]
    text = "Thick: mean over seeds at the steps that all of them have; thin: each seed."
    out: list[Block] = [Prose(text, "note")]
    start = taught_by_start(exp)
    if start:
        what = "Lengths, rewards and scores of responses are of the starting policy, not of the trained one, for"
        out.append(Prose(f"{what} {listing(start)}: its answers are the training data.", "note"))
    return [*out, *(Figure(p.name, p.title, draw_curves(p, exp.info.arms)) for p in panels)]
