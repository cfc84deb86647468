"""`make memory`: planned against measured peak memory of real runs, as the table of docs/memory.md."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import NamedTuple

from paribus.experiment import Experiment, resolve
from paribus.pipeline.compare import run_experiment
from paribus.planning.memory import memory
from paribus.planning.shapes import find_shape
from paribus.settings import ModelSpec
from paribus.store import PHASES, Phase, StoredRun, read_experiment

QUESTION = "Tell a very long story in which the numbers {a} and {b} come up again and again."
ARMS = {"ppo": {"base": "ppo"}, "grpo": {"base": "grpo"}}
UPDATES = ("policy_update", "critic_update")
BEGIN, END = "<!-- measured: written by tests/planning/peaks.py -->", "<!-- end -->"
PROBLEMS = 8  # of the evaluation


class Shape(NamedTuple):
    """A model made for this measurement: random weights, the tokenizer of the embedded model."""

    kind: str  # "llama" or "qwen2"
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int
    vocabulary: int
    tied: bool = True


class Case(NamedTuple):
    """One configuration: a model and the sizes of its steps."""

    model: Shape | Path
    prompts: int
    samples: int
    response: int
    minibatch: int
    micro_tokens: int
    dtype: str = "float32"


SMALL = {
    "wide": Case(Shape("llama", 512, 8, 8, 2, 1408, 32_000), 8, 8, 64, 4, 4096),
    "deep": Case(Shape("llama", 256, 24, 4, 4, 1024, 600), 8, 4, 96, 4, 2048),
    "vocabulary": Case(Shape("qwen2", 256, 4, 4, 4, 512, 98_304, tied=False), 8, 4, 64, 8, 2048),
}


def smollm2() -> Case:
    """The real model, downloaded and converted once."""
    from paribus.models import gguf
    from smollm2 import fetch

    return Case(gguf.convert(fetch()), 4, 4, 64, 2, 1024)


def write_model(shape: Shape, folder: Path) -> None:
    """Write a folder that holds the model and a tokenizer."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

    from paribus.models import tiny

    tokenizer = AutoTokenizer.from_pretrained(tiny.path())
    kinds = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen2": (Qwen2Config, Qwen2ForCausalLM)}
    make_config, make_model = kinds[shape.kind]
    torch.manual_seed(0)
    config = make_config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        tie_word_embeddings=shape.tied,
        max_position_embeddings=2048,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    make_model(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def write_problems(folder: Path) -> None:
    """Write questions that all have the same number of tokens, and whose answers run into the limit."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, first, count in (("train", 100, 32), ("test", 500, PROBLEMS)):
        rows = [{"question": QUESTION.format(a=a, b=a + 371), "answer": str(a)} for a in range(first, first + count)]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def prompt_tokens(model: Path, data: Path) -> int:
    """Return how many tokens a question has as a prompt."""
    from paribus.models import chat, hf

    tokenizer = hf.load_tokenizer(str(model), ModelSpec(path=str(model)))
    question = json.loads((data / "train.jsonl").read_text(encoding="utf-8").splitlines()[0])["question"]
    return len(chat.encode(tokenizer, [{"role": "user", "content": question}]))


def experiment(name: str, case: Case, folder: Path) -> Experiment:
    """Return the experiment that measures a case, its model and data written where they are not there yet."""
    data = folder / "data"
    write_problems(data)
    model = case.model if isinstance(case.model, Path) else folder / "models" / name
    if isinstance(case.model, Shape) and not model.is_dir():
        write_model(case.model, model)
    tables = {
        "name": name,
        "question": "does the plan's memory agree with the machine's?",
        "primary": "test:accuracy",
        "seeds": [0],
        "model": {"path": str(model), "dtype": case.dtype},
        "task": {"type": "jsonl", "path": str(data)},
        "rollout": {
            "prompts_per_step": case.prompts,
            "samples_per_prompt": case.samples,
            "max_prompt": prompt_tokens(model, data),
            "max_response": case.response,
        },
        "optim": {"lr": 1e-6, "minibatch_prompts": case.minibatch},
        "budget": {"steps": 2},
        "eval": {"test": {"max_response": case.response}},
        "save": {"every": 1, "keep": 1},
        "machine": {"device": "cpu", "threads": 1, "micro_tokens": case.micro_tokens},
        "arm": ARMS,
    }
    return resolve(tables, where=name)


class Peak(NamedTuple):
    """One phase of one run, bytes above the idle process."""

    case: str
    arm: str
    phase: str
    planned: int
    measured: int

    @property
    def error(self) -> float:
        return self.planned / self.measured - 1


def peaks(name: str, exp: Experiment, runs: Path) -> list[Peak]:
    """Return planned and measured peaks of every phase of every arm, and of the whole run as phase "peak"."""
    stored = read_experiment(runs / exp.name)
    problems = {"test": PROBLEMS}
    found = []
    for arm, spec in exp.arms.items():
        setting = spec.setting(exp.setting)
        shape, run = find_shape(setting.model).shape, stored.runs[arm][0]
        first = memory(shape, setting, spec.algorithm, started=False, heap=True, problems=problems).phases
        later = memory(shape, setting, spec.algorithm, heap=True, problems=problems)
        for phase in PHASES:
            if phase in UPDATES and phase in later.phases:
                found.append(Peak(name, arm, phase, later.phases[phase], measured(run, phase, steps=(1, 2))))
            elif phase in first and phase not in ("save", "eval"):
                found.append(Peak(name, arm, phase, first[phase], measured(run, phase, steps=(1,))))
        found.append(Peak(name, arm, "peak", later.peak, max(measured(run, p, steps=(1, 2)) for p in PHASES)))
    return found


def measured(run: StoredRun, phase: Phase, steps: tuple[int, ...]) -> int:
    """Return the highest resident memory of a phase in some training steps and the evaluations after them."""
    idle = run.info.attempts[0].idle_rss
    assert idle is not None, "this run was stored before idle processes were measured"
    return max((row.rss_peak[phase] - idle for row in run.all_timing if row.step in steps and phase in row.rss_peak),
               default=0)  # fmt: skip


def markdown(found: list[Peak]) -> str:
    """Return the table: one row a configuration and arm."""
    columns = ["peak", *(phase for phase in PHASES if any(p.phase == phase for p in found))]
    lines = [f"| configuration | arm | {' | '.join(columns)} |", "|---" * (2 + len(columns)) + "|"]
    for case, arm in dict.fromkeys((p.case, p.arm) for p in found):
        cells = {p.phase: p for p in found if (p.case, p.arm) == (case, arm)}
        shown = [_cell(cells[c]) if c in cells else "—" for c in columns]
        lines.append(f"| {case} | {arm} | {' | '.join(shown)} |")
    return "\n".join([*lines, "", "Planned / measured, GB above the idle process, and how far the plan is off."])


def _cell(peak: Peak) -> str:
    return f"{peak.planned / 1e9:.2f} / {peak.measured / 1e9:.2f} ({100 * peak.error:+.0f} %)".replace("-", "−")


def write_table(page: Path, text: str) -> None:
    """Put the table between its marks in a page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(".memory"), help="models, data and runs; kept")
    parser.add_argument("--only", nargs="*", default=[*SMALL, "smollm2"])
    parser.add_argument("--page", type=Path, help="page that gets the table")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found = []
    for name in arguments.only:
        case = SMALL[name] if name in SMALL else smollm2()
        exp = experiment(name, case, arguments.folder)
        run_experiment(exp, arguments.folder / "runs")
        found += peaks(name, exp, arguments.folder / "runs")
    text = markdown(found)
    print(text)
    if arguments.page:
        write_table(arguments.page, text)


if __name__ == "__main__":
    main()
