"""A stand-in for the package `datasets`: data sets of the hub as dicts, and a record of what was asked of it."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from paribus.tasks import hub

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class _Table(list):
    def to_list(self) -> list[Any]:
        return list(self)


class _Builder:
    def __init__(self, splits: Mapping[str, Sequence[Any]], config: str, commit: str) -> None:
        self.info = types.SimpleNamespace(splits=dict(splits))
        self.config, self.hash = types.SimpleNamespace(name=config), commit

    def download_and_prepare(self) -> None:
        pass

    def as_dataset(self, split: str) -> _Table:
        return _Table(self.info.splits[split])


def install(
    monkeypatch: pytest.MonkeyPatch, sets: Mapping[str, Mapping[str, Sequence[Any]]], *, offline: bool = False
) -> list[tuple[Any, ...]]:
    """Put the stand-in in the place of `datasets`; the list returned fills with (id, config, revision)."""
    asked: list[tuple[Any, ...]] = []

    def load_dataset_builder(path: str, name: str | None = None, *, revision: str | None = None) -> _Builder:
        asked.append((path, name, revision))
        if path not in sets:
            raise ConnectionError(f"Couldn't reach the Hugging Face Hub for dataset '{path}'")
        return _Builder(sets[path], name or "default", COMMIT)

    fake = types.ModuleType("datasets")
    fake.load_dataset_builder = load_dataset_builder  # type: ignore[attr-defined]
    fake.exceptions = types.SimpleNamespace(DatasetsError=KeyError)  # type: ignore[attr-defined]
    fake.config = types.SimpleNamespace(HF_HUB_OFFLINE=offline)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", fake)
    monkeypatch.setattr(hub, "_builder", functools.cache(hub._builder.__wrapped__))  # what it keeps goes with it
    return asked
