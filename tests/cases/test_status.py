"""Every hard case either has a test that runs it or names the capability that it waits for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
STATUS: dict[str, dict[str, str]] = tomllib.loads((Path(__file__).parent / "status.toml").read_text())

NOT_BUILT = {"several ranks"}  # what this version does not have; a case may wait for nothing else


@pytest.mark.parametrize("name", sorted(STATUS))
def test_a_state_is_one_of_three_and_its_test_exists(name: str) -> None:
    ((state, value),) = STATUS[name].items()
    if state == "waits":
        assert value in NOT_BUILT
        return
    assert state in ("pass", "debatable")
    file, _, function = value.partition("::")
    assert value and (ROOT / file).is_file(), f"{name}: no test is named, or its file is gone"
    assert re.search(rf"^def {re.escape(function)}\(", (ROOT / file).read_text(), re.MULTILINE), f"{value} is gone"


def test_every_case_has_its_state(cases: dict[str, Any]) -> None:
    assert set(STATUS) == set(cases) and len(cases) == 120
    for name, case in cases.items():
        (state,) = STATUS[name]
        if case["debatable"]:
            assert state in ("debatable", "waits"), name
        else:
            assert state in ("pass", "waits"), name


def test_grading_waits_for_nothing() -> None:
    assert [name for name, state in STATUS.items() if name[0] == "a" and "waits" in state] == []
