"""Was the comparison fair: what a machine can check of it, line by line, each with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from paribus.report.blocks import Block, Check, Checks
from paribus.report.message import Joined, Text, msg
from paribus.report.results import finished, schedule
from paribus.report.text import count, listing, number, value
from paribus.store import Attempt, StoredExperiment, StoredRun, read_tuning

Runs = Mapping[str, Mapping[int, StoredRun]]  # arm -> seed -> run
SHORT = 12  # characters of a hash


def fairness(exp: StoredExperiment) -> list[Block]:
    """Return the list of checks; what cannot be told from stored files is "not known", never "ok"."""
    return [Checks(checks(exp))]


def checks(exp: StoredExperiment) -> list[Check]:
    """Return every check, over the finished runs (and the base where it was evaluated)."""
    runs = {arm: found for arm, found in finished(exp).items() if found}
    if not runs:
        return [Check(msg("finished runs"), None, msg("none yet"))]
    return [
        _settings(exp),
        _seeds(exp, runs),
        _training_data(exp, runs),
        _order(exp, runs),
        _budget(exp, runs),
        _evaluation(exp, runs),
        _grader(exp, runs),
        _attempts(msg("same code and packages"), runs, lambda a: (a.code, tuple(sorted(a.packages.items())))),
        _attempts(msg("same machine, device and threads"), runs, lambda a: (a.host, a.device, a.threads)),
        _turns(runs),
        _tuning(exp),
    ]


def uncontrolled(exp: StoredExperiment) -> list[Text]:
    """Return why the comparison is not controlled: undeclared differences, or graders and data that differ."""
    reasons: list[Text] = [
        msg("undeclared difference in {key}", key=row.path) for row in exp.info.differences if not row.declared
    ]
    runs = list(_with_base(exp, exp.runs))
    if len({run.info.grader.model_dump_json() for run in runs}) > 1:
        reasons.append(msg("runs were scored by different graders"))
    for use in sorted({use for run in runs for use in run.info.data}):
        # given answers are part of an arm: two arms may declare other ones, the runs of one may not have other ones
        found = {
            (run.info.arm if use == "given" else "", run.info.data[use].hash) for run in runs if use in run.info.data
        }
        if len(found) > len({arm for arm, _ in found}):
            reasons.append(msg("runs used different data for {use}", use=use))
    return reasons


def _with_base(exp: StoredExperiment, runs: Runs) -> Iterator[StoredRun]:
    yield from (run for found in runs.values() for run in found.values())
    if exp.base is not None:
        yield exp.base


def _settings(exp: StoredExperiment) -> Check:
    rows = exp.info.differences
    hidden = [row.path for row in rows if not row.declared]
    text = msg("every setting in which the arms differ was declared")
    if hidden:
        return Check(text, False, msg("undeclared: {keys}", keys=listing(hidden)))
    if not rows:
        return Check(text, True, msg("the arms do not differ in any setting"))
    slots = list(dict.fromkeys(row.path.split(".")[0] for row in rows))
    return Check(text, True, msg("{keys} in {slots}", keys=count(len(rows), "key"), slots=listing(slots)))


def _seeds(exp: StoredExperiment, runs: Runs) -> Check:
    text = msg("the same seeds in every arm")
    missing = [f"{arm}/seed-{s}" for arm in exp.info.arms for s in exp.info.seeds if s not in runs.get(arm, {})]
    if missing:
        return Check(text, False, msg("not finished: {runs}", runs=listing(missing)))
    return Check(text, True, listing([str(seed) for seed in exp.info.seeds]))


def _training_data(exp: StoredExperiment, runs: Runs) -> Check:
    text = msg("the same training problems")
    every = [run for found in runs.values() for run in found.values()]
    return _same(
        text, [[(d.name, d.split, d.n, d.hash) for u, d in run.info.data.items() if u == "train"] for run in every]
    )


def _same(text: Text, found: Sequence[Sequence[tuple[Any, ...]]]) -> Check:
    """Check that every run has the same identities, the last part of each a hash."""
    known = [ids for ids in found if ids]
    if not known:
        return Check(text, None, msg("no run has stored it"))
    if any(ids != known[0] for ids in known):
        return Check(
            text,
            False,
            msg("hashes differ: {hashes}", hashes=listing(sorted({i[-1][:SHORT] for f in known for i in f}))),
        )
    told = [", ".join([*map(value, i[:-1]), i[-1][:SHORT]]) for i in known[0]]
    return Check(text, True, Joined(told, "; "))


def _order(exp: StoredExperiment, runs: Runs) -> Check:
    """Compare the prompts of the training steps that runs of one seed have stored, arm by arm at the same levels."""
    text = msg("the same prompts at the same steps")
    compared, apart = 0, []
    for arms in _alike(exp, runs):
        for seed in exp.info.seeds:
            found = {arm: runs[arm][seed] for arm in arms if seed in runs[arm]}
            steps = set.intersection(*(set(run.rollout_steps()) for run in found.values())) if found else set()
            for step in sorted(steps):
                asked = [ids for run in found.values() if (ids := _asked(run, step))]
                if len(asked) > 1:
                    compared += 1
                    if any(ids != asked[0] for ids in asked):
                        apart.append(msg("seed {seed}, step {step}", seed=str(seed), step=step))
    if apart:
        return Check(text, False, msg("they differ at {where}", where=listing(apart)))
    if not compared:
        return Check(text, None, msg("no step was stored that two arms have in common"))
    return Check(
        text,
        True,
        msg("the order is a function of the seed; confirmed on {steps}", steps=count(compared, "stored step")),
    )


def _alike(exp: StoredExperiment, runs: Runs) -> list[list[str]]:
    """Return the arms in groups at the same levels of the factors; one group without factors."""
    levels = {cell.arm: cell.levels for cell in exp.info.cells}
    groups: dict[tuple[str, ...], list[str]] = {}
    for arm in runs:
        groups.setdefault(levels.get(arm, ()), []).append(arm)
    return list(groups.values())


def _asked(run: StoredRun, step: int) -> list[str]:
    """Return the problems of the groups that a run stored of a step, in their order."""
    return list(dict.fromkeys(row.problem_id for row in run.rollouts(step)))


def _budget(exp: StoredExperiment, runs: Runs) -> Check:
    """Check that all runs reached the same count on the axis that was declared, and say what they drew."""
    budget = exp.info.resolved.get("setting", {}).get("budget", {})
    axis = next((name for name, most in budget.items() if most is not None), "samples")
    drawn = [
        msg(
            "{arm} {samples} samples and {tokens} tokens a run",
            arm=arm,
            samples=number(_mean([run.steps[-1].samples for run in found.values() if run.steps]), 0),
            tokens=number(_mean([run.steps[-1].tokens for run in found.values() if run.steps]), 0),
        )
        for arm, found in runs.items()
    ]
    text = msg("the same budget, counted in {axis}", axis=_AXES[axis])
    every = [run for found in runs.values() for run in found.values() if run.steps]
    reached = {_reached(run, axis, float(budget.get(axis) or 0)) for run in every}
    return Check(text, len(reached) == 1, msg("drawn, mean of runs: {arms}", arms=Joined(drawn, "; ")))


_AXES: dict[str, Text] = {
    "steps": msg("steps"),
    "samples": msg("samples"),
    "tokens": msg("tokens"),
    "seconds": msg("seconds"),
}


def _reached(run: StoredRun, axis: str, most: float) -> float:
    """Return a run's count on the axis; a step is never cut, so tokens and seconds count as reached once they are."""
    last = run.steps[-1]
    if axis == "steps":
        return last.samples if last.samples else last.step
    if axis == "samples":
        return last.samples
    spent = last.tokens if axis == "tokens" else sum(row.wall for row in run.timing if row.suite is None)
    return min(float(spent), most)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _evaluation(exp: StoredExperiment, runs: Runs) -> Check:
    """Check problems by their hash, and rendered prompts by theirs among the runs that have stored one."""
    text = msg("the same evaluation problems and prompts, the base included")
    every = [{u: d for u, d in sorted(run.info.data.items()) if u in run.suites} for run in _with_base(exp, runs)]
    for use in dict.fromkeys(use for data in every for use in data):
        prompts = {data[use].prompts for data in every if use in data} - {None}
        if len(prompts) > 1:
            return Check(text, False, msg("the prompts of {suite} differ", suite=use))
    return _same(text, [[(use, d.name, d.split, d.n, d.hash) for use, d in data.items()] for data in every])


def _grader(exp: StoredExperiment, runs: Runs) -> Check:
    text = msg("the same grader and version, the base included")
    found = [[(g.name, g.policy, g.version)] for g in (run.info.grader for run in _with_base(exp, runs))]
    return _same(text, found)


def _attempts(text: Text, runs: Runs, read: Callable[[Attempt], tuple[Any, ...]]) -> Check:
    found = {read(a) for by_seed in runs.values() for run in by_seed.values() for a in run.info.attempts}
    if len(found) > 1:
        return Check(text, False, msg("{n} different ones", n=len(found)))
    return Check(text, True, msg("one, in all attempts of all runs"))


def _turns(runs: Runs) -> Check:
    plan = schedule(runs)
    text = msg("runs alone on the machine, arms taking turns")
    if not plan.exclusive:
        return Check(text, False, msg("runs overlapped in time, so their seconds cannot be compared"))
    if not plan.interleaved:
        return Check(text, False, msg("arms did not take turns seed by seed, so a drift of the machine may favour one"))
    if plan.at_once > 1:
        text = msg("runs on cores of their own, arms taking turns")
        return Check(
            text, True, msg("never more than {n} runs at a time, and seeds came one after another", n=plan.at_once)
        )
    return Check(text, True, msg("no two runs overlapped in time, and seeds came one after another"))


def _tuning(exp: StoredExperiment) -> Check:
    text = msg("the same tuning effort")
    found = read_tuning(exp.paths)
    if found is None:
        return Check(text, None, msg("not tuned here: every arm ran with the file's values, wherever these came from"))
    trials = {arm: sum(row.arm == arm for row in found.trials) for arm in dict.fromkeys(r.arm for r in found.trials)}
    told = listing([msg("{arm} {trials}", arm=arm, trials=count(n, "trial")) for arm, n in trials.items()])
    detail = msg(
        "{trials}, each over seeds {seeds}, chosen by {by}",
        trials=told,
        seeds=listing([str(seed) for seed in found.seeds]),
        by=found.by,
    )
    return Check(text, len(set(trials.values())) == 1, detail)
