"""How to do it again: the commands, the file, and what they ran on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paribus.part import to_toml
from paribus.report.blocks import Block, Code, Prose, Table
from paribus.report.message import Text, msg
from paribus.report.text import DASH, listing
from paribus.store import Attempt, StoredExperiment

HEAD = ("name", "question", "primary", "margin", "seeds", "differs")
NOT_WRITTEN = ("kind", "name", "paper", "levels", "of", "stated")  # of an arm: identity, not settings


def reproduction(exp: StoredExperiment) -> list[Block]:
    """Return commands that repeat the experiment, its file, and the identities to compare with."""
    runs = [run for found in exp.runs.values() for run in found.values()]
    attempts = [a for run in runs for a in run.info.attempts]
    if not attempts:
        return [Prose(msg("No run is stored."), "note")]
    file = f"{exp.info.name}.toml"
    out: list[Block] = [Code("\n".join(_commands(exp, attempts, file)), msg("Commands"))]
    if exp.info.factors:
        text = msg(
            "The experiment has factors: run the file that it was run with; experiment.json holds all of it, resolved."
        )
        out.append(Prose(text, "note"))
    else:
        out.append(
            Code(to_toml(experiment_file(exp.info.resolved)), msg("{file}, nothing left to a default", file=file))
        )
    return [*out, _identities(exp, attempts)]


def _commands(exp: StoredExperiment, attempts: list[Attempt], file: str) -> list[str]:
    """Return what to type, at the versions that the runs recorded."""
    last = attempts[-1]
    commit = (last.git or "").removesuffix("-dirty")
    versions = {name: version.partition("+")[0] for name, version in last.packages.items() if name != "paribus"}
    packages = " ".join(f"'{name}=={version}'" for name, version in versions.items())
    folder = f"runs/{exp.info.name}"
    return [
        *([f"git checkout {commit}"] if commit else []),
        "pip install -e '.[train]'",
        *([f"pip install {packages}"] if packages else []),
        f"paribus plan {file}",
        f"paribus run {file}",
        f"paribus report {folder}",
    ]


def experiment_file(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of a file that resolves to the same experiment, every default written out."""
    arms = {}
    for name, arm in resolved.get("arms", {}).items():
        algorithm = arm["algorithm"]
        table = {k: v for k, v in algorithm.items() if k not in NOT_WRITTEN}
        arms[name] = {"base": algorithm["name"], **table, **({"differs": arm["differs"]} if arm.get("differs") else {})}
    head = {k: resolved[k] for k in HEAD if resolved.get(k) is not None}
    return {**head, **resolved.get("setting", {}), "arm": arms}


def _identities(exp: StoredExperiment, attempts: list[Attempt]) -> Table:
    hashes = {
        arm: dict.fromkeys(run.info.config_hash[:16] for run in found.values())
        for arm, found in exp.runs.items()
        if found
    }
    rows: list[list[Text]] = [
        [msg("configuration of {arm}, hash", arm=arm), listing(list(found))] for arm, found in hashes.items()
    ]

    def every(values: list[str]) -> str:
        return "; ".join(dict.fromkeys(values))

    rows += [
        [msg("code, hash"), every([a.code[:16] for a in attempts])],
        [msg("git commit"), every([a.git or DASH for a in attempts])],
        [msg("Python and platform"), every([f"Python {a.python}, {a.platform}" for a in attempts])],
        [msg("hardware"), every([f"{a.device}, {a.threads} threads" for a in attempts])],
        [msg("determinism"), every([a.determinism for a in attempts])],
    ]
    return Table([msg("identity"), msg("value")], rows, labels=2, name="identities")
