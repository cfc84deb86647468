"""What an environment lacks, what clashes in it, which lanes it fits, and the pip line for each."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version
from pydantic import BaseModel, ConfigDict

from paribus.doctor.survey import Environment

PYTHON = SpecifierSet(">=3.11")
NEEDED = ("", "train")  # extras without which no run works


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Rule(_Data):
    """What a package asks of others, in the given versions of it."""

    package: str
    versions: str
    python: str = ""
    requires: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    because: str = ""


class LaneSpec(_Data):
    """An environment in which Paribus is used; `extras` are of Paribus, "" its base."""

    name: str
    use: str
    install: str
    extras: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    python: str = ""
    gpu: bool = False


class Matrix(_Data):
    extras: dict[str, str]
    rule: tuple[Rule, ...]
    lane: tuple[LaneSpec, ...]


class Package(_Data):
    """One required package; `found` is None where it is not installed."""

    name: str
    needs: str
    found: str | None
    good: bool


class Extra(_Data):
    """Base ("") or an extra of Paribus with its packages; `fix` is None where nothing is amiss."""

    name: str
    use: str
    packages: tuple[Package, ...]
    fix: str | None


class Problem(_Data):
    """A fault with the line that mends it; `needed` where it concerns a package that Paribus uses."""

    text: str
    fix: str
    needed: bool


class Lane(_Data):
    """A lane, and what it lacks here; it fits where that is nothing."""

    name: str
    use: str
    lacks: tuple[str, ...]
    install: str

    @property
    def fits(self) -> bool:
        return not self.lacks


class Diagnosis(_Data):
    """All that `paribus doctor` says; `healthy` is False where something that Paribus needs is missing or clashes."""

    python: str
    platform: str
    cpu: str
    gpus: tuple[str, ...]
    extras: tuple[Extra, ...]
    problems: tuple[Problem, ...]
    lanes: tuple[Lane, ...]
    healthy: bool


@cache
def matrix() -> Matrix:
    """Read the rules and lanes that come with the package."""
    text = Path(__file__).with_name("matrix.toml").read_text(encoding="utf-8")
    return Matrix.model_validate(tomllib.loads(text))


def diagnose(env: Environment) -> Diagnosis:
    """Judge an environment."""
    known = matrix()
    needs = _own(env, known)
    extras = [_extra(env, name, known.extras.get(name, ""), found) for name, found in needs.items()]
    problems = [*_python(env), *_missing(extras), *_clashes(env, known.rule, needs), *_cpu_build(env)]
    return Diagnosis(
        python=env.python,
        platform=env.platform,
        cpu=env.cpu,
        gpus=tuple(env.gpus),
        extras=tuple(extras),
        problems=tuple(problems),
        lanes=tuple(_lane(env, spec, needs) for spec in known.lane),
        healthy=not any(problem.needed for problem in problems),
    )


def feasible(wanted: SpecifierSet) -> bool:
    """Say whether any version can satisfy the whole set: the lowest of all, or one that a bound names, does if any."""
    tried = [Version("0"), *(Version(spec.version.removesuffix(".*")) for spec in wanted)]
    return any(wanted.contains(version, prereleases=True) for version in tried)


def shortest(wanted: SpecifierSet) -> str:
    """Return a feasible set in its shortest form: the pin where there is one, else the tightest bounds."""
    by_sign: dict[str, list[str]] = {}
    for spec in wanted:
        by_sign.setdefault(spec.operator, []).append(spec.version)
    if "==" in by_sign:
        return f"=={by_sign['=='][0]}"
    low = [f">={max(by_sign['>='], key=Version)}"] if ">=" in by_sign else []
    high = [(Version(v), sign, v) for sign in ("<", "<=") for v in by_sign.get(sign, ())]
    others = [f"{sign}{v}" for sign in sorted(by_sign.keys() - {">=", "<", "<="}) for v in sorted(by_sign[sign])]
    return ",".join([*low, *(f"{sign}{v}" for _, sign, v in sorted(high)[:1]), *others])


def _own(env: Environment, known: Matrix) -> dict[str, list[Requirement]]:
    """Return what Paribus requires, by extra; the extra for development is not a user's."""
    all_needs = [Requirement(text) for text in env.requires]
    found = {"": [need for need in all_needs if need.marker is None or need.marker.evaluate({"extra": ""})]}
    for extra in known.extras:
        here = [need for need in all_needs if need.marker is not None and need.marker.evaluate({"extra": extra})]
        found[extra] = [need for need in here if need not in found[""]]
    return {extra: needs for extra, needs in found.items() if needs}


def _found(env: Environment, name: str) -> str | None:
    return env.versions.get(canonicalize_name(name))


def _good(env: Environment, need: Requirement) -> bool:
    found = _found(env, need.name)
    return found is not None and need.specifier.contains(found, prereleases=True)


def _extra(env: Environment, name: str, use: str, needs: Sequence[Requirement]) -> Extra:
    packages = tuple(
        Package(name=need.name, needs=str(need.specifier), found=_found(env, need.name), good=_good(env, need))
        for need in needs
    )
    target = f"paribus[{name}]" if name else "paribus"
    fix = None if all(package.good for package in packages) else f"pip install '{target}'"
    return Extra(name=name, use=use or "always", packages=packages, fix=fix)


def _python(env: Environment) -> Iterator[Problem]:
    if not PYTHON.contains(env.python, prereleases=True):
        fix = "python3.12 -m venv .venv && .venv/bin/pip install 'paribus[train]'"
        yield Problem(text=f"Paribus needs Python {PYTHON}; this is {env.python}", fix=fix, needed=True)


def _missing(extras: Iterable[Extra]) -> Iterator[Problem]:
    """What the base or training lacks, and wrong versions of anything: an extra that nobody installed is no fault."""
    for extra in extras:
        bad = [p for p in extra.packages if not p.good and (extra.name in NEEDED or p.found is not None)]
        if bad and extra.fix is not None:
            what = ", ".join(f"{p.name}{p.needs} ({p.found or 'not installed'})" for p in bad)
            needed = extra.name in NEEDED or all(p.found is not None for p in extra.packages)
            yield Problem(text=f"{extra.name or 'base'} needs {what}", fix=extra.fix, needed=needed)


def _active(env: Environment, rules: Iterable[Rule]) -> Iterator[tuple[Rule, str]]:
    """Yield the rules that hold here, with the version of their package."""
    for rule in rules:
        version = _found(env, rule.package)
        if version is not None and SpecifierSet(rule.versions).contains(version, prereleases=True):
            yield rule, version


def _clashes(env: Environment, rules: Sequence[Rule], own: dict[str, list[Requirement]]) -> Iterator[Problem]:
    active = list(_active(env, rules))
    ours = {canonicalize_name(need.name) for needs in own.values() for need in needs}
    for rule, version in active:
        holder = f"{rule.package} {version}"
        needed = canonicalize_name(rule.package) in ours
        if rule.python and not SpecifierSet(rule.python).contains(env.python, prereleases=True):
            text = f"{holder} needs Python {rule.python}; this is {env.python}"
            yield Problem(text=text, fix=f"pip uninstall -y {rule.package}", needed=needed)
        for need in map(Requirement, rule.requires):
            found = _found(env, need.name)
            if found is None or need.specifier.contains(found, prereleases=True):
                continue  # an absent one is pip's matter, or of an extra that nobody installed
            total = _demand(need.name, active, own)
            fix = f"pip install '{need.name}{shortest(total)}'"
            text = f"{holder} needs {need}; installed is {found}"
            if not feasible(total):
                fix = f"pip uninstall -y {rule.package}"
                text += ", and nothing suits both it and the rest: it needs an environment of its own"
            yield Problem(text=text, fix=fix, needed=needed or canonicalize_name(need.name) in ours)
        present = [name for name in rule.absent if _found(env, name) is not None]
        if present:
            text = f"{holder} does not go with {', '.join(present)}: {rule.because}"
            yield Problem(text=text, fix=f"pip uninstall -y {' '.join(present)}", needed=True)


def _demand(name: str, active: Iterable[tuple[Rule, str]], own: dict[str, list[Requirement]]) -> SpecifierSet:
    """Return what the installed packages and Paribus together ask of a package."""
    asked = [need for rule, _ in active for need in map(Requirement, rule.requires)]
    asked += [need for needs in own.values() for need in needs]
    total = SpecifierSet()
    for need in asked:
        if canonicalize_name(need.name) == canonicalize_name(name):
            total &= need.specifier
    return total


def _cpu_build(env: Environment) -> Iterator[Problem]:
    """PyTorch's builds name themselves: one without CUDA leaves a GPU unused."""
    torch = _found(env, "torch")
    if env.gpus and torch is not None and torch.endswith("+cpu"):
        text = f"there is a GPU, but torch {torch} cannot use it"
        yield Problem(text=text, fix="pip uninstall -y torch && pip install torch", needed=False)


def _lane(env: Environment, spec: LaneSpec, own: dict[str, list[Requirement]]) -> Lane:
    needs = [need for extra in spec.extras for need in own.get(extra, ())] + [Requirement(text) for text in spec.needs]
    bad = [need for need in needs if not _good(env, need)]
    lacks = [f"{need.name}{need.specifier} ({_found(env, need.name) or 'not installed'})" for need in bad]
    lacks += [f"without {name}" for name in spec.absent if _found(env, name) is not None]
    if spec.python and not SpecifierSet(spec.python).contains(env.python, prereleases=True):
        lacks.append(f"Python {spec.python} ({env.python})")
    if spec.gpu and not env.gpus:
        lacks.append("an NVIDIA GPU")
    return Lane(name=spec.name, use=spec.use, lacks=tuple(lacks), install=spec.install)
