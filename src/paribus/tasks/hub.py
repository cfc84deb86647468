"""Data sets of the Hugging Face hub through `datasets`; with HF_HUB_OFFLINE=1 from its cache and nowhere else."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from paribus.errors import DataError, nearest
from paribus.tasks.base import Split
from paribus.tasks.rows import SUFFIXES, HubOrigin, Table, locate, read_rows

_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*/[A-Za-z0-9_][A-Za-z0-9_.-]*")


class Place(NamedTuple):
    """Where rows lie: a file, a folder with a file per split, or a data set of the hub with its configuration, commit
    and the name that it gives the split."""

    path: str
    config: str | None = None
    revision: str | None = None
    split: str | None = None  # on the hub; None: the same name as here


def is_hub_id(path: str) -> bool:
    """Say whether `path` is `owner/name` of the hub: it has that form, and nothing of the name lies on this disk."""
    place = Path(path)
    return bool(_ID.fullmatch(path)) and place.suffix not in SUFFIXES and not place.exists()


def read_table(place: Place, split: Split) -> Table | None:
    """Return the rows of a split, or None where the data has none of that name. Raises DataError."""
    if is_hub_id(place.path):
        return _hub_table(place, split)
    _check_local(place)
    file = locate(place.path).get(split)
    return None if file is None else Table(str(file), read_rows(file))


def read_given(place: Place) -> Table:
    """Return the rows of a file, whatever its name, or else of the training split. Raises DataError."""
    file = Path(place.path).expanduser()
    if file.is_file():
        _check_local(place)
        return Table(place.path, read_rows(file))
    table = read_table(place, "train")
    if table is None:
        raise DataError(f"{place.path}: no train split; name the file itself, or the hub's split with `split`")
    return table


def _check_local(place: Place) -> None:
    if (place.config, place.revision, place.split) != (None, None, None):
        raise DataError(
            f"{place.path}: a configuration, a revision and names of splits are for data sets of the hub (owner/name), "
            "and this is a path: leave them out"
        )


def _hub_table(place: Place, split: Split) -> Table | None:
    builder = _builder(place.path, place.config, place.revision)
    known, name = list(builder.info.splits or ()), place.split or split
    if name not in known:
        if place.split is None:
            return None
        raise DataError(f"{place.path}: no split '{name}'{nearest(name, known)}")
    origin = HubOrigin(place.path, str(builder.config.name), name, str(builder.hash))
    return Table(f"{place.path} ({name})", builder.as_dataset(split=name).to_list(), origin)


@cache  # all splits of a process are of one commit, even where none is declared and the hub moves on
def _builder(path: str, config: str | None, revision: str | None) -> Any:
    """Return the prepared builder of a data set. Its `hash` is the commit, online and from the cache."""
    try:
        import datasets
    except ImportError:
        raise DataError(
            f"{path}: nothing of that name is on this disk, and reading from the hub needs the package 'datasets': "
            "pip install 'paribus[hub]'; or set `path` to a local folder with train.jsonl and test.jsonl"
        ) from None
    try:
        builder = datasets.load_dataset_builder(path, config, revision=revision)
        builder.download_and_prepare()
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        told = " ".join(str(error).split())
        raise DataError(f"{path}: cannot be read from the hub ({told}); {_fix(told, datasets)}") from None
    if revision is not None and builder.hash != revision:
        # without the hub the library takes the newest commit in its cache, whichever was asked for
        raise DataError(
            f"{path}: the cache holds commit {builder.hash}, and `revision` asks for {revision}: load that one once "
            "with the network, or declare the commit that is there"
        )
    return builder


def _fix(told: str, datasets: Any) -> str:
    if "onfig" in told:  # configurations are named in what the library says
        return 'say which configuration with `config = "..."`'
    if datasets.config.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE keeps to the cache: load it once with the network, or set `path` to a local folder"
    return "check the id and the network, or set `path` to a local folder"
