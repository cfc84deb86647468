"""What `paribus advise` said before the runs, and how its predictions came out."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from paribus.report.blocks import Block, Prose, Table
from paribus.report.message import Joined, Message, Text, msg, say
from paribus.report.results import finished, primary, training_seconds
from paribus.report.text import DASH, duration, listing, number, percent
from paribus.report.verdict import judge
from paribus.store import Advice, FindingRow, MeasuredRow, SaidRow, StoredExperiment


class Scored(NamedTuple):
    """A predicted number of seconds against the measured one."""

    what: Text
    predicted: MeasuredRow
    measured: float

    @property
    def error(self) -> float:
        """Measured over predicted, less 1."""
        return self.measured / self.predicted.estimate - 1

    @property
    def inside(self) -> bool:
        """True if the measured value lies in the predicted interval."""
        low, high = self.predicted.low, self.predicted.high
        return (low is None or low <= self.measured) and (high is None or self.measured <= high)


def score(advice: Advice, exp: StoredExperiment) -> list[Scored]:
    """Return every prediction of cost that finished runs can be held against: training of a run, mean over seeds, and
    the whole experiment where it is the recommended one, done without a stop."""
    done = finished(exp)
    out = []
    for arm in advice.arms:
        runs = done.get(arm.arm, {})
        if runs:
            mean = sum(map(training_seconds, runs.values())) / len(runs)
            out.append(Scored(msg("training of a run of {arm}", arm=arm.arm), arm.training, mean))
    seconds = _whole(advice, exp)
    if seconds is not None:
        out.append(Scored(msg("the whole experiment"), advice.whole, seconds))
    return out


def _whole(advice: Advice, exp: StoredExperiment) -> float | None:
    """Seconds from the first start to the last end; None where it is another experiment, or was not done at one go."""
    if exp.base is None or set(exp.info.arms) != set(advice.recommended):
        return None
    runs = [exp.base, *(run for found in exp.runs.values() for run in found.values())]
    attempts = [attempt for run in runs for attempt in run.info.attempts]
    ended = [a.ended for a in attempts if a.ended is not None]
    every = 1 + len(exp.info.arms) * len(exp.info.seeds)
    if not len(ended) == len(attempts) == len(runs) == every or any(run.status != "done" for run in runs):
        return None
    first = min(datetime.fromisoformat(a.started) for a in attempts)
    return (max(map(datetime.fromisoformat, ended)) - first).total_seconds()


def advice_section(exp: StoredExperiment) -> list[Block]:
    """Return what was advised and how it came out; nothing where nobody asked."""
    advice = exp.advice
    if advice is None:
        return []
    n, samples = len(advice.findings), advice.samples
    head = msg(
        "From a pilot of {prompts} prompts by {samples} samples, and timed steps of each arm; the rules, {n} findings, "
        "speak of equal wall-clock.",
        prompts=advice.prompts,
        samples=samples,
        n=n,
    )
    return [
        *(Prose(text) for text in _recommendation(advice)),
        Prose(head, "note"),
        _findings(advice),
        *_cost(advice, exp),
        Prose(_outcome(advice, exp)),
        _signals(advice),
    ]


def message(row: SaidRow) -> Message:
    """Return a stored sentence as one that can be said in every language."""
    return Message(row.template, dict(row.fields))


def _recommendation(advice: Advice) -> list[Text]:
    out: list[Text] = [msg("Recommended before the runs: {arms}.", arms=listing(list(advice.recommended)))]
    if advice.ahead is not None:
        out.append(msg("The rules put {arm} ahead.", arm=advice.ahead))
    else:
        out.append(msg("The rules put neither ahead."))
    return out


def _range(value: MeasuredRow) -> str:
    low, high = ("−∞" if value.low is None else _short(value.low), "∞" if value.high is None else _short(value.high))
    return f"{low} – {high}"


def _short(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def _findings(advice: Advice) -> Table:
    rows: list[list[Text]] = []
    for f in advice.findings:
        value = f.value
        measured = DASH if value is None else _short(value.estimate)
        interval = DASH if value is None else _range(value)
        numbers: list[Text] = [measured, interval, _short(f.boundary)]
        rows.append([f"{f.rule} {f.name}", message(f.signal), *numbers, message(f.effect), f.source])
    columns = [
        msg("rule"), msg("signal"), msg("measured"), msg("95 % interval"), msg("boundary"), msg("effect"),
        msg("source"),
    ]  # fmt: skip
    return Table(columns, rows, caption=msg("Rules of the advice"), labels=2, name="advice-rules")


def _cost(advice: Advice, exp: StoredExperiment) -> list[Block]:
    scored = score(advice, exp)
    if not scored:
        return []
    rows: list[list[Text]] = []
    for s in scored:
        low, high = (DASH if x is None else duration(x) for x in (s.predicted.low, s.predicted.high))
        inside = msg("inside") if s.inside else msg("outside")
        rows.append(
            [
                s.what,
                duration(s.predicted.estimate),
                Joined([low, high], " – "),
                duration(s.measured),
                percent(s.error, 1),
                inside,
            ]
        )
    columns = [
        msg("cost"), msg("predicted"), msg("interval"), msg("measured"), msg("measured over predicted"),
        msg("in the interval"),
    ]  # fmt: skip
    return [Table(columns, rows, caption=msg("Predicted cost against measured cost"), name="advice-cost")]


def _outcome(advice: Advice, exp: StoredExperiment) -> Text:
    """Say whether the arm that the rules put ahead did come out ahead."""
    pair = set(advice.recommended)
    found = next((v for v in judge(exp.info, primary(exp)) if {v.a, v.b} == pair), None)
    if advice.ahead is None:
        return msg("There is no prediction of the outcome to score.")
    if found is None:
        return msg("The outcome cannot be scored: the two arms have no finished runs to compare.")
    if found.better is None:
        return msg("The runs do not decide whether {arm} is ahead: the prediction is not scored.", arm=advice.ahead)
    if found.better == advice.ahead:
        return msg("It came true: {arm} scored higher.", arm=advice.ahead)
    return msg("It did not come true: {arm} scored higher.", arm=found.better)


def _signals(advice: Advice) -> Table:
    rows: list[list[Text]] = [
        [message(s.name), _short(s.value.estimate), _range(s.value), number(s.value.n, 0)] for s in advice.signals
    ]
    columns = [msg("signal"), msg("measured"), msg("95 % interval"), msg("units")]
    return Table(columns, rows, caption=msg("Signals of the pilot"), name="advice-signals")


def lines(advice: Advice) -> list[str]:
    """Return the advice as lines for a terminal: signals, rules, and the two arms with what they cost."""
    out = [
        f"Pilot: {advice.prompts} prompts x {advice.samples} samples" + _left_out(advice),
        "",
        "Signals (95 % interval)",
    ]
    width = max(len(say(message(s.name))) for s in advice.signals)
    out += [
        f"  {say(message(s.name)):<{width}}  {_short(s.value.estimate):>8}  {_range(s.value)}" for s in advice.signals
    ]
    out += ["", "Rules: signal, measured (interval) against boundary -> effect; source"]
    for f in advice.findings:
        out += _finding_lines(f)
    out += ["", "Arms by the votes of the rules; predicted cost of a run, all its seeds, and their price"]
    for arm in sorted(advice.arms, key=lambda a: -a.votes):
        dollars = arm.seeds * arm.run.estimate / 3600 * advice.price_per_hour
        out.append(
            f"  {arm.arm:<12} votes {arm.votes}  run {_seconds(arm.run)}, x {arm.seeds} seeds "
            f"{say(duration(arm.seeds * arm.run.estimate))}, ${dollars:.3f}"
            + (f"; from the catalogue: {arm.base}" if arm.base else "")
            + ("; does not fit the device" if arm.dropped else "")
        )
    out += ["", *(say(text) for text in _recommendation(advice))]
    out.append(f"Both arms with all seeds, and the base: {_seconds(advice.whole)}.")
    return out


def _left_out(advice: Advice) -> str:
    return f"; {advice.excluded} prompts left out: a response could not be judged" if advice.excluded else ""


def _finding_lines(f: FindingRow) -> list[str]:
    value = "not measured" if f.value is None else f"{_short(f.value.estimate)} ({_range(f.value)})"
    return [
        f"  {f.rule} {f.name}: {say(message(f.signal))}",
        f"      {value} against {_short(f.boundary)} -> {say(message(f.effect))}",
        f"      source: {f.source}",
    ]


def _seconds(value: MeasuredRow) -> str:
    low, high = ("?" if x is None else say(duration(x)) for x in (value.low, value.high))
    return f"{say(duration(value.estimate))} ({low} to {high})"
