"""What each release of verl has, under which keys: read from its wheel, checked by `make test-verl`.

Hydra takes any text for `loss_mode` and, from 0.9, keys that nothing reads any more; so what a release can do is looked
up here and never tried out by composing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from paribus.errors import ConfigError, nearest

_ESTIMATORS_05 = frozenset(
    ["gae", "grpo", "reinforce_plus_plus", "reinforce_plus_plus_baseline", "remax", "rloo", "opo", "grpo_passk", "gpg"]
)
_ESTIMATORS_07 = _ESTIMATORS_05 | frozenset(
    ["grpo_vectorized", "rloo_vectorized", "gdpo", "optimal_token_baseline", "tir_optimal_token_baseline"]
)
_LOSSES_05 = frozenset(["vanilla", "gpg", "clip_cov", "kl_cov"])
_LOSSES_07 = _LOSSES_05 | frozenset(["dppo_tv", "dppo_kl", "gspo", "sapo", "geo_mean", "cispo", "bypass_mode"])


@dataclass(frozen=True, slots=True)
class Target:
    """One release.

    `whole` says that the losses of the policy are divided by the totals of the whole update, not of each micro-batch;
    `value_whole` the same of the critic's, `value_added` that micro-batches' means of it are added up, not averaged.
    """

    version: str
    estimators: frozenset[str]
    losses: frozenset[str]
    scorer: str  # the table that is read, of path and name
    manager: str  # the key that names the reward manager
    manager_settings: str  # the table of the manager's own settings
    schedule: str  # the key that names the schedule, below optim
    whole: bool
    value_whole: bool
    value_added: bool
    fixed: tuple[str, ...]  # defaults that moved between releases, written out so that all run the same
    seeds: tuple[str, ...]
    added: tuple[str, ...]  # keys that the configuration lacks and the code reads: written with a `+`
    requires: tuple[str, ...]
    forces_rows: frozenset[str] = frozenset()  # losses that average over rows whatever loss_agg_mode says

    @property
    def modern(self) -> bool:
        """Whether the configuration is typed: betas, seeds and precision have keys of their own."""
        return self.version != "0.5.0"


_ENGINE = "actor_rollout_ref.rollout."
_FIXED = (
    "actor_rollout_ref.model.use_remove_padding=True",
    "actor_rollout_ref.model.enable_gradient_checkpointing=True",
    _ENGINE + "name=vllm",
    _ENGINE + "enforce_eager=False",
    _ENGINE + "max_num_seqs=256",
)
_FIXED_05 = (*_FIXED, _ENGINE + "mode=sync", _ENGINE + "calculate_log_probs=False", "data.return_raw_chat=False")
_FIXED_07 = (
    *_FIXED,
    _ENGINE + "mode=async",
    _ENGINE + "calculate_log_probs=True",
    "data.return_raw_chat=True",
    "actor_rollout_ref.actor.fsdp_config.model_dtype=fp32",
    "actor_rollout_ref.ref.fsdp_config.model_dtype=fp32",
    "algorithm.rollout_correction.bypass_mode=False",
)
_SEEDS_07 = (
    "data.seed=$SEED",
    "actor_rollout_ref.actor.data_loader_seed=$SEED",
    "actor_rollout_ref.actor.fsdp_config.seed=$SEED",
)
_OVERLONG = ("enable", "len", "penalty_factor", "log")
_ADDED_07 = tuple(
    f"reward.reward_kwargs.{k}" for k in (*(f"overlong_buffer_cfg.{o}" for o in _OVERLONG), "max_resp_len")
)
_V05 = Target(
    version="0.5.0",
    estimators=_ESTIMATORS_05,
    losses=_LOSSES_05,
    scorer="custom_reward_function",
    manager="reward_model.reward_manager",
    manager_settings="reward_model.reward_kwargs",
    schedule="warmup_style",
    whole=False,
    value_whole=False,
    value_added=False,
    fixed=_FIXED_05,
    seeds=("+data.seed=$SEED", "+actor_rollout_ref.rollout.seed=$SEED"),
    added=(
        "data.seed",
        "actor_rollout_ref.rollout.seed",
        "actor_rollout_ref.actor.optim.betas",
        "critic.optim.betas",
        *(key.replace("reward.", "reward_model.", 1) for key in _ADDED_07),
    ),
    requires=("verl[vllm,gpu]==0.5.0", "vllm==0.8.5", "tensordict>=0.8,<=0.9.1,!=0.9.0", "numpy<2"),
)
_V08 = Target(
    version="0.8.0",
    estimators=_ESTIMATORS_07,
    losses=_LOSSES_07,
    scorer="reward.custom_reward_function",
    manager="reward.reward_manager.name",
    manager_settings="reward.reward_kwargs",
    schedule="lr_scheduler_type",
    whole=True,
    value_whole=False,
    value_added=True,
    fixed=_FIXED_07,
    seeds=_SEEDS_07,
    added=_ADDED_07,
    requires=("verl[vllm,gpu]==0.8.0", "vllm==0.12.0", "tensordict>=0.8,<=0.10.0,!=0.9.0", "numpy<2"),
    forces_rows=frozenset({"gspo", "sapo"}),
)
_V07 = replace(
    _V08,
    version="0.7.1",
    fixed=(*_FIXED_07, "trainer.use_legacy_worker_impl=disable"),  # the old workers average over micro-batches
    requires=("verl[vllm,gpu]==0.7.1", *_V08.requires[1:]),
)
_V09 = replace(
    _V08,
    version="0.9.1",
    losses=_LOSSES_07 | {"dro"},
    value_whole=True,
    value_added=False,
    fixed=(*_FIXED_07, "trainer.use_v1=True", "trainer.v1.trainer_mode=sync"),
    seeds=(*_SEEDS_07, "actor_rollout_ref.rollout.seed=$SEED"),
    requires=("verl[vllm,fsdp]==0.9.1", "vllm==0.24.0", "torch==2.11.0", "transformers==5.9.0", "numpy>=2"),
    forces_rows=frozenset({"sapo"}),
)
TARGETS = {target.version: target for target in (_V05, _V07, _V08, _V09)}


def find_target(version: str) -> Target:
    """Return the release of that number. Raises ConfigError with those that are known."""
    if version not in TARGETS:
        raise ConfigError(f"--target {version}: not a release that the exporter knows{nearest(version, TARGETS)}")
    return TARGETS[version]
