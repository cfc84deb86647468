"""What may be said: the verdict on every pair of arms, the gains over the base, the costs, and the headline numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from paribus.report.blocks import Tile
from paribus.report.cost import cost_sentences
from paribus.report.interactions import sentences
from paribus.report.message import Joined, Message, Text, msg
from paribus.report.results import ACCURACY, Scores, gain, pairs
from paribus.report.sentences import pair_sentence, settle_sentence
from paribus.report.text import count, listing, percent, point_range, points
from paribus.stats import Interval, Paired
from paribus.stats.verdict import Verdict, verdicts
from paribus.store import ExperimentInfo, StoredExperiment

MANY = 12  # pairs; beyond them they are counted, and told one by one in the table only


def judge(info: ExperimentInfo, s: Scores) -> list[Verdict]:
    """Return the verdict on every pair of arms that have scores, Holm over the pairs, by the declared margin."""
    done = {arm: s.table[arm] for arm in info.arms if s.table[arm].size}
    margin = None if info.margin is None else info.margin / 100
    wanted = pairs(list(done), info.cells)
    return verdicts(done, wanted, margin=margin) if wanted else []


def verdict(exp: StoredExperiment, s: Scores, found: Sequence[Verdict]) -> list[Text]:
    """Return what the data allow to say: interactions, pairs, costs, gains; `found` are the verdicts by `judge`."""
    info = exp.info
    done = [arm for arm in info.arms if s.seeds[arm]]
    if not done:
        return [msg("No run has finished yet: there is nothing to compare.")]
    if not s.problems:
        return [msg("No problem was counted for every model: there is nothing to compare.")]
    out = sentences(info, s)
    out += _pair_sentences(found) if len(found) <= MANY else _counted(found)
    if s.metric != ACCURACY:
        out.append(msg("All of this is about {metric} on {suite}, as declared.", metric=s.metric, suite=s.suite))
    costs = cost_sentences(exp)
    out += costs if len(costs) <= MANY else []  # the table of cost has them all
    if s.base is not None:
        out.append(_gain_sentence(s, done))
    ended = sum(len(s.seeds[arm]) for arm in info.arms)
    planned = len(info.arms) * len(info.seeds)
    if ended < planned:
        out.append(
            msg(
                "Interim: {ended} of {planned} planned runs are in it. Whoever reads a verdict on the way and stops at "
                "one that pleases is wrong more often than its 5 % say.",
                ended=ended,
                planned=planned,
            )
        )
    if len(done) < len(info.arms):
        missing = listing([a for a in info.arms if a not in done])
        out.append(msg("No finished run of {arms}.", arms=missing))
    return out


def _pair_sentences(found: Sequence[Verdict]) -> list[Text]:
    out: list[Text] = []
    for v in found:
        out.append(pair_sentence(v, len(found)))
        settled = settle_sentence(v)
        out += [settled] if settled is not None else []
    return out


def _counted(found: Sequence[Verdict]) -> list[Text]:
    """Return how the verdicts on many pairs are spread over their kinds, and the clearest of them."""
    counts = Counter(v.kind for v in found)
    told = msg(
        "Of {pairs} pairs of arms, {better} show a better one, {equivalent} are equivalent, {identical} identical and "
        "{open} inconclusive: each stands in the table of differences.",
        pairs=len(found),
        better=counts["better"] + counts["better_within"],
        equivalent=counts["equivalent"],
        identical=counts["identical"],
        open=counts["inconclusive"],
    )
    clearest = min(found, key=lambda v: v.p)
    return [told, msg("The clearest: {sentence}", sentence=pair_sentence(clearest, len(found)))]


def _gain_sentence(s: Scores, done: Sequence[str]) -> Message:
    gains = {arm: g for arm in done if (g := gain(s, arm)) is not None}
    if len(gains) > MANY:
        above, below = sum(g.low > 0 for g in gains.values()), sum(g.high < 0 for g in gains.values())
        return msg(
            "Of {arms} arms, {above} are above the base, {below} below and {open} not shown to differ from it.",
            arms=len(gains),
            above=above,
            below=below,
            open=len(gains) - above - below,
        )
    told = Joined([_gained(arm, g) for arm, g in gains.items()], "; ")
    single = [arm for arm in done if len(s.seeds[arm]) == 1]
    if not single:
        return msg("{gains}.", gains=told)
    return msg(
        "{gains}; of {arms} only one run is finished, so this speaks of its checkpoint.",
        gains=told,
        arms=listing(single),
    )


def _gained(arm: str, g: Interval | Paired) -> Message:
    if g.low > 0:
        shown = msg("above the base")
    elif g.high < 0:
        shown = msg("below the base")
    else:
        shown = msg("not shown to differ from the base")
    return msg(
        "{arm} is {shown} ({points} points, 95 % interval {interval})",
        arm=arm,
        shown=shown,
        points=points(g.estimate),
        interval=point_range(g),
    )


def tiles(info: ExperimentInfo, s: Scores, found: Sequence[Verdict]) -> list[Tile]:
    """Return the headline numbers: base, arms, and each difference between arms."""
    out = []
    asked = count(len(s.problems), "problem")
    if s.base is not None and s.base.size:
        out.append(Tile(msg("base"), percent(float(s.base.mean()), 1), asked))
    for arm in (a for a in info.arms if s.table[a].size):
        g = gain(s, arm)
        detail = msg("{points} points over base", points=points(g.estimate, 1)) if g else asked
        runs = count(len(s.seeds[arm]), "run")
        out.append(Tile(arm, percent(float(s.table[arm].mean()), 1), Joined([detail, runs], ", ")))
    for v in found if len(found) <= MANY else ():
        value = msg("{points} pts", points=points(v.difference.estimate, 1))
        detail = msg("95 % interval {interval}", interval=point_range(v.interval))
        out.append(Tile(f"{v.a} − {v.b}", value, detail))
    return out
