"""What these runs cannot show, whatever they show: written from what was stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from paribus.report.blocks import Block, Prose, Table
from paribus.report.fairness import uncontrolled
from paribus.report.message import Text, msg
from paribus.report.provenance import machine_changed
from paribus.report.responses import answers
from paribus.report.results import Scores, finished, schedule, suites
from paribus.report.text import count, listing, number, percent
from paribus.stats.verdict import Verdict
from paribus.store import StoredExperiment, read_tuning

CEILING, FLOOR = 0.95, 0.05  # beyond these a score has little room left on one side
FEW = 100  # problems, below which a single one is a point or more
CUT = 0.05  # share of responses cut at the limit from which the limit is part of what is measured


def limits(exp: StoredExperiment, s: Scores, found: Sequence[Verdict]) -> list[Block]:
    """Return the limits that apply, one a row: what is so, and what follows from it."""
    rows = [
        [what, follows]
        for rule in (_scope, _runs, _selection, _verdicts, _room, _length, _missing, _control, _cost)
        for what, follows in rule(exp, s, found)
    ]
    return [
        Table([msg("what is so"), msg("what follows")], rows, labels=2, name="limits"),
        Prose(msg("Written by rule from the stored files; what nobody recorded is not in this list."), "note"),
    ]


Rule = Callable[[StoredExperiment, Scores, Sequence[Verdict]], list[tuple[Text, Text]]]


def _scope(exp: StoredExperiment, s: Scores, found: Sequence[Verdict]) -> list[tuple[Text, Text]]:
    changed = {path.split(".")[0] for factor in exp.info.factors for c in factor.changes.values() for path in c}
    out: list[tuple[Text, Text]] = []
    if "model" not in changed:
        out.append((msg("one starting model"), msg("another size or family may order the arms otherwise")))
    if "task" not in changed:
        out.append((msg("one training task"), msg("results may differ on other tasks and rewards")))
    names = suites(exp)
    if len(names) == 1:
        what = msg("one evaluation suite, {suite}", suite=names[0])
        out.append((what, msg("a higher score is measured there, not as a general ability")))
    return out


def _runs(exp: StoredExperiment, s: Scores, found: Sequence[Verdict]) -> list[tuple[Text, Text]]:
    counts = [len(s.seeds[arm]) for arm in exp.info.arms]
    few = min(counts, default=0)
    if few < 2:
        what = msg("an arm has {runs}", runs=count(few, "finished run"))
        return [(what, msg("nothing is said of that algorithm, only of the checkpoint"))]
    what = msg("{n} seeds an arm at least", n=few)
    return [(what, msg("the spread between runs is itself estimated from so many; the intervals allow for that"))]


def _selection(exp: StoredExperiment, s: Scores, found: Sequence[Verdict]) -> list[tuple[Text, Text]]:
    out: list[tuple[Text, Text]] = [
        (msg("the last checkpoint is judged"), msg("an arm that peaks earlier is judged after its peak"))
    ]
    if read_tuning(exp.paths) is None:
        out.append(
            (
                msg("no search for hyperparameters was part of the experiment"),
                msg("an arm may be far from its best values; where they came from is not recorded"),
            )
        )
    runs = [run for by_seed in finished(exp).values() for run in by_seed.values()]
    if any(len(run.eval_steps(s.suite)) > 1 for run in runs):
        out.append(
            (
                msg("the test problems were evaluated on the way as well"),
                msg("whoever looked at them and stopped or changed something has used them for selection"),
            )
        )
    return out


def _verdicts(exp: StoredExperiment, s: Scores, found: Sequence[Verdict]) -> list[tuple[Text, Text]]:
    out: list[tuple[Text, Text]] = []
    if exp.info.margin is None:
        out.append((msg("no margin was declared before the runs"), msg("equivalence cannot be claimed")))
    if any(v.kind == "inconclusive" for v in found):
        out.append((msg("a verdict is inconclusive"), msg("the arms are neither shown to differ nor to be equivalent")))
    if len(found) > 1:
        what = msg("{n} pairs of arms", n=len(found))
        out.append((what, msg("p values are adjusted over them (Holm); intervals are not, and show one pair each")))
    return out


def _room(exp: StoredExperiment, s: Scores, found: Sequence[Verdict]) -> list[tuple[Text, Text]]:
    means = {arm: float(table.mean()) for arm, table in s.table.items() if table.size}
    high = [arm for arm, mean in means.items() if mean > CEILING]
    low = [arm for arm, mean in means.items() if mean < FLOOR]
    out: list[tuple[Text, Text]] = []
    if 0 < len(s.problems) < FEW:
        what = msg("only {problems}", problems=count(len(s.problems), "problem"))
        one = msg(
            "one of them is {points} points; several samples of each problem, or more problems, make it steadier",
            points=number(100 / len(s.problems), 1),
        )
        out.append((what, one))
    if high:
        what = msg("{arms} above {share}", arms=listing(high), share=percent(CEILING, 0))
        out.append((what, msg("ceiling: harder problems would separate the arms better")))
    if low:
        what = msg("{arms} below {share}", arms=listing(low), share=percent(FLOOR, 0))
        out.append((what, msg("floor: easier problems would separate the arms better")))
    return out


def _length(exp: StoredExperiment, s: Scores, found: Sequence[Verdict]) -> list[tuple[Text, Text]]:
    out: list[tuple[Text, Text]] = []
    setting = exp.info.resolved.get("setting", {})
    trained = setting.get("rollout", {}).get("max_response")
    asked = setting.get("eval", {}).get(s.suite, {}).get("max_response")
    if trained is not None and asked is not None and trained < asked:
        what = msg("trained under a limit of {short} tokens, judged under {long}", short=trained, long=asked)
        out.append((what, msg("training rewards brevity beside ability, in every arm alike")))
    cut = [(model, sum(row.truncated for row in rows) / len(rows)) for model, rows in answers(s)]
    many = [model for model, share in cut if share > CUT]
    if many:
        worst = percent(max(share for _, share in cut), 1)
        what = msg("up to {share} of the responses were cut at the limit ({models})", share=worst, models=listing(many))
        follows = msg("part of a difference may be brevity rather than ability: see the accuracy among finished")
        out.append((what, follows))
    return out


def _missing(exp: StoredExperiment, s: Scores, found: Sequence[Verdict]) -> list[tuple[Text, Text]]:
    out: list[tuple[Text, Text]] = []
    done = finished(exp)
    gone = [f"{arm}/seed-{k}" for arm in exp.info.arms for k in exp.info.seeds if k not in done[arm]]
    if gone:
        what = msg("planned runs that did not finish: {runs}", runs=listing(gone))
        out.append((what, msg("if runs of one arm fail more easily, its mean is that of the survivors")))
    if s.excluded:
        what = msg("{problems} not counted", problems=count(len(s.excluded), "problem"))
        out.append((what, msg("scores are of the others")))
    again = [run for by_seed in done.values() for run in by_seed.values() if len(run.info.attempts) > 1]
    if again:
        moved = any(machine_changed(run) for run in again)
        what = msg("{runs} resumed after a stop", runs=count(len(again), "run"))
        same = msg("on the same machine and code, so bit for bit what an unbroken run gives")
        out.append((what, msg("with other code, threads or hardware, so not bit-exact") if moved else same))
    return out


def _control(exp: StoredExperiment, s: Scores, found: Sequence[Verdict]) -> list[tuple[Text, Text]]:
    return [(reason, msg("not controlled: the difference may come from this")) for reason in uncontrolled(exp)]


def _cost(exp: StoredExperiment, s: Scores, found: Sequence[Verdict]) -> list[tuple[Text, Text]]:
    runs = {arm: by_seed for arm, by_seed in finished(exp).items() if by_seed}
    if not runs:
        return []
    if not schedule(runs).comparable:
        return [(msg("runs were not timed alone on one machine"), msg("nothing is said of their relative cost"))]
    return [(msg("one machine"), msg("cost ratios hold for it, this model and these lengths; elsewhere measure again"))]
