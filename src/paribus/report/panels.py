"""Learning curves on the page, and the panels that show how a group method or a critic fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from paribus.report.blocks import Block, Drawing, Figure, Prose, Table
from paribus.report.curves import PANELS, SIGNS, Axis, Curves, axes, curves, curves_data, read_panels, steps
from paribus.report.figures import Threshold, draw_curves
from paribus.report.message import Text, msg
from paribus.report.results import finished, schedule, taught_by_start
from paribus.report.text import DASH, listing, number, span
from paribus.store import RolloutRow, StoredExperiment, StoredRun


class Sign(NamedTuple):
    """A statistic of training with the range that practice calls healthy; `low` or `high` is None where open."""

    name: str  # of its panel
    low: float | None
    high: float | None
    source: Text

    @property
    def range(self) -> Text:
        low, high = (None if x is None else f"{x:g}" for x in (self.low, self.high))
        if low is not None and high is not None:
            return span(low, high)
        return msg("below {high}", high=high) if high is not None else msg("above {low}", low=low or "")

    def healthy(self, value: float) -> bool:
        return (self.low is None or value > self.low) and (self.high is None or value < self.high)


AXOLOTL = msg("axolotl, GRPO guide")
HEALTH = (
    Sign("uniform", None, 0.8, msg("axolotl, GRPO guide (frac_reward_zero_std)")),
    Sign("score", 0.15, None, msg("axolotl, GRPO guide (reward within 20 steps)")),
    Sign("entropy", 0.05, 0.5, AXOLOTL),
    Sign("kl", None, 0.5, AXOLOTL),
    Sign("upper-clip", None, 0.1, msg("axolotl, GRPO guide (clip region)")),
    Sign("truncated", None, 0.3, msg("axolotl, GRPO guide (clipped_ratio)")),
    Sign("explained", 0.0, None, msg("definition: at 0 the critic is no better than a constant")),
)
CRITIC_SIGNS = ("explained", "value-loss")


def learning_curves(exp: StoredExperiment, suite: str, price: float) -> list[Block]:
    """Return every recorded curve, each over all axes."""
    panels, over = curves(exp, suite), axes(exp, price)
    if not panels:
        return [Prose(msg("No steps were recorded."), "note")]
    out: list[Block] = [
        Prose(
            msg(
                "Thick: mean over seeds at the steps that all of them have; band: one standard deviation over seeds to "
                "either side (no confidence interval); thin: each seed. Over other axes than steps a mean stands where "
                "its step lies on average. Evaluations are left out of time and money."
            ),
            "note",
        )
    ]
    if not schedule(finished(exp)).comparable:
        out.append(Prose(msg("No axes of time and money: the runs' seconds cannot be compared fairly."), "note"))
    start = taught_by_start(exp)
    if start:
        out.append(
            Prose(
                msg(
                    "Lengths, rewards and scores of responses are of the starting policy, not of the trained one, for "
                    "{arms}: its answers are the training data.",
                    arms=listing(start),
                ),
                "note",
            )
        )
    return [*out, *(_figure(p, over, exp.info.arms) for p in panels)]


def _figure(panel: Curves, over: Sequence[Axis], arms: Sequence[str], thresholds: Sequence[Threshold] = ()) -> Figure:
    data = curves_data(panel, over)
    labels = [axis.label for axis in over] if len(over) > 1 else [""]
    sketches = [draw_curves(panel, axis, arms, thresholds) for axis in over]
    drawings = [Drawing(label, sketch, data) for label, sketch in zip(labels, sketches, strict=True)]
    return Figure(panel.name, panel.title, drawings)


def diagnostics(exp: StoredExperiment) -> list[Block]:
    """Return the signs of failure, over steps: of groups without variance, of length, of clipping, of the critic."""
    over = [steps(exp)]
    ranges = {sign.name: _thresholds(sign) for sign in HEALTH}
    drawn = {p.name: _figure(p, over, exp.info.arms, ranges.get(p.name, ())) for p in read_panels(exp, SIGNS)}
    group = [figure for name, figure in drawn.items() if name not in CRITIC_SIGNS]
    critic = [figure for name, figure in drawn.items() if name in CRITIC_SIGNS]
    out: list[Block] = _health(exp)
    if group:
        text = msg(
            "How group methods fail: groups whose scores are all equal teach nothing, length goes with credit, and "
            "likelier tokens are clipped from above before rarer ones can grow."
        )
        out += [Prose(text), *group, *_length_bias(exp)]
    if critic:
        text = msg(
            "How a critic fails: it explains nothing of the returns (0), or misleads (below 0), or its loss rises."
        )
        out += [Prose(text), *critic]
    return out


def _thresholds(sign: Sign) -> list[Threshold]:
    label = msg("healthy: {range}", range=sign.range)
    return [Threshold(bound, label) for bound in (sign.low, sign.high) if bound is not None]


def _health(exp: StoredExperiment) -> list[Block]:
    """Return each sign's last quarter of steps, mean over seeds, against its range."""
    panels = {p.name: p for p in read_panels(exp, (*PANELS, *SIGNS))}
    arms = [arm for arm, runs in finished(exp).items() if runs]
    rows: list[list[Text]] = []
    marked = []
    for sign in HEALTH:
        if sign.name not in panels:
            continue
        values = [last_quarter(panels[sign.name], arm) for arm in arms]
        if any(v is not None and not sign.healthy(v) for v in values):
            marked.append(len(rows))
        shown = [_judged(sign, v) for v in values]
        rows.append([panels[sign.name].title, *shown, sign.range, sign.source])
    if not rows:
        return []
    columns: list[Text] = [msg("sign, last quarter of the steps"), *arms, msg("healthy range"), msg("source")]
    note = msg(
        "Mean over the last quarter of the steps and over seeds. The ranges are other people's rules of thumb for "
        "reasoning models of billions of parameters; outside of one is a reason to look, no verdict."
    )
    return [Table(columns, rows, labels=1, marked=frozenset(marked), name="health"), Prose(note, "note")]


def last_quarter(panel: Curves, arm: str) -> float | None:
    """Return the mean over the last quarter of an arm's steps (at least one)."""
    line = panel.mean(arm)
    tail = line[-max(1, len(line) // 4) :]
    return sum(y for _, y in tail) / len(tail) if tail else None


def _judged(sign: Sign, value: float | None) -> Text:
    if value is None:
        return DASH
    return number(value, 3) if sign.healthy(value) else msg("{value} (outside)", value=number(value, 3))


def _length_bias(exp: StoredExperiment) -> list[Block]:
    """Return lengths of right and wrong responses, and how the credit of a response goes with its length."""
    rows = []
    for arm, runs in finished(exp).items():
        if arm in taught_by_start(exp):
            continue
        stored = [row for run in runs.values() for row in _rollouts(run)]
        right = [row.tokens for row in stored if row.score == 1]
        wrong = [row.tokens for row in stored if row.score is not None and row.score != 1]
        if stored:
            rows.append([arm, f"{len(stored):,}", _mean(right), _mean(wrong), _correlation(stored)])
    if not rows:
        return []
    columns = [
        msg("arm"), msg("responses stored in training"), msg("tokens of right ones, mean"),
        msg("tokens of wrong ones, mean"), msg("correlation of advantage and length"),
    ]  # fmt: skip
    note = msg(
        "From the groups of responses that runs store every few steps, not from all. Wrong answers longer than right "
        "ones, and negative credit that is averaged over a response's length, let a group method grow wrong answers "
        "(Dr. GRPO, arXiv:2503.20783). Advantage: mean over a response's trained tokens; correlation: Pearson's."
    )
    return [Table(columns, rows, msg("Length and credit"), name="length-bias"), Prose(note, "note")]


def _rollouts(run: StoredRun) -> list[RolloutRow]:
    return [row for step in run.rollout_steps() for row in run.rollouts(step)]


def _mean(lengths: Sequence[int]) -> str:
    return number(sum(lengths) / len(lengths) if lengths else None, 1)


def _correlation(rows: Sequence[RolloutRow]) -> str:
    pairs = np.array([(row.advantage, row.tokens) for row in rows if row.advantage is not None], float)
    if len(pairs) < 3 or not pairs.std(0).all():
        return DASH
    return number(float(np.corrcoef(pairs.T)[0, 1]))
