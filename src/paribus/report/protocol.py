"""How the arms were trained and how answers were asked for and judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paribus.part import flatten
from paribus.report.blocks import Block, Prose, Table
from paribus.report.message import Joined, Text, msg
from paribus.report.results import suites
from paribus.report.text import DASH, count, listing, percent, value
from paribus.store import DataInfo, GraderInfo, StoredExperiment, StoredRun, read_tuning

SETTINGS: tuple[tuple[str, Text], ...] = (
    ("model.path", msg("model")),
    ("model.revision", msg("revision of the model")),
    ("model.dtype", msg("precision")),
    ("task.type", msg("training task")),
    ("reward.type", msg("reward")),
    ("rollout.prompts_per_step", msg("prompts a step")),
    ("rollout.samples_per_prompt", msg("samples a prompt")),
    ("rollout.max_prompt", msg("longest prompt, tokens")),
    ("rollout.max_response", msg("longest response in training, tokens")),
    ("rollout.temperature", msg("temperature in training")),
    ("optim.lr", msg("learning rate")),
    ("optim.schedule", msg("schedule of the learning rate")),
    ("optim.warmup_steps", msg("steps of warm-up")),
    ("optim.weight_decay", msg("weight decay")),
    ("optim.clip_norm", msg("gradient clipped at norm")),
    ("optim.epochs", msg("passes over a step's rows")),
    ("optim.minibatch_prompts", msg("prompts an update")),
    ("machine.skip_rows", msg("rows without a gradient left out of the policy's updates")),
    ("machine.old_gap", msg("old log-probs without a pass of their own: may differ by, nats a token")),
)


def protocol(exp: StoredExperiment) -> list[Block]:
    """Return the main settings of training, the search before it, and the protocol of every evaluation suite."""
    return [_settings(exp), *_tuning(exp), *_suites(exp)]


def _settings(exp: StoredExperiment) -> Table:
    flat = flatten(exp.info.resolved.get("setting", {}))
    differing = {row.path for row in exp.info.differences}
    rows: list[list[Text]] = []
    for path, label in SETTINGS:
        if f"setting.{path}" in differing:
            rows.append([label, msg("differs between arms")])
        elif flat.get(path) is not None:
            rows.append([label, value(flat[path])])
    budget = [
        msg("{n} {axis}", n=value(most), axis=path.removeprefix("budget."))
        for path, most in flat.items()
        if path.startswith("budget.") and most is not None
    ]
    rows += [[msg("budget of a run"), Joined(list(budget), ", ")]] if budget else []
    train = next((d for run in _runs(exp) if (d := run.info.data.get("train"))), None)
    if train is not None:
        rows.append([msg("training problems"), _data(train)])
    rows += [
        [msg("arms"), listing(exp.info.arms)],
        [msg("seeds"), listing([str(seed) for seed in exp.info.seeds])],
        [msg("primary metric, declared before the runs"), exp.info.primary],
        [msg("margin of equivalence, declared before the runs"), _margin(exp)],
    ]
    return Table([msg("setting"), msg("value")], rows, msg("Training"), labels=2, name="training")


def _tuning(exp: StoredExperiment) -> list[Block]:
    """Return every trial of the search before the runs; nothing where there was none."""
    found = read_tuning(exp.paths)
    if found is None:
        return []
    rows: list[list[Text]] = [
        [trial.arm, value(trial.values), percent(trial.score), msg("chosen") if trial.chosen else ""]
        for trial in found.trials
    ]
    caption = msg(
        "Search before the runs: {trials}, each over seeds {seeds} that no run uses",
        trials=count(len(found.trials), "trial"),
        seeds=listing([str(seed) for seed in found.seeds]),
    )
    columns: list[Text] = [msg("arm"), msg("values tried"), msg("mean of {metric}", metric=found.by), ""]
    return [Table(columns, rows, caption, labels=2, name="tuning")]


def _margin(exp: StoredExperiment) -> Text:
    if exp.info.margin is None:
        return msg("none")
    return msg("{margin} points", margin=f"{exp.info.margin:g}")


def _runs(exp: StoredExperiment) -> list[StoredRun]:
    runs = [run for found in exp.runs.values() for run in found.values()]
    return [*runs, *([exp.base] if exp.base is not None else [])]


def _data(d: DataInfo) -> Text:
    return msg(
        "{name}, {split}: {problems}, hash {hash}",
        name=d.name,
        split=d.split,
        problems=count(d.n, "problem"),
        hash=d.hash[:16],
    )


def _suites(exp: StoredExperiment) -> list[Block]:
    runs = _runs(exp)
    if not runs:
        return []
    names = suites(exp)
    specs: Mapping[str, Mapping[str, Any]] = exp.info.resolved.get("setting", {}).get("eval", {})
    told = {name: _protocol(exp, runs, name, specs.get(name, {})) for name in names}
    rows: list[list[Text]] = [
        [label, *(told[name][i][1] for name in names)] for i, (label, _) in enumerate(told[names[0]])
    ]
    note = msg(
        "The base and every arm are asked the same prompts and judged by the same code. All problems count; a problem "
        "that could not be graded for one model is left out for all. Only the last checkpoint is judged."
    )
    columns: list[Text] = [msg("evaluation"), *names]
    return [
        Table(columns, rows, msg("Evaluation protocol"), labels=1 + len(names), name="protocol"),
        Prose(note, "note"),
    ]


def _protocol(
    exp: StoredExperiment, runs: list[StoredRun], suite: str, spec: Mapping[str, Any]
) -> list[tuple[Text, Text]]:
    data = next((d for run in runs if (d := run.info.data.get(suite))), None)
    graders = data.graders if data is not None and data.graders else (runs[0].info.grader,)
    task = spec.get("task") or exp.info.resolved.get("setting", {}).get("task", {})
    levels = dict.fromkeys(a.determinism for run in runs for a in run.info.attempts)
    return [
        (msg("status"), msg("primary") if suite == suites(exp)[0] else msg("secondary")),
        (msg("problems"), DASH if data is None else _data(data)),
        (msg("prompts, hash"), data.prompts[:16] if data is not None and data.prompts else DASH),
        (msg("template of the prompt"), value(task["prompt"]) if "prompt" in task else DASH),
        (msg("worked examples in the prompt"), _shots(spec)),
        (msg("samples a problem"), _given(spec, "samples")),
        (msg("decoding"), _decoding(spec)),
        (msg("longest response, tokens"), _given(spec, "max_response")),
        (msg("second, shorter limit, tokens"), _given(spec, "short")),
        (msg("evaluated"), msg("every {n} steps", n=value(spec["every"])) if spec.get("every") else msg("at the end")),
        (msg("grader"), _grader(graders[0])),
        (msg("reference graders"), listing([_grader(g) for g in graders[1:]]) if graders[1:] else msg("none")),
        (msg("determinism"), "; ".join(levels)),
    ]


def _given(spec: Mapping[str, Any], key: str) -> str:
    return DASH if spec.get(key) is None else value(spec[key])


def _shots(spec: Mapping[str, Any]) -> Text:
    if "max_response" not in spec:
        return DASH
    shots = len(spec.get("examples", ())) or spec.get("shots", 0)
    return value(shots) if shots else msg("none (zero-shot)")


def _decoding(spec: Mapping[str, Any]) -> Text:
    if "temperature" not in spec:
        return DASH
    if not spec["temperature"]:
        return msg("greedy")
    return msg("sampled, temperature {t}, top-p {p}", t=value(spec["temperature"]), p=value(spec["top_p"]))


def _grader(g: GraderInfo) -> Text:
    return msg("{name} ({policy}), version {version}", name=g.name, policy=g.policy, version=g.version)
