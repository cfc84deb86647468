"""Is the comparison fair, as far as its file can tell: each condition a yes or a no, with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paribus.algorithms import Need, Offline
from paribus.experiment import Arm, Experiment, Setting, comparable, differences
from paribus.store.plan import CheckRow

PROMPTS = ("setting.model.path", "setting.model.revision", "setting.rollout.max_prompt", "setting.rollout.overlong")


def checks(exp: Experiment) -> list[CheckRow]:
    """Return every condition; with factors, arms are held against those at the same levels."""
    return [_differences(exp), _prompts(exp), _order(exp), _samples(exp), _tokens(exp), _updates(exp), *_rest(exp)]


def _cells(exp: Experiment) -> list[dict[str, Arm]]:
    cells: dict[tuple[str, ...], dict[str, Arm]] = {}
    for name, arm in exp.arms.items():
        cells.setdefault(tuple(arm.levels.values()), {})[name] = arm
    return list(cells.values())


def _varying(exp: Experiment, keys: Sequence[str]) -> dict[str, list[str]]:
    """Return the keys (or all below a table named with a final dot) in which arms at the same levels differ, with
    each arm's value in words."""
    found: dict[str, list[str]] = {}
    for cell in _cells(exp):
        sides = {name: comparable(arm, exp.setting) for name, arm in cell.items()}
        names = dict.fromkeys(
            key for side in sides.values() for key in side if any(key == k or key.startswith(k) for k in keys)
        )
        for key in names:
            values = {name: side.get(key) for name, side in sides.items()}
            if len({repr(value) for value in values.values()}) > 1:
                found.setdefault(key, [f"{name} {value}" for name, value in values.items()])
    return found


def _told(found: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{key.removeprefix('setting.')}: {', '.join(values)}" for key, values in found.items())


def _differences(exp: Experiment) -> CheckRow:
    rows = differences(exp)
    hidden = [row.key for row in rows if not row.declared]
    reason = f"undeclared: {', '.join(hidden)}" if hidden else f"{len(rows)} keys differ, all declared"
    return CheckRow(check="every difference is declared", holds=not hidden, reason=reason)


def _prompts(exp: Experiment) -> CheckRow:
    text = "the same prompts"
    files = [
        n for n, arm in exp.arms.items() if isinstance(arm.algorithm, Offline) and not arm.algorithm.source.samples
    ]
    if 0 < len(files) < len(exp.arms):
        return CheckRow(check=text, holds=False, reason=f"{', '.join(files)} train on a file, the others on the task")
    found = _varying(exp, PROMPTS)
    if found:
        return CheckRow(check=text, holds=False, reason=_told(found))
    return CheckRow(check=text, holds=True, reason="one task, one model and one limit of prompts for all arms")


def _order(exp: Experiment) -> CheckRow:
    text = "in the same order"
    found = _varying(exp, ("setting.rollout.prompts_per_step",))
    if found:
        return CheckRow(check=text, holds=False, reason=_told(found))
    refilled = [name for name, arm in exp.arms.items() if arm.algorithm.keep.rounds]
    also = f"; {', '.join(refilled)} may ask further ones after them" if refilled else ""
    return CheckRow(check=text, holds=True, reason=f"a step's prompts are a function of seed and step{also}")


def _samples(exp: Experiment) -> CheckRow:
    text, budget = "the same sampling budget", exp.setting.budget
    if budget.samples is not None:
        return CheckRow(check=text, holds=True, reason=f"every run stops at {budget.samples:,} samples, all counted")
    if budget.tokens is not None:
        return CheckRow(check=text, holds=True, reason=f"every run stops at {budget.tokens:,} sampled tokens")
    if budget.seconds is not None:
        return CheckRow(check=text, holds=None, reason="the budget is in seconds: samples differ as speeds do")
    most = {name: _most_samples(arm, exp.setting) for name, arm in exp.arms.items()}
    unequal = [cell for cell in _cells(exp) if len({most[name] for name in cell}) > 1]
    if unequal:
        told = ", ".join(f"{name} {most[name]:,}" for cell in unequal for name in cell)
        reason = f"samples of a step, at most: {told}; give the budget in samples to make them equal"
        return CheckRow(check=text, holds=False, reason=reason)
    return CheckRow(check=text, holds=True, reason=f"{budget.steps:,} steps of {_range(list(most.values()))} samples")


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _most_samples(arm: Arm, shared: Setting) -> int:
    """Samples of one step with every refill, and with the greedy response to each prompt where it counts."""
    algorithm, spec = arm.algorithm, arm.setting(shared).rollout
    if isinstance(algorithm, Offline) and not algorithm.source.samples:
        return 0
    each = spec.samples_per_prompt + (Need.GREEDY in algorithm.needs)
    return spec.prompts_per_step * each * (1 + algorithm.keep.rounds)


def _tokens(exp: Experiment) -> CheckRow:
    text = "the same limit of tokens"
    found = _varying(exp, ("setting.rollout.max_response", "setting.rollout.temperature"))
    if found:
        return CheckRow(check=text, holds=False, reason=_told(found))
    limit = _range([arm.setting(exp.setting).rollout.max_response for arm in exp.arms.values()])
    what = "and the budget counts them" if exp.setting.budget.tokens is not None else "what is sampled is measured"
    return CheckRow(check=text, holds=True, reason=f"{limit} tokens a response; {what}")


def _updates(exp: Experiment) -> CheckRow:
    found = _varying(exp, ("setting.optim.",))
    if found:
        return CheckRow(check="the same optimizer and updates", holds=False, reason=_told(found))
    updates = _range([arm.setting(exp.setting).updates_per_rollout for arm in exp.arms.values()])
    reason = f"one table [optim] for all arms; updates of a step: {updates}"
    return CheckRow(check="the same optimizer and updates", holds=True, reason=reason)


def _rest(exp: Experiment) -> list[CheckRow]:
    suites = ", ".join(exp.setting.eval)
    rows: list[tuple[str, bool | None, Any]] = [
        ("the same seeds", True, f"{len(exp.seeds)} for every arm, interleaved"),
        ("the same evaluation", True, f"{suites}: problems, prompts, decoding and grader stand outside the arms"),
    ]
    tune = exp.tune
    if tune is None:
        rows.append(("the same tuning effort", None, "no [tune]: each arm's values are taken as the file gives them"))
    else:
        each = f"{tune.trials} trials of {len(tune.seeds)} seeds for every arm, chosen by {tune.by}"
        rows.append(("the same tuning effort", True, f"{each}, on seeds that no run of the comparison uses"))
    return [CheckRow(check=check, holds=holds, reason=reason) for check, holds, reason in rows]
