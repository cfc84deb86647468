"""Every method of the catalogue through the real worker: it learns, charges what it samples, and resumes to the bit."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from paribus.algorithms import CATALOG, Algorithm, Need, Offline, PolicyGradient, Reinforce
from paribus.algorithms.catalog_flavours import FLAVOURS
from paribus.batch import Rollout
from paribus.engines.local import LocalSampler
from paribus.store import RunPaths
from pipeline_experiment import facts
from tinyruns import experiment, run, steps, write_materials


@pytest.fixture(scope="module")
def materials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("catalogue")
    write_materials(folder)
    return folder


def tables(algorithm: Algorithm, folder: Path) -> dict[str, Any]:
    """Four updates a step where the method allows them, and step scores where it asks."""
    once = isinstance(algorithm, PolicyGradient) and isinstance(algorithm.surrogate, Reinforce)
    out: dict[str, Any] = {} if once else {"optim": {"epochs": 2, "minibatch_prompts": 1}}
    if Need.STEPS in algorithm.needs:
        scorer = {"type": "function", "path": str(folder / "worth.py"), "name": "worth", "split": {"separator": "e"}}
        out["steps"] = scorer
    return out


def moved(paths: RunPaths, materials: Path) -> bool:
    start, end = (load_file(folder / "model.safetensors") for folder in (materials / "model", paths.final))
    return any(not torch.equal(start[name], end[name]) for name in start)


@pytest.mark.parametrize("name", CATALOG)
def test_a_method_runs_as_declared(name: str, materials: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm = CATALOG[name]
    exp = experiment(materials, {"arm": {"base": name}}, **tables(algorithm, materials))
    sampled: list[Rollout] = []
    real = LocalSampler.sample

    def sample(self: LocalSampler, *request: Any) -> Rollout:
        rollout = real(self, *request)
        if request[-1].purpose != "eval":
            sampled.append(rollout)
        return rollout

    monkeypatch.setattr(LocalSampler, "sample", sample)
    paths = run(exp, "arm", tmp_path)
    rows = steps(paths)
    assert len(rows) == 2
    for row in rows:
        for key, stat in row["stats"].items():
            assert all(value is not None and math.isfinite(value) for value in stat.values()), key
    assert rows[-1]["samples"] == sum(rollout.rows for rollout in sampled)
    assert rows[-1]["tokens"] == sum(int(rollout.mask.sum()) for rollout in sampled)
    expected = 4 if "optim" in tables(algorithm, materials) else 1
    updates = [row["stats"]["updates"]["sum"] for row in rows]
    # data of own responses may lack a prompt, whose group then makes no update
    assert all(0 < n <= expected for n in updates) and (isinstance(algorithm, Offline) or max(updates) == expected)
    warms_up = algorithm.critic is not None and algorithm.critic.warmup >= 2
    assert moved(paths, materials) != warms_up
    if algorithm.critic is not None:
        one, two = (load_file(paths.checkpoints / f"step-{n}" / "critic.safetensors") for n in (1, 2))
        assert any(not torch.equal(one[key], two[key]) for key in one)

    if algorithm in FLAVOURS:  # of the same Parts, whose resuming the papers' own entries show
        return
    whole = facts(paths.root)
    paths.done.unlink()
    shutil.rmtree(paths.checkpoints / "step-2")
    paths.steps.write_bytes(paths.steps.read_bytes()[:-20])  # torn in the second step's row
    run(exp, "arm", tmp_path)
    assert facts(paths.root) == whole
