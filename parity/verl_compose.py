"""Composes what verl_exports.py wrote with each release's own configuration, and checks what composing cannot see.

Run in an environment of Hydra and OmegaConf alone, as `verl_compose.py WHEELS [RELEASE ...]`: verl's wheels lie there
unpacked, as verl-RELEASE, and are read, never imported.
"""

from __future__ import annotations

import ast
import copy
import functools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

EXPORTS = Path(".parity/verl")
ACTOR = "actor_rollout_ref.actor"


@functools.cache
def registered(wheel: Path, function: str) -> set[str]:
    """Return the names under which core_algos.py registers functions with a decorator, read from its syntax tree."""
    tree = ast.parse((wheel / "verl/trainer/ppo/core_algos.py").read_text(encoding="utf-8"))
    values = {
        item.targets[0].id: item.value.value
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == "AdvantageEstimator"
        for item in node.body
        if isinstance(item, ast.Assign)
    }
    found = set()
    for node in ast.walk(tree):
        for call in getattr(node, "decorator_list", []):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == function:
                argument = call.args[0]
                found.add(argument.value if isinstance(argument, ast.Constant) else values[argument.attr])
    return found


@functools.cache
def losses(wheel: Path) -> set[str]:
    found = registered(wheel, "register_policy_loss")
    actor = wheel / "verl/workers/actor/dp_actor.py"
    if actor.exists() and 'loss_mode == "vanilla"' in actor.read_text(encoding="utf-8"):
        found.add("vanilla")  # before 0.6 not in the registry
    return found


@functools.cache
def legacy(config: Path) -> tuple[str, ...]:
    """Return the tables that a release still takes and no longer reads."""
    path = config / "legacy_reward_impl.yaml"
    return tuple(OmegaConf.load(path)) if path.exists() else ()


def bounds(surrogate: dict[str, Any]) -> dict[str, float]:
    """Return the clip bounds that a method asks for."""
    never = 1e9
    kind = surrogate["type"]
    if kind in ("clip", "gmpo"):
        found = (surrogate["low"], surrogate["high"], surrogate.get("dual") or never)
    elif kind == "cispo":
        found = (1 - (surrogate["low"] or 0.0), surrogate["high"] - 1, never)
    elif kind == "divergence_mask":
        found = (surrogate["delta"], surrogate["delta"], surrogate["cap"] or never)
    else:
        return {}
    return dict(zip(("clip_ratio_low", "clip_ratio_high", "clip_ratio_c"), found, strict=True))


def faults(wheel: Path, config: Path, folder: Path, target: dict[str, Any], lines: list[str]) -> Iterator[str]:
    keys = [line.partition("=")[0] for line in lines]
    for key in keys:
        if key.startswith("+") and key[1:] not in target["added"]:
            yield f"{key} is not listed as a key that the configuration lacks"
        if key.lstrip("+").startswith(tuple(f"{name}." for name in legacy(config))):
            yield f"{key} belongs to a table that this release ignores"
    try:
        made = composed(str(config), tuple(keys), lines)
    except Exception as error:  # whatever Hydra raises is what a user would meet
        yield f"does not compose: {error}"
        return
    yield from _values(wheel, folder, target, made)


COMPOSED: dict[tuple[str, frozenset[str]], DictConfig] = {}


def composed(config: str, keys: tuple[str, ...], lines: list[str]) -> DictConfig:
    """Return a release's configuration with the lines laid over it; the same keys are composed by Hydra once."""
    known = (config, frozenset(keys))
    if known not in COMPOSED:
        with initialize_config_dir(config_dir=config, version_base=None):
            COMPOSED[known] = compose("ppo_trainer", overrides=lines)
    made = copy.deepcopy(COMPOSED[known])
    for override in OverridesParser.create().parse_overrides(lines):
        OmegaConf.update(made, override.key_or_group, override.value(), merge=False)
    return made


def _values(wheel: Path, folder: Path, target: dict[str, Any], made: DictConfig) -> Iterator[str]:
    manifest = json.loads((folder / "manifest.json").read_text())
    method = manifest["experiment"]["arms"][manifest["arm"]]["algorithm"]
    estimator, loss = made.algorithm.adv_estimator, OmegaConf.select(made, f"{ACTOR}.policy_loss.loss_mode")
    if estimator not in registered(wheel, "register_adv_est"):
        yield f"no advantage estimator {estimator} in this release"
    if loss not in losses(wheel):
        yield f"no loss {loss} in this release"
    for key, wanted in bounds(method["surrogate"]).items():
        found = OmegaConf.select(made, f"{ACTOR}.{key}")
        if abs(found - wanted) > 1e-12:
            yield f"{key} is {found}, the method asks for {wanted}"
    scorer = OmegaConf.select(made, f"{target['scorer']}.path")
    if scorer is None or not str(scorer).endswith("/scorer.py"):
        yield f"{target['scorer']}.path, which this release reads, is {scorer}"


def main(wheels: Path, releases: list[str]) -> None:
    count = failed = 0
    for place in sorted(path.parent for path in EXPORTS.glob("*/target.json")):
        if releases and place.name not in releases:
            continue
        wheel = (wheels / f"verl-{place.name}").resolve()
        target = json.loads((place / "target.json").read_text())
        for path in sorted(place.glob("*/*.overrides")):
            lines = path.read_text().splitlines()
            lines = [line.replace("$HERE", "/some folder/of arm").replace("$SEED", "3") for line in lines]
            found = list(faults(wheel, wheel / "verl/trainer/config", path.parent, target, lines))
            count, failed = count + 1, failed + bool(found)
            for fault in found:
                print(f"verl {place.name}, {path.parent.name}, {path.stem}: {fault}", flush=True)
    print(f"{count} override lists composed, {failed} with faults")
    sys.exit(1 if failed or not count else 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
