"""`paribus export trl`: for each arm a folder with one script that trains with TRL, without Paribus."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import Template

from paribus.algorithms import Offline
from paribus.errors import ConfigError
from paribus.experiment import Arm, Experiment
from paribus.interop.export.folder import Folder, arms_of, outcomes, python_sources
from paribus.interop.export.mapping import Book, factors, keyword, map_scores
from paribus.interop.export.trl_method import TrlJob, map_online
from paribus.interop.export.trl_pairs import SCRIPT as PAIRS_SCRIPT
from paribus.interop.export.trl_pairs import map_limits, map_pairs, pair_rows

RELEASE = "1.16.0"
REQUIRES = (f"trl[vllm]=={RELEASE}", "datasets", "pyarrow")

SCRIPT = Template('''"""Trains arm $arm of $experiment with TRL $version: python train.py SEED, one of: $seeds

Completions of every update go to runs/seed-SEED/completions, for `paribus ingest trl`.
"""

import sys
from pathlib import Path

import scorer
from datasets import load_dataset
from transformers import AutoTokenizer
from trl import $trainer, $config

HERE = Path(__file__).resolve().parent
MODEL = $model
MAX_PROMPT, OVERLONG = $max_prompt, $overlong
CONFIG = dict(
$values
)


def columns(row):
    return {
        "ground_truth": row["reward_model"]["ground_truth"],
        "problem_id": row["extra_info"]["problem_id"],
        "prompt": [{"role": m["role"], "content": m["content"]} for m in row["prompt"]],
    }


def training_data():
    rows = load_dataset("parquet", data_files=str(HERE / "data" / "train.parquet"), split="train")
    rows = rows.map(columns, remove_columns=["ability", "reward_model", "extra_info"])
    tokenizer = AutoTokenizer.from_pretrained(MODEL)

    def fits(row):
        text = tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True, tokenize=False)
        return len(tokenizer(text, add_special_tokens=False).input_ids) <= MAX_PROMPT

    kept = rows.filter(fits)
    if len(kept) < len(rows) and OVERLONG == "error":
        sys.exit(f"{len(rows) - len(kept)} prompts are longer than {MAX_PROMPT} tokens")
    return kept


def main(seed):
    output = HERE / "runs" / f"seed-{seed}"
    config = $config(output_dir=str(output), seed=seed, data_seed=seed, **CONFIG)
    trainer = $trainer(
        model=MODEL, args=config, reward_funcs=[scorer.reward, scorer.accuracy], train_dataset=training_data()
    )
    trainer.train(resume_from_checkpoint=any(output.glob("checkpoint-*")))


if __name__ == "__main__":
    main(int(sys.argv[1]))
''')


def book_of(job: TrlJob, arm: Arm) -> Book:
    """Return what becomes of every factor of the arm's runs."""
    book = Book(factors(arm, job.setting))
    if job.online is not None:
        map_online(book, job.online)
        _rollout(book, job)
    elif isinstance(job.method, Offline):
        map_pairs(book, job.method)
        map_limits(book, job.setting)
    for rule in (_model, _task, _optim, _budget, _rest):
        rule(book, job)
    book.close()
    return book


def _model(book: Book, job: TrlJob) -> None:
    model = job.setting.model
    if model.path == "tiny" or model.path.endswith(".gguf"):
        book.refuse("setting.model.path", "TRL starts from a Hugging Face folder or hub id with a chat template")
    else:
        book.exact("setting.model.path", note="MODEL of train.py")
    if model.revision is not None:
        book.refuse("setting.model.revision", "download the revision and give the folder")
    else:
        book.default("setting.model.revision", "main")
    held = (keyword("model_init_kwargs", {"dtype": "float32"}), keyword("bf16", True))
    book.exact("setting.model.dtype", *held, note="weights and optimizer in float32; passes in bfloat16 (autocast)")
    book.default("setting.model.attention", "transformers' own choice, sdpa")


def _task(book: Book, job: TrlJob) -> None:
    setting = job.setting
    if job.online is None:
        for name in ("task", "reward", "steps"):
            book.default(f"setting.{name}", "of the evaluation: training reads the pairs")
        return
    note = "data/train.parquet: messages, laid out by the model's own chat template"
    book.exact("setting.task", keyword("remove_unused_columns", False), note=note)
    cut = "the reward function is not told that a response was cut: its last number then counts as an answer"
    weights = keyword("reward_weights", [1.0, 0.0])
    map_scores(book, setting, "TRL", weights, cut=cut, note="the second is the verdict, for the record")


def _rollout(book: Book, job: TrlJob) -> None:
    rollout, key = job.setting.rollout, "setting.rollout."
    rows = rollout.prompts_per_step * rollout.samples_per_prompt
    at_once = job.gpus * job.micro_batch
    book.exact(key + "samples_per_prompt", keyword("num_generations", rollout.samples_per_prompt))
    if rows % at_once or job.rows % at_once:
        sizes = f"{rows} rows a step, {job.rows} an update"
        why = f"{sizes}: --gpus {job.gpus} times --micro-batch {job.micro_batch} must divide both"
        book.refuse(key + "prompts_per_step", why)
    else:
        book.exact(
            key + "prompts_per_step", keyword("steps_per_generation", rows // at_once), note=f"{rows} rows a step"
        )
    book.exact(key + "max_prompt", note="train.py, before training: TRL has no limit of its own")
    if rollout.overlong == "cut":
        book.refuse(key + "overlong", "TRL cuts no prompts")
    else:
        book.exact(key + "overlong", note="train.py")
    book.exact(key + "max_response", keyword("max_completion_length", rollout.max_response))
    book.exact(key + "temperature", keyword("temperature", rollout.temperature))
    book.exact(key + "top_p", keyword("top_p", 1.0), keyword("top_k", 0))
    book.add(key + "engine", "random", note="TRL samples as its arguments say: the same distribution, other draws")


def _optim(book: Book, job: TrlJob) -> None:
    optim, key = job.setting.optim, "setting.optim."
    book.exact(key + "lr", keyword("learning_rate", optim.lr))
    book.exact(key + "betas", keyword("adam_beta1", optim.betas[0]), keyword("adam_beta2", optim.betas[1]))
    book.exact(key + "eps", keyword("adam_epsilon", optim.eps))
    book.choose(
        not optim.weight_decay,
        key + "weight_decay",
        keyword("weight_decay", optim.weight_decay),
        otherwise="transformers decays no biases and no norms, Paribus and verl every parameter",
    )
    book.exact(key + "clip_norm", keyword("max_grad_norm", optim.clip_norm or 0.0), note="0 switches it off")
    constant = "constant_with_warmup" if optim.warmup_steps else "constant"
    book.choose(
        optim.schedule == "constant",
        key + "schedule",
        keyword("lr_scheduler_type", constant if optim.schedule == "constant" else optim.schedule),
        otherwise="transformers moves the learning rate at every update, Paribus at every step, and ends at 0",
    )
    book.default(key + "decay_to", "not used")
    per_step = job.setting.updates_per_rollout
    book.choose(
        not optim.warmup_steps,
        key + "warmup_steps",
        keyword("warmup_steps", optim.warmup_steps * per_step),
        otherwise="transformers warms up update by update from 0",
    )
    if job.online is not None:
        book.exact(key + "epochs", keyword("num_iterations", optim.epochs))
    elif optim.epochs == 1:
        book.default(key + "epochs", "every pair of a step once")
    else:
        book.refuse(key + "epochs", "TRL's DPOTrainer goes through the data, not several times through a step")
    at_once = job.gpus * job.micro_batch
    if job.rows % at_once:
        book.refuse(key + "minibatch_prompts", f"{job.rows} rows an update do not divide by {at_once} at a time")
        return
    book.exact(
        key + "minibatch_prompts",
        keyword("per_device_train_batch_size", job.micro_batch),
        keyword("gradient_accumulation_steps", job.rows // at_once),
        note=f"{job.rows} rows an update",
    )


def _budget(book: Book, job: TrlJob) -> None:
    setting, steps = job.setting, job.setting.total_steps
    fields = ("steps", "samples", "tokens", "seconds")
    given = next(name for name in fields if getattr(setting.budget, name) is not None)
    for name in fields:
        if name != given:
            book.default(f"setting.budget.{name}", "not the axis")
    if steps is None:
        book.refuse(f"setting.budget.{given}", "TRL stops after a number of updates: give steps or samples")
        return
    updates = steps * setting.updates_per_rollout
    book.exact(f"setting.budget.{given}", keyword("max_steps", updates), note=f"{steps} steps are {updates} updates")


def _rest(book: Book, job: TrlJob) -> None:
    setting = job.setting
    sampled = job.online is not None
    book.exact(
        "setting.save",
        keyword("save_steps", setting.save.every * setting.updates_per_rollout),
        keyword("save_total_limit", setting.save.keep),
        keyword("logging_steps", 1),
        keyword("report_to", "none"),
        *([keyword("log_completions", True)] if sampled else []),
        note="in updates" + ("; completions of every update are written" if sampled else ""),
    )
    book.default("setting.limit", "TRL does not stop by itself")
    engine = [keyword("use_vllm", True), keyword("vllm_mode", "colocate"), keyword("shuffle_dataset", True)]
    book.exact(
        "setting.machine",
        keyword("gradient_checkpointing", True),
        *(engine if sampled else []),
        note="the launch's own",
    )
    book.add("seed", "random", note="python train.py SEED: order and torch's noise; not the sampler of vLLM")
    for name in setting.eval:
        key = f"setting.eval.{name}"
        book.default(key, "evaluate a checkpoint here: `paribus eval FILE --model runs/seed-K/checkpoint-N`")


def export_trl(
    exp: Experiment,
    out: Path,
    version: str = RELEASE,
    *,
    arms: Sequence[str] = (),
    gpus: int = 1,
    micro_batch: int = 16,
    allow_approximate: bool = False,
) -> list[Path]:
    """Write `out/<arm>` for each arm and return the folders. Raises ConfigError with every reason not to."""
    if version != RELEASE:
        raise ConfigError(
            f"--target {version}: the exporter knows TRL {RELEASE} only; its defaults move between releases"
        )
    chosen = arms_of(exp, arms)
    jobs = {name: TrlJob(arm.algorithm, arm.setting(exp.setting), gpus, micro_batch) for name, arm in chosen.items()}
    books = {name: book_of(jobs[name], arm) for name, arm in chosen.items()}
    for name, book in books.items():
        book.check(name, f"TRL {version}", allow_approximate)
    return [_write(exp, out / name, name, jobs[name], books[name]) for name in chosen]


def _write(exp: Experiment, path: Path, name: str, job: TrlJob, book: Book) -> Path:
    setting = job.setting
    folder = Folder(path, "trl", RELEASE, exp, name)
    if job.online is not None:
        scorer = python_sources(setting, outcomes(job.online))
        folder.data(setting)
        folder.text("scorer.py", scorer)
    elif isinstance(job.method, Offline):
        folder.rows(pair_rows(job.method))
    script = (SCRIPT if job.online is not None else PAIRS_SCRIPT).substitute(
        arm=name,
        experiment=exp.name,
        version=RELEASE,
        seeds=" ".join(map(str, exp.seeds)),
        trainer=f"{job.trainer}Trainer",
        config=f"{job.trainer}Config",
        model=repr(setting.model.path),
        max_prompt=setting.rollout.max_prompt,
        overlong=repr(setting.rollout.overlong),
        values="\n".join(f"    {text}," for text in book.lines.values()),
    )
    folder.text("train.py", script)
    folder.text("requirements.txt", "\n".join(REQUIRES) + "\n")
    folder.report(book.entries)
    return folder.close()
