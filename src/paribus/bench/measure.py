"""`paribus bench`: every phase of a step timed, counted, and held against the machine's limits of the same run."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from paribus.bench import flops, roofline
from paribus.bench.flops import Count, Group
from paribus.bench.inputs import Inputs, cache_folder, prepare
from paribus.bench.roofline import Roofline
from paribus.bench.work import Size, Workbench, groups_of
from paribus.pipeline.evaluate import evaluate
from paribus.planning.text import table
from paribus.settings import MachineSpec

FORMAT = 1
PHASES = (
    "prefill", "decode", "grade", "old_logp", "ref_logp", "values", "critic_update", "policy_update", "save", "eval",
)  # fmt: skip
TINY, OTHER = Size(32, 8, 32), Size(8, 4, 128)  # a step where none is asked for


def bench(
    models: Sequence[str],
    *,
    prompts: int | None = None,
    samples: int | None = None,
    max_new: int | None = None,
    ppo: bool = False,
    repeats: int = 5,
    machine: MachineSpec | None = None,
    folder: Path | None = None,
    gsm8k: str | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Return the report of all models as JSON data; sizes that are not given are `TINY` or `OTHER`."""
    machine = machine or MachineSpec()
    found = []
    for model in models:
        inputs = prepare(model, folder or cache_folder(), gsm8k)
        usual = TINY if model == "tiny" else OTHER
        size = Size(prompts or usual.prompts, samples or usual.samples, max_new or usual.max_new)
        progress(f"{model}: {size.prompts} x {size.samples} responses of {size.max_new} tokens")
        found.append({"model": Path(model).name, **measure(inputs, size, ppo, repeats, machine, progress)})
    return {"format": FORMAT, "machine": roofline.machine(), "models": found}


def measure(
    inputs: Inputs, size: Size, ppo: bool, repeats: int, machine: MachineSpec, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Return one model's phases; a repeat before the first is not counted."""
    limits = [roofline.measure("cuda" if machine.device.startswith("cuda") else "cpu")]
    idle = psutil.Process().memory_info().rss
    bench = Workbench(inputs, "ppo" if ppo else "grpo", size, machine)
    taken: list[dict[str, float]] = []
    peaks: dict[str, int] = {}
    needed: dict[str, Count] = {}
    for repeat in range(repeats + 1):
        seconds, peak, needed, tokens = _repeat(bench)
        if repeat:
            progress(f"  {repeat} of {repeats}: step {seconds['step']:.2f} s")
            taken.append(seconds)
            peaks = {k: max(peak.get(k, 0), peaks.get(k, 0)) for k in peak | peaks}
    bench.close()
    limits.append(roofline.measure("cuda" if machine.device.startswith("cuda") else "cpu"))
    limit = Roofline(*(max(pair) for pair in zip(*limits, strict=True)))
    phases = {
        name: phase([row[name] for row in taken], tokens[name], needed.get(name, Count()), limit)
        | {"peak_rss_above_idle": max(0, peaks.get(name, 0) - idle)}
        for name in PHASES
        if name in tokens
    }
    step = phase([row["step"] for row in taken], tokens["decode"], Count(), limit)
    return {
        "parameters": bench.shape.parameters,
        "algorithm": bench.algorithm.name,
        "size": size._asdict(),
        "micro_tokens": machine.micro_tokens,
        "repeats": repeats,
        "roofline": limit._asdict(),
        "idle_rss": idle,
        "step": step,
        "phases": phases,
    }


def phase(seconds: Sequence[float], tokens: int, needed: Count, limit: Roofline) -> dict[str, Any]:
    """Return the facts of a phase: seconds over repeats, tokens, what was needed, and how much of the limit was had."""
    median = statistics.median(seconds)
    return {
        "seconds": {"median": median, "min": min(seconds), "max": max(seconds)},
        "tokens": tokens,
        "flops": needed.flops,
        "bytes": needed.bytes,
        "flops_per_second": needed.flops / median,
        "percent_of_roofline": 100 * limit.seconds(*needed) / median if any(needed) else None,
    }


def _repeat(bench: Workbench) -> tuple[dict[str, float], dict[str, int], dict[str, Count], dict[str, int]]:
    """Do one step and the phases that a step leaves out; return seconds, peaks, needs and tokens by phase.

    Prefill is a rollout of one token; decoding is what the whole rollout took beyond it.
    """
    step = bench.step()
    number = bench.done - 1  # the same prompts again
    with bench.clock("prefill"):
        bench.sample(number, max_new=1)
    rollout = bench.sample(number)
    groups = groups_of(rollout)
    with bench.clock("old_logp"):
        bench.learner.logp(rollout)
    with tempfile.TemporaryDirectory() as folder, bench.clock("save"):
        bench.learner.save(Path(folder))
        saved = sum(file.stat().st_size for file in Path(folder).iterdir())
    asked, setting = bench.prompts(number), bench.setting
    problems = [bench.by_id[prompt.problem_id] for prompt in asked]
    with bench.clock("eval"):
        rows = evaluate(
            bench.sampler, problems, asked, setting.eval["test"], bench.grader, bench.seed,
            rows_at_once=setting.machine.decode_rows,
        )  # fmt: skip
    more = bench.clock.take()
    seconds = {**more["seconds"], **step.seconds}
    seconds["decode"] = max(step.seconds["rollout"] - seconds["prefill"], 1e-9)
    greedy = [Group(r.prompt_tokens, (r.tokens,)) for r in rows]
    needed = step.needed | {
        "prefill": flops.prefill(bench.shape, groups),
        "decode": flops.decode(bench.shape, groups),
        "old_logp": flops.score(bench.shape, groups),
        "save": Count(0, saved),
        "eval": flops.prefill(bench.shape, greedy) + flops.decode(bench.shape, greedy),
    }
    tokens = dict.fromkeys((name for name in PHASES if name in seconds), step.tokens)
    tokens |= {"prefill": sum(g.prompt for g in groups), "save": 0, "eval": sum(r.tokens for r in rows)}
    peaks = more["rss_peak"] | step.peak_rss
    return seconds, peaks | {"decode": peaks["rollout"]}, needed, tokens


def text(report: Mapping[str, Any]) -> str:
    """Return the report as tables for a terminal."""
    machine = report["machine"]
    lines = [f"{machine['processor']}, {machine['threads']} threads, {machine['date']}"]
    for model in report["models"]:
        size, limit = model["size"], model["roofline"]
        lines += [
            "",
            f"{model['model']} ({model['parameters']:,} parameters), {model['algorithm']}: {size['prompts']} x "
            f"{size['samples']} responses of {size['max_new']} tokens, {model['repeats']} repeats",
            f"limits: {limit['flops'] / 1e9:.0f} GFLOP/s, {limit['read'] / 1e9:.1f} GB/s read, "
            f"{limit['copy'] / 1e9:.1f} GB/s copied; idle process {model['idle_rss'] / 1e9:.2f} GB",
            *table(HEADER, [row(name, facts) for name, facts in (model["phases"] | {"step": model["step"]}).items()]),
        ]
    return "\n".join(lines)


HEADER = [
    "phase", "s, median", "min - max", "tokens", "tokens/s", "GFLOP", "GB", "GFLOP/s", "% of limit",
    "peak GB above idle",
]  # fmt: skip


def row(name: str, facts: Mapping[str, Any]) -> list[str]:
    """Return a phase's line."""
    seconds, share, peak = facts["seconds"], facts["percent_of_roofline"], facts.get("peak_rss_above_idle")
    return [
        name,
        f"{seconds['median']:.3f}",
        f"{seconds['min']:.3f} - {seconds['max']:.3f}",
        f"{facts['tokens']:,}",
        f"{facts['tokens'] / seconds['median']:,.0f}",
        f"{facts['flops'] / 1e9:,.1f}" if facts["flops"] else "",
        f"{facts['bytes'] / 1e9:,.2f}" if facts["bytes"] else "",
        f"{facts['flops_per_second'] / 1e9:,.1f}" if facts["flops"] else "",
        f"{share:.0f}" if share is not None else "",
        f"{peak / 1e9:.2f}" if peak is not None else "",
    ]
