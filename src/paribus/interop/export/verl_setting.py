"""What the arms share (model, task, rollout, optimizer, budget, evaluation) as verl's keys."""

from __future__ import annotations

import math

from paribus.interop.export.mapping import Book, map_scores
from paribus.interop.export.verl_method import ACTOR, NEVER, Job, number
from paribus.settings import OptimSpec
from paribus.suites import EvalSpec
from paribus.tasks import Answer

ROLLOUT = "actor_rollout_ref.rollout."
RUN = "$HERE/runs/seed-$SEED"
NUMERICS = "weights and optimizer in float32, as here; verl computes passes and samples in bfloat16"


def map_setting(book: Book, job: Job) -> None:
    """Add what becomes of everything outside the method."""
    for rule in (_model, _task, _rollout, _optim, _budget, _save, _machine):
        rule(book, job)
    for name, suite in job.setting.eval.items():
        _suite(book, job, name, suite)


def _model(book: Book, job: Job) -> None:
    model = job.setting.model
    if model.path == "tiny" or model.path.endswith(".gguf"):
        book.refuse("setting.model.path", "verl starts from a Hugging Face folder or hub id with a chat template")
    else:
        book.exact("setting.model.path", f"actor_rollout_ref.model.path='{model.path}'")
    if model.revision is not None:
        book.refuse("setting.model.revision", "verl takes a hub id's main revision: download it and give the folder")
    else:
        book.default("setting.model.revision", "main")
    book.default("setting.model.dtype", NUMERICS)
    book.default("setting.model.attention", "verl's own kernels: flash_attention_2")


def _task(book: Book, job: Job) -> None:
    setting, target = job.setting, job.target
    names = "data/train.parquet"
    book.exact(
        "setting.task",
        f"data.train_files='$HERE/{names}'",
        f"data.val_files='$HERE/{names}'",  # read, and not used: evaluation is a run of its own
        "data.prompt_key=prompt",
        f"{target.scorer}.path='$HERE/scorer.py'",
        f"{target.scorer}.name=compute_score",
        note="messages; verl and Paribus both lay the model's own chat template over them, with the generation prompt",
    )
    cut = "verl's scorer is not told that a response was cut: its last number then counts as an answer"
    map_scores(book, setting, "verl", cut=cut, note="the grader's score")


def _rollout(book: Book, job: Job) -> None:
    rollout, key = job.setting.rollout, "setting.rollout."
    book.exact(
        key + "prompts_per_step",
        f"data.train_batch_size={rollout.prompts_per_step}",
        note="the problems of an epoch that fill no step are dropped, as here",
    )
    book.exact(key + "samples_per_prompt", f"{ROLLOUT}n={rollout.samples_per_prompt}")
    book.exact(key + "max_prompt", f"data.max_prompt_length={rollout.max_prompt}")
    overlong = {"error": ("False", "error"), "drop": ("True", "error"), "cut": ("False", "left")}[rollout.overlong]
    lines = (f"data.filter_overlong_prompts={overlong[0]}", f"data.truncation={overlong[1]}")
    if job.target.modern and rollout.overlong == "cut":
        book.refuse(key + "overlong", f"verl {job.target.version} builds prompts in its agent loop, which cuts none")
    else:
        book.exact(key + "overlong", *lines)
    book.exact(key + "max_response", f"data.max_response_length={rollout.max_response}")
    book.exact(key + "temperature", f"{ROLLOUT}temperature={rollout.temperature}", f"{ROLLOUT}do_sample=True")
    book.exact(key + "top_p", f"{ROLLOUT}top_p=1.0", f"{ROLLOUT}top_k=-1")
    book.add(key + "engine", "random", note="verl's own vLLM samples: the same distribution, other draws")


def _optim(book: Book, job: Job) -> None:
    optim, setting, key = job.setting.optim, job.setting, "setting.optim."
    critic = job.method.critic is not None
    tables = [ACTOR + "optim.", *(["critic.optim."] if critic else [])]
    owners = [ACTOR, *(["critic."] if critic else [])]
    book.exact(key + "lr", f"{ACTOR}optim.lr={optim.lr}")
    book.exact(key + "weight_decay", *(f"{t}weight_decay={optim.weight_decay}" for t in tables))
    betas = f"betas=[{optim.betas[0]},{optim.betas[1]}]"
    if job.target.modern:
        book.exact(key + "betas", *(t + betas for t in tables))
    elif tuple(optim.betas) == (0.9, 0.999):
        book.default(key + "betas", "0.9 and 0.999")
    else:
        book.exact(key + "betas", *(f"+{t}{betas}" for t in tables))
    if optim.eps == 1e-8:
        book.default(key + "eps", "1e-8, torch's")
    else:
        book.refuse(key + "eps", "verl leaves AdamW's eps at 1e-8")
    norm = number(NEVER if optim.clip_norm is None else optim.clip_norm)
    clips = [f"{o}grad_clip={norm}" for o in owners]
    if job.target.modern:
        clips += [f"{t}clip_grad={norm}" for t in tables]  # the one that the engine reads
    book.exact(key + "clip_norm", *clips)
    _schedule(book, job, optim, tables)
    book.exact(key + "epochs", f"{ACTOR}ppo_epochs={optim.epochs}")
    per = optim.minibatch_prompts or setting.rollout.prompts_per_step
    if job.rows % (job.gpus * job.micro_batch):
        book.refuse(
            key + "minibatch_prompts",
            f"an update has {job.rows} rows: --gpus {job.gpus} times --micro-batch {job.micro_batch} must divide them",
        )
        return
    micro = f"log_prob_micro_batch_size_per_gpu={job.micro_batch}"
    book.exact(
        key + "minibatch_prompts",
        f"{ACTOR}ppo_mini_batch_size={per}",
        f"{ACTOR}ppo_micro_batch_size_per_gpu={job.micro_batch}",
        f"{ACTOR}use_dynamic_bsz=False",
        f"{ACTOR}shuffle=False",
        ROLLOUT + micro,
        "actor_rollout_ref.ref." + micro,
        note=f"{job.rows} rows an update; verl may balance rows by length, so that a prompt's samples may be in two",
    )


def _schedule(book: Book, job: Job, optim: OptimSpec, tables: list[str]) -> None:
    key, kind = "setting.optim.schedule", optim.schedule
    if kind == "linear":
        book.refuse(key, "verl has the schedules constant and cosine")
    else:
        book.exact(key, *(f"{t}{job.target.schedule}={kind}" for t in tables))
    lines = [f"{t}min_lr_ratio={optim.decay_to}" for t in tables]
    if kind == "cosine":
        book.exact("setting.optim.decay_to", *lines)
    else:
        book.default("setting.optim.decay_to", "not used")
    name = "lr_warmup_steps"
    lines = [f"{t}{name}={optim.warmup_steps}" for t in tables if job.target.modern or t.startswith(ACTOR)]
    if not job.target.modern and len(tables) > 1 and optim.warmup_steps:
        book.refuse("setting.optim.warmup_steps", "verl 0.5.0 warms its critic up by a share of the steps only")
    else:
        note = "verl's first step has the learning rate 0, here 1/warmup_steps of the peak"
        book.choose(not optim.warmup_steps, "setting.optim.warmup_steps", *lines, otherwise=note)


def _budget(book: Book, job: Job) -> None:
    setting, steps = job.setting, job.setting.total_steps
    fields = ("steps", "samples", "tokens", "seconds")
    given = next(name for name in fields if getattr(setting.budget, name) is not None)
    for name in fields:
        if name != given:
            book.default(f"setting.budget.{name}", "not the axis")
    if steps is None:
        book.refuse(f"setting.budget.{given}", "verl stops after a number of steps: give steps or samples")
        return
    book.exact(
        f"setting.budget.{given}",
        f"trainer.total_training_steps={steps}",
        f"trainer.total_epochs={steps}",  # enough, whatever the prompts that are dropped; the steps decide
        note=f"{steps} steps; total_epochs need only be enough",
    )


def _save(book: Book, job: Job) -> None:
    save, suites = job.setting.save, job.setting.eval
    every = math.gcd(save.every, *(suite.every for suite in suites.values() if suite.every))
    curve = any(suite.every for suite in suites.values())
    keep = "null" if curve else save.keep
    keys = ["max_actor_ckpt_to_keep", *(["max_critic_ckpt_to_keep"] if job.method.critic else [])]
    book.exact(
        "setting.save",
        f"trainer.save_freq={every}",
        *(f"trainer.{name}={keep}" for name in keys),
        f"trainer.default_local_dir='{RUN}/checkpoints'",
        f"trainer.rollout_data_dir='{RUN}/rollouts'",
        "trainer.resume_mode=auto",
        note="every rollout of every step is written" + ("; all checkpoints stay, to be evaluated" if curve else ""),
    )


def _machine(book: Book, job: Job) -> None:
    book.default("setting.limit", "verl skips an update whose gradient is not finite and does not stop by itself")
    book.exact(
        "setting.machine",
        f"trainer.n_gpus_per_node={job.gpus}",
        "trainer.nnodes=1",
        f"{ROLLOUT}tensor_model_parallel_size=1",
        f"{ROLLOUT}gpu_memory_utilization=0.4",
        'trainer.logger=["console","tensorboard"]',
        "trainer.val_before_train=False",
        "trainer.test_freq=-1",
        *job.target.fixed,
        note="the launch's own: GPUs and rows of a micro-batch come from --gpus and --micro-batch",
    )
    book.add(
        "seed",
        "random",
        *job.target.seeds,
        note="./train.sh SEED: verl's generators draw the order of problems, alike in all arms, and the samples",
    )


def _suite(book: Book, job: Job, name: str, suite: EvalSpec) -> None:
    key = f"setting.eval.{name}."
    for field in ("task", "split", "limit", "shots", "shots_split", "examples"):
        if any(leaf == key + field or leaf.startswith(f"{key}{field}.") for leaf in book.config):
            book.exact(key + field, note=f"data/{name}.parquet")
    book.exact(key + "samples", note=f"{name}.overrides")
    book.exact(key + "temperature", note=f"{name}.overrides")
    book.exact(key + "top_p", note=f"{name}.overrides")
    book.exact(key + "max_response", note=f"{name}.overrides: a run of its own, since verl has one limit a run")
    book.default(key + "every", "eval.sh, for each checkpoint that is kept")
    if f"{key}references" in book.config or any(leaf.startswith(key + "references") for leaf in book.config):
        book.default(key + "references", "responses are stored: `paribus ingest` grades them again")
    if suite.kl:
        book.refuse(key + "kl", "verl's validation does not measure it")
    else:
        book.default(key + "kl", "off")
    if suite.short is not None:
        book.refuse(key + "short", "verl's validation writes no tokens to cut: give the suite twice, with two limits")
    elif f"{key}short" in book.config:
        book.default(key + "short", "none")
    grader = suite.asks(job.setting.task).grader
    if not isinstance(grader, Answer):
        book.refuse(key + "task", f"its grader {grader.name} needs more than the standard library")
    elif grader.policy == "flexible" and suite.task is not None:
        book.approximate(key + "task", note="the scorer is not told that a response was cut")


def suite_lines(suite: EvalSpec, name: str, max_prompt: int) -> list[str]:
    """Return what an evaluation of the suite sets in place of the training's lines."""
    greedy = suite.temperature == 0
    longest = max_prompt + suite.max_response
    return [
        f"data.val_files='$HERE/data/{name}.parquet'",
        f"data.max_response_length={suite.max_response}",
        "data.filter_overlong_prompts=False",  # no problem of a test is ever left out
        "data.truncation=error",
        f"{ROLLOUT}max_num_batched_tokens={max(8192, longest)}",
        f"{ROLLOUT}val_kwargs.do_sample={not greedy}",
        f"{ROLLOUT}val_kwargs.temperature={suite.temperature}",
        f"{ROLLOUT}val_kwargs.top_p={1.0 if greedy else suite.top_p}",
        f"{ROLLOUT}val_kwargs.top_k=-1",
        f"{ROLLOUT}val_kwargs.n={suite.samples}",
        "trainer.val_only=True",
        "trainer.val_before_train=True",
        f"trainer.validation_data_dir='{RUN}/validation/{name}'",
        "trainer.rollout_data_dir=null",
        "trainer.resume_mode=disable",
    ]
