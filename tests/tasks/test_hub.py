"""Data sets of the hub: by id, configuration, split and commit; offline from the cache and from nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fakehub
from paribus.errors import DataError
from paribus.tasks import Gsm8k, Jsonl, hub
from paribus.tasks.data import Files
from paribus.tasks.hub import Place, is_hub_id

COMMIT, OTHER = fakehub.COMMIT, "f" * 40
SUMS = [{"question": f"{i} + 1?", "answer": str(i + 1)} for i in range(3)]
GSM8K = [{"question": f"{i} + 1?", "answer": f"So.\n#### {i + 1}"} for i in range(4)]


def test_an_id_is_owner_and_name_and_nothing_on_this_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("openai/gsm8k", "HuggingFaceH4/MATH-500", "a/b.c"):
        assert is_hub_id(path)
    for path in ("gsm8k", "data/train.jsonl", "data/x.csv", "/data/x", "./data", "../x", "a/b/c", "~/x", "a b/c"):
        assert not is_hub_id(path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "openai" / "gsm8k").mkdir(parents=True)
    assert not is_hub_id("openai/gsm8k")


def test_every_split_is_of_one_commit_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = fakehub.install(monkeypatch, {"openai/gsm8k": {"train": GSM8K, "test": GSM8K[:2]}})
    assert [p.id for p in Gsm8k().problems("test")] == ["gsm8k/test/0", "gsm8k/test/1"]
    assert len(Gsm8k(validation=1).problems("validation")) == 1
    assert asked == [("openai/gsm8k", "main", None)]
    assert Gsm8k().origin("test").hub == ("openai/gsm8k", "main", "test", COMMIT)
    assert Gsm8k().hub_id == "openai/gsm8k" and Gsm8k(path="here.jsonl").hub_id is None


def test_rows_of_the_hub_are_read_like_those_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = fakehub.install(monkeypatch, {"team/sums": {"train": SUMS, "holdout": SUMS[:1]}})
    task = Jsonl(path="team/sums", config="small", revision=COMMIT, splits=Files(test="holdout"))
    assert [(p.id, p.gold) for p in task.problems("train")][1] == ("team/sums/train/1", "2")
    assert [p.id for p in task.problems("test")] == ["team/sums/test/0"]
    assert asked == [("team/sums", "small", COMMIT)]
    assert str(task.origin("test")) == (
        f"team/sums (holdout), commit {COMMIT}: question rows with answers; question from 'question', answer from "
        "'answer'"
    )


def test_faults_of_the_hub_are_named_with_their_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = {"team/sums": {"train": SUMS}, "team/hole": {"train": [*SUMS, {"question": "?", "answer": ""}]}}
    fakehub.install(monkeypatch, sets, offline=True)
    for task, split, message in [
        (Jsonl(path="team/sums", revision=OTHER), "train", f"the cache holds commit {COMMIT}, and `revision` asks for"),
        (Jsonl(path="team/sums", splits=Files(test="tst")), "test", "team/sums: no split 'tst'; known: train"),
        (Jsonl(path="team/sums"), "test", "team/sums: no test split; take some problems out of train"),
        (Jsonl(path="team/none"), "train", "HF_HUB_OFFLINE keeps to the cache: load it once with the network, or set"),
        (Jsonl(path="team/hole"), "train", "team/hole (train), row 3: column 'answer' is empty"),
    ]:
        with pytest.raises(DataError) as error:
            task.problems(split)  # type: ignore[arg-type]
        assert message in str(error.value)
    with pytest.raises(DataError, match="no train split; name the file itself, or the hub's split"):
        fakehub.install(monkeypatch, {"team/sums": {"all": SUMS}})
        hub.read_given(Place("team/sums"))


SCRIPT = """
import json, os, socket, sys
from pathlib import Path

def refuse(*a, **k):
    raise AssertionError("the network was asked")

socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
import datasets, pyarrow

def write(owner, name, config, commit, splits):
    # what `load_dataset` leaves behind once it has read a data set of the hub
    folder = Path(os.environ["HF_DATASETS_CACHE"], f"{owner}___{name}", config, "0.0.0", commit)
    folder.mkdir(parents=True)
    kept = {}
    for split, rows in splits.items():
        table = pyarrow.Table.from_pylist(rows)
        with pyarrow.ipc.new_stream(folder / f"{name}-{split}.arrow", table.schema) as out:
            out.write_table(table)
        kept[split] = {"name": split, "num_examples": len(rows), "num_bytes": 1, "dataset_name": name}
    datasets.DatasetInfo(
        config_name=config, dataset_name=name, version="0.0.0", splits=kept,
        features=datasets.Features.from_arrow_schema(table.schema),
    ).write_to_directory(folder)

given = json.load(sys.stdin)
for entry in given["write"]:
    write(*entry)

from paribus.errors import DataError
from paribus.part import load
from paribus.tasks import Gsm8k, Jsonl

found = []
for kind, data, split in given["read"]:
    task = load({"gsm8k": Gsm8k, "jsonl": Jsonl}[kind], data)
    try:
        problems = task.problems(split)
        found.append([[p.id, p.gold, list(p.messages)] for p in problems] + [task.origin(split).hub])
    except DataError as error:
        found.append(str(error))
print("RESULT" + json.dumps(found))
"""


def test_offline_the_cache_is_read_and_the_network_never(tmp_path: Path) -> None:
    """What `datasets` itself finds in a cache as it writes one, with every connection refused."""
    pytest.importorskip("datasets", reason="the extra 'hub' is not installed")
    import os

    messages = [{"role": "system", "content": "Hm."}, {"role": "user", "content": "1 + 1?"}]
    row = {
        "data_source": "sums", "prompt": messages, "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": "2"}, "extra_info": {"index": 5},
    }  # fmt: skip
    write: list[Any] = [
        ["openai", "gsm8k", "main", COMMIT, {"train": GSM8K, "test": GSM8K[:1]}],
        ["team", "sums", "small", COMMIT, {"train": SUMS}],
        ["team", "sums", "large", COMMIT, {"train": SUMS}],
        ["team", "chat", "default", OTHER, {"train": [row]}],
    ]
    read = [
        ["gsm8k", {}, "test"],
        ["jsonl", {"path": "team/sums", "config": "small", "revision": COMMIT}, "train"],
        ["jsonl", {"path": "team/chat"}, "train"],
        ["jsonl", {"path": "team/sums"}, "train"],
        ["jsonl", {"path": "team/sums", "config": "tiny"}, "train"],
        ["jsonl", {"path": "team/sums", "config": "small", "revision": OTHER}, "train"],
        ["jsonl", {"path": "team/none"}, "train"],
    ]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps({"write": write, "read": read}),
        env=os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "HF_DATASETS_CACHE": str(tmp_path / "d")},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    gsm8k, pinned, chat, unsaid, unknown, moved, absent = json.loads(done.stdout.rpartition("RESULT")[2])
    assert gsm8k == [["gsm8k/test/0", "1", []], ["openai/gsm8k", "main", "test", COMMIT]]
    assert [p[0] for p in pinned[:-1]] == [f"team/sums/train/{i}" for i in range(3)]
    assert pinned[-1] == ["team/sums", "small", "train", COMMIT]
    assert chat == [["sums/train/5", "2", messages], ["team/chat", "default", "train", OTHER]]
    assert "small" in unsaid and "large" in unsaid and 'say which configuration with `config = "..."`' in unsaid
    assert "Couldn't find cache for team/sums for config 'tiny'" in unknown and "['large', 'small']" in unknown
    assert f"the cache holds commit {COMMIT}, and `revision` asks for {OTHER}" in moved
    assert absent.startswith("team/none: cannot be read from the hub") and "HF_HUB_OFFLINE keeps to the cache" in absent
