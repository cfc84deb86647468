"""Exports every online method of the catalogue to every release of verl that is known; see verl_compose.py."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from paribus.algorithms import CATALOG, PolicyGradient
from paribus.errors import ConfigError
from paribus.experiment import Experiment, resolve
from paribus.interop.export.verl import export_verl
from paribus.interop.export.verl_versions import TARGETS

OUT = Path(".parity/verl")


def experiment(method: str) -> Experiment:
    """Return an experiment of one arm, with KL bounds and value head as verl has them where the method has any."""
    entry = CATALOG[method]
    assert isinstance(entry, PolicyGradient)
    arm: dict[str, object] = {"base": method}
    if entry.kl is not None and entry.kl.estimator == "k3":
        arm["kl"] = {"floor": -20.0, "ceiling": 20.0, "clamp": 10.0}
    table = {
        "name": method,
        "question": "Does it compose?",
        "primary": "test:accuracy",
        "seeds": [0],
        "model": {"path": "Qwen/Qwen2.5-0.5B-Instruct"},
        "task": {"type": "jsonl", "path": str(OUT / "data")},
        "rollout": {"prompts_per_step": 4, "samples_per_prompt": 4, "max_response": 20},
        "optim": {"lr": 1e-6},
        "budget": {"steps": 3},
        "eval": {"test": {"max_response": 40}},
        "arm": {method: arm},
    }
    return resolve(table, where=method)


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    (OUT / "data").mkdir(parents=True)
    for split in ("train", "test"):
        rows = [{"question": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(8)]
        (OUT / "data" / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    refused: dict[str, dict[str, list[str]]] = {}
    for version, target in TARGETS.items():
        (OUT / version).mkdir()
        facts = {"added": list(target.added), "scorer": target.scorer}
        (OUT / version / "target.json").write_text(json.dumps(facts))
        for name, entry in CATALOG.items():
            if not isinstance(entry, PolicyGradient):
                continue
            try:
                export_verl(experiment(name), OUT / version, version, micro_batch=16, allow_approximate=True)
            except ConfigError as error:
                lines = str(error).splitlines()[1:]
                refused.setdefault(name, {}).setdefault("\n".join(lines), []).append(version)
    for name, reasons in refused.items():
        for reason, versions in reasons.items():
            print(f"{name}, refused for {', '.join(versions)}:\n{reason}")


if __name__ == "__main__":
    main()
