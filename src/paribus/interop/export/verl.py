"""`paribus export verl`: for each arm a folder from which a machine with verl trains and evaluates, without Paribus."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from paribus.algorithms import PolicyGradient
from paribus.errors import ConfigError
from paribus.experiment import Arm, Experiment
from paribus.interop.export.folder import Folder, arms_of, outcomes, python_sources
from paribus.interop.export.mapping import Book, factors
from paribus.interop.export.verl_method import Job, map_method
from paribus.interop.export.verl_setting import map_setting, suite_lines
from paribus.interop.export.verl_versions import TARGETS, Target, find_target

NEWEST = max(TARGETS)

TRAIN_SH = """#!/usr/bin/env bash
# Trains arm {arm} of {experiment} with verl {version}: ./train.sh SEED [KEY=VALUE ...]
set -euo pipefail
HERE=$(cd "$(dirname "${{BASH_SOURCE[0]}}")" && pwd)
SEED=${{1:?write ./train.sh SEED, one of: {seeds}}}
shift
mapfile -t LINES < "$HERE/train.overrides"
LINES=("${{LINES[@]//\\$HERE/$HERE}}")
LINES=("${{LINES[@]//\\$SEED/$SEED}}")
exec python3 -m verl.trainer.main_ppo "${{LINES[@]}}" "$@"
"""
EVAL_SH = """#!/usr/bin/env bash
# Evaluates a checkpoint of arm {arm} on a suite: ./eval.sh SEED SUITE STEP [KEY=VALUE ...]; STEP 0 is the base model.
# Rows go to runs/seed-SEED/validation/SUITE/STEP.jsonl, for `paribus ingest verl`.
set -euo pipefail
HERE=$(cd "$(dirname "${{BASH_SOURCE[0]}}")" && pwd)
USAGE="write ./eval.sh SEED SUITE STEP; suites: {suites}"
SEED=${{1:?$USAGE}} SUITE=${{2:?$USAGE}} STEP=${{3:?$USAGE}}
shift 3
mapfile -t LINES < "$HERE/$SUITE.overrides"
LINES=("${{LINES[@]//\\$HERE/$HERE}}")
LINES=("${{LINES[@]//\\$SEED/$SEED}}")
if [ "$STEP" != 0 ]; then
  CHECKPOINT="$HERE/runs/seed-$SEED/checkpoints/global_step_$STEP"
  [ -d "$CHECKPOINT" ] || {{ echo "eval.sh: no checkpoint $CHECKPOINT" >&2; exit 2; }}
  LINES+=("trainer.resume_mode=resume_path" "trainer.resume_from_path='$CHECKPOINT'")
fi
exec python3 -m verl.trainer.main_ppo "${{LINES[@]}}" "$@"
"""


def book_of(arm: Arm, exp: Experiment, target: Target, gpus: int, micro_batch: int) -> Book:
    """Return what becomes of every factor of the arm's runs. Raises ConfigError for a method that is not online."""
    setting, method = arm.setting(exp.setting), arm.algorithm
    if not isinstance(method, PolicyGradient):
        raise ConfigError(
            f"method '{method.name}' trains on data of its own, and verl has no such trainer: export to trl"
        )
    book = Book(factors(arm, setting))
    job = Job(method, setting, target, gpus, micro_batch)
    map_method(book, job)
    map_setting(book, job)
    book.close()
    return book


def training_lines(book: Book, exp: Experiment, arm: str) -> list[str]:
    """Return the overrides of a training run; `$HERE` is the arm's folder, `$SEED` the run's seed."""
    names = [f"trainer.project_name='{exp.name}'", f"trainer.experiment_name='{arm}-seed-$SEED'"]
    return [*book.lines.values(), *names]


def evaluation_lines(training: Sequence[str], suite: Sequence[str], manager: str) -> list[str]:
    """Return the overrides of an evaluation: the training's, and the suite's in their place."""
    found = {line.partition("=")[0]: line for line in (*training, *suite)}
    if manager in found:
        found[manager] = f"{manager}=naive"  # shaping is for training
    return list(found.values())


def export_verl(
    exp: Experiment,
    out: Path,
    version: str = NEWEST,
    *,
    arms: Sequence[str] = (),
    gpus: int = 1,
    micro_batch: int = 16,
    allow_approximate: bool = False,
) -> list[Path]:
    """Write `out/<arm>` for each arm and return the folders. Raises ConfigError with every reason not to; then nothing
    of any arm is written."""
    target = find_target(version)
    chosen = arms_of(exp, arms)
    books = {name: book_of(arm, exp, target, gpus, micro_batch) for name, arm in chosen.items()}
    for name, book in books.items():
        book.check(name, f"verl {version}", allow_approximate)
    return [_write(exp, out / name, name, books[name], target) for name in chosen]


def _write(exp: Experiment, path: Path, name: str, book: Book, target: Target) -> Path:
    arm = exp.arms[name]
    setting, method = arm.setting(exp.setting), arm.algorithm
    assert isinstance(method, PolicyGradient)
    folder = Folder(path, "verl", target.version, exp, name)
    scorer = python_sources(setting, outcomes(method))
    folder.data(setting)
    folder.text("scorer.py", scorer)
    training = training_lines(book, exp, name)
    folder.text("train.overrides", "\n".join(training) + "\n")
    for suite, spec in setting.eval.items():
        lines = evaluation_lines(training, suite_lines(spec, suite, setting.rollout.max_prompt), target.manager)
        folder.text(f"{suite}.overrides", "\n".join(lines) + "\n")
    words = {
        "arm": name,
        "experiment": exp.name,
        "version": target.version,
        "seeds": " ".join(map(str, exp.seeds)),
        "suites": " ".join(setting.eval),
    }
    folder.text("train.sh", TRAIN_SH.format(**words), executable=True)
    folder.text("eval.sh", EVAL_SH.format(**words), executable=True)
    folder.text("requirements.txt", "\n".join(target.requires) + "\n")
    folder.report(book.entries)
    return folder.close()
