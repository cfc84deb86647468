"""Advice before the runs: measure a pilot, apply the written rules, recommend two arms, predict what they cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from paribus.algorithms import find
from paribus.errors import ConfigError
from paribus.experiment import Arm, Experiment, differences, load_experiment, resolve
from paribus.part import override, read_toml, replace
from paribus.planning import rules, signals, weigh
from paribus.planning.pilot import ArmTimes, Times, pilot
from paribus.planning.predict import Prediction, predict, relative_spread
from paribus.planning.sampled import SampledPilot, sample
from paribus.planning.signals import over_steps
from paribus.report.message import Message, msg
from paribus.stats import Interval
from paribus.stats.interval import t_quantile
from paribus.store import Advice, ArmAdvice, SignalRow, write_advice
from paribus.store.files import replace_file
from paribus.types import Key

EDGE = 0.1  # success rates below it, and above 1 - it, are extremes


class Measured(NamedTuple):
    """What the pilot says: everything that the rules look at, and all quantities for people to read."""

    signals: rules.Signals
    shown: tuple[SignalRow, ...]


def store(
    file: Path,
    overrides: Sequence[str],
    runs: Path,
    prompts: int,
    samples: int,
    out: Path | None,
    say: Callable[[str], None],
) -> tuple[Advice, list[Path]]:
    """Advise on an experiment file, keep the advice with its runs, and write the experiment of the two arms to `out`.

    The advice lies in `runs/<experiment>/advice.json`, and in the folder of the written experiment as well. Returns the
    paths of what was written.
    """
    raw = read_toml(file)
    for text in overrides:
        override(raw, text)
    exp = load_experiment(file, overrides)
    advice, both = advise(exp, runs, prompts, samples, say)
    written = [write_advice(runs / exp.name, advice)]
    if out is not None:
        replace_file(out, document(raw, both, advice).encode())
        written += [write_advice(runs / advised_name(exp.name), advice), out]
    return advice, written


def advised_name(name: str) -> str:
    """Return the name of the experiment of the recommended arms."""
    return f"{name}-advised"


def advise(
    exp: Experiment, runs: Path | str, prompts: int, samples: int, say: Callable[[str], None]
) -> tuple[Advice, Experiment]:
    """Return the advice, and the experiment of the two recommended arms.

    A file with one arm gets a second from the catalogue, and a rule that calls for a variant adds it; what a setting
    refuses is said and left out. Raises ConfigError for an experiment with factors and for too few samples.
    """
    if exp.factors:
        raise ConfigError("advise weighs methods: leave the factors out, or give the file without them")
    group = exp.setting.rollout.samples_per_prompt
    if samples < max(2, group):
        raise ConfigError(
            f"--samples {samples} is less than rollout.samples_per_prompt = {group}: take at least as many"
        )
    drawn = sample(exp, runs, prompts, samples, say)
    pool = _with_second(exp)
    times = pilot(pool, runs)
    measured = measure(drawn, times, pool)
    findings = weigh.apply(measured.signals)
    called = [name for name in rules.VARIANTS if any(name in f.favours for f in findings)]
    wanted = _with_variants(pool, called, say)
    more = {name: arm for name, arm in wanted.arms.items() if name not in pool.arms}
    if more:
        extra = pilot(replace(wanted, arms=more, tune=None), runs)
        times = times._replace(arms=times.arms | extra.arms)
        findings += weigh.memory(_memory({name: extra.arms[name] for name in more}))
    cost = predict(wanted, times)
    seconds = {name: run.wall.estimate for name, run in cost.arms.items()}
    algorithms = {name: arm.algorithm for name, arm in wanted.arms.items()}
    first, second = weigh.recommend(findings, algorithms, seconds)
    votes = {name: weigh.votes(findings, algorithm) for name, algorithm in algorithms.items()}
    both = replace(wanted, arms={name: wanted.arms[name] for name in (first, second)}, tune=None)
    return Advice(
        experiment=exp.name,
        prompts=len(drawn.sampled.reward),
        samples=samples,
        excluded=drawn.excluded,
        signals=measured.shown,
        findings=tuple(findings),
        arms=tuple(_arm(name, wanted, exp, cost, votes[name], findings) for name in wanted.arms),
        recommended=(first, second),
        ahead=first if weigh.ahead(findings, algorithms[first], algorithms[second]) else None,
        whole=weigh.measured(predict(both, times).whole),
        price_per_hour=cost.price_per_hour,
    ), both


def _arm(name: str, pool: Experiment, exp: Experiment, cost: Prediction, votes: int, findings: list[Any]) -> ArmAdvice:
    return ArmAdvice(
        arm=name,
        base=None if name in exp.arms else pool.arms[name].algorithm.name,
        votes=votes,
        dropped=any(f.arm == name and f.outcome == "above" for f in findings),
        training=weigh.measured(cost.arms[name].training),
        run=weigh.measured(cost.arms[name].wall),
        seeds=len(pool.seeds),
    )


def _with_second(exp: Experiment) -> Experiment:
    """Return the experiment with two arms at least: a lone one gets PPO or GRPO of the catalogue for company."""
    if len(exp.arms) > 1:
        return exp
    (only,) = exp.arms.values()
    name = "grpo" if "critic" in rules.traits(only.algorithm) else "ppo"
    return replace(exp, arms={**exp.arms, name: Arm(algorithm=find(name))}, tune=None)


def _with_variants(exp: Experiment, names: list[str], say: Callable[[str], None]) -> Experiment:
    """Return the experiment with a catalogue arm for each trait that no arm has yet, where its setting allows it."""
    for name in names:
        if any(name in rules.traits(arm.algorithm) for arm in exp.arms.values()) or name in exp.arms:
            continue
        try:
            exp = replace(exp, arms={**exp.arms, name: Arm(algorithm=find(name))}, tune=None)
        except ConfigError as error:
            say(f"{name} is called for, but the setting refuses it: {error}")
    return exp


def measure(drawn: SampledPilot, times: Times, exp: Experiment) -> Measured:
    """Turn samples and timed steps into signals; resampling is keyed, so the same pilot gives the same intervals."""
    x, rng = drawn.sampled, np.random.default_rng(Key(exp.seeds[0], "advise").hash())
    n, group = x.reward.shape[1], exp.setting.rollout.samples_per_prompt
    errors = signals.credit_errors(x)
    twice = np.isfinite(x.again).all(1)
    groups = sorted({g for g in (2, 4, 8, 16, 32, 64) if g <= n} | ({group} if group > 1 else set()))
    critic, plain = (_first(exp, times, trait) for trait in ("critic", "group"))
    timed = plain or critic or next(iter(times.arms.values()))
    found = rules.Signals(
        group=group,
        informative={g: signals.informative_share(x.reward, g, rng) for g in groups},
        rates=_rates(drawn, exp, timed, groups, rng),
        critic_factor=signals.critic_factor(errors, x.reward, rng),
        reliability=signals.reliability(x.reward[twice], x.again[twice], rng) if twice.any() else None,
        length_credit=signals.within_correlation(x.length, x.reward, rng),
        extremes=signals.extreme_share(x.score, EDGE, rng),
        drift=signals.mean(x.gap * x.length, rng),
        time_ratio=_time_ratio(critic, plain, times),
        upper_clip=over_steps(timed.upper_clip),
        entropy_fall=over_steps(timed.entropy_fall),
        rollout_share=over_steps([r / s for r, s in zip(timed.rollouts, timed.steps, strict=True)]),
        memory=_memory(times.arms),
    )
    return Measured(found, tuple(_shown(drawn, found, errors, times, rng)))


def _first(exp: Experiment, times: Times, trait: str) -> ArmTimes | None:
    return next((times.arms[a] for a, arm in exp.arms.items() if trait in rules.traits(arm.algorithm)), None)


def _rates(
    drawn: SampledPilot, exp: Experiment, timed: ArmTimes, groups: list[int], rng: np.random.Generator
) -> dict[int, Interval]:
    rollout = exp.setting.rollout
    if rollout.samples_per_prompt < 2:
        return {}
    per_group = float(np.mean(timed.steps)) / rollout.prompts_per_step
    per_sample = max(0.0, per_group - drawn.prefill) / rollout.samples_per_prompt

    def seconds(size: int) -> float:
        return size * per_sample + drawn.prefill

    return signals.group_rates(drawn.sampled.reward, groups, rollout.samples_per_prompt, seconds, rng)


def _time_ratio(critic: ArmTimes | None, group: ArmTimes | None, times: Times) -> Interval | None:
    """Mean seconds of a critic's step over those of a group baseline's, with the arms' pooled spread."""
    if critic is None or group is None:
        return None
    spread, df = relative_spread([arm.steps for arm in times.arms.values()])
    ratio = float(np.mean(critic.steps) / np.mean(group.steps))
    factor = (
        float(np.exp(t_quantile(0.95, df) * spread * np.sqrt(1 / len(critic.steps) + 1 / len(group.steps))))
        if df
        else np.inf
    )
    return Interval(ratio, ratio / factor, ratio * factor, len(critic.steps), "t on log step seconds")


def _memory(arms: Mapping[str, ArmTimes]) -> dict[str, Interval]:
    out = {}
    for name, arm in arms.items():
        if arm.device_bytes:
            shares = [peak / arm.device_bytes for peak in arm.peaks]
            out[name] = Interval(max(shares), min(shares), max(shares), len(shares), "range of the runs")
    return out


def _shown(
    drawn: SampledPilot, s: rules.Signals, errors: np.ndarray, times: Times, rng: np.random.Generator
) -> list[SignalRow]:
    """Every quantity of the pilot, in the order of the written list."""
    x = drawn.sampled
    twice = np.isfinite(x.again).all(1)
    rows: list[tuple[Message, Interval | None]] = [(msg("success rate"), signals.mean(x.score, rng))]
    rows += [(msg("informative groups of {size} samples", size=g), share) for g, share in s.informative.items()]
    if set(np.unique(x.score)) <= {0.0, 1.0}:
        larger = 2 * x.score.shape[1]
        a, b, share = signals.beta(x.score, larger, rng)
        rows += [
            (msg("informative groups of {size} samples, by the Beta fit", size=larger), share),
            (msg("success rates over prompts, Beta: a"), a),
            (msg("success rates over prompts, Beta: b"), b),
        ]
    rows += [
        (msg("variance of the reward within a prompt"), signals.within_variance(x.reward, rng)),
        (msg("reliability of the reward (second look: {grader})", grader=drawn.second_look), s.reliability),
    ]
    if twice.any() and set(np.unique(x.reward[twice])) <= {0.0, 1.0}:
        first, second = x.reward[twice], x.again[twice]
        rows += [
            (msg("rewarded 0 where the second look says 1"), signals.flips(first, second, 1.0, rng)),
            (msg("rewarded 1 where the second look says 0"), signals.flips(first, second, 0.0, rng)),
        ]
    rows += [
        (msg("rewards other than 0 for each token"), signals.ratio(x.rewarded.sum(1), x.units.sum(1), rng)),
        (msg("response length, tokens"), signals.mean(x.length, rng)),
        (msg("responses cut at the limit"), signals.mean(x.cut, rng)),
        (msg("correlation of length and reward within a prompt"), s.length_credit),
        (msg("relative value error at the prompt, m0"), signals.prompt_error(errors, x.reward, rng)),
    ]
    places = errors.shape[1] - 1
    for k in range(1, places + 1):
        at = f"{100 * (k - 0.5) / places:.0f} %"
        rows.append(
            (
                msg("explained variance at {place} of the response", place=at),
                signals.explained(errors, x.reward, k, rng),
            )
        )
    rows.append((msg("mean |log-prob of the learner - of the sampler| of a token"), signals.mean(x.gap, rng)))
    for name, arm in times.arms.items():
        rows.append((msg("seconds of a step of {arm}", arm=name), over_steps(arm.steps)))
        low, high = (1e-9 * edge(arm.peaks) for edge in (min, max))
        rows.append((msg("peak memory of {arm}, GB", arm=name), Interval(high, low, high, len(arm.peaks), "range")))
    return [SignalRow(name=weigh.said(name), value=weigh.measured(v)) for name, v in rows if v is not None]


def document(raw: Mapping[str, Any], exp: Experiment, advice: Advice) -> str:
    """Return the experiment of the recommended arms as TOML; `raw` are the tables of the file that was advised on.

    The text has been read back: what it says can be planned and run.
    """
    import tomllib

    import tomli_w

    tables = {key: value for key, value in raw.items() if key not in ("name", "differs", "arm", "tune")}
    own = {row.arm: row.base for row in advice.arms}
    arms = {name: raw["arm"][name] if own[name] is None else {"base": own[name]} for name in advice.recommended}
    slots = [row.key.split(".")[0] for row in differences(exp) if not row.key.startswith("setting.")]
    head = {"name": advised_name(advice.experiment), "differs": list(dict.fromkeys(slots))}
    comments = [
        f"# Written by `paribus advise` for {advice.experiment}: the two recommended arms. Look over the numbers of an",
        "# arm that comes from the catalogue (its KL, its critic's lr) before running it in this setting.",
    ]
    if "tune" in raw:
        comments.append("# Left out: [tune], whose ranges were those of the arms of the other file.")
    text = "\n".join([*comments, tomli_w.dumps({**head, **tables, "arm": arms})])
    resolve(tomllib.loads(text), where="advised experiment")
    return text
