"""The pages of docs/methods: they say all that the catalogue says, name tests that exist, and are up to date."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from batches import ONLINE
from paribus.algorithms import CATALOG, Need, Offline
from paribus.algorithms.cards import CARDS
from paribus.algorithms.pages import EVERY, KINDS, NEEDS, arm_toml, held_as, held_by, pages, write
from paribus.algorithms.show import differences, part_text
from paribus.part import load

ROOT = Path(__file__).parents[2]
LIBRARIES = ("verl", "trl", "openrlhf", "nemo_rl", "prime_rl", "open_instruct")
PAGES = pages(CATALOG, CARDS)
entries = pytest.mark.parametrize("entry", CATALOG.values(), ids=CATALOG)


def test_the_committed_pages_are_those_of_the_catalogue():
    stored = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "methods").glob("*.md")}
    stale = sorted(name for name in stored.keys() | PAGES.keys() if stored.get(name) != PAGES.get(name))
    assert not stale, f"docs/methods does not say what the catalogue says ({', '.join(stale)}): run make docs"


@entries
def test_a_page_holds_every_field_formula_source_and_departure(entry):
    page = PAGES[f"{entry.name}.md"].replace("\\", "")
    card = CARDS[entry.name]
    told = [text for part in entry.slots.values() for text in (part_text(part), part.formula)]
    for text in [card.title, entry.paper.split(",")[0], *told, *card.sources.values(), *card.deviations]:
        assert text in page


@entries
def test_the_arm_on_a_page_states_the_whole_entry(entry):
    arm = tomllib.loads(arm_toml(entry))["arm"]["mine"]
    assert arm.pop("base") == entry.name
    assert load(type(entry), {**arm, "kind": entry.kind, "name": entry.name, "paper": entry.paper}) == entry


@entries
def test_the_tests_that_a_page_names_exist(entry):
    named = re.findall(r"\]\(\.\./\.\./(tests/[^)]*)\)", PAGES[f"{entry.name}.md"])
    assert named == [f"tests/{file}" for file in held_by(entry)]
    assert [file for file in named if not (ROOT / file).is_file()] == []


def test_the_laws_hold_every_entry_of_their_kind_by_its_id():
    offline = {held_as(entry) for entry in CATALOG.values() if isinstance(entry, Offline)}
    assert ONLINE.keys() | offline == {held_as(entry) for entry in CATALOG.values()}
    assert {name for name, card in CARDS.items() if not card.flavour_of} <= ONLINE.keys() | offline
    assert EVERY.keys() == KINDS.keys() == {entry.kind for entry in CATALOG.values()}
    ids = {"policy_gradient": r"\bONLINE\b", "offline": r"\bOFFLINE\b"}  # where the tests take their ids from
    for kind, files in EVERY.items():
        assert all(re.search(ids[kind], (ROOT / "tests" / file).read_text(encoding="utf-8")) for file in files)


def test_a_flavour_and_its_origin_show_all_that_sets_them_apart():
    flavours = {name: card.flavour_of for name, card in CARDS.items() if card.flavour_of}
    assert {name for name in CATALOG if name.startswith(LIBRARIES)} <= flavours.keys()
    for name, origin in flavours.items():
        assert origin in CATALOG and origin not in flavours, f"{name} is a flavour of what the papers do not have"
        rows = differences(CATALOG[origin], CATALOG[name])
        for page, other in ((PAGES[f"{name}.md"], origin), (PAGES[f"{origin}.md"], name)):
            section = page.partition(f"]({other}.md)\n")[2].partition("\n#")[0]
            assert sorted(re.findall(r"^\| `([\w.]+)` \|", section, re.MULTILINE)) == sorted(row.path for row in rows)
            assert rows or section.strip() == "In nothing."


def test_every_need_has_words():
    assert NEEDS.keys() == set(Need)


@pytest.mark.parametrize("text", PAGES.values(), ids=PAGES)
def test_every_row_of_a_table_has_a_cell_for_each_column(text):
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_writing_leaves_no_page_of_an_entry_that_is_no_more(tmp_path):
    (tmp_path / "gone.md").write_text("old")
    write(tmp_path)
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == PAGES
