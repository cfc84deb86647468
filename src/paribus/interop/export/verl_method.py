"""A method's slots as verl's keys, release by release."""

from __future__ import annotations

from dataclasses import dataclass

from paribus.algorithms import PolicyGradient
from paribus.algorithms.advantage import GroupMean, GroupZScore, LeaveOneOut
from paribus.algorithms.correction import TruncatedSequence, TruncatedToken
from paribus.algorithms.divergence import BinaryKl, BinaryTv
from paribus.algorithms.keep import All, Refill
from paribus.algorithms.kl import KlEstimate
from paribus.algorithms.returns import Gae, GreedyBaseline, ReturnToGo
from paribus.algorithms.shaping import KlInReward, OutcomeAtEnd, SoftOverlong
from paribus.algorithms.soft import Cispo, Gmpo, Sapo
from paribus.algorithms.surrogate import Clip, Reinforce, SequenceRatio
from paribus.algorithms.trust import DivergenceMask
from paribus.algorithms.whiten import Whiten
from paribus.experiment import Setting
from paribus.interop.export.mapping import Book
from paribus.interop.export.verl_versions import Target

ACTOR = "actor_rollout_ref.actor."
NEVER = 1e9  # a bound that nothing reaches: verl has no switch for its dual clip, norm clip and value clip
KL_NAMES = {"k1": "kl", "k2": "mse", "k3": "low_var_kl", "abs": "abs"}
MODES = {
    "token_mean": "token-mean",
    "sequence_mean_token_mean": "seq-mean-token-mean",
    "sequence_mean_token_sum": "seq-mean-token-sum",
    "constant": "seq-mean-token-sum-norm",
}


@dataclass(frozen=True, slots=True)
class Job:
    """What the rules read: one arm's method, its setting, the release, and the rows of a micro-batch on each GPU."""

    method: PolicyGradient
    setting: Setting
    target: Target
    gpus: int
    micro_batch: int

    @property
    def rows(self) -> int:
        """Rows of one update."""
        rollout, optim = self.setting.rollout, self.setting.optim
        return (optim.minibatch_prompts or rollout.prompts_per_step) * rollout.samples_per_prompt

    @property
    def one_micro_batch(self) -> bool:
        """Whether an update is one forward pass on one GPU, so that means over micro-batches are means of all."""
        return self.gpus == 1 and self.micro_batch == self.rows


def map_method(book: Book, job: Job) -> None:
    """Add what becomes of every slot of the method."""
    for rule in (_advantage, _surrogate, _aggregate, _kl, _shaping, _critic, _others):
        rule(book, job)


def _advantage(book: Book, job: Job) -> None:
    part, white = job.method.advantage, job.method.whiten
    estimator, fault, near, whitens = "", "", "", False
    lines: list[str] = []
    if isinstance(part, Gae):
        estimator, whitens = "gae", True
        lines = [f"algorithm.gamma={part.gamma}", f"algorithm.lam={part.lam}"]
        if part.critic_lam is not None or part.length_adaptive is not None or part.truncation != "zero":
            fault = "verl has one lambda for actor and critic, the same for every row, and value 0 after the last token"
    elif isinstance(part, GroupZScore):
        estimator, lines = "grpo", ["algorithm.norm_adv_by_std_in_grpo=True"]
        fault = "" if part.ddof == 1 else "verl's grpo takes the standard deviation over n - 1"
        near = "" if part.eps == 1e-6 else "verl's grpo adds 1e-6 to the standard deviation"
    elif isinstance(part, GroupMean):
        estimator, whitens = ("reinforce_plus_plus_baseline", True) if white else ("grpo", False)
        lines = [] if white else ["algorithm.norm_adv_by_std_in_grpo=False"]
    elif isinstance(part, LeaveOneOut):
        estimator = "rloo"
    elif isinstance(part, ReturnToGo):
        estimator, whitens, lines = "reinforce_plus_plus", True, [f"algorithm.gamma={part.gamma}"]
    elif isinstance(part, GreedyBaseline):
        estimator = "remax"
        fault = "" if part.gamma == 1 else "verl's remax does not discount"
    if not estimator or estimator not in job.target.estimators:
        book.refuse("algorithm.advantage", f"no estimator of verl {job.target.version} computes {part.type}")
    elif fault:
        book.refuse("algorithm.advantage", fault)
    else:
        lines.insert(0, f"algorithm.adv_estimator={estimator}")
        book.choose(not near, "algorithm.advantage", *lines, otherwise=near)
    _whiten(book, white, whitens)


def _whiten(book: Book, white: Whiten | None, whitens: bool) -> None:
    key = "algorithm.whiten"
    if whitens and white == Whiten():
        book.default(key, "part of the estimator")
    elif whitens and white is not None and white.over == "tokens" and white.shift_mean:
        book.approximate(key, note="verl adds 1e-8 to the variance, over n - 1")
    elif whitens:
        book.refuse(key, "verl whitens these advantages over all tokens and has no switch for it")
    elif white is not None:
        book.refuse(key, "verl whitens the advantages of gae and of reinforce_plus_plus(_baseline) only")
    else:
        book.default(key, "the estimator does not whiten")


def _surrogate(book: Book, job: Job) -> None:
    part, ratio, version = job.method.surrogate, job.method.ratio, job.target.version
    row = isinstance(ratio, SequenceRatio)
    mode, bounds, fault = "", (0.2, 0.2, NEVER), ""
    lines: list[str] = []
    if isinstance(part, Reinforce):
        mode = "gpg"
    elif isinstance(part, Clip):
        mode, bounds = "gspo" if row else "vanilla", (part.low, part.high, part.dual or NEVER)
        fault = "verl's gspo has no dual clip" if row and part.dual else ""
    elif isinstance(part, Cispo):
        mode, bounds = "cispo", (1 - (part.low or 0.0), part.high - 1, NEVER)
    elif isinstance(part, Sapo):
        mode, lines = "sapo", [f"{ACTOR}tau_pos={part.tau_pos}", f"{ACTOR}tau_neg={part.tau_neg}"]
    elif isinstance(part, Gmpo):
        mode, bounds = "geo_mean", (part.low, part.high, NEVER)
        if not job.one_micro_batch:
            fault = "verl's geo_mean averages over the rows of a micro-batch: make it one (--micro-batch), on one GPU"
    elif isinstance(part, DivergenceMask) and isinstance(part.divergence, BinaryTv | BinaryKl):
        mode = "dppo_tv" if isinstance(part.divergence, BinaryTv) else "dppo_kl"
        bounds = (part.delta, part.delta, part.cap or NEVER)
    if mode not in job.target.losses:
        what = "has no loss for it" if not mode else f"has no loss_mode {mode}"
        book.refuse("algorithm.surrogate", f"verl {version} {what}: {part.type}, ratio {ratio.type}")
    elif fault:
        book.refuse("algorithm.surrogate", fault)
    else:
        keys = ("clip_ratio", "clip_ratio_low", "clip_ratio_high", "clip_ratio_c")
        lines += [f"{ACTOR}{k}={number(v)}" for k, v in zip(keys, (bounds[0], *bounds), strict=True)]
        book.exact("algorithm.surrogate", f"{ACTOR}policy_loss.loss_mode={mode}", *lines)
    _ratio(book, job, mode)


def _ratio(book: Book, job: Job, mode: str) -> None:
    ratio = job.method.ratio
    if isinstance(ratio, SequenceRatio):
        if mode != "gspo" or not ratio.normalise:
            book.refuse("algorithm.ratio", "verl has the geometric mean of a row's ratios, in gspo, and no other")
        else:
            book.default("algorithm.ratio", "gspo holds a row's mean log-ratio below 10, which no clip lets it reach")
    elif mode == "gpg":
        book.default("algorithm.ratio", "gpg has no ratio")
    elif mode == "geo_mean":
        book.default("algorithm.ratio", "geo_mean holds no log-ratio; its clip is reached first")
    else:
        same = ratio.clamp is None or ratio.clamp >= 20
        book.add(
            "algorithm.ratio", "default" if same else "approximate", note="verl holds a token's log-ratio within +-20"
        )


def _aggregate(book: Book, job: Job) -> None:
    kind, target = job.method.aggregate.type, job.target
    key, mode = "algorithm.aggregate", MODES[kind]
    line = f"{ACTOR}loss_agg_mode={mode}"
    surrogate = {Sapo: "sapo", Clip: "gspo"}.get(type(job.method.surrogate), "")
    row = isinstance(job.method.ratio, SequenceRatio) or surrogate == "sapo"
    if row and surrogate in target.forces_rows and kind != "sequence_mean_token_mean":
        book.refuse(key, f"{surrogate} of verl {target.version} averages over a row's tokens, then over rows")
    elif kind == "constant" and not target.whole:
        book.refuse(key, f"verl {target.version} adds the rows of a micro-batch up instead of averaging them")
    elif kind == "token_mean" and not target.whole:
        why = (
            f"verl {target.version} takes the token mean of each micro-batch ({job.micro_batch} rows) and averages "
            f"those; --micro-batch {job.rows} on one GPU makes an update one micro-batch"
        )
        book.choose(job.one_micro_batch, key, line, otherwise=why)
    elif kind == "constant":
        book.exact(key, line, f"{ACTOR}loss_scale_factor={job.setting.rollout.max_response}")
    else:
        book.exact(key, line)


def _kl(book: Book, job: Job) -> None:
    kl = job.method.kl
    if kl is None:
        book.exact("algorithm.kl", f"{ACTOR}use_kl_loss=False")
        return
    if kl.unbiased:
        book.refuse("algorithm.kl", "verl does not weigh the KL term by the ratio")
        return
    if kl.straight_through and not job.target.modern:
        book.refuse("algorithm.kl", f"verl {job.target.version} has no straight-through estimators")
        return
    name = KL_NAMES[kl.estimator] if not kl.straight_through else f"{kl.estimator}+"
    lines = [f"{ACTOR}use_kl_loss=True", f"{ACTOR}kl_loss_coef={kl.coef}", f"{ACTOR}kl_loss_type={name}"]
    book.choose(_same_bounds(kl), "algorithm.kl", *lines, otherwise=_bounds_note(kl))


def _same_bounds(kl: KlEstimate) -> bool:
    return (kl.floor, kl.ceiling, kl.clamp) == ((-20.0, 20.0, 10.0) if kl.estimator == "k3" else (None, None, None))


def _bounds_note(kl: KlEstimate) -> str:
    if kl.estimator != "k3":
        return f'verl\'s {kl.estimator} has no bounds: write floor, ceiling and clamp as "none"'
    return "verl holds the difference within +-20 and k3 within +-10: write floor = -20, ceiling = 20, clamp = 10"


def _shaping(book: Book, job: Job) -> None:
    bare = not any(isinstance(term, KlInReward) for term in job.method.shaping)
    for term in job.method.shaping:
        key = f"algorithm.shaping.{term.type}"
        if isinstance(term, OutcomeAtEnd) and term.truncated == "scored":
            lines = ["algorithm.use_kl_in_reward=False"] if bare else []
            book.exact(key, *lines, note="scorer.py: `score`, on the last token of the response")
        elif isinstance(term, KlInReward):
            _kl_in_reward(book, key, term)
        elif isinstance(term, SoftOverlong):
            _overlong(book, job, key, term)
        else:
            book.refuse(key, f"verl has nothing like {term.type}")


def _kl_in_reward(book: Book, key: str, term: KlInReward) -> None:
    lines = ["algorithm.use_kl_in_reward=True", f"algorithm.kl_penalty={KL_NAMES[term.estimator]}"]
    lines.append(f"algorithm.kl_ctrl.kl_coef={term.coef}")
    if term.adaptive is None:
        lines.append("algorithm.kl_ctrl.type=fixed")
    elif (term.adaptive.over, term.adaptive.bound) == ("tokens", 0.2) and float(term.adaptive.horizon).is_integer():
        lines += ["algorithm.kl_ctrl.type=adaptive", f"algorithm.kl_ctrl.target_kl={term.adaptive.target}"]
        lines.append(f"algorithm.kl_ctrl.horizon={int(term.adaptive.horizon)}")
    else:
        book.refuse(key, "verl's controller looks at the mean KL of a row's tokens, bound 0.2, whole horizon")
        return
    book.choose(_same_bounds(term), key, *lines, otherwise=_bounds_note(term))


def _overlong(book: Book, job: Job, key: str, term: SoftOverlong) -> None:
    cache = term.cache * job.setting.rollout.max_response
    if abs(cache - round(cache)) > 1e-9:
        book.refuse(key, f"verl's buffer is a whole number of tokens, and this one is {cache:g}: change cache")
        return
    settings, limit = f"+{job.target.manager_settings}.", job.setting.rollout.max_response
    buffer = {"enable": True, "len": round(cache), "penalty_factor": term.penalty, "log": False}
    lines = [f"{settings}overlong_buffer_cfg.{name}={value}" for name, value in buffer.items()]
    book.exact(key, f"{job.target.manager}=dapo", *lines, f"{settings}max_resp_len={limit}")


def _critic(book: Book, job: Job) -> None:
    critic = job.method.critic
    if critic is None:
        book.default("algorithm.critic", "the estimator switches the critic off")
        return
    key = "algorithm.critic."
    if critic.shared:
        book.refuse(key + "shared", "verl's critic is a model of its own")
    else:
        book.default(key + "shared", "a model of its own")
    book.exact(key + "lr", f"critic.optim.lr={critic.lr}")
    book.exact(key + "clip", f"critic.cliprange_value={number(NEVER if critic.clip is None else critic.clip)}")
    # verl trains the actor from step `critic_warmup` on, counted from 1
    book.exact(key + "warmup", f"trainer.critic_warmup={critic.warmup + 1 if critic.warmup else 0}")
    book.exact(key + "init", f"critic.model.path='{job.setting.model.path}'")
    note = "verl's value head starts from N(0, initializer_range of the model's config), 0.02 for most"
    book.choose(critic.head == "normal" and critic.head_std == 0.02, key + "head", otherwise=note)
    book.default(key + "head_std", "as head")
    _value_loss(book, job, critic.coef)


def _value_loss(book: Book, job: Job, coef: float) -> None:
    """The critic's token mean; what the coefficient of a loss with an optimizer of its own would change is the clip."""
    target = job.target
    if coef != 1:
        book.refuse("algorithm.critic.coef", "verl's critic has its own optimizer and no coefficient")
        return
    how = (
        "adds the micro-batches' token means of it up" if target.value_added else "averages those of the micro-batches"
    )
    book.choose(
        target.value_whole or job.one_micro_batch,
        "algorithm.critic.coef",
        "critic.loss_agg_mode=token-mean",  # else it follows the actor's
        f"critic.ppo_micro_batch_size_per_gpu={job.micro_batch}",
        "critic.model.use_remove_padding=True",
        "critic.model.enable_gradient_checkpointing=True",
        otherwise=f"the value loss is a token mean, and verl {target.version} {how}; --micro-batch {job.rows} on one "
        "GPU makes an update one micro-batch",
    )


def _others(book: Book, job: Job) -> None:
    method, target = job.method, job.target
    book.exact("algorithm.entropy", f"{ACTOR}entropy_coeff={method.entropy}")
    for name, used in (("select", method.select), ("explore", method.explore), ("imitation", method.imitation)):
        if used:
            book.refuse(f"algorithm.{name}", "verl has nothing like it")
        else:
            book.default(f"algorithm.{name}", "off")
    _keep(book, job)
    book.choose(
        method.old == "learner",
        "algorithm.old",
        otherwise="verl's bypass mode puts its own loss in the place of loss_mode: the learner's log-probs are taken",
    )
    part = method.correction
    if part is None:
        book.default("algorithm.correction", "algorithm.rollout_correction.rollout_is is null")
    elif not target.modern or not isinstance(part, TruncatedToken | TruncatedSequence) or part.low is not None:
        book.refuse(
            "algorithm.correction", f"of verl {target.version} only truncation from above is exported, >= 0.7.1"
        )
    else:
        level = "token" if isinstance(part, TruncatedToken) else "sequence"
        table = "algorithm.rollout_correction."
        book.exact("algorithm.correction", f"{table}rollout_is={level}", f"{table}rollout_is_threshold={part.high}")


def _keep(book: Book, job: Job) -> None:
    keep, target = job.method.keep, job.target
    if isinstance(keep, All):
        book.default("algorithm.keep", "every row trains")
    elif isinstance(keep, Refill) and target.version == "0.9.1":
        lines = ("enable=True", "metric=acc", "max_num_gen_batches=0")
        book.approximate(
            "algorithm.keep",
            *(f"algorithm.filter_groups.{line}" for line in lines),
            note=f"verl draws prompts until the step is full, without the bound of {keep.rounds} more rounds",
        )
    else:
        book.refuse("algorithm.keep", f"verl {target.version} does not leave uniform groups out ({keep.type})")


def number(value: float) -> str:
    """Return a number as Hydra reads a float: `1e9`, not `1000000000.0`."""
    return f"{value:.12g}"
